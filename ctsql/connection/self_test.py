"""Tests whether this Spark and Delta can run ctsql: typical statements in a temporary warehouse.

They call each function of the two ``internals`` packages (a test checks it), so that
:mod:`ctsql.runtime.spark.missing` then lists what is missing. ``ctsql doctor`` runs them, and so
does the first connection of a process on untested releases; ``ctsql warm-up`` makes its archive of
the classes that they load.
"""

import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from ctsql.catalog.errors import CtsqlError, StatementError
from ctsql.catalog.spans import Source, Span
from ctsql.planner.syntax import split

if TYPE_CHECKING:
    from ctsql.results.conversions import Row

FILL = """
CREATE TABLE t (k INT, v BIGINT, s STRING);
INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b');
CREATE CONTINUAL TASK latest (k INT, v BIGINT) ON INPUT t AS (
    DELETE FROM latest WHERE k IN (SELECT k FROM t);
    INSERT INTO latest SELECT k, max(v) FROM t GROUP BY k;
);
CREATE MATERIALIZED VIEW many AS SELECT id FROM range(0, 10001, 1, 2);
"""
"""The driver holds at most 10,000 rows, so Spark writes these, into two files."""
USE = """
SELECT k, v FROM latest UNION ALL SELECT id, id FROM many WHERE id > 9998;
MAINTAIN;
ALTER TABLE t ALTER COLUMN k SET NOT NULL;
SHOW FUNCTIONS LIKE 'abs';
"""
_tried = False


def steps(connection: Any) -> "Iterator[Callable[[], list[Row]]]":
    """The steps, run one after the other in a new warehouse; each yields the rows that it reads."""
    with connection:
        yield partial(_start, connection)
        yield from _each_of(FILL, connection)
        yield partial(_of_python, connection)
        yield from _each_of(USE, connection)
        yield partial(_of_this_process, connection)
        yield partial(_of_the_rest, connection)


def _each_of(statements: str, connection: Any) -> "Iterator[Callable[[], list[Row]]]":
    for statement in split(Source(statements, "<self-test>")):
        yield partial(_run, connection, statement)


def _start(connection: Any) -> "list[Row]":
    from ctsql.runtime.spark.internals.sessions import check_classes

    with connection._running("self-test") as engine:
        check_classes(engine.session)
    connection.status()
    return []


def _run(connection: Any, statement: Span) -> "list[Row]":
    result = connection.run_statement(statement)
    return result.fetchall() if result.has_rows else []


def _of_python(connection: Any) -> "list[Row]":
    """Write and read rows of Python; one replaces a row that the task has written."""
    rows = connection.spark.range(2, 4).selectExpr(
        "CAST(id AS INT) AS k", "id + 1 AS v", "'b' AS s"
    )
    connection.append("t", rows)
    table = connection.execute("SELECT * FROM t").to_arrow()
    return [tuple(row.values()) for row in table.to_pylist()]


def _of_this_process(connection: Any) -> "list[Row]":
    """Use temporary views and functions in queries; definitions refuse them."""
    spark = connection.spark
    spark.range(2).createOrReplaceTempView("ctsql_rows")
    spark.sql(
        "CREATE OR REPLACE TEMPORARY FUNCTION ctsql_next(i BIGINT) RETURNS BIGINT RETURN i + 1"
    )
    try:
        with suppress(StatementError):
            connection.execute("CREATE VIEW v AS SELECT ctsql_next(k) AS k FROM t")
        result = connection.execute("SELECT sum(ctsql_next(id)) FROM ctsql_rows")
        return list(result)  # partition by partition
    finally:
        spark.sql("DROP TEMPORARY FUNCTION ctsql_next")
        spark.catalog.dropTempView("ctsql_rows")


def _of_the_rest(connection: Any) -> "list[Row]":
    """Steps with another thread, many rows, a foreign writer, or a store that Spark reaches."""
    from ctsql.runtime.spark.job_metrics import running_jobs

    with connection._running("self-test") as engine:
        engine.for_thread().mint()
        engine.gateway.cancel("ctsql-self-test")
        running_jobs()
        # An earlier step may have failed, so the table or its vectors may be missing.
        for item in engine.refresh_catalog():
            if item.name.name == "latest":
                _of_table(engine, engine.relations.table(item))
    return []


def _of_table(engine: Any, table: Any) -> None:
    from pyroaring import BitMap64

    from ctsql.runtime.delta.stores.connector_store import HadoopStore
    from ctsql.runtime.spark.internals.plans import is_by_row, optimized_text

    store = HadoopStore(
        engine.gateway, table.handle, engine.gateway.connector_store(table.location)
    )
    store.read(store.names(1)[0])
    versions = range(table.version() + 1)
    vectors = [(v, f) for v in versions for f in table.files(v).values() if f.vector is not None]
    for version, file in vectors[:1]:
        rows = table.change_rows(version, version)
        optimized_text(rows)
        is_by_row(rows)
        table.vectors.store.read(file)
        table.vectors.show_only(file, BitMap64([0]), 2)
        engine.gateway.vector_path(file, table.jpath)
    engine.gateway.forget(table.location)


def self_test(folder: str, open_at: Callable[[str], Any]) -> int:
    """Run the statements in a new folder; returns how many. ``open_at`` gives a connection.

    Raises:
        SPARK_VERSION: methods are missing that have no substitute; it names all that are missing.
    """
    from ctsql.runtime.spark.failures.errors import lacks
    from ctsql.runtime.spark.missing import found

    global _tried
    _tried = True  # its own connections do not run the self-test
    count, known = 0, len(found)
    problems = list[CtsqlError]()
    try:
        for run in steps(open_at(f"{folder}/{known}")):
            count += 1
            try:
                run()
            except CtsqlError as problem:
                problems.append(problem)
    except CtsqlError as problem:
        problems.append(problem)
    if not problems:
        return count
    if len(found) > known:  # methods with a substitute use it from now on
        return self_test(folder, open_at)
    is_version = any(problem.condition == "SPARK_VERSION" for problem in problems)
    raise lacks(*found.values()) if is_version else problems[0]


def try_once(open_at: Callable[[str], Any], warning: str) -> None:
    """Warn about an untested release and its missing methods; once in a process."""
    if _tried:
        return
    from ctsql.runtime.spark.missing import found

    # A statement that needs a missing method raises the error again.
    with tempfile.TemporaryDirectory(prefix="ctsql-") as folder, suppress(CtsqlError):
        self_test(folder, open_at)
    warnings.warn("; ".join([warning, *map(str, found.values())]), stacklevel=2)
