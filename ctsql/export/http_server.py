"""The HTTP server of the status page and of the metrics, which no client can exhaust.

uvicorn answers the requests. It bounds neither connections nor the wait for headers, so:

* At most :func:`connections_max` connections are open. A new one closes an old one: first one whose
  headers are incomplete, of the client address with the most of these, the oldest first.
* A connection is closed if its headers are incomplete after :data:`HEADERS_SECONDS`, or if its
  client does not read for :data:`READ_SECONDS`. Bodies are not read. A response ends its
  connection.
* What a client sends is never logged; the server's own faults are logged once a minute.

The server has its own thread and event loop.
"""

import asyncio
import logging
import resource
import socket
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ctsql.catalog.errors import misuse

Application = Callable[[Any, Any, Any], Awaitable[None]]
"""As ASGI 3 has it: given a scope, ``receive`` and ``send``."""
CONNECTIONS_MAX = 128
DESCRIPTORS_SHARE = 8
"""Connections use at most one in this many of the process's file descriptors."""
HEADERS_SECONDS = 10.0
READ_SECONDS = 30.0
REPEAT_SECONDS = 60.0  # the least time between two log messages of one kind
CLOSE_SECONDS = 3.0
"""How long the server waits for open requests when it ends; later ones end with the process."""
_PAUSE_SECONDS = 1.0
_BACKLOG = 1024


def connections_max() -> int:
    """The most connections that a server of this process has open."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return CONNECTIONS_MAX
    return max(min(CONNECTIONS_MAX, limit // DESCRIPTORS_SHARE), 1)


@contextmanager
def served(app: Application, host: str, port: int, what: str) -> Iterator[str]:
    """Serve an application inside the block; yields its address, without a slash at the end.

    Args:
        port: 0 for any free one. what: the application, for the error.

    Raises:
        INVALID_USAGE: the address is in use or not allowed.
    """
    listening = _listen(host, port, what)
    config = uvicorn.Config(
        app,
        http=_Connection,
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # warnings are about what clients send
        access_log=False,
        server_header=False,
        headers=[("connection", "close")],
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(
        target=lambda: asyncio.run(_serve(server, listening)),
        name="ctsql-serve",
        daemon=True,
    )
    url_host = f"[{host}]" if ":" in host else host
    with ExitStack() as stack:
        stack.callback(listening.close)
        stack.enter_context(_seldom_logged("uvicorn.error", "asyncio"))
        thread.start()
        try:
            yield f"http://{url_host}:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(CLOSE_SECONDS)


def _listen(host: str, port: int, what: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as problem:
        message = f"no {what} can be served at {host}:{port}"
        raise misuse(message, f"{problem.strerror or problem}.") from problem
    listening.setblocking(False)
    return listening


async def _serve(server: uvicorn.Server, listening: socket.socket) -> None:
    accepting = asyncio.create_task(_accept(server, listening))
    try:
        await server.serve(sockets=[])
    finally:
        accepting.cancel()


async def _accept(server: uvicorn.Server, listening: socket.socket) -> None:
    """Accept connections one by one, and never more than there is room for."""
    loop, state = asyncio.get_running_loop(), server.server_state
    while True:
        try:
            accepted, _ = await loop.sock_accept(listening)
        except ConnectionAbortedError:
            continue
        except OSError:  # the process has no free descriptor
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        _make_room([c for c in state.connections if isinstance(c, _Connection)])
        try:
            await loop.connect_accepted_socket(
                partial(_Connection, server.config, state, {}), accepted
            )
        except OSError:  # the client has disconnected
            accepted.close()


def _make_room(connections: "list[_Connection]") -> None:
    """Close a connection if there are as many as there may be."""
    if len(connections) < connections_max():
        return
    candidates = [c for c in connections if not c.has_asked] or connections
    counts = Counter(c.address for c in candidates)
    max(candidates, key=lambda c: (counts[c.address], -c.made_at)).transport.abort()


class _Connection(H11Protocol):
    """A connection that closes when its client keeps it waiting."""

    has_asked = False  # whether the headers of its request are complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.made_at = self.loop.time()
        self.address = self.client[0] if self.client else ""
        transport.set_write_buffer_limits(0)  # pause_writing, as soon as anything waits
        self._abort_after(HEADERS_SECONDS)

    def _abort_after(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.has_asked and self.cycle is not None:
            self.has_asked = True
            if not self.flow.write_paused:
                self._timer.cancel()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._timer.cancel()
        self._abort_after(READ_SECONDS)

    def resume_writing(self) -> None:
        self._timer.cancel()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)


class _Seldom(logging.Filter):
    """Lets a message pass if the same one has not passed for :data:`REPEAT_SECONDS`."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now, kind = time.monotonic(), str(record.msg)
        if now - self._passed.get(kind, -REPEAT_SECONDS) < REPEAT_SECONDS:
            return False
        if len(self._passed) > CONNECTIONS_MAX:
            self._passed.clear()
        self._passed[kind] = now
        return True


@contextmanager
def _seldom_logged(*names: str) -> Iterator[None]:
    seldom = _Seldom()
    for name in names:
        logging.getLogger(name).addFilter(seldom)
    try:
        yield
    finally:
        for name in names:
            logging.getLogger(name).removeFilter(seldom)
