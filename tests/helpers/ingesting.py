"""The examples that load files and messages, each run as a program of its own."""

import signal
import subprocess

from tests.conftest import ROOT
from tests.helpers.processes import finish_program, start_program

_PROGRAM = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from examples.{example} import main
main()
"""


def start(example: str, *arguments: object, fault: str = "") -> subprocess.Popen[str]:
    """Start one; killed at a fault point, if one is given."""
    text = _PROGRAM.format(example=example)
    return start_program(text, str(ROOT), *map(str, arguments), fault=fault)


def run(example: str, *arguments: object) -> None:
    """Load what is there."""
    finish_program(start(example, "--once", *arguments))


def run_killed(example: str, *arguments: object, fault: str) -> None:
    """Load what is there, and be killed at a fault point."""
    process = start(example, "--once", *arguments, fault=fault)
    _, problems = process.communicate()
    assert process.returncode == -signal.SIGKILL, problems


def kill(process: subprocess.Popen[str]) -> None:
    """Kill one that is still running, as ``kill -9`` does."""
    assert process.poll() is None, process.communicate()
    process.kill()
    process.communicate()
