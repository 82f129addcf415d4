"""Following a warehouse: the service's loop, and subscriptions."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ctsql.catalog import times
from ctsql.catalog.errors import error, misuse
from ctsql.catalog.spans import Source
from ctsql.connection.open_warehouse import OpenWarehouse
from ctsql.planner.syntax import ast as st, parse
from ctsql.results.subscription import Subscription
from ctsql.runtime.spark.versions import import_pyspark

if TYPE_CHECKING:
    from datetime import datetime

    from ctsql.runtime.engine import Engine
    from ctsql.runtime.log.write_handle import Entry
    from ctsql.runtime.monitoring.status import Pulse
    from ctsql.runtime.service.events import Event


def run(
    con: OpenWarehouse,
    *,
    once: bool = False,
    stop: threading.Event | None = None,
    interval: float | None = None,
    on_event: "Callable[[Event], None] | None" = None,
    workers: int | None = None,
    pulse: "Pulse | None" = None,
) -> None:
    """Keep every output up to date until stopped, or (``once``) advance it to now.

    Args:
        stop: set it from another thread to stop between two commits; ``cancel()`` ends running
            work.
        interval: the maximum seconds between two polls of the logs; by default 1.
        on_event: called with each :class:`~ctsql.runtime.service.events.Event` after its commit,
            one at a time; the service waits until it returns. The commits of an output come in the
            order of T; at each T an output comes after those that it reads. Workers and maintenance
            call it in their threads. An exception ends the service and is raised here, a CtsqlError
            as the cause of a RuntimeError; the event is not repeated. It must not use this
            connection (InterfaceError).
        workers: the number of outputs that are advanced in parallel.
        pulse: updated with the current work of the service.

    Raises:
        CtsqlError: with ``once`` the error of the first object that failed, after all others were
            advanced. Otherwise failures are events.
    """
    import_pyspark()
    from ctsql.runtime.monitoring.status import Pulse
    from ctsql.runtime.service.backoff import INTERVAL_SECONDS, WORKERS
    from ctsql.runtime.service.service import Service

    if con.read_only:
        raise error("READ_ONLY_MODE", what="RUN")
    con._cancelled.clear()

    def committed(object_id: str, entry: "Entry") -> None:
        assert con._maintenance is not None  # with the engine
        con._maintenance.note(object_id, entry)

    stop = stop or threading.Event()
    service = Service(
        open_engine=partial(con._running, "run"),
        stop=stop,
        on_event=con._lock.refusing(on_event or (lambda _: None)),
        workers=WORKERS if workers is None else workers,
        on_commit=committed,
        pulse=pulse or Pulse(),
    )
    with con._maintaining(service.report, stop):
        service.run(once=once, interval=INTERVAL_SECONDS if interval is None else interval)


def subscribe(
    con: OpenWarehouse,
    name: str,
    *,
    reader: str | None = None,
    as_of: "int | str | datetime | None" = None,
    begin: "int | str | datetime | None" = None,
    up_to: "int | str | datetime | None" = None,
    progress: bool = False,
    auto_commit: bool = True,
    interval: float | None = None,
) -> Subscription:
    """Follow the changes of a table, view or task, or of a query's result, as they happen.

    Without ``as_of`` and ``begin`` the contents as of now come first.

    Args:
        name: as SQL spells it, or a query in parentheses.
        reader: the name under which the position is stored, not for a query; an existing reader
            continues at its position, and ``as_of`` and ``begin`` are ignored.
        as_of: start with the contents as of this T.
        begin: start with the changes at this T.
        up_to: end before this T; with "now", after the current contents.
        progress: also deliver each T up to which everything was delivered.
        auto_commit: acknowledge by iterating on; see :mod:`ctsql.results.subscription`.
        interval: the maximum seconds between two polls of the logs; by default 1.

    Raises:
        CtsqlError: as SUBSCRIBE does.
    """
    span = Source(f"SUBSCRIBE TO {name}", "<subscribe>").whole()
    statement = parse(span)
    if not isinstance(statement, st.Subscribe) or statement.reader is not None:
        raise misuse(f"{name!r} is no name")

    def instant(time: "int | str | datetime | None") -> st.Instant | None:
        if time is None:
            return None
        value = time if isinstance(time, int | str) else times.from_datetime(time)
        return st.Instant(value=value, span=span)

    statement = replace(
        statement,
        as_of=instant(as_of),
        begin=instant(begin),
        up_to=None if up_to == "now" else instant(up_to),
        up_to_now=up_to == "now",
        reader=reader,
        progress=progress,
    )
    with con._running(span.text) as engine:
        return open_subscription(con, engine, statement, auto_commit=auto_commit, interval=interval)


def open_subscription(
    con: OpenWarehouse,
    engine: "Engine",
    statement: st.Subscribe,
    *,
    auto_commit: bool = True,
    interval: float | None = None,
) -> Subscription:
    """Open a feed and its subscription, which locks the engine for each poll."""
    from ctsql.runtime.service.backoff import INTERVAL_SECONDS
    from ctsql.runtime.statements.inspect.subscribe import open_feed
    from ctsql.runtime.statements.objects.name_resolution import Namespace
    from ctsql.runtime.subscriptions.feed import use_stored

    names = Namespace(engine, con.search_schema)
    feed = open_feed(names, statement, strict=con._settings.strict)

    @contextmanager
    def opened() -> "Iterator[Engine]":
        with con._running("run") as engine, use_stored(engine, passive=feed.passive):
            yield engine

    return Subscription(
        feed,
        open_engine=opened,
        convert=partial(con._running, "fetch"),
        progress=statement.progress,
        auto_commit=auto_commit,
        interval=INTERVAL_SECONDS if interval is None else interval,
    )
