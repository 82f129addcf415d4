"""What logs answer without Spark is what the engine answers, for every kind of object and state."""

from pathlib import Path

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import ObjectKind
from ctsql.connection.log_answers import Logged, run_logged, status
from ctsql.planner.syntax import parse_as
from ctsql.results.result import Result
from ctsql.runtime.delta.log.local_log import NeedsSpark
from ctsql.runtime.log import clock
from ctsql.runtime.log_reader import LocalLogReader
from tests.helpers.hadoop_checksums import write_checksums
from tests.helpers.opened import engine_of

MADE = """
CREATE SCHEMA other;
CREATE TABLE feed (k INT, v BIGINT, s STRING) COMMENT 'what comes';
CREATE TABLE other.plain (
    k INT NOT NULL COMMENT 'a key', c CHAR(3), d DECIMAL(10, 2), v VARIANT,
    a ARRAY<STRUCT<x: INT, `y.z`: TIMESTAMP_NTZ>>, m MAP<STRING, DATE>
) TBLPROPERTIES ('delta.columnMapping.mode' = 'name');
CREATE VIEW above AS SELECT k, v FROM feed WHERE v > 1;
CREATE CONTINUAL TASK copy ON INPUT feed AS (INSERT INTO copy SELECT k, s FROM feed);
CREATE CONTINUAL TASK latest (k INT, v BIGINT) ON INPUT feed AS (
    DELETE FROM latest WHERE k IN (SELECT k FROM feed);
    INSERT INTO latest SELECT k, max(v) FROM feed GROUP BY k;
);
CREATE CONTINUAL TASK fails ON INPUT feed AS (
    INSERT INTO fails SELECT CAST(s AS INT) AS n FROM feed;
);
CREATE CONTINUAL TASK stopped ON INPUT feed AS (INSERT INTO stopped SELECT k FROM feed);
CREATE CONTINUAL TASK many OUTPUTS (odd (k INT), even (k INT)) ON INPUT feed AS (
    INSERT INTO odd SELECT k FROM feed WHERE k % 2 = 1;
    INSERT INTO even SELECT k FROM feed WHERE k % 2 = 0;
);
CREATE MATERIALIZED VIEW sums AS SELECT s, sum(v) AS v FROM feed GROUP BY s;
CREATE MATERIALIZED VIEW upon AS SELECT count(*) AS n FROM sums;
CREATE MATERIALIZED VIEW daily WITH (REFRESH EVERY '1 day') AS SELECT count(*) AS n FROM feed;
CREATE MATERIALIZED VIEW once WITH (REFRESH AT CREATION) AS SELECT count(*) AS n FROM feed;
CREATE MATERIALIZED VIEW wrong AS SELECT CAST(s AS INT) AS n FROM feed;
INSERT INTO feed VALUES (1, 10, '1'), (2, 20, '2');
SELECT * FROM copy; SELECT * FROM latest; SELECT * FROM fails; SELECT * FROM odd;
SELECT * FROM upon; SELECT * FROM daily; SELECT * FROM once; SELECT * FROM wrong;
SELECT * FROM stopped;
ALTER CONTINUAL TASK stopped SUSPEND;
ALTER CONTINUAL TASK latest RENAME TO newest;
INSERT INTO feed VALUES (3, 30, 'x');
DELETE FROM feed WHERE k = 1;
SELECT * FROM copy;
"""
NAMES = (
    "feed", "other.plain", "above", "copy", "newest", "fails", "stopped", "many", "odd", "sums",
    "upon", "daily", "once", "wrong", "nothing", "nowhere.nothing",
)  # fmt: skip
TEXTS = (
    "SHOW SCHEMAS", "SHOW TABLES", "SHOW VIEWS", "SHOW MATERIALIZED VIEWS", "SHOW CONTINUAL TASKS",
    "SHOW TASK OUTPUTS", "SHOW OBJECTS", "SHOW OBJECTS IN other", "SHOW TABLES IN nowhere",
    "SHOW OBJECTS LIKE '*e*'", "SHOW SUBSCRIPTIONS", "SHOW CREATE VIEW feed",
    *(f"{verb} {name}" for name in NAMES
      for verb in ("DESCRIBE", "DESCRIBE EXTENDED", "SHOW CREATE", "SHOW COLUMNS FROM")),
)  # fmt: skip


def _told(result: Result) -> object:
    return result.columns, result.types, result.status, result.text_end, result.fetchall()


def _said(problem: CtsqlError) -> object:
    return problem.condition, str(problem), problem.detail, problem.hint, problem.span


