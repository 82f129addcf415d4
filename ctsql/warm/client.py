"""A command that a warm worker runs: what stays in the process that the user started.

It sends its arguments, environment and standard streams, waits for the exit status, and passes
SIGINT, SIGTERM and SIGHUP on. Until the worker has answered nothing has run: whatever goes wrong
before that, the command starts a Spark of its own, as without a keeper. If the worker ends without
a status, what it ran may or may not have been done, as after any kill.

A prompt stays in its own process, which needs its terminal, and uses the keeper's JVM.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from ctsql.warm.address import OWNER_ONLY, folder, is_on, is_private, socket_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEEPER = "ctsql.warm.keeper"
RUN, STOP, JOIN = b"R", b"S", b"J"
ACCEPTED = b"A"
_SIGNALLED = 128  # an exit status, plus the number of the signal
KEEP, NO_MORE = "--keep-warm", "cool"
LISTENING_SECONDS_MAX = 10.0
"""How long a keeper that was just started may take until it listens, before it starts Spark."""
_STEP_SECONDS = 0.02
_JOIN_CHARACTERS = 256
PROCESS_DIGITS = 16
"""Of the process that joins, behind its wish."""
_guests: list[socket.socket] = []
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if os.name == "posix" else ()
_WITH_VALUES = {
    "-c", "--command", "-w", "--warehouse", "--master", "--format", "-o", "--output", "--interval",
    "--workers", "--set", "--metrics", "--log-format", "-k", "--junit",
    "--listen", "--serve", "--plan", "--last",
}  # fmt: skip


def served(arguments: Sequence[str]) -> int | None:
    """Have a warm worker run a command.

    Returns:
        Its exit status; None if there is no worker for it, and nothing has run.
    """
    if not (hasattr(socket, "send_fds") and is_on()):
        return None
    address = socket_of(folder())
    if list(arguments) == [NO_MORE]:
        return _stop(address)
    if not is_served(arguments, is_terminal=sys.stdin is not None and sys.stdin.isatty()):
        return None
    connection = _connected(address)
    if connection is None and KEEP in arguments:
        connection = _start_keeper(address)
    if connection is None:
        return None
    with connection:
        return _run(connection, arguments)


def shared_spark(*, keep: bool) -> "SparkSession | None":
    """The session of a Spark that stays, for a process that goes on; None if there is none.

    Args:
        keep: start one that stays, if there is none.
    """
    if not (hasattr(socket, "send_fds") and is_on()):
        return None
    address = socket_of(folder())
    connection = _connected(address)
    if connection is None and keep:
        connection = _start_keeper(address)
    if connection is None:
        return None
    with suppress(OSError):
        connection.sendall(JOIN + str(os.getpid()).rjust(PROCESS_DIGITS).encode())
        answer = connection.makefile("r").read(_JOIN_CHARACTERS)
        if len(answer) == _JOIN_CHARACTERS:
            from ctsql.runtime.spark.session import attached_session

            _guests.append(connection)  # open for as long as this process goes on
            port, secret = answer.split()
            return attached_session(int(port), secret)
    connection.close()
    return None


def join_answer(port: int, secret: str) -> bytes:
    """What a keeper answers to a process that joins: a text of fixed length."""
    return f"{port} {secret}".ljust(_JOIN_CHARACTERS).encode()


def is_served(arguments: Sequence[str], *, is_terminal: bool) -> bool:
    """Whether a worker takes a command: neither a prompt, nor what runs on, nor another master.

    >>> is_served(["-c", "SELECT 1"], is_terminal=True), is_served(["-w", "w"], is_terminal=True)
    (True, False)
    >>> is_served(["run"], is_terminal=False), is_served(["run", "--once"], is_terminal=False)
    (False, True)

    Args:
        is_terminal: whether standard input is a terminal.
    """
    words = positional(arguments)
    if any(a == "--master" or a.startswith("--master=") for a in arguments):
        return False
    if words and words[0] in ("run", "serve") and "--once" not in arguments:
        return False
    if "--watch" in arguments:
        return False
    has_commands = any(a.startswith(("-c", "--command")) for a in arguments)
    return bool(words) or has_commands or not is_terminal


def positional(arguments: Sequence[str]) -> list[str]:
    """The arguments of the command line that are no options and no values of options."""
    words: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            return [*words, *rest]
        if argument in _WITH_VALUES:
            next(rest, None)
        elif not argument.startswith("-") or argument == "-":
            words.append(argument)
    return words


def _connected(address: Path) -> socket.socket | None:
    if not is_private(address.parent):
        return None  # whoever else may write there could listen in its place
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(address))
    except OSError:  # there is none
        connection.close()
        return None
    return connection


def _start_keeper(address: Path) -> socket.socket | None:
    """Start a keeper, and connect to it."""
    sys.stderr.write("starting a Spark that stays for the commands after this one\n")
    with suppress(OSError):
        address.parent.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        if not is_private(address.parent):
            return None
        keeper = subprocess.Popen(
            [sys.executable, "-P", "-m", KEEPER, str(address)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",  # no folder of the user's is kept in use
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
            start_new_session=True,
        )
        until = time.monotonic() + LISTENING_SECONDS_MAX
        while time.monotonic() < until:
            connection = _connected(address)
            if connection is not None:
                keeper.returncode = 0  # it goes on after this process, which is not to wait for it
                return connection
            time.sleep(_STEP_SECONDS)
    return None


def _stop(address: Path) -> int:
    """``ctsql cool``: end the Spark that stays."""
    connection = _connected(address)
    if connection is None:
        sys.stderr.write("no Spark was left running\n")
        return 0
    with connection:
        connection.sendall(STOP)
        used_by = b""
        while part := connection.recv(4096):  # until it is gone
            used_by += part
    if used_by:
        processes = used_by.decode().replace(" ", ", ")
        sys.stderr.write(
            f"error: the Spark that was left running is used by a prompt (process {processes})\n"
            "hint: End the prompt, then type: ctsql cool\n"
        )
        return 1
    sys.stderr.write("the Spark that was left running has ended\n")
    return 0


def _run(connection: socket.socket, arguments: Sequence[str]) -> int | None:
    try:
        here = os.getcwd()
    except FileNotFoundError:
        return None  # a worker could not go there
    request = {
        "arguments": [a for a in arguments if a != KEEP],
        "environ": dict(os.environ),
        "folder": here,
        "umask": _umask(),
    }
    body = json.dumps(request).encode()
    with _passing_on(connection) as signals:
        is_taken, answer = _is_taken(connection, body), b""
        with suppress(ConnectionError):
            while is_taken and (part := connection.recv(4096)):
                answer += part
    if not is_taken:
        # A signal that nobody has taken ends this process: nothing is to be run any more.
        return _SIGNALLED + signals[0] if signals else None
    if not answer:
        sys.stderr.write(
            "error: the process that ran this has ended; what it was doing may be done or not\n"
        )
        return 1
    return _status(int(answer), signals)


def _is_taken(connection: socket.socket, request: bytes) -> bool:
    """Hand a request over; returns whether a worker runs it."""
    try:
        connection.sendall(RUN)
        socket.send_fds(connection, [f"{len(request):016d}".encode()], [0, 1, 2])
        connection.sendall(request)
        return connection.recv(1) == ACCEPTED
    except OSError:
        return False


def _status(status: int, signals: Sequence[int]) -> int:
    """The exit status: a worker takes every signal as SIGINT, so which one it was is known here.

    >>> _status(130, [signal.SIGHUP]), _status(130, [signal.SIGINT]), _status(0, [signal.SIGTERM])
    (129, 130, 0)
    """
    was_ended = status == _SIGNALLED + signal.SIGINT
    others = [number for number in signals if number != signal.SIGINT]
    return _SIGNALLED + others[0] if was_ended and others else status


def _umask() -> int:
    now = os.umask(0o077)
    os.umask(now)
    return now


@contextmanager
def _passing_on(connection: socket.socket) -> Iterator[list[int]]:
    """Send signals to the worker instead of taking them; yields those that came."""
    signals: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        signals.append(number)
        with suppress(OSError):
            connection.sendall(bytes([number]))

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    try:
        yield signals
    finally:
        for number, old in before.items():
            signal.signal(number, old)
