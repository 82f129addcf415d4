"""The system schema: what its tables show, what is read for it, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.system_tables import SYSTEM_TABLES
from ctsql.runtime.log import clock
from ctsql.runtime.log_reader import LocalLogReader
from ctsql.runtime.monitoring.spark_rows import QUARANTINE
from ctsql.runtime.monitoring.system_tables import system_rows
from tests.helpers.opened import engine_of

MADE = """
CREATE TABLE feed (k INT, s STRING);
CREATE TABLE names (k INT, name STRING);
CREATE CONTINUAL TASK copy ON INPUT feed AS (
    INSERT INTO copy SELECT f.k, n.name FROM feed f JOIN names n ON f.k = n.k
);
CREATE CONTINUAL TASK fails ON INPUT feed AS (
    INSERT INTO fails
    SELECT CAST(s AS INT) AS n FROM feed
);
CREATE CONTINUAL TASK many OUTPUTS (odd (k INT), even (k INT)) ON INPUT feed AS (
    INSERT INTO odd SELECT k FROM feed WHERE k % 2 = 1;
    INSERT INTO even SELECT k FROM feed WHERE k % 2 = 0;
);
CREATE VIEW plain AS SELECT k FROM feed;
CREATE MATERIALIZED VIEW sums WITH (REFRESH POLICY = full) AS
    SELECT s, count(*) AS n FROM feed GROUP BY s;
CREATE MATERIALIZED VIEW once WITH (REFRESH AT CREATION) AS SELECT count(*) AS n FROM feed;
INSERT INTO names VALUES (1, 'a'), (2, 'b');
INSERT INTO feed VALUES (1, '10'), (2, '20');
SELECT * FROM copy; SELECT * FROM fails; SELECT * FROM odd; SELECT * FROM sums;
SELECT * FROM once;
INSERT INTO feed VALUES (3, '30');
SELECT * FROM copy; SELECT * FROM fails; SELECT * FROM odd; SELECT * FROM sums
"""


def _rows(con: Connection, text: str) -> list[dict[str, Any]]:
    result = con.execute(text)
    return [dict(zip(result.columns, row, strict=True)) for row in result.fetchall()]


def _refusal(con: Connection, text: str) -> str:
    with pytest.raises(CtsqlError) as raised:
        con.execute(text)
    return raised.value.condition


def test_what_system_tables_show(
    con: Connection, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table has a row for what the logs say, with or without Spark, and joins with others."""
    con.execute(MADE)
    con.execute("INSERT INTO feed VALUES (4, 'x')")
    with pytest.raises(CtsqlError, match="fails"):
        con.execute("SELECT * FROM fails")
    _check_objects(con)
    _check_refreshes(con)
    _check_failures(con)
    _check_refusals(con)
    _compare_readers(con, warehouse, monkeypatch)
    con.execute("ALTER CONTINUAL TASK fails SKIP")
    (row,) = _rows(con, "SELECT * FROM system.failures")
    assert (row["state"], row["what_to_do"]) == ("skipped", None)
    assert row["ended_at"] >= row["at"]
    assert _rows(con, "SELECT * FROM system.failures WHERE state = 'open'") == []


def _check_objects(con: Connection) -> None:
    found = {r["object"]: r for r in _rows(con, "SELECT * FROM system.objects")}
    states = {name: (r["kind"], r["state"]) for name, r in found.items()}
    assert states == {
        "copy": ("continual task", "behind"),
        "even": ("task output", None),
        "fails": ("continual task", "failed"),
        "feed": ("table", None),
        "many": ("continual task", "behind"),
        "names": ("table", None),
        "odd": ("task output", None),
        "once": ("materialized view", "finished"),
        "plain": ("view", None),
        "sums": ("materialized view", "behind"),
    }
    assert found["copy"]["columns"] == ["k", "name"]
    reads = _rows(con, "SELECT * FROM system.dependencies WHERE object IN ('copy', 'odd')")
    assert [(r["object"], r["reads"], r["role"], r["columns"]) for r in reads] == [
        ("copy", "feed", "input", ["k"]),
        ("copy", "names", "reference", ["k", "name"]),
        ("odd", "many", "output", []),
    ]
    lineage = {r["reads"]: dict(r["column_lineage"]) for r in reads}
    assert lineage == {"feed": {"k": ["k"]}, "names": {"name": ["name"]}, "many": {}}
    (lag,) = _rows(con, "SELECT * FROM system.lag WHERE object = 'sums'")
    assert (lag["state"], lag["lag_versions"]) == ("behind", 1)
    assert lag["lag_seconds"] > 0
    (stored,) = _rows(con, "SELECT * FROM system.storage WHERE object = 'feed'")
    assert (stored["part"], stored["rows"], stored["deleted_rows"]) == ("rows", 4, 0)
    assert stored["bytes"] > stored["files"] > 0


