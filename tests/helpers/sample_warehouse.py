"""A warehouse with every kind of object over one feed, and the model of what they must hold."""

from collections.abc import Sequence
from pathlib import Path

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from tests.helpers.table_folder import check_written_once, folder, orphans
from tests.scenarios.runner import assert_rows

SET_UP = """
CREATE TABLE feed (k INT, v INT);
CREATE CONTINUAL TASK latest (k INT, v INT) ON INPUT feed AS (
    DELETE FROM latest WHERE k IN (SELECT k FROM feed);
    INSERT INTO latest SELECT k, max(v) FROM feed GROUP BY k
);
CREATE CONTINUAL TASK copy ON INPUT feed AS (INSERT INTO copy SELECT * FROM feed);
CREATE MATERIALIZED VIEW summed AS SELECT k, sum(v) AS s FROM feed GROUP BY k;
"""
OUTPUTS = ("latest", "copy", "summed")
TABLES = ("feed", *OUTPUTS)


def set_up(con: Connection) -> None:
    """Make the objects, with one batch in them."""
    con.execute(SET_UP)
    insert(con, [1, 2], batch=1)
    con.execute("SELECT * FROM latest, copy, summed").fetchall()


def insert(con: Connection, keys: Sequence[int], *, batch: int) -> None:
    """One batch: each key with the batch's number as its value; larger is newer."""
    con.execute(f"INSERT INTO feed VALUES {', '.join(f'({k}, {batch})' for k in keys)}")


def batches(con: Connection) -> set[int]:
    """The batches that are in; each whole, or the assertion fails."""
    return {int(str(row[0])) for row in con.execute("SELECT DISTINCT v FROM feed").fetchall()}


def latest_by_commits(con: Connection) -> dict[int, int]:
    """Each key's value in the newest commit that has the key, by the feed's log.

    For several writers, each of whom counts its own batches: larger is not newer then.
    """
    feed = con.spark.read.format("delta").option("readChangeFeed", "true")
    changes = feed.option("startingVersion", 0).load(str(folder(con, "feed")))
    rows = changes.select("_commit_version", "k", "v").collect()
    return {k: v for _, k, v in sorted(tuple(row) for row in rows)}


def check(con: Connection, at: str) -> None:
    """Contents equal the model, each T was written once and in order."""
    feed = [(int(str(k)), int(str(v))) for k, v in con.execute("SELECT * FROM feed").fetchall()]
    largest: dict[int, int] = {}
    sums: dict[int, int] = {}
    for k, v in feed:
        largest[k] = max(v, largest.get(k, v))
        sums[k] = sums.get(k, 0) + v
    assert_rows(con.execute("SELECT * FROM latest").fetchall(), largest.items(), f"latest {at}")
    assert_rows(con.execute("SELECT * FROM copy").fetchall(), feed, f"copy {at}")
    assert_rows(con.execute("SELECT * FROM summed").fetchall(), sums.items(), f"summed {at}")
    for name in OUTPUTS:
        check_written_once(folder(con, name), at)


def check_clean(con: Connection) -> None:
    """After a VACUUM no file is left that no commit names."""
    for name in OUTPUTS:
        vacuum(con, folder(con, name))


def vacuum(con: Connection, table: Path) -> None:
    """Clean a table's folder if a process that was killed left files in it."""
    if orphans(table):
        con.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        con.spark.sql(f"VACUUM delta.`{table}` RETAIN 0 HOURS").collect()
    assert not orphans(table), table


def check_said(problem: CtsqlError, *conditions: str) -> None:
    """A person can read it: the condition, what, where and what to do; no trace of the JVM."""
    assert problem.condition in conditions, str(problem)
    assert problem.message
    assert problem.detail
    assert problem.hint
    assert "\tat " not in str(problem)
    assert "Exception in thread" not in str(problem)


def forget(con: Connection) -> None:
    """Make Delta look at the logs anew, as another process would."""
    con.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]


def files_of(con: Connection, warehouse: Path) -> dict[str, Path]:
    """The folders of all tables, ctsql's own included."""
    system = warehouse / "_ctsql"
    return {
        **{name: folder(con, name) for name in TABLES},
        "timeline": system / "timeline",
        "catalog": system / "catalog",
    }
