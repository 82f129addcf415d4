"""Other processes on a test's warehouse: they start Spark anew, race, and are killed."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

SECONDS_MAX = 180
_LAUNCHER = Path(__file__).with_name("fault_launcher.py")

_PROGRAM = """
import sys
from ctsql.api import connect
from ctsql.catalog.errors import CtsqlError
con = connect(sys.argv[1], master="local[1]")
con.start()
print("ready", flush=True)
sys.stdin.readline()
for sql in sys.argv[2:]:
    while True:
        try:
            con.execute(sql)
            break
        except CtsqlError as problem:
            if problem.condition != "ALTERED_MEANWHILE":  # its hint: run the statement again
                raise
print("done", flush=True)
"""


class Process:
    """A process with a connection of its own, ready to run statements when told."""

    def __init__(self, warehouse: Path, statements: list[str], fault: str = "") -> None:
        self._process = start_program(_PROGRAM, str(warehouse), *statements, fault=fault)

    def wait_ready(self) -> None:
        """Return once the warehouse is open."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", self._process.communicate()[1]

    def go(self) -> None:
        """Let it run its statements."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def is_running(self) -> bool:
        """Has it not ended yet?"""
        return self._process.poll() is None

    def finish(self) -> tuple[int, str]:
        """Wait for its end; gives exit status and what it wrote to stderr."""
        _, problems = self._process.communicate(timeout=SECONDS_MAX)
        return self._process.returncode, problems


def run_killed(warehouse: Path, statements: list[str], fault: str) -> None:
    """Run statements in a process of its own, which must die at a fault point."""
    process = Process(warehouse, statements, fault=fault)
    process.wait_ready()
    process.go()
    status, problems = process.finish()
    assert status == -signal.SIGKILL, problems


def race(warehouse: Path, scripts: Sequence[list[str]]) -> None:
    """Run scripts, each in a process of its own, from the same moment on; all must succeed."""
    processes = [Process(warehouse, script) for script in scripts]
    for process in processes:
        process.wait_ready()
    for process in processes:
        process.go()
    for process in processes:
        status, problems = process.finish()
        assert status == 0, problems


def start_program(text: str, *arguments: str, fault: str = "") -> subprocess.Popen[str]:
    """Start a Python program in a process of its own; killed at a fault point, if one is given."""
    launcher = [str(_LAUNCHER), fault] if fault else ["-c"]
    return subprocess.Popen(
        [sys.executable, *launcher, text, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish_program(process: subprocess.Popen[str]) -> str:
    """Wait for the end of a program that must succeed; gives what it printed."""
    said, problems = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0, problems
    return said


def run_program(text: str, *arguments: str) -> str:
    """Run a Python program that must succeed; gives what it printed."""
    return finish_program(start_program(text, *arguments))
