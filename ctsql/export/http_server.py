"""The HTTP server of the status page and of the metrics, which no client can exhaust.

uvicorn answers the requests. It bounds neither connections nor the wait for headers, so:

* At most :func:`connections_max` connections are open. A new one closes an old one: the oldest
  whose headers are incomplete, or else the oldest.
* A connection is closed if its headers are incomplete after :data:`HEADERS_SECONDS`, or if its
  client does not read for :data:`READ_SECONDS`. Bodies are not read. A response ends its
  connection.
* What a client sends is never logged.

The server has its own thread and event loop.
"""

import asyncio
import resource
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
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
CLOSE_SECONDS = 3.0
"""How long the server waits for open requests when it ends; later ones end with the process."""
_BACKLOG = 64  # connections that are accepted at once, before one of them can be closed


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
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as problem:
        message = f"no {what} can be served at {host}:{port}"
        raise misuse(message, f"{problem.strerror or problem}.") from problem
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
        backlog=_BACKLOG,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(
        target=lambda: asyncio.run(server.serve([listening])), name="ctsql-serve", daemon=True
    )
    url_host = f"[{host}]" if ":" in host else host
    with closing(listening):
        thread.start()
        try:
            yield f"http://{url_host}:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(CLOSE_SECONDS)


class _Connection(H11Protocol):
    """A connection that closes when its client keeps it waiting, or when others need its place."""

    has_asked = False  # whether the headers of its request are complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.made_at = self.loop.time()
        transport.set_write_buffer_limits(0)  # pause_writing, as soon as anything waits
        self._abort_after(HEADERS_SECONDS)
        others = [c for c in self.connections if isinstance(c, _Connection) and c is not self]
        if len(others) >= connections_max():
            oldest = min(others, key=lambda c: (c.has_asked, c.made_at))
            oldest.transport.abort()

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
