"""Whether this Spark and this Delta can run ctsql: typical statements, in a temporary warehouse.

Between them they call each function of the two ``internals`` packages, which a test sees to; so
:mod:`ctsql.runtime.spark.missing` knows afterwards what is not there. ``ctsql doctor`` runs them,
and the first connection of a process on releases that the tests have not run on; ``ctsql warm-up``
makes its archive of the classes that they load.
"""

import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from ctsql.catalog.errors import CtsqlError, DataError, StatementError
from ctsql.catalog.spans import Source, Span
from ctsql.planner.syntax import split

if TYPE_CHECKING:
    from ctsql.results.conversions import Row

STATEMENTS = """
CREATE TABLE t (k INT, v BIGINT, s STRING);
INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b');
CREATE CONTINUAL TASK latest (k INT, v BIGINT) ON INPUT t AS (
    DELETE FROM latest WHERE k IN (SELECT k FROM t);
    INSERT INTO latest SELECT k, max(v) FROM t GROUP BY k;
    UPDATE latest SET v = -1 WHERE v IS NULL;
);
CREATE MATERIALIZED VIEW sums AS SELECT s, sum(v) AS v, count(*) AS n FROM t GROUP BY s;
INSERT INTO t SELECT CAST(id AS INT), id, 'c' FROM range(10);
UPDATE t SET v = 3 WHERE k = 1;
DELETE FROM t WHERE k = 2;
SELECT latest.k, latest.v, sums.n FROM latest JOIN t ON t.k = latest.k JOIN sums ON sums.s = t.s
ORDER BY latest.k;
SELECT * FROM t ORDER BY k, s;
SHOW CONTINUAL TASKS;
INSERT INTO t SELECT CAST(id AS INT), id, 'd' FROM range(10001);
UPDATE t SET v = v + 1 WHERE k > 5;
BEGIN;
INSERT INTO t VALUES (30, 30, 'e');
DELETE FROM t WHERE k = 7;
COMMIT;
SELECT count(*), sum(k), sum(v) FROM latest;
ALTER TABLE t ADD COLUMN note STRING;
CREATE MATERIALIZED VIEW same AS SELECT k FROM t;
ALTER TABLE t ALTER COLUMN k SET NOT NULL;
ALTER TABLE t DROP COLUMN note;
SELECT count(*), sum(k) FROM same;
EXPLAIN PHYSICAL SELECT * FROM t;
SHOW FUNCTIONS LIKE 'abs';
MAINTAIN;
"""
_tried = False


def steps(connection: Any) -> "Iterator[Callable[[], list[Row]]]":
    """What is run one after the other in a new warehouse; each gives the rows that it reads."""
    with connection:
        yield partial(_start, connection)
        for statement in split(Source(STATEMENTS, "<self-test>")):
            yield partial(_run, connection, statement)
        for run in (_of_python, _of_this_process, _fail, _follow_and_cancel, _by_connector):
            yield partial(run, connection)


def _start(connection: Any) -> "list[Row]":
    from ctsql.runtime.spark.internals.class_names import check_classes

    with connection._running("self-test") as engine:
        check_classes(engine.session)
    connection.status()
    return []


def _run(connection: Any, statement: Span) -> "list[Row]":
    result = connection.run_statement(statement)
    return result.fetchall() if result.has_rows else []


def _of_python(connection: Any) -> "list[Row]":
    """Rows in and out."""
    connection.append("t", [(31, 31, "e")])
    connection.append(
        "t", connection.spark.sql("SELECT 32 AS k, CAST(32 AS BIGINT) AS v, 'e' AS s")
    )
    table = connection.execute("SELECT * FROM t WHERE s = 'e' ORDER BY k").to_arrow()
    return [tuple(row.values()) for row in table.to_pylist()]


def _of_this_process(connection: Any) -> "list[Row]":
    """Temporary views and functions, which a query reads and a definition does not."""
    spark = connection.spark
    spark.range(2).createOrReplaceTempView("ctsql_rows")
    spark.sql(
        "CREATE OR REPLACE TEMPORARY FUNCTION ctsql_next(i BIGINT) RETURNS BIGINT RETURN i + 1"
    )
    try:
        with suppress(StatementError):
            connection.execute("CREATE VIEW v AS SELECT ctsql_next(k) AS k FROM t")
        result = connection.execute("SELECT sum(ctsql_next(id)) FROM ctsql_rows")
        return list(result.fetchall())
    finally:
        spark.sql("DROP TEMPORARY FUNCTION ctsql_next")
        spark.catalog.dropTempView("ctsql_rows")


def _fail(connection: Any) -> "list[Row]":
    with suppress(DataError):
        connection.execute("SELECT 1 / 0").fetchall()
    return []


def _follow_and_cancel(connection: Any) -> "list[Row]":
    """What other threads do."""
    from ctsql.runtime.spark.running_jobs import running_jobs

    with connection._running("self-test") as engine:
        engine.for_thread().mint()
        engine.gateway.cancel("ctsql-self-test")
        running_jobs()
    return []


def _by_connector(connection: Any) -> "list[Row]":
    """Where Spark alone reaches the store, a log; and a vector that no file has."""
    from pyroaring import BitMap64

    from ctsql.runtime.delta.stores.hadoop_store import HadoopStore

    with connection._running("self-test") as engine:
        (item,) = (one for one in engine.refresh_catalog() if one.name.name == "t")
        table = engine.relations.table(item)
        files = engine.gateway.connector_store(table.location)
        store = HadoopStore(engine.gateway, table.handle, files)
        store.read(store.names(1)[0])
        (file, *_) = table.files(table.version()).values()
        table.vectors.show_only(file, BitMap64([0]), 2)
    return []


def self_test(folder: str, open_at: Callable[[str], Any]) -> int:
    """Run the statements in a new folder; returns how many.

    Args:
        open_at: gives a connection for a place. It is further up than this module.

    Raises:
        SPARK_VERSION: methods are missing without which ctsql cannot do what they do; it names
            all that are missing.
    """
    from ctsql.runtime.spark.failures.errors import lacks
    from ctsql.runtime.spark.missing import found

    global _tried
    _tried = True  # its own connections do not try again
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
    if len(found) > known:  # what has another way takes it now
        return self_test(folder, open_at)
    is_version = any(problem.condition == "SPARK_VERSION" for problem in problems)
    raise lacks(*found.values()) if is_version else problems[0]


def try_once(open_at: Callable[[str], Any], warning: str) -> None:
    """Warn of releases that the tests have not run on, and of what they lack; once in a process."""
    if _tried:
        return
    from ctsql.runtime.spark.missing import found

    # A statement that needs what is missing says so again.
    with tempfile.TemporaryDirectory(prefix="ctsql-") as folder, suppress(CtsqlError):
        self_test(folder, open_at)
    warnings.warn("; ".join([warning, *map(str, found.values())]), stacklevel=2)
