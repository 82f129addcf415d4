"""Makes an archive of classes: ``python -m ctsql.class_training ARCHIVE``.

Started by a process that had none, see :mod:`ctsql.runtime.spark.class_archive`. What is loaded by
the statements here is in the archive.
"""

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ctsql.catalog.spans import Source
from ctsql.planner.syntax import split
from ctsql.runtime.spark.class_archive import draft_of, is_whole, keep, refused_unless_made

LOWEST_PRIORITY = 19
JVM_SECONDS_MAX = 300  # to write the archive
STATEMENTS = """
CREATE TABLE t (k INT, v BIGINT, s STRING);
INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b');
CREATE CONTINUAL TASK latest (k INT, v BIGINT) ON INPUT t AS (
    DELETE FROM latest WHERE k IN (SELECT k FROM t);
    INSERT INTO latest SELECT k, max(v) FROM t GROUP BY k;
);
CREATE MATERIALIZED VIEW sums AS SELECT s, sum(v) AS v, count(*) AS n FROM t GROUP BY s;
INSERT INTO t SELECT CAST(id AS INT), id, 'c' FROM range(10);
UPDATE t SET v = 3 WHERE k = 1;
DELETE FROM t WHERE k = 2;
SELECT latest.k, latest.v, sums.n FROM latest JOIN t ON t.k = latest.k JOIN sums ON sums.s = t.s
ORDER BY latest.k;
SELECT * FROM t;
SHOW CONTINUAL TASKS;
MAINTAIN;
"""


def main(archive: Path) -> None:
    """Make the archive, unless it is there or another process makes it."""
    os.nice(LOWEST_PRIORITY)
    with suppress(Timeout), FileLock(archive.with_suffix(".lock"), timeout=0):
        if not is_whole(archive):
            with refused_unless_made(archive):
                train(archive)


def train(archive: Path) -> None:
    """Run the statements and keep the archive that their JVM writes."""
    from pyspark import SparkContext

    from ctsql.api import connect
    from ctsql.runtime.delta.files import write_checkpoint
    from ctsql.runtime.spark.session import training_session

    draft_of(archive).unlink(missing_ok=True)  # of a process that was killed
    with tempfile.TemporaryDirectory() as folder:
        session = training_session(archive)
        with connect(str(Path(folder, "warehouse")), spark=session) as connection:
            for statement in split(Source(STATEMENTS, "<training>")):
                result = connection.run_statement(statement)
                if result.has_rows:
                    result.fetchall()
            connection.status()
            # As a connection does beside its ticks; a first one without archive holds them up.
            write_checkpoint(connection._opened().timeline.table, commits_min=1)
        session.stop()
    gateway = SparkContext._gateway
    assert gateway is not None  # a session was started
    process = gateway.proc
    process.stdin.close()  # the JVM ends, and writes
    keep(archive, status=process.wait(JVM_SECONDS_MAX))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
