"""Serves the status page by a thread of its own, beside whatever else the process does."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn

from ctsql.catalog.errors import misuse
from ctsql.status_page.access import LOCAL_NAMES, TOKEN_VARIABLE, is_loopback, token_for
from ctsql.status_page.looker import Ask
from ctsql.status_page.lookup import Lookup
from ctsql.status_page.site import Site

CLOSE_SECONDS = 3.0
"""How long the end waits for open requests; then it leaves them to the end of the process."""
CONNECTIONS_MAX = 300


@dataclass(frozen=True, slots=True)
class RunningPage:
    """A page that is being served; ``new_token`` is the one that was made for it, if any."""

    address: str
    new_token: str | None

    @property
    def notes(self) -> list[str]:
        """What to tell whoever has started it; the token is nowhere else."""
        lines = [f"status page at {self.address}"]
        if self.new_token is not None:
            lines.append(
                f"its token, the password that a browser asks for: {self.new_token}\n"
                f"another one is made at each start unless {TOKEN_VARIABLE} is set"
            )
        return lines


def _listen(host: str, port: int) -> socket.socket:
    """A socket at an address.

    Raises:
        INVALID_USAGE: the address cannot be listened at.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as problem:
        message = f"no page can be served at {host}:{port}"
        detail = f"{problem.strerror or problem}."
        raise misuse(message, detail) from problem


@contextmanager
def served(ask: Ask, lookup: Lookup, title: str, host: str, port: int) -> Iterator[RunningPage]:
    """Serve a warehouse's page inside.

    Args:
        ask, lookup: see :mod:`ctsql.status_page.looker`. title: the warehouse's name.
        port: 0 for any that is free.
    """
    token, is_new = token_for(host, os.environ)
    site = Site(ask, lookup, title)
    app = site.app(token=token, hosts=LOCAL_NAMES | ({host} if is_loopback(host) else set()))
    listening = _listen(host, port)
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(
        target=server.run, args=([listening],), name="ctsql-serve", daemon=True
    )
    thread.start()
    url_host = f"[{host}]" if ":" in host else host
    try:
        yield RunningPage(
            f"http://{url_host}:{listening.getsockname()[1]}/", token if is_new else None
        )
    finally:
        site.close()
        server.should_exit = True
        thread.join(CLOSE_SECONDS)
        listening.close()
