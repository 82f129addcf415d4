"""Connections: parse > bind > plan > lower > run.

A connection opens one warehouse. The process's SparkSession is started on first need, shared by all
connections, and not stopped by ``close()``; ``connect(spark=...)`` uses the caller's. A connection
runs one statement at a time; threads may share it.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ctsql.catalog import times
from ctsql.catalog.errors import CtsqlError, error, misuse
from ctsql.catalog.locations import location_fault
from ctsql.catalog.names import Name
from ctsql.catalog.spans import Source, Span
from ctsql.catalog.system_tables import SYSTEM_SCHEMA, SYSTEM_TABLES
from ctsql.connection import loading
from ctsql.connection.caller_scope import NOWHERE, CallerVariables, caller_variables
from ctsql.connection.completion import ObjectInfo, Vocabulary
from ctsql.connection.loading import relation_of
from ctsql.connection.open_warehouse import OpenWarehouse
from ctsql.connection.statement_kinds import (
    as_of,
    is_definition,
    is_transactional,
    runs_once,
    writes,
)
from ctsql.planner.literals import Parameters, list_of, literals
from ctsql.planner.syntax import ast as st, parse, split
from ctsql.planner.syntax.tokens.session_calls import with_schema
from ctsql.results.cursor import Cursor
from ctsql.results.result import Result
from ctsql.results.subscription import Subscription
from ctsql.runtime.spark.first_import import import_pyspark

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from ctsql.planner.nodes import Query
    from ctsql.runtime.engine import Engine
    from ctsql.runtime.log.write_handle import Entry
    from ctsql.runtime.monitoring.pulse import Pulse
    from ctsql.runtime.service.events import Event
    from ctsql.runtime.statements.inspect.commits import ObjectCommit
    from ctsql.runtime.statements.objects.name_resolution import Namespace

DEFAULT_WAREHOUSE = "warehouse"


class Connection(OpenWarehouse, AbstractContextManager["Connection"]):
    """One warehouse, open for statements. Made by :func:`connect`.

    As a context manager it commits an open transaction at the end of the block, or rolls it back if
    the block raises, and closes.
    """

    # ---- life

    def close(self) -> None:
        """Close the connection, but not Spark; rolls back an open transaction.

        Waits for maintenance that the connection has begun.
        """
        with self._lock:
            self.rollback()
            self._closed, self._engine = True, None
            if self._maintenance is not None:
                self._maintenance.close()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.commit()
        finally:
            self.close()

    def cursor(self) -> Cursor:
        """PEP 249: for code written for any DB-API driver."""
        return Cursor(self)

    def begin(self) -> None:
        """Open a transaction, as ``BEGIN`` does."""
        self.execute("BEGIN")

    def commit(self) -> None:
        """PEP 249: commit the open transaction, if any."""
        if self._transaction is not None:
            self.execute("COMMIT")

    def rollback(self) -> None:
        """PEP 249: roll back the open transaction, if any."""
        if self._transaction is not None:
            self.execute("ROLLBACK")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction: committed behind the block, rolled back if the block raises.

            with con.transaction():
                con.execute("INSERT INTO orders VALUES (1, 'pen')")
                con.execute("UPDATE stock SET n = n - 1 WHERE item = 'pen'")

        Raises:
            CtsqlError: TRANSACTION_OPEN if one is open already; TRANSACTION_CONFLICT at the end
                if another writer changed one of the tables first.
        """
        self.begin()
        try:
            yield
        except BaseException:
            self.rollback()
            raise
        self.commit()

    # ---- data of Python's

    append = loading.append
    writer = loading.writer
    register = loading.register
    unregister = loading.unregister

    def executemany(self, sql: str, seq_of_parameters: Iterable[Parameters]) -> Result:
        """Run INSERT, UPDATE, DELETE or MERGE once for each set of parameters, in one commit.

        An ``INSERT ... VALUES`` of nothing but parameters is one statement of Spark's for all rows;
        others run one after the other in a transaction.

        Args:
            seq_of_parameters: sequences for ``?``, or dicts for ``:name``.

        Returns:
            a result without rows; ``rowcount`` is the sum.

        Raises:
            CtsqlError: with its condition; nothing is committed then.
        """
        span, statement = loading.one_change(sql)
        parameter_sets = list(seq_of_parameters)
        bulk_result = loading.append_given(self, statement, parameter_sets)
        if bulk_result is not None:
            return bulk_result
        variables = caller_variables(None)
        with nullcontext() if self.in_transaction else self.transaction():
            counts = [
                self.run_statement(span, values, variables).rowcount for values in parameter_sets
            ]
        return loading.sum_of(statement.verb, counts)

    # ---- statements

    def execute(
        self,
        sql: str,
        parameters: Parameters | None = None,
        *,
        variables: Mapping[str, Any] | None = None,
        source_name: str = "<statement>",
    ) -> Result:
        """Run one or several statements; returns the last one's result.

        After ``SET python_variables = true`` a name that is no object means the caller's variable
        of that name: in ``SELECT * FROM df`` a DataFrame, say.

        Args:
            sql: statements with ``;`` between them.
            parameters: values for a single statement: a list for its ``?``, a dict for its
                ``:name``.
            variables: rows by the names under which the statements read them, of the kinds that
                :meth:`register` takes. No object of the current schema has these names.
            source_name: what errors call the text.

        Raises:
            CtsqlError: with its condition. Statements before the failing one have run.
        """
        spans = split(Source(sql, source_name))
        if len(spans) != 1 and list_of(parameters):
            message = "parameters go with exactly one statement"
            raise misuse(message, f"There are {len(spans)}.")
        result = Result.of_status("")
        caller = caller_variables(variables)
        for span in spans:
            result = self.run_statement(span, parameters, caller)
        return result

    def run_statement(
        self,
        span: Span,
        parameters: Parameters | None = None,
        variables: CallerVariables = NOWHERE,
    ) -> Result:
        """Parse and run one statement, which may read some variables of Python."""
        from ctsql.connection.log_answers import reads_logs, run_logged

        self._cancelled.clear()
        statement = parse(span)
        if reads_logs(statement):
            ask = partial(run_logged, statement=statement, schema=self.search_schema)
            result = self._by_logs(ask)
            if result is not None:
                return result
        values = literals(_parameters_of(statement), parameters)
        with self._running(span.text) as engine:
            from ctsql.runtime.spark.internals.jobs import forget_ended_queries

            if self.read_only and writes(statement):
                what = " ".join(span.text.split()[:2]).upper()
                raise error("READ_ONLY_MODE", span=span, what=what)
            forget_ended_queries(engine.session)  # of results that were iterated since
            with (
                _with_variables(self, engine, statement, variables),
                _with_functions(engine, statement),
            ):
                return self._run(engine, statement, values)

    def _run(self, engine: "Engine", statement: st.Statement, values: tuple[str, ...]) -> Result:
        """Bind, plan, lower and run a statement.

        Those about objects are run by :mod:`ctsql.connection.object_statements`.
        """
        from ctsql.connection.object_statements import manage
        from ctsql.runtime.statements.dml.copy import copy_from, copy_to
        from ctsql.runtime.statements.dml.dml import write_source
        from ctsql.runtime.statements.objects.name_resolution import Namespace

        names = Namespace(engine, self.search_schema)
        statement = _with_schema(statement, self.search_schema)
        within = self._transaction
        if within is not None and not is_transactional(statement):
            what = statement.span.text.split()[0].upper()
            raise error("TRANSACTION_OPEN", span=statement.span, what=what)
        match statement:
            case st.Transact():
                return _transact(self, engine, statement)
            case st.Select():
                frame, query = _read(self, names, statement, values)
                return Result.of_dataframe(frame, convert=_fetching(self, engine, query))
            case st.CopyTo():
                frame, _ = _read(self, names, statement.select, values)
                rows_count = copy_to(engine, frame, statement)
                return Result.of_status(f"COPY {rows_count}", rows_count)
            case st.CopyFrom():
                rows_count = copy_from(engine, statement, self.search_schema, within=within)
                return Result.of_status(f"COPY {rows_count}", rows_count)
            case st.Dml():
                return Result.of_status(
                    *write_source(engine, statement, self.search_schema, values, within=within)
                )
            case st.Subscribe():
                live = _open_subscription(self, engine, statement)
                return Result.of_live(*live.heads, live)
            case st.SetSetting():
                self._settings.set(statement, engine.session)
                engine.tick_ms = self._settings.tick_ms
                if engine.read_only and not self._settings.read_only:
                    _promote(self, engine)
                return Result.of_status("SET")
            case st.ShowSetting():
                settings = self._settings.show(statement, engine.session)
                from ctsql.connection.log_answers import rows

                return rows((["name", "value", "description"], settings))
            case st.ResetSetting():
                self._settings.reset(statement, engine.session)
                engine.tick_ms = self._settings.tick_ms
                return Result.of_status("RESET")
            case st.UseSchema():
                engine.refresh_catalog()
                names.check_schema(statement.name, statement.name_span)
                self.search_schema = statement.name
                return Result.of_status("USE")
            case st.Test():  # may stand among the definitions of a script
                return Result.of_status("TEST (not run; that is for: ctsql test FOLDER)")
            case _:
                return manage(names, statement)

    def promote(self) -> None:
        """Let a read-only connection write from now on, as ``SET read_only = false`` does.

        What it has computed in memory is dropped: the next read mints and writes. This cannot be
        undone. Does nothing on a connection that writes already.
        """
        with self._lock:
            if self._engine is None:
                self.read_only = False  # nothing is open yet
                return
            with self._running("promote") as engine:
                if engine.read_only:
                    _promote(self, engine)

    # ---- what is there, and what happens

    def known(self) -> Vocabulary:
        """What completion can offer."""
        with self._running("known") as engine:
            from ctsql.connection.settings import DESCRIPTIONS
            from ctsql.runtime.spark.internals.functions import function_names

            catalog, columns_of = engine.refresh_catalog(), engine.relations.columns_now
            return Vocabulary(
                objects=[
                    ObjectInfo(
                        i.name.schema,
                        i.name.name,
                        i.kind.value,
                        # A foreign writer may have added some.
                        tuple(c.name for c in (i.columns if i.managed else columns_of(i))),
                    )
                    for i in catalog
                ]
                + [
                    ObjectInfo(
                        SYSTEM_SCHEMA, t.name, "system table", tuple(c.name for c in t.columns)
                    )
                    for t in SYSTEM_TABLES.values()
                ],
                schemas=[*catalog.schemas.values(), SYSTEM_SCHEMA],
                functions=function_names(),
                settings=list(DESCRIPTIONS),
                schema=self.search_schema,
            )

    def now(self) -> int:
        """The newest bound T of the warehouse."""
        with self._running("now") as engine:
            return engine.timeline.refresh()

    def commits(self, name: str) -> "list[ObjectCommit]":
        """The commits of a table, task or materialized view, oldest first; writes nothing.

        Args:
            name: as SQL spells it.
        """
        from ctsql.planner.binding import qualify
        from ctsql.runtime.statements.inspect.commits import commits

        target = relation_of(name)
        with self._running(f"commits of {name}") as engine:
            return commits(engine, qualify(target, self.search_schema))

    def status(self) -> Result:
        """The status of every task and view; writes and computes nothing."""
        from ctsql.connection.log_answers import status

        rows = self._by_logs(status)
        if rows is None:
            with self._running("status") as engine:
                rows = status(engine)
        return rows

    def run(
        self,
        *,
        once: bool = False,
        stop: threading.Event | None = None,
        report: Callable[[str], None] | None = None,
        interval: float | None = None,
        on_event: "Callable[[Event], None] | None" = None,
        workers: int | None = None,
        pulse: "Pulse | None" = None,
    ) -> None:
        """Keep every output up to date until stopped, or (``once``) bring it up to now.

        Args:
            stop: set it from another thread to stop between two commits; :meth:`cancel` ends
                running work. report: called with each T that was reached.
            interval: the most seconds between two looks at the logs; by default 1.
            on_event: called with each :class:`~ctsql.runtime.service.events.Event`, one at a time,
                after the commit that it is about. Order: the commits of one output by T; an output
                after those that it reads, at each T. The service waits until it returns, so what
                takes long belongs into a thread of its own. An exception ends the service and is
                raised here, one of ctsql's as the cause of a RuntimeError; the commit stays, and
                its event is not repeated. It must not use this connection: InterfaceError. Several
                workers call it in their threads, and so does maintenance.
            workers: the number of outputs that are brought up in parallel.
            pulse: is kept up to date with what the service is doing.

        Raises:
            CtsqlError: with ``once`` the error of the first object that failed, after all others
                were brought up. Otherwise failures are events.
        """
        import_pyspark()
        from ctsql.runtime.monitoring.pulse import Pulse
        from ctsql.runtime.service.backoff import INTERVAL_SECONDS, WORKERS
        from ctsql.runtime.service.service import Service

        if self.read_only:
            raise error("READ_ONLY_MODE", what="RUN")
        self._cancelled.clear()

        def reached(now: int) -> None:
            if report is not None:
                report(f"T = {now} ({times.to_iso(now)})")

        def committed(object_id: str, entry: "Entry") -> None:
            assert self._maintenance is not None  # with the engine
            self._maintenance.note(object_id, entry)

        stop = stop or threading.Event()
        service = Service(
            open_engine=self._following,
            stop=stop,
            on_event=self._lock.refusing(on_event or (lambda _: None)),
            on_time=reached,
            workers=WORKERS if workers is None else workers,
            on_commit=committed,
            pulse=pulse or Pulse(),
        )
        with self._maintaining(service.tell, stop):
            service.run(once=once, interval=INTERVAL_SECONDS if interval is None else interval)

    def subscribe(
        self,
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
            reader: the name under which the position is stored, for an object; a known reader
                continues at its position, and ``as_of`` and ``begin`` are ignored.
            as_of: begin with the contents as of this T. begin: with the changes at this T.
            up_to: end before this T; with "now", after the current contents.
            progress: also deliver each T up to which everything was delivered.
            auto_commit: acknowledge by iterating on; see :mod:`ctsql.results.subscription`.
            interval: the most seconds between two looks at the logs; by default 1.

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
        with self._running(span.text) as engine:
            return _open_subscription(
                self, engine, statement, auto_commit=auto_commit, interval=interval
            )


def _with_schema(statement: st.Statement, schema: str) -> st.Statement:
    """A statement that runs once, in which ``current_schema()`` says the connection's schema."""
    match statement:
        case st.Select():
            return replace(statement, query=with_schema(statement.query, schema))
        case st.CopyTo():
            query = with_schema(statement.select.query, schema)
            return replace(statement, select=replace(statement.select, query=query))
        case st.Dml() | st.CreateTable():
            return replace(statement, text=with_schema(statement.text, schema))
        case _:
            return statement


def _parameters_of(statement: st.Statement) -> Sequence[Span]:
    """The places of a statement's parameters."""
    match statement:
        case st.Select():
            return statement.query.parameters
        case st.CopyTo():
            return statement.select.query.parameters
        case st.Dml():
            return statement.text.parameters
        case _:
            return ()


def _read(
    con: Connection, names: "Namespace", statement: st.Select, values: tuple[str, ...]
) -> "tuple[DataFrame, Query]":
    """The rows of a query, lazily; in a transaction as of its T, with its changes."""
    within = con._transaction
    query = names.binder().bind_select(statement)
    rows = names.engine.read(
        query,
        as_of=as_of(statement, within.at if within else None),
        as_of_span=statement.as_of_span,
        strict=con._settings.strict,
        parameters=values,
        own_writes=within.own_writes if within and statement.as_of is None else None,
    )
    return rows, query


def _fetching(
    con: Connection, engine: "Engine", query: "Query"
) -> Callable[[], AbstractContextManager[object]]:
    """What each call of Spark for the rows of a query runs in."""
    from ctsql.runtime.statements.dml.few_rows import for_few_rows, reads_few

    is_of_few = con._transaction is None and reads_few(engine, query)

    @contextmanager
    def fetching() -> Iterator[None]:
        with con._running("fetch") as running:
            if not is_of_few:
                yield
                return
            with for_few_rows(running.session):
                yield

    return fetching


@contextmanager
def _with_variables(
    con: Connection, engine: "Engine", statement: st.Statement, variables: CallerVariables
) -> Iterator[None]:
    """Let a statement read the variables that it may; errors say how it could read another."""
    reads_all = con._settings.reads_variables
    if variables is NOWHERE or not (runs_once(statement) or is_definition(statement)):
        yield
        return
    if variables.explicit:
        from ctsql.runtime.statements.objects.name_resolution import check_free

        catalog = engine.refresh_catalog()
        for name in variables.explicit:
            check_free(catalog, Name(con.search_schema, name), None, quiet=False)
    with (
        variables.hints(all_of_caller=reads_all, is_definition=is_definition(statement)),
        engine.external.with_variables(variables.readable(all_of_caller=reads_all)),
    ):
        yield


@contextmanager
def _with_functions(engine: "Engine", statement: st.Statement) -> Iterator[None]:
    """Let a statement that runs once call the functions of ``con.spark``; definitions must not."""
    from ctsql.runtime.spark.internals.temporary import has_function, with_functions

    if runs_once(statement):
        with with_functions(engine.session, engine.caller):
            yield
        return
    try:
        yield
    except CtsqlError as problem:
        name = str(problem.given.get("function", ""))
        if problem.condition != "UNKNOWN_FUNCTION" or not has_function(engine.caller, name):
            raise
        raise error(
            "NOT_DURABLE",
            span=problem.span,
            cause=problem,
            what=f"function {name}",
            where="a definition",
            detail="It is known to this process only; others run definitions, too.",
            hint="Write it in SQL, or compute the column before the rows are inserted.",
        ) from problem


def move_to(con: Connection, warehouse: str) -> None:
    """Go on with another warehouse, in the schema "default"; an open transaction is no more.

    The engine's session stays, and with it the plans that it has made; so do its settings.
    """
    with con._lock:
        con.rollback()
        if con._maintenance is not None:
            con._maintenance.close()
        con._engine = con._maintenance = con._reader = None
        con.warehouse, con.search_schema, con.is_new = warehouse, "default", False


def _promote(con: Connection, engine: "Engine") -> None:
    engine.promote()
    con._settings.read_only = con.read_only = False


def _transact(connection: Connection, engine: "Engine", statement: st.Transact) -> Result:
    from ctsql.runtime.statements.dml.transaction import OpenTransaction

    open_ = connection._transaction
    verb = statement.verb
    if verb is st.TransactionVerb.BEGIN:
        connection._transaction = OpenTransaction(engine, engine.mint())
    elif open_ is None:
        raise error("TRANSACTION_NOT_OPEN", span=statement.span)
    else:
        connection._transaction = None
        if verb is st.TransactionVerb.COMMIT:
            open_.commit()
        else:
            open_.rollback()
    return Result.of_status(verb.value)


def _open_subscription(
    connection: Connection,
    engine: "Engine",
    statement: st.Subscribe,
    *,
    auto_commit: bool = True,
    interval: float | None = None,
) -> Subscription:
    """Open a feed and its subscription, which locks the engine for each look."""
    from ctsql.runtime.service.backoff import INTERVAL_SECONDS
    from ctsql.runtime.statements.inspect.subscribe import open_feed
    from ctsql.runtime.statements.objects.name_resolution import Namespace
    from ctsql.runtime.subscriptions.feed import use_stored

    names = Namespace(engine, connection.search_schema)
    feed = open_feed(names, statement, strict=connection._settings.strict)

    @contextmanager
    def opened() -> "Iterator[Engine]":
        with connection._following() as engine, use_stored(engine, passive=feed.passive):
            yield engine

    return Subscription(
        feed,
        open_engine=opened,
        convert=partial(connection._running, "fetch"),
        progress=statement.progress,
        auto_commit=auto_commit,
        interval=INTERVAL_SECONDS if interval is None else interval,
    )


def connect(
    warehouse: str | None = None,
    *,
    spark: "SparkSession | None" = None,
    master: str | None = None,
    read_only: bool = False,
    create: bool = True,
    python_variables: bool = False,
    maintenance: bool = False,
) -> Connection:
    """Open a warehouse; returns at once, Spark starts on first need.

    Args:
        warehouse: a folder or any URI Spark can write, created on first use; by default
            CTSQL_WAREHOUSE from the environment, or ``./warehouse``.
        spark: the caller's session, with Delta Lake.
        master: where ctsql starts Spark, by default ``local[*]``.
        read_only: write nothing; compute in memory what is not stored yet, and refuse statements
            that write.
        create: make the warehouse if it is not there; else the first statement raises
            WAREHOUSE_NOT_FOUND.
        python_variables: begin with ``SET python_variables = true``.
        maintenance: compact the outputs that the connection writes, when they need it, in a thread
            that ends when that is done. Without it only :meth:`Connection.run` and MAINTAIN do.

    Raises:
        INVALID_USAGE: ``warehouse`` is an empty text, or a file: URI with a host.
    """
    place = warehouse
    if place is None:
        place = os.environ.get("CTSQL_WAREHOUSE") or DEFAULT_WAREHOUSE
    if fault := location_fault(place):
        raise misuse(f"the warehouse {place}".rstrip() + f" {fault}")
    return Connection(
        place,
        spark=spark,
        master=master,
        read_only=read_only,
        create=create,
        python_variables=python_variables,
        maintenance=maintenance,
    )


_default: Connection | None = None


def execute(
    sql: str,
    parameters: Parameters | None = None,
    *,
    variables: Mapping[str, Any] | None = None,
) -> Result:
    """Run statements on the default connection: :func:`connect` without arguments."""
    global _default
    if _default is None or _default._closed:
        _default = connect()
    return _default.execute(sql, parameters, variables=variables)
