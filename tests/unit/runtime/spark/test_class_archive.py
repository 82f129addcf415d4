"""What of an archive of classes is used, kept and made again, without starting Java."""

import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from ctsql import class_training
from ctsql.runtime.spark import class_archive
from ctsql.runtime.spark.class_archive import (
    KEPT_MAX,
    archive_of,
    draft_of,
    keep,
    make_at_exit,
    refusal_of,
    refused_unless_made,
    size_of,
    use,
)
from ctsql.runtime.spark.environment import Java

JAVA = Java(Path("/usr/bin/java"), "17.0.15", 17)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "java17-0.jsa"


def _make_one(archive: Path) -> None:
    draft_of(archive).write_text("whole")
    keep(archive, status=0)


def test_name_follows_java_and_class_path(tmp_path: Path) -> None:
    """Another Java, another JAR, or the same JAR made anew: another archive."""
    jar, other = tmp_path / "a.jar", tmp_path / "b.jar"
    jar.write_text("1")
    other.write_text("1")
    first = archive_of(JAVA, [jar], tmp_path)
    assert archive_of(JAVA, [jar], tmp_path) == first
    newer = Java(JAVA.program, "17.0.16", 17)
    found = {first, archive_of(newer, [jar], tmp_path), archive_of(JAVA, [jar, other], tmp_path)}
    jar.write_text("22")
    assert len(found | {archive_of(JAVA, [jar], tmp_path)}) == 4


def test_a_draft_is_never_used(archive: Path) -> None:
    """Only what was renamed is."""
    draft_of(archive).write_text("half")
    assert use(archive) == []
    keep(archive, status=0)
    assert use(archive) == [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"]
    assert not draft_of(archive).exists()


@pytest.mark.parametrize("left", [b"who", b"", b"whole and more"])
def test_one_of_another_size_is_made_again(archive: Path, left: bytes) -> None:
    """Java would crash on the half of one."""
    _make_one(archive)
    archive.write_bytes(left)
    assert use(archive) == []
    _make_one(archive)
    assert use(archive)


@pytest.mark.parametrize(("status", "written"), [(1, True), (-9, True), (0, False)])
def test_a_jvm_that_failed_leaves_a_mark(archive: Path, status: int, written: bool) -> None:
    """Its draft goes, and it is not tried again."""
    if written:
        draft_of(archive).write_text("half")
    with refused_unless_made(archive):
        keep(archive, status=status)
    assert (archive.exists(), draft_of(archive).exists()) == (False, False)
    assert refusal_of(archive).exists()


def test_the_least_recently_used_go(tmp_path: Path) -> None:
    """Those of other versions are kept up to a number."""
    archives = [tmp_path / f"java17-{n}.jsa" for n in range(KEPT_MAX + 2)]
    for archive in archives:
        _make_one(archive)
        use(archives[0])
    kept = sorted([archives[0], *archives[1 - KEPT_MAX :]])
    assert sorted(tmp_path.glob("*.jsa")) == kept
    assert sorted(tmp_path.glob("*.size")) == [size_of(archive) for archive in kept]


def test_one_process_makes_it(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another one does, and when it is there, nothing is done."""
    made: list[Path] = []
    monkeypatch.setattr(class_training, "train", made.append)
    monkeypatch.setattr(class_training.os, "nice", lambda _: 0)
    with FileLock(archive.with_suffix(".lock"), thread_local=False):
        class_training.main(archive)
    assert made == []
    class_training.main(archive)
    assert made == [archive]
    _make_one(archive)
    class_training.main(archive)
    assert made == [archive]


def test_what_is_made_at_exit(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing where there is an archive or a mark; else a process that nobody waits for."""
    registered: list[Path] = []
    monkeypatch.setattr(class_archive.atexit, "register", lambda _, path: registered.append(path))
    make_at_exit(archive)
    assert registered == [archive]
    refusal_of(archive).touch()
    make_at_exit(archive)
    refusal_of(archive).unlink()
    _make_one(archive)
    make_at_exit(archive)
    assert registered == [archive]


def test_a_cache_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    """The process ends as it would without."""
    (tmp_path / "file").touch()
    class_archive._make(tmp_path / "file" / "classes" / "x.jsa")


@pytest.mark.parametrize("value", ["off", "OFF", "0", "false"])
def test_switched_off(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """By the environment."""
    monkeypatch.setenv(class_archive.SWITCH, value)
    assert not class_archive.is_on()


def test_killed_while_it_is_made(archive: Path) -> None:
    """The draft stays a draft, no mark is left, and the lock is free for the next process."""
    program = f"""
from pathlib import Path
from ctsql import class_training
from ctsql.runtime.spark.class_archive import draft_of
import time
def train(archive):
    draft_of(archive).write_text("half")
    print("begun", flush=True)
    time.sleep(60)
class_training.train = train
class_training.main(Path({str(archive)!r}))
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.kill()
    assert draft_of(archive).read_text() == "half"
    assert use(archive) == []
    assert not refusal_of(archive).exists()
    with FileLock(archive.with_suffix(".lock"), timeout=0):
        pass
