"""Which start of a JVM is noted, and which is started by a note; Python stands for Java."""

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ctsql.runtime.spark import jvm_start, noted_starts
from ctsql.runtime.spark.environment import Java
from ctsql.runtime.spark.noted_starts import NOTES_MAX, Launch, keep, known_java, launch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a command line")

MAIN = "org.apache.spark.deploy.SparkSubmit"
UP = """
import os, sys
path = os.environ["_PYSPARK_DRIVER_CONN_INFO_PATH"]
with open(path + ".tmp", "w") as written:
    written.write(f"{sys.argv[2:]} {os.environ.get('SET_BY_THE_SCRIPT')}")
os.rename(path + ".tmp", path)
sys.stdin.read()
"""
SETTINGS = {"spark.master": "local[*]", "spark.driver.memory": "1g"}


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    """A program in the place of Java, and an empty cache."""
    program = tmp_path / "home" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.symlink_to(Path(sys.executable).resolve())
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Java(program, "17.0.15", 17)


@pytest.fixture
def jars(tmp_path: Path) -> list[Path]:
    jar = tmp_path / "a.jar"
    jar.touch()
    return [jar]


@contextmanager
def _running(java: Java, tmp_path: Path, code: str = UP, main: str = MAIN) -> Iterator[int]:
    """The number of a process that PySpark's script could have started."""
    environ = {
        **os.environ,
        "SET_BY_THE_SCRIPT": "yes",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(tmp_path / "first"),
    }
    command = [str(java.program), "-c", code, main, "--conf", "x=a b", ""]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environ) as process:
        while not (tmp_path / "first").is_file():
            pass
        yield process.pid
        assert process.stdin is not None
        process.stdin.close()


def _note_one(java: Java, jars: list[Path], tmp_path: Path) -> None:
    with _running(java, tmp_path) as process:
        keep(SETTINGS, java, jars, process)


def _ended(started: Launch | None) -> bytes | None:
    """What a JVM said before it was ended; None for none."""
    if started is None:
        return None
    said = started.info()
    started.stop()
    return said


def test_started_as_before(java: Java, jars: list[Path], tmp_path: Path) -> None:
    """By the same words, and with what the script has set; Java is not asked."""
    assert known_java() is None
    assert launch(SETTINGS, java, jars) is None
    _note_one(java, jars, tmp_path)
    assert known_java() == java
    assert _ended(launch(SETTINGS, java, jars)) == b"['--conf', 'x=a b', ''] yes"


def test_whatever_decides_is_the_same(
    java: Java, jars: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings, Spark's variables, the class path, and Java itself."""
    _note_one(java, jars, tmp_path)
    assert launch({**SETTINGS, "spark.driver.memory": "2g"}, java, jars) is None
    assert launch(SETTINGS, java, [*jars, Path(__file__)]) is None
    with monkeypatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", "-Dx=y")
        assert launch(SETTINGS, java, jars) is None
    assert _ended(launch(SETTINGS, java, jars)) is not None
    os.utime(jars[0], ns=(0, 1))
    assert launch(SETTINGS, java, jars) is None
    java.program.unlink()
    java.program.write_text("#!/bin/sh\n")
    java.program.chmod(0o755)
    assert known_java() is None


def test_one_that_does_not_come_up(
    java: Java, jars: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its note goes, so that the next start is PySpark's own."""
    ends_then = UP.replace("sys\n", "sys\nif os.path.exists('ends'): sys.exit(1)\n", 1)
    monkeypatch.chdir(tmp_path)
    with _running(java, tmp_path, ends_then) as process:
        keep(SETTINGS, java, jars, process)
    Path("ends").touch()
    assert _ended(launch(SETTINGS, java, jars)) is None
    Path("ends").unlink()
    assert launch(SETTINGS, java, jars) is None


def test_one_that_cannot_be_started_leaves_no_files(
    java: Java, jars: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No memory for a process, say: then it is PySpark's way that fails."""
    _note_one(java, jars, tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "files"))
    (tmp_path / "files").mkdir()

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, "no memory")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert launch(SETTINGS, java, jars) is None
    assert list((tmp_path / "files").iterdir()) == []


def test_nobody_waits_for_one_that_is_not_needed(
    java: Java, jars: list[Path], tmp_path: Path
) -> None:
    """It is ended."""
    _note_one(java, jars, tmp_path)
    started = launch(SETTINGS, java, jars)
    assert started is not None
    started.stop()
    assert started.process.poll() is not None


def test_one_begun_for_another_purpose(
    java: Java, jars: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is ended, and Spark is started as is needed."""
    _note_one(java, jars, tmp_path)
    started = launch(SETTINGS, java, jars)
    assert started is not None
    monkeypatch.setattr(jvm_start, "_launch", started)
    monkeypatch.setattr(jvm_start, "class_path", lambda _: jars)
    assert jvm_start._noted_gateway({"spark.master": "local[1]"}, java) is None
    assert started.process.poll() is not None
    assert jvm_start._launch is None


@pytest.mark.parametrize("mode", [0o666, 0o620])
def test_a_note_that_others_may_write(
    java: Java, jars: list[Path], tmp_path: Path, mode: int
) -> None:
    """Could be anybody's."""
    _note_one(java, jars, tmp_path)
    for note in noted_starts.folder().iterdir():
        note.chmod(mode)
    assert (known_java(), launch(SETTINGS, java, jars)) == (None, None)


@pytest.mark.parametrize("text", ["", "[1]", "{", "\xff"])
def test_a_note_that_is_none(java: Java, jars: list[Path], tmp_path: Path, text: str) -> None:
    """Half of one, say."""
    _note_one(java, jars, tmp_path)
    for note in noted_starts.folder().iterdir():
        note.write_text(text, encoding="latin-1")
    assert (known_java(), launch(SETTINGS, java, jars)) == (None, None)


def test_what_is_no_start_of_spark(java: Java, jars: list[Path], tmp_path: Path) -> None:
    """A process of another program, or of another purpose, is not noted."""
    with _running(java, tmp_path, main="another") as process:
        keep(SETTINGS, java, jars, process)
        other = Java(Path("/bin/sh"), "17.0.15", 17)
        keep(SETTINGS, other, jars, process)
    assert not noted_starts.folder().exists()


def test_a_cache_that_cannot_be_written(java: Java, jars: list[Path], tmp_path: Path) -> None:
    """Then nothing is noted."""
    (tmp_path / "cache").touch()
    _note_one(java, jars, tmp_path)
    assert known_java() is None


def test_the_least_recently_used_go(java: Java, jars: list[Path], tmp_path: Path) -> None:
    """Notes are kept up to a number."""
    with _running(java, tmp_path) as process:
        for n in range(NOTES_MAX + 3):
            keep({"spark.app.name": str(n)}, java, jars, process)
    assert len(list(noted_starts.folder().glob("jvm-*.json"))) == NOTES_MAX
