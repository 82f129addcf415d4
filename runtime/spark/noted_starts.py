"""Starts a JVM by the command line of an earlier one, while Python still imports Spark.

PySpark starts a shell script, which starts a JVM only to be told the command line of the JVM that
is meant; and before it can, all of PySpark is imported. And the Java that is found is asked for its
version. The answers are the same as long as Java, the class path, Spark's settings and the
environment are. So they are noted below the user's cache folder when a start has succeeded:

    java-<program>.json     the version of a Java, by the size and time of its program
    jvm-<all that decides>.json     the command line, and the variables that the script had set

What does not fit, cannot be read or could have been written by somebody else is no note, and a JVM
that does not come up by one ends its life: then Spark is started as PySpark does it. The command
line is what the system says of the running JVM, so there are notes on Linux only.
"""

import atexit
import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from platformdirs import user_cache_path

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.spark.environment import Java, java_program

NOTES_MAX = 20
"""Command lines that are kept; the least recently used ones go."""
_MAIN = "org.apache.spark.deploy.SparkSubmit"
_STEP_SECONDS = 0.01
_OWNER_ONLY = 0o700
_READ_BY = ("SPARK", "PYSPARK", "JAVA", "JDK", "_JAVA", "HADOOP", "YARN")
"""How the names of environment variables begin that the scripts and the JVM may read."""
_INFO_PATH = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_OF_THE_SHELL = (_INFO_PATH, "_", "SHLVL", "PWD", "OLDPWD")


class Launch:
    """A JVM that was started by a note, and may not be up yet.

    Attributes:
        settings: Spark's, which it was started with. process: the JVM.
    """

    def __init__(self, settings: Mapping[str, str], note: Path, command: Sequence[str]) -> None:
        self.settings = dict(settings)
        self._note = note
        contents = json.loads(note.read_text())
        self._folder = tempfile.mkdtemp()
        self._info = Path(self._folder, "info")
        self._chatter: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # gone with the JVM
        try:
            self.process = subprocess.Popen(
                [*command, *contents["command"]],
                stdin=subprocess.PIPE,  # which it ends with
                stdout=self._chatter,
                stderr=self._chatter,
                env={
                    **os.environ,
                    **contents["environ"],
                    "SPARK_CONNECT_MODE": "0",
                    _INFO_PATH: str(self._info),
                },
                preexec_fn=_ignore_interrupts,
            )
        except OSError:
            self._forget_files()
            raise
        atexit.register(self.stop)

    def info(self) -> bytes | None:
        """What it wrote of its port and secret; None if it ended without, and its note is gone."""
        while self.process.poll() is None and not self._info.is_file():
            time.sleep(_STEP_SECONDS)
        info = self._info.read_bytes() if self._info.is_file() else None
        if info is None:
            self._note.unlink(missing_ok=True)
            self.stop()
        else:
            self._forget_files()
            atexit.unregister(self.stop)
        return info

    def stop(self) -> None:
        """End a JVM that nobody needs."""
        atexit.unregister(self.stop)
        with self.process:  # which closes its input and waits for it
            self.process.kill()
        self._forget_files()

    def _forget_files(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._chatter.close()


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def folder() -> Path:
    """Where notes are kept; it need not be there."""
    return user_cache_path("ctsql") / "starts"


def known_java() -> Java | None:
    """The Java that would be found, if its version is noted."""
    try:
        program = java_program(os.environ)
    except CtsqlError:
        return None  # which whoever needs it is told
    contents = _read(_java_note(program))
    if contents is None or contents.get("program") != _state_of(program):
        return None
    return Java(program, str(contents["version"]), int(contents["major"]))


def launch(settings: Mapping[str, str], java: Java, jars: Sequence[Path]) -> Launch | None:
    """Start a JVM with some settings, if a command line is noted for them.

    Args:
        jars: the class path.
    """
    note = _jvm_note(settings, java, jars)
    if _read(note) is None:
        return None
    with suppress(OSError):  # no memory for a process, say: PySpark's own way says so
        os.utime(note)
        return Launch(settings, note, [str(java.program)])
    return None


def keep(settings: Mapping[str, str], java: Java, jars: Sequence[Path], process: int) -> None:
    """Note how a JVM was started that is up.

    Args:
        jars: the class path. process: the JVM's.
    """
    with suppress(OSError):  # another system than Linux, or a cache that cannot be written
        program, *command = _strings(Path(f"/proc/{process}/cmdline"))
        if _MAIN not in command or Path(program).resolve() != java.program.resolve():
            return
        environ = _strings(_environ_of(process))
        started_with = dict(line.split("=", 1) for line in environ if "=" in line)
        set_there = {
            name: value
            for name, value in started_with.items()
            if name not in _OF_THE_SHELL and os.environ.get(name) != value
        }
        folder().mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
        start = {"program": _state_of(java.program), "version": java.version, "major": java.major}
        _write(_java_note(java.program), start)
        _write(_jvm_note(settings, java, jars), {"command": command, "environ": set_there})
        notes = sorted(folder().glob("jvm-*.json"), key=lambda path: -path.stat().st_mtime)
        for old in notes[NOTES_MAX:]:
            old.unlink(missing_ok=True)


def _environ_of(process: int) -> Path:
    return Path(f"/proc/{process}/environ")


def _strings(path: Path) -> list[str]:
    return [os.fsdecode(part) for part in path.read_bytes().removesuffix(b"\0").split(b"\0")]


def _state_of(program: Path) -> list[object]:
    file_stat = program.stat()
    return [str(program.resolve()), file_stat.st_size, file_stat.st_mtime_ns]


def _java_note(program: Path) -> Path:
    return folder() / f"java-{_digest([str(program)])}.json"


def _jvm_note(settings: Mapping[str, str], java: Java, jars: Sequence[Path]) -> Path:
    """The note of all that decides on a command line."""
    words = [*map(str, _state_of(java.program)), java.version]
    for jar in jars:
        file_stat = jar.stat()
        words += [str(jar), str(file_stat.st_size), str(file_stat.st_mtime_ns)]
    words += [f"{name}={value}" for name, value in sorted(settings.items())]
    words += [f"{n}={v}" for n, v in sorted(os.environ.items()) if n.startswith(_READ_BY)]
    return folder() / f"jvm-{_digest(words)}.json"


def _digest(words: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(words).encode(errors="surrogateescape")).hexdigest()[:16]


def _read(note: Path) -> dict[str, Any] | None:
    """A note of this user's that nobody else could have written."""
    try:
        if not all(_is_own(path) for path in (note, note.parent)):
            return None
        contents = json.loads(note.read_text())
    except (OSError, ValueError):
        return None
    return contents if isinstance(contents, dict) else None


def _is_own(path: Path) -> bool:
    file_stat = path.stat()
    return file_stat.st_uid == os.getuid() and not file_stat.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _write(note: Path, start: Mapping[str, object]) -> None:
    number, draft = tempfile.mkstemp(dir=note.parent)  # readable by its owner only
    try:
        with open(number, "w") as file:
            json.dump(start, file)
        os.replace(draft, note)
    except OSError:  # the disk is full, say
        os.unlink(draft)
        raise