def _by_spark(con: Connection, text: str) -> object:
    try:
        return _told(con.status() if text == "status" else con.execute(text, source_name=""))
    except CtsqlError as problem:
        return _said(problem)


def _by_logs(reader: LocalLogReader, text: str) -> object:
    if text == "status":
        return _told(status(reader))
    statement = parse_as(Logged, text, "")
    try:
        return _told(run_logged(reader, statement, "default"))
    except CtsqlError as problem:
        return _said(problem)


def _compare(
    con: Connection, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, object]:
    """Compare all, at one instant of the clock; returns the answers."""
    now = clock.now_ms()
    monkeypatch.setattr(clock, "now_ms", lambda: now)
    reader = LocalLogReader(str(warehouse))
    found = {}
    for text in ("status", *TEXTS):
        found[text] = _by_logs(reader, text)
        assert found[text] == _by_spark(con, text), text
    monkeypatch.undo()
    return found


def _fail(con: Connection, text: str) -> None:
    with pytest.raises(CtsqlError):
        con.execute(text)


def test_as_the_engine(con: Connection, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Running, behind, failed, suspended, finished, waiting; by checksum files and by commits."""
    con.execute(MADE)
    _fail(con, "SELECT * FROM fails")
    _fail(con, "SELECT * FROM wrong")
    with con.subscribe("copy", reader="dashboard") as live:
        next(iter(live))
    con.execute("INSERT INTO feed VALUES (4, 40, '4')")
    found = _compare(con, warehouse, monkeypatch)
    relations = engine_of(con).relations
    for table in (i for i in relations.catalog if i.kind is ObjectKind.TABLE):
        assert relations.columns_now(table) == relations.stored_columns(table)
    states = {row[2]: row[3] for row in found["status"][4]}  # type: ignore[index]
    assert set(states.values()) == {"up to date", "behind", "failed", "suspended", "finished"}
    assert len(found["SHOW SUBSCRIPTIONS"][4]) == 1  # type: ignore[index]

    for path in warehouse.rglob("_delta_log/*.crc"):
        path.unlink()  # as of tables that Delta's Rust writer writes
    con.execute("DROP VIEW above; INSERT INTO feed VALUES (5, 50, '5'); SELECT * FROM copy")
    assert _compare(con, warehouse, monkeypatch)["status"] != found["status"]


def test_what_is_left_to_spark(con: Connection, warehouse: Path) -> None:
    """A protocol of a newer Delta, a new warehouse; not a log that has lost its begin."""
    con.execute("CREATE TABLE feed (k INT); INSERT INTO feed VALUES (1)")
    con.execute("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM feed; SELECT * FROM n")
    log = next(iter(warehouse.glob("default/feed-*/_delta_log")))
    first = log / f"{0:020d}.json"
    kept = first.read_text()
    (log / f"{0:020d}.crc").unlink()
    first.write_text(kept.replace('"deletionVectors"', '"ofTheFuture"'))
    for path in log.glob("*.crc"):
        path.unlink()
    with pytest.raises(NeedsSpark, match="protocol"):
        status(LocalLogReader(str(warehouse)))
    first.unlink()
    (row,) = status(LocalLogReader(str(warehouse))).fetchall()
    assert row[3] == "unreadable"
    with pytest.raises(NeedsSpark, match="new warehouse"):
        LocalLogReader(str(warehouse / "default" / "none"))
    with pytest.raises(CtsqlError, match="warehouse") as found:
        LocalLogReader(str(warehouse / "default" / "none"), read_only=True)
    assert found.value.condition == "WAREHOUSE_NOT_FOUND"


def test_damage_is_told(con: Connection, warehouse: Path) -> None:
    """A commit whose bytes do not fit the checksums that Hadoop keeps of them is not believed."""
    con.execute("CREATE TABLE feed (k INT); INSERT INTO feed VALUES (1)")
    con.execute("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM feed; SELECT * FROM n")
    last = max(warehouse.glob("default/n-*/_delta_log/*.json"))
    text = last.read_text()
    assert '"engineInfo"' in text
    write_checksums(last)  # as another writer keeps them
    last.write_text(text.replace('"engineInfo"', '"engineinfo"'))
    reader = LocalLogReader(str(warehouse))
    said = _by_logs(reader, "DESCRIBE EXTENDED n")
    assert said[0] == "STORED_DATA_INVALID"  # type: ignore[index]
    assert last.name in said[2]  # type: ignore[index]
    assert [row[3] for row in status(reader).fetchall()] == ["unreadable"]
    last.write_text(text)
    assert [row[3] for row in status(reader).fetchall()] == ["up to date"]
