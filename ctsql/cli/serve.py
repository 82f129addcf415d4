"""``ctsql serve``, and ``ctsql run --serve``: a status page, and PostgreSQL's protocol."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

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
OnLost = Callable[[CtsqlError], None]
"""Called with the error after which a server cannot answer any more."""


class Noted(Protocol):
    """A running server, with lines to print at its start."""

    @property
    def notes(self) -> list[str]:
        """The lines."""


def check_installed() -> None:
    """Raise EXTRA_MISSING unless the packages of the page are installed."""
    for package in PACKAGES:
        if find_spec(package) is None:
            raise error("EXTRA_MISSING", package=package, extra="serve")


@contextmanager
def serving(
    connection: "Connection", host: str, port: int, *, looks_first: bool = False
) -> "Iterator[RunningPage]":
    """Serve the page within the block; ``looks_first``: a missing warehouse is an error.

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


def serving_postgres(
    connection: "Connection", host: str, port: int, **settings: Any
) -> AbstractContextManager[Noted]:
    """Serve PostgreSQL's clients within the block; ``settings``: of ``ctsql_postgres.serving``.

    Raises:
        EXTRA_MISSING: the package is not installed. INVALID_USAGE: nothing can be served there.
    """
    if find_spec("ctsql_postgres") is None:
        raise error("EXTRA_MISSING", package="ctsql-postgres", extra="postgres")
    served: Callable[..., AbstractContextManager[Noted]] = import_module("ctsql_postgres").serving
    return served(connection, host, port, **settings)


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
@click.option(
    "--postgres",
    type=options.ADDRESS,
    metavar="[HOST:]PORT",
    help="Serve clients of PostgreSQL there; the page, too, if --listen is given. Other machines "
    "need TLS and a password: CTSQL_POSTGRES_PASSWORD, or the one that is printed.",
)
@click.option("--read-write", is_flag=True, help="With --postgres: clients may write.")
@options.count("--connections", "With --postgres: the most clients at a time; 100 by default.")
@options.file("--tls-certificate", what="With --postgres: the server's certificate, as PEM.")
@options.file("--tls-key", what="With --postgres: the key of the certificate, as PEM.")
@options.common()
def serve(
    listen: tuple[str, int],
    postgres: tuple[str, int] | None,
    read_write: bool,
    connections: int | None,
    tls_certificate: str | None,
    tls_key: str | None,
    **given: Any,
) -> None:
    """Serve a status page for browsers, or the warehouse to PostgreSQL's clients, until stopped.

    The read-only page shows the objects, what they read, their state and lag, and failures with
    what to type. On a local disk it needs no Spark. ctsql run --serve serves it from the service.
    """
    source = click.get_current_context().get_parameter_source("listen")
    has_page = postgres is None or source is not click.core.ParameterSource.DEFAULT
    if postgres is None and (read_write or connections or tls_certificate or tls_key):
        raise click.UsageError("These options need --postgres.")

    def servers(
        connection: "Connection", on_lost: OnLost
    ) -> Iterator[AbstractContextManager[Noted]]:
        if postgres is not None:
            yield serving_postgres(
                connection,
                *postgres,
                on_lost=on_lost,
                connections_max=connections,
                certificate=tls_certificate,
                key=tls_key,
            )
        if has_page:
            yield serving(connection, *listen, looks_first=True)

    perform(lambda runner: _serve(runner, servers), read_only=not read_write, **given)


def _serve(
    runner: Runner,
    servers: "Callable[[Connection, OnLost], Iterator[AbstractContextManager[Noted]]]",
) -> int:
    settings, stop, problems = runner.settings, threading.Event(), list[CtsqlError]()

    def lost(problem: CtsqlError) -> None:
        problems.append(problem)
        stop.set()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    with handle_signals(end, signal.SIGTERM, signal.SIGINT), ExitStack() as stack:
        try:
            for server in servers(runner.connection, lost):
                for line in stack.enter_context(server).notes:
                    settings.note(line)
            stop.wait()
        except CtsqlError as problem:
            problems.append(problem)
    if problems:
        settings.fail(problems[0])
        return FAILED
    return OK
