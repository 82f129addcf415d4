"""Runs commands, one after the other, in the keeper's JVM: ``python -m ctsql.warm_worker FD``.

Everything is imported and one query has run before the first command comes. A command gets the
client's standard streams, environment and folder, and a connection of its own. Signals of the
client come over its socket. If the client is gone the command is interrupted, as by Ctrl-C: a
worker that ended in the middle of a commit would leave the JVM committing without its lock.

A worker ends after some commands, so that nothing can pile up in it.
"""

import gc
import json
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

from ctsql.warm.client import ACCEPTED
from ctsql.warm.keeper import IDLE

COMMANDS_MAX = 500
_LENGTH_DIGITS = 16


def main(channel: socket.socket, port: int, secret: str) -> None:
    """Serve until the keeper closes the channel."""
    from ctsql.runtime.spark.session import attached_session

    session = attached_session(port, secret)
    _warm_up(session)
    for _ in range(COMMANDS_MAX):
        channel.sendall(IDLE)
        _, (*files,), _, _ = socket.recv_fds(channel, 1, 1)
        if not files:
            return
        with socket.socket(fileno=files[0]) as client:
            _serve(client, session)
        gc.collect()  # which gives back what it held in the JVM


def _warm_up(session: Any) -> None:
    """Import what commands need, and run a query as they do."""
    import_module("ctsql.cli")
    import_module("ctsql.object_statements")
    import_module("ctsql.runtime.engine")
    from ctsql.runtime.spark.session import engine_session

    engine_session(session).sql("SELECT 1").toArrow()


def _serve(client: socket.socket, session: Any) -> None:
    """Run one command, and send its exit status."""
    head, files, _, _ = socket.recv_fds(client, _LENGTH_DIGITS, 3)
    body = b""
    while len(body) < int(head):
        part = client.recv(int(head) - len(body))
        if not part:
            return  # it was killed; nothing has run
        body += part
    request = json.loads(body)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["environ"])
    os.umask(request["umask"])
    _open_streams()
    over = threading.Event()
    try:
        os.chdir(request["folder"])
        client.sendall(ACCEPTED)
        listener = threading.Thread(target=_pass_signals, args=(client, over), daemon=True)
        listener.start()
        status = _run(request["arguments"], session)
    finally:
        over.set()
        _close_streams()
        os.chdir("/")
    with suppress(OSError):
        client.sendall(str(status).encode())
        client.shutdown(socket.SHUT_RDWR)  # which ends the thread that listens


def _run(arguments: list[str], session: Any) -> int:
    """The command line's exit status."""
    from ctsql.api import connect
    from ctsql.cli import main as command_line

    try:
        command_line(arguments, prog_name="ctsql", obj=partial(connect, spark=session))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def _pass_signals(client: socket.socket, over: threading.Event) -> None:
    """Interrupt the command at each signal of the client, and when the client is gone.

    SIGTERM would end this process at once, and with it the lock of a commit that the JVM makes.
    """
    with suppress(OSError):
        while client.recv(1):
            if not over.is_set():
                os.kill(os.getpid(), signal.SIGINT)
    if not over.is_set():
        os.kill(os.getpid(), signal.SIGINT)


def _open_streams() -> None:
    """Python's streams over the file descriptors that were just put in place."""
    encoding = "utf-8"
    sys.stdin = open(0, encoding=encoding, closefd=False)  # noqa: SIM115  closed after the command
    sys.stdout = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115
    sys.stderr = open(  # noqa: SIM115
        2, "w", encoding=encoding, closefd=False, buffering=1, errors="backslashreplace"
    )


def _close_streams() -> None:
    """Write what is left, and let go of the client's files."""
    for stream in (sys.stdout, sys.stderr, sys.stdin):
        with suppress(OSError):
            stream.close()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    os.close(nothing)
    _open_streams()


if __name__ == "__main__":
    os.chdir("/")
    _port, _secret = sys.stdin.read().split()
    main(socket.socket(fileno=int(sys.argv[1])), int(_port), _secret)
