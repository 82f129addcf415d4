"""``ctsql.connect`` and ``Connection``: each statement is parsed, bound, planned and run.

A connection opens one warehouse. The process's SparkSession is started on first need, shared by all
connections, and not stopped by ``close()``; ``connect(spark=...)`` uses the caller's. A connection
runs one statement at a time; threads may share it.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from ctsql.catalog.errors import error, misuse
from ctsql.catalog.locations import location_fault
from ctsql.catalog.spans import Source, Span
from ctsql.connection import following, loading, questions
from ctsql.connection.open_warehouse import OpenWarehouse
from ctsql.planner.literals import Parameters, list_of, literals
from ctsql.planner.syntax import ast as st, parse, split
from ctsql.results.cursor import Cursor
from ctsql.results.result import Result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        """A transaction: committed at the end of the block, rolled back if the block raises.

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

    # ---- rows of Python

    append = loading.append
    writer = loading.writer
    register = loading.register
    unregister = loading.unregister

    def executemany(self, sql: str, seq_of_parameters: Iterable[Parameters]) -> Result:
        """Run INSERT, UPDATE, DELETE or MERGE once for each set of parameters, in one commit.

        An ``INSERT ... VALUES`` of parameters only is one statement of Spark for all rows; others
        run one after the other in a transaction.

        Args:
            seq_of_parameters: sequences for ``?``, or dicts for ``:name``.

        Returns: a result without rows; ``rowcount`` is the sum.

        Raises:
            CtsqlError: with its condition; nothing is committed.
        """
        span, statement = loading.one_change(sql)
        parameter_sets = list(seq_of_parameters)
        bulk_result = loading.append_given(self, statement, parameter_sets)
        if bulk_result is not None:
            return bulk_result
        with nullcontext() if self.in_transaction else self.transaction():
            counts = [self.run_statement(span, values).rowcount for values in parameter_sets]
        return loading.sum_of(statement.verb, counts)

    # ---- statements

    def execute(
        self,
        sql: str,
        parameters: Parameters | None = None,
        *,
        source_name: str = "<statement>",
    ) -> Result:
        """Run one or several statements; returns the last one's result.

        Args:
            sql: statements with ``;`` between them.
            parameters: values for a single statement: a list for its ``?``, a dict for its
                ``:name``.
            source_name: the name of the text in errors.

        Raises:
            CtsqlError: with its condition. Statements before the failing one have run.
        """
        spans = split(Source(sql, source_name))
        if len(spans) != 1 and list_of(parameters):
            message = "parameters go with exactly one statement"
            raise misuse(message, f"There are {len(spans)}.")
        result = Result.of_status("")
        for span in spans:
            result = self.run_statement(span, parameters)
        return result

    def run_statement(self, span: Span, parameters: Parameters | None = None) -> Result:
        """Parse and run one statement."""
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
            from ctsql.connection.dispatch import May, allowed, run, with_own_functions

            may = allowed(statement)
            if self.read_only and May.READ_ONLY not in may:
                what = " ".join(span.text.split()[:2]).upper()
                raise error("READ_ONLY_MODE", span=span, what=what)
            with with_own_functions(engine, once=May.ONCE in may):
                return run(self, engine, statement, values)

    # ---- objects, commits and changes

    relations = questions.relations
    known = questions.known
    now = questions.now
    commits = questions.commits
    status = questions.status
    run = following.run
    subscribe = following.subscribe


def _parameters_of(statement: st.Statement) -> Sequence[Span]:
    match statement:
        case st.Select():
            return statement.query.parameters
        case st.CopyTo():
            return statement.select.query.parameters
        case st.Dml():
            return statement.text.parameters
        case _:
            return ()


def connect(
    warehouse: str | None = None,
    *,
    spark: "SparkSession | None" = None,
    master: str | None = None,
    read_only: bool = False,
    create: bool = True,
    maintenance: bool = False,
) -> Connection:
    """Open a warehouse; returns at once, Spark starts on first need.

    Args:
        warehouse: a folder or any URI Spark can write, created on first use; by default
            CTSQL_WAREHOUSE from the environment, or ``./warehouse``.
        spark: the caller's session, with Delta Lake.
        master: where ctsql starts Spark, by default ``local[*]``.
        read_only: write nothing. Reads compute outputs that are not stored yet in memory;
            statements that write are refused.
        create: create the warehouse if it does not exist. If False, the first statement raises
            WAREHOUSE_NOT_FOUND.
        maintenance: compact the outputs that the connection writes, in a background thread. Without
            it only :meth:`Connection.run` and MAINTAIN compact.

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
        maintenance=maintenance,
    )


_default: Connection | None = None


def execute(sql: str, parameters: Parameters | None = None) -> Result:
    """Run statements on the default connection: :func:`connect` without arguments."""
    global _default
    if _default is None or _default._closed:
        _default = connect()
    return _default.execute(sql, parameters)