def _check_refreshes(con: Connection) -> None:
    found = _rows(con, "SELECT * FROM system.refreshes WHERE object = 'sums' ORDER BY t DESC")
    assert [r["strategy"] for r in found] == [*["recompute and diff"] * 3, "no change"]
    assert found[0]["reason"] == "POLICY_FULL"
    assert (found[0]["rows_inserted"], found[0]["rows_deleted"]) == (1, 0)
    assert found[0]["seconds"] >= found[0]["phases"]["compute"] > 0
    assert found[0]["delay_seconds"] > 0
    assert ":" in found[0]["process"]
    runs = _rows(
        con, "SELECT * FROM system.refreshes WHERE object = 'copy' ORDER BY t DESC LIMIT 2"
    )
    assert [(r["strategy"], r["rows_inserted"]) for r in runs][1:] == [("run", 2)]
    assert runs[1]["phases"].keys() == {"changes", "compute"}
    assert runs[1]["seconds"] >= 0
    outputs = _rows(con, "SELECT DISTINCT output FROM system.refreshes WHERE object = 'many'")
    assert {r["output"] for r in outputs} == {"odd", "even"}
    joined = _rows(
        con,
        "SELECT o.kind, count(*) AS n FROM system.refreshes r JOIN system.objects o USING (object)"
        " JOIN names ON names.k = 1 WHERE r.at > now() - INTERVAL 1 HOUR GROUP BY ALL ORDER BY 1",
    )
    assert [r["kind"] for r in joined] == ["continual task", "materialized view"]
    assert all(r["n"] > 2 for r in joined)

    con.execute(
        "CREATE TABLE history AS SELECT object, t FROM system.refreshes WHERE object = 'sums';"
        "INSERT INTO history SELECT object, t FROM system.refreshes WHERE object = 'copy'"
    )
    kept = _rows(con, "SELECT object, count(*) AS n FROM history GROUP BY ALL ORDER BY 1")
    assert [r["object"] for r in kept] == ["copy", "sums"]
    con.execute("DROP TABLE history PURGE")


def _check_failures(con: Connection) -> None:
    (row,) = _rows(con, "SELECT * FROM system.failures WHERE state = 'open'")
    assert (row["object"], row["line"], row["ended_at"]) == ("fails", 3, None)
    assert "x" in row["message"]
    assert "ALTER CONTINUAL TASK fails RETRY" in row["what_to_do"]
    assert _rows(con, f"SELECT t FROM system.failures WHERE t < {row['t']}") == []


def _check_refusals(con: Connection) -> None:
    view = "CREATE MATERIALIZED VIEW v AS SELECT * FROM system.lag"
    with pytest.raises(CtsqlError, match=r"system\.lag cannot be read in a view") as raised:
        con.execute(view)
    assert "no T" in raised.value.detail
    body = "INSERT INTO t2 SELECT k FROM feed WHERE s IN (SELECT object FROM system.lag)"
    assert _refusal(con, f"CREATE CONTINUAL TASK t2 ON INPUT feed AS ({body})") == "NOT_DURABLE"
    for text in (
        "CREATE CONTINUAL TASK t2 ON INPUT system.lag AS (INSERT INTO t2 SELECT * FROM system.lag)",
        "INSERT INTO system.lag SELECT 1",
        "DROP TABLE system.lag",
        "COMMENT ON TABLE system.lag IS 'x'",
        "SUBSCRIBE TO system.lag",
    ):
        assert _refusal(con, text) == "SYSTEM_SCHEMA", text
    for text in ("CREATE SCHEMA system", "CREATE TABLE system.t (a INT)"):
        assert _refusal(con, text) == "SYSTEM_SCHEMA", text
    assert _refusal(con, "SELECT * FROM system.lag AS OF 5") == "NOT_SUPPORTED"
    with pytest.raises(CtsqlError) as raised:
        con.execute("SELECT * FROM system.lags")
    assert "lag" in raised.value.hint
    shown = _rows(con, "SHOW TABLES IN system")
    assert [r["name"] for r in shown] == sorted(SYSTEM_TABLES)
    assert [r["column"] for r in _rows(con, "DESCRIBE system.lag")][:2] == ["object", "kind"]


def _compare_readers(con: Connection, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Spark, with it, and through a query, each table has the same rows."""
    now = clock.now_ms()
    monkeypatch.setattr(clock, "now_ms", lambda: now)
    for name, table in SYSTEM_TABLES.items():
        if name == QUARANTINE:
            continue  # of rows, not of logs: failed_changes_in_the_quarantine.slt
        found = system_rows(LocalLogReader(str(warehouse)), name)
        assert found == system_rows(engine_of(con), name), name
        result = con.execute(f"SELECT * FROM system.{name}")
        declared = [c.type for c in table.columns]
        assert (result.columns, result.types) == ([c.name for c in table.columns], declared)
        assert len(result.fetchall()) == len(found) > 0, name
    monkeypatch.undo()
