"""Holds a Spark for commands to come: ``python -m ctsql.warm.keeper SOCKET``.

It listens first, so that the command that started it can wait, then starts the JVM and a worker. A
command is given to an idle worker, else to a new one, else it waits. The keeper ends, and the JVM
with it, when no command came for some minutes, when the JVM has ended, when ctsql or a library was
replaced, or when it is told to. The socket goes first, so nobody waits for one that ends.

It does not end under a prompt that uses its JVM: told to, it answers which processes those are; and
after a replacement it takes nothing more, and ends when the last of them has.
"""

import os
import selectors
import socket
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ctsql.warm.address import MINUTES, MINUTES_DEFAULT, OWNER_ONLY, state_of_code
from ctsql.warm.client import JOIN, LISTENING_SECONDS_MAX, PROCESS_DIGITS, RUN, STOP, join_answer

WORKER = "ctsql.warm_worker"
WORKERS_MAX = 4
_LOOK_SECONDS = 1.0
_FIRST_BYTE_SECONDS = 1.0
_CANCEL_SECONDS = 60.0
IDLE = b"I"


class Keeper:
    """The keeper's state: connections that wait, and workers."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.waiting: deque[socket.socket] = deque()
        self.idle: list[socket.socket] = []
        self.workers: dict[socket.socket, subprocess.Popen[bytes]] = {}
        self.guests: dict[socket.socket, int] = {}  # processes that use the JVM by themselves
        self.departures: dict[int, float] = {}  # until when processes may have left jobs in the JVM
        self.stopper: socket.socket | None = None  # who asked for the end
        self.context: Any = None
        self.gateway: Any = None
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._code = state_of_code()
        self._is_current = True
        self._idle_since = time.monotonic()

    def start_spark(self) -> None:
        """Start the JVM that commands share; raises as a connection's start does."""
        from ctsql.runtime.spark.session import process_session

        self.context = process_session().sparkContext
        self.gateway = self.context._gateway

    def run(self, idle_seconds: float) -> None:
        """Serve until it is time to end."""
        self._start_worker()
        while self.stopper is None:
            for key, _ in self._selector.select(_LOOK_SECONDS):
                channel = key.fileobj
                assert isinstance(channel, socket.socket)
                if channel is self.listener:
                    self._accept()
                else:
                    self._hear(channel)
            self._is_current = self._is_current and state_of_code() == self._code
            if self._is_current:
                self._assign()
            else:
                self._turn_away()
            is_busy = self.waiting or self.guests or len(self.idle) < len(self.workers)
            if is_busy:
                self._idle_since = time.monotonic()
            elif time.monotonic() - self._idle_since > idle_seconds:
                return
            if self.gateway.proc.poll() is not None or not (self._is_current or self.guests):
                return
            self._cancel_of_gone()

    def close(self) -> None:
        """End the workers, which finish what they run, and then the JVM."""
        for connection in self.waiting:
            connection.close()  # nothing of it has run: it starts a Spark of its own
        for channel in self.workers:
            channel.close()
        for worker in self.workers.values():
            worker.wait()
        if self.gateway is not None:
            self.gateway.proc.stdin.close()
            self.gateway.proc.wait()
        if self.stopper is not None:
            self.stopper.close()

    def _accept(self) -> None:
        connection, _ = self.listener.accept()
        connection.settimeout(_FIRST_BYTE_SECONDS)
        with suppress(OSError):
            wish = connection.recv(1)
            connection.settimeout(None)
            if wish == RUN:
                self.waiting.append(connection)
            elif wish == JOIN:
                process = connection.recv(PROCESS_DIGITS).strip()
                if not process.isdigit() or not self._is_current:
                    connection.close()  # it has just been killed, or starts a Spark of its own
                    return
                self.departures.pop(int(process), None)
                parameters = self.gateway.gateway_parameters
                connection.sendall(join_answer(parameters.port, parameters.auth_token))
                self.guests[connection] = int(process)
                self._selector.register(connection, selectors.EVENT_READ)
            elif wish == STOP and self.guests:
                with connection:
                    connection.sendall(" ".join(map(str, self.guests.values())).encode())
            elif wish == STOP:
                self.stopper = connection

    def _hear(self, channel: socket.socket) -> None:
        """A worker is idle again; or it, or a guest, is gone."""
        with suppress(OSError):
            if channel.recv(1) == IDLE:
                self.idle.append(channel)
                return
        self._selector.unregister(channel)
        if channel in self.guests:
            self._goes(self.guests.pop(channel))
        else:
            if channel in self.idle:
                self.idle.remove(channel)
            worker = self.workers.pop(channel)
            worker.wait()
            self._goes(worker.pid)
        channel.close()

    def _assign(self) -> None:
        while self.waiting and self.idle:
            connection, channel = self.waiting.popleft(), self.idle.pop()
            with connection, suppress(OSError):  # a worker that has just ended is heard of next
                socket.send_fds(channel, [RUN], [connection.fileno()])
        starting = len(self.workers) - len(self.idle)
        if self.waiting and not self.idle and starting < min(WORKERS_MAX, len(self.waiting) + 1):
            self._start_worker()

    def _turn_away(self) -> None:
        """Take no command any more; each starts a Spark of its own, as nothing of it has run."""
        while self.waiting:
            self.waiting.popleft().close()

    def _goes(self, process: int) -> None:
        self.departures[process] = time.monotonic() + _CANCEL_SECONDS

    def _cancel_of_gone(self) -> None:
        """Cancel what killed processes left running: nobody waits for it, and it holds the cores.

        For a while, as one call of theirs may run several jobs.
        """
        from ctsql.runtime.spark.running_jobs import cancel_jobs_of

        self.departures = {
            p: until for p, until in self.departures.items() if until > time.monotonic()
        }
        if self.departures:
            cancel_jobs_of(self.context, self.departures)

    def _start_worker(self) -> None:
        ours, theirs = socket.socketpair()
        parameters = self.gateway.gateway_parameters
        with theirs:
            worker = subprocess.Popen(
                [sys.executable, "-P", "-m", WORKER, str(theirs.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        assert worker.stdin is not None  # a pipe
        # Not by an argument or the environment, which others may see.
        worker.stdin.write(f"{parameters.port}\n{parameters.auth_token}\n".encode())
        worker.stdin.close()
        self.workers[ours] = worker
        self.departures.pop(worker.pid, None)
        self._selector.register(ours, selectors.EVENT_READ)


def main(address: Path) -> None:
    """Listen at an address until it is time to end; not if another keeper does."""
    os.umask(0o777 & ~OWNER_ONLY)
    minutes = float(os.environ.get(MINUTES) or MINUTES_DEFAULT)
    # One that is about to end holds the lock until its JVM has ended.
    lock = FileLock(address.with_suffix(".lock"), timeout=LISTENING_SECONDS_MAX)
    with suppress(Timeout), lock:
        address.unlink(missing_ok=True)  # of a keeper that was killed
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(address))
            listener.listen()
            keeper = Keeper(listener)
            try:
                keeper.start_spark()
                keeper.run(minutes * 60)
            finally:
                address.unlink(missing_ok=True)
                keeper.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
