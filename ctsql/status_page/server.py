"""Serves the status page of a warehouse."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ctsql.export import http_server
from ctsql.status_page.access import LOCAL_NAMES, TOKEN_VARIABLE, is_loopback, token_for
from ctsql.status_page.lookup import Lookup
from ctsql.status_page.poller import Ask
from ctsql.status_page.site import Site


@dataclass(frozen=True, slots=True)
class RunningPage:
    """A page that is being served; ``new_token`` is the one that was made for it, if any."""

    address: str
    new_token: str | None

    @property
    def notes(self) -> list[str]:
        """The text for the person who started it; the token is nowhere else."""
        lines = [f"status page at {self.address}"]
        if self.new_token is not None:
            lines.append(
                f"its token, the password that a browser asks for: {self.new_token}\n"
                f"another one is made at each start unless {TOKEN_VARIABLE} is set"
            )
        return lines


@contextmanager
def served(ask: Ask, lookup: Lookup, title: str, host: str, port: int) -> Iterator[RunningPage]:
    """Serve a warehouse's page inside.

    Args:
        ask, lookup: see :mod:`ctsql.status_page.poller`. title: the warehouse's name.
        port: 0 for any that is free.
    """
    token, is_new = token_for(host, os.environ)
    site = Site(ask, lookup, title)
    app = site.app(token=token, hosts=LOCAL_NAMES | ({host} if is_loopback(host) else set()))
    with http_server.served(app, host, port, "page") as address:
        try:
            yield RunningPage(f"{address}/", token if is_new else None)
        finally:
            site.close()
