"""``ctsql serve``, and ``ctsql run --serve``: a status page of a warehouse."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from ctsql.catalog.errors import CtsqlError, error
from ctsql.cli import options
from ctsql.cli.performing import perform
from ctsql.console.interruptible import handle_signals
from ctsql.console.script import FAILED, OK, Runner

if TYPE_CHECKING:
    from ctsql.api import Connection
    from ctsql.status_page.site import RunningPage

ADDRESS = "127.0.0.1:8480"
PACKAGES = ("jinja2", "starlette")
_STEP_SECONDS = 3_600.0


def check_installed() -> None:
    """Raise EXTRA_MISSING unless the packages of the page are installed."""
    for package in PACKAGES:
        if find_spec(package) is None:
            raise error("EXTRA_MISSING", package=package, extra="serve")


@contextmanager
def serving(
    connection: "Connection", host: str, port: int, *, looks_first: bool = False
) -> "Iterator[RunningPage]":
    """Serve the page inside; ``looks_first``: a missing warehouse is an error.

    Raises:
        EXTRA_MISSING: a package is not installed. INVALID_USAGE: nothing can be served there.
    """
    check_installed()
    from ctsql.export.side_reader import SideReader
    from ctsql.status_page.lookup import Lookup
    from ctsql.status_page.site import served

    ask, lookup = SideReader(connection), Lookup()
    if looks_first:
        ask(lookup.overview)
    title = connection.warehouse.rstrip("/").rpartition("/")[2] or connection.warehouse
    with served(ask, lookup, title, host, port) as page:
        yield page


@click.command()
@click.option(
    "--listen",
    type=options.ADDRESS,
    default=ADDRESS,
    show_default=True,
    metavar="[HOST:]PORT",
    help="The address of the page. Other machines need a token: CTSQL_SERVE_TOKEN, or the one that "
    "is printed.",
)
@options.common()
def serve(listen: tuple[str, int], **given: Any) -> None:
    """Serve a status page for browsers, until it is stopped.

    It is read-only, and shows what reads what, how far everything is, what failed and what to type.
    On a local disk it needs no Spark. With ctsql run type --serve.
    """
    perform(lambda runner: _serve(runner, *listen), read_only=True, **given)


def _serve(runner: Runner, host: str, port: int) -> int:
    settings, stop = runner.settings, threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    with handle_signals(end, signal.SIGTERM, signal.SIGINT):
        try:
            with serving(runner.connection, host, port, looks_first=True) as page:
                for line in page.notes:
                    settings.note(line)
                while not stop.wait(_STEP_SECONDS):
                    pass
        except CtsqlError as problem:
            settings.fail(problem)
            return FAILED
    return OK
