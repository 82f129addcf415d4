"""Which archive of classes is used, without starting Java."""

from pathlib import Path

import pytest

from ctsql.runtime.spark.start.environment import Java
from ctsql.runtime.spark.start.jvm_options import (
    archive_folder,
    archive_of,
    keep_archive,
    use_archive,
)

JAVA = Java(Path("/usr/bin/java"), "17.0.15", 17)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    archive_folder().mkdir(parents=True)
    return archive_folder()


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    jar = tmp_path / "a.jar"
    jar.write_text("1")
    return jar


def _make(cache: Path, jars: list[Path], java: Java = JAVA, text: str = "whole") -> Path:
    draft = cache / "draft"
    draft.write_text(text)
    return keep_archive(draft, java, jars)


def test_it_belongs_to_a_java_and_a_class_path(cache: Path, jar: Path, tmp_path: Path) -> None:
    """Another Java, another JAR, or the same JAR replaced: it is not used."""
    assert archive_of(JAVA, [jar]) is None
    archive = _make(cache, [jar])
    assert archive_of(JAVA, [jar]) == archive
    assert use_archive(archive) == [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"]
    other = tmp_path / "b.jar"
    other.write_text("1")
    assert archive_of(Java(JAVA.program, "17.0.16", 17), [jar]) is None
    assert archive_of(JAVA, [jar, other]) is None
    second = _make(cache, [jar, other])
    assert archive_of(JAVA, [jar]) == archive
    assert archive_of(JAVA, [jar, other]) == second
    jar.write_text("22")
    assert archive_of(JAVA, [jar]) is None


def test_a_draft_is_never_used(cache: Path, jar: Path) -> None:
    """Only a renamed one is, which replaces the archive before."""
    (cache / "draft").write_text("half")
    assert archive_of(JAVA, [jar]) is None
    _make(cache, [jar])
    newer = _make(cache, [jar], text="a longer one")
    assert archive_of(JAVA, [jar]) == newer
    assert list(cache.iterdir()) == [newer]


@pytest.mark.parametrize("left", [b"who", b"", b"whole and more"])
def test_one_of_another_size_is_not_used(cache: Path, jar: Path, left: bytes) -> None:
    """Java would crash on the half of one."""
    archive = _make(cache, [jar])
    archive.write_bytes(left)
    assert archive_of(JAVA, [jar]) is None
    assert use_archive(None) == []
    _make(cache, [jar])
    assert archive_of(JAVA, [jar]) is not None
