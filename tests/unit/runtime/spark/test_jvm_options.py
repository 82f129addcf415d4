"""Which JVM is started for which master, configuration and purpose; none is started here."""

import shlex
from pathlib import Path

import pytest

from ctsql.runtime.spark.start import environment, jvm_options
from ctsql.runtime.spark.start.environment import CONFIGURED_BY, Java
from ctsql.runtime.spark.start.jvm_options import (
    archive_folder,
    archive_of,
    class_path,
    jvm_settings,
    keep_archive,
    use_archive,
)

JAVA = Java(Path("/usr/bin/java"), "17.0.15", 17)


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark and a home with Delta's JARs and an empty cache, both below the folder given."""
    for name in (*CONFIGURED_BY, *jvm_options.JAVA_CONFIGURED_BY):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "the home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "the cache"))
    jars = environment.ivy_jars_folder()
    jars.mkdir(parents=True)
    for name in environment.JARS:
        (jars / name.format(**environment.installed_versions())).touch()
    archive_folder().mkdir(parents=True)
    return tmp_path


@pytest.fixture
def jar(plain: Path) -> Path:
    jar = plain / "a.jar"
    jar.write_text("1")
    return jar


def _make(jars: list[Path], text: str = "whole") -> Path:
    draft = archive_folder() / "draft"
    draft.write_text(text)
    return keep_archive(draft, JAVA, jars)


def _options(*, is_short: bool = False) -> list[str]:
    """A space in a name is no end of an option."""
    return shlex.split(
        jvm_settings(JAVA, "local", is_short=is_short)["spark.driver.extraJavaOptions"]
    )


def test_delta_stands_on_the_class_path(plain: Path) -> None:
    """Where its JARs are known, nothing is resolved or copied; a cluster gets them as files."""
    assert list(jvm_settings(JAVA, "spark://host:7077", is_short=True)) == ["spark.jars"]
    found = jvm_settings(JAVA, "local[*]", is_short=False)
    jars = environment.delta_jars()
    assert found["spark.driver.extraClassPath"].split(":") == [str(jar) for jar in jars]
    assert "spark.jars" not in found
    for jar in jars:
        jar.unlink()
    assert list(jvm_settings(JAVA, "local[*]", is_short=False)) == ["spark.jars.packages"]


def test_options_by_purpose(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lives long optimises and gives memory back, unless Java is configured."""
    assert _options(is_short=True) == ["-XX:TieredStopAtLevel=1"]
    found = _options()
    assert "-XX:TieredStopAtLevel=1" not in found
    assert len([o for o in found if "HeapFreeRatio" in o or "G1Periodic" in o]) == 3
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:MinHeapFreeRatio=40")
    assert _options() == []


def test_an_archive_belongs_to_a_java_and_a_class_path(jar: Path, plain: Path) -> None:
    """Another Java, another JAR, or the same JAR replaced: it is not used."""
    assert archive_of(JAVA, [jar]) is None
    archive = _make([jar])
    assert archive_of(JAVA, [jar]) == archive
    other = plain / "b.jar"
    other.write_text("1")
    assert archive_of(Java(JAVA.program, "17.0.16", 17), [jar]) is None
    assert archive_of(JAVA, [jar, other]) is None
    second = _make([jar, other])
    assert archive_of(JAVA, [jar]) == archive
    assert archive_of(JAVA, [jar, other]) == second
    jar.write_text("22")
    assert archive_of(JAVA, [jar]) is None


def test_a_draft_is_never_used(jar: Path) -> None:
    """Only a renamed one is, which replaces the archive before."""
    (archive_folder() / "draft").write_text("half")
    assert archive_of(JAVA, [jar]) is None
    _make([jar])
    newer = _make([jar], text="a longer one")
    assert archive_of(JAVA, [jar]) == newer
    assert list(archive_folder().iterdir()) == [newer]


@pytest.mark.parametrize("left", [b"who", b"", b"whole and more"])
def test_an_archive_of_another_size_is_not_used(jar: Path, left: bytes) -> None:
    """Java would crash on the half of one."""
    archive = _make([jar])
    archive.write_bytes(left)
    assert archive_of(JAVA, [jar]) is None
    assert use_archive(None) == []
    _make([jar])
    assert archive_of(JAVA, [jar]) is not None


def test_the_archive_is_used(plain: Path) -> None:
    """If it is there."""
    assert not any("Archive" in option for option in _options())
    archive = _make(class_path(plain))
    assert use_archive(archive) == [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"]
    assert {*use_archive(archive)} < {*_options()}
    assert " " in str(archive)
