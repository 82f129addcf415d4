"""Outputs without deletion vectors: right at every T, and read by readers that know none."""

from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaProtocolError

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from tests.helpers.table_folder import folder, log


def _read(table: Path) -> list[tuple[object, ...]]:
    """As PyArrow and Polars read it."""
    rows = DeltaTable(str(table)).to_pyarrow_dataset().to_table().to_pylist()
    found = sorted(tuple(row.values()) for row in rows)
    if " " not in str(table):  # Polars 2.1 does not find files in a folder with a blank
        assert sorted(pl.scan_delta(str(table)).collect().rows()) == found
        assert sorted(pl.read_delta(str(table), use_pyarrow=True).rows()) == found
    return found


def test_tasks_views_and_what_follows_them(con: Connection) -> None:
    """Each change rewrites the files it takes rows from; followers see the change and no more."""
    con.execute("CREATE TABLE feed (k INT, v INT)")
    con.execute(
        "CREATE CONTINUAL TASK latest (k INT, v INT) ON INPUT feed WITH (DELETION VECTORS = false) "
        "AS (DELETE FROM latest WHERE k IN (SELECT k FROM feed);"
        "INSERT INTO latest SELECT k, max(v) FROM feed GROUP BY k)"
    )
    con.execute(
        "CREATE MATERIALIZED VIEW counts WITH (DELETION VECTORS = false) AS "
        "SELECT v, count(*) AS n FROM latest GROUP BY v"
    )
    con.execute(
        "CREATE CONTINUAL TASK seen (op STRING, k INT, v INT) ON INPUT latest AS ("
        "INSERT INTO seen SELECT '+', k, v FROM inserts(latest);"
        "INSERT INTO seen SELECT '-', k, v FROM deletes(latest))"
    )
    held: dict[int, int] = {}
    for rows in ({1: 1, 2: 1, 3: 1}, {2: 2}, {1: 3, 2: 3, 3: 3, 4: 4}):
        con.execute(f"INSERT INTO feed VALUES {', '.join(map(str, rows.items()))}")
        held |= rows
        latest = sorted(con.execute("SELECT * FROM latest").fetchall())
        assert latest == sorted(held.items())
        counts = sorted(con.execute("SELECT * FROM counts").fetchall())
        assert counts == sorted(Counter(held.values()).items())
        assert _read(folder(con, "latest")) == latest
        assert _read(folder(con, "counts")) == counts
    assert latest == [(1, 3), (2, 3), (3, 3), (4, 4)]
    assert counts == [(3, 3), (4, 1)]
    assert sorted(con.execute("SELECT * FROM seen WHERE k = 2").fetchall()) == [
        ("+", 2, 1), ("+", 2, 2), ("+", 2, 3), ("-", 2, 1), ("-", 2, 2)
    ]  # fmt: skip
    assert sorted(con.execute("SELECT * FROM seen WHERE k = 1").fetchall()) == [
        ("+", 1, 1), ("+", 1, 3), ("-", 1, 1)
    ]  # fmt: skip
    for name in ("latest", "counts"):
        adds = [a["add"] for commit in log(folder(con, name)) for a in commit if "add" in a]
        assert adds
        assert not any(add.get("deletionVector") for add in adds)
        con.execute(f"VERIFY MATERIALIZED VIEW {name}" if name == "counts" else "SELECT 1")


def test_readers_of_an_output_with_vectors(con: Connection) -> None:
    """PyArrow refuses it and never reads deleted rows; Polars reads what is there."""
    con.execute("CREATE TABLE feed (k INT, v INT)")
    con.execute("CREATE MATERIALIZED VIEW summed AS SELECT k, sum(v) AS v FROM feed GROUP BY k")
    con.execute("INSERT INTO feed SELECT id, id FROM range(20)")
    con.execute("SELECT * FROM summed").fetchall()
    con.execute("INSERT INTO feed VALUES (7, 100)")
    rows = sorted(con.execute("SELECT * FROM summed").fetchall())
    at = str(folder(con, "summed"))
    adds = [a["add"] for commit in log(folder(con, "summed")) for a in commit if "add" in a]
    assert any(add.get("deletionVector") for add in adds)
    assert sorted(pl.scan_delta(at).collect().rows()) == rows
    with pytest.raises(DeltaProtocolError, match="deletionVectors"):
        DeltaTable(at).to_pyarrow_dataset()


def test_an_output_at_a_location(con: Connection, tmp_path: Path) -> None:
    """It is made in an empty folder, and DROP removes that; the options cannot change."""
    place = tmp_path / "my folder"
    con.execute("CREATE TABLE a (k INT); INSERT INTO a VALUES (1)")
    made = f"WITH (LOCATION = '{place}/v', DELETION VECTORS = false) AS SELECT * FROM a"
    con.execute(
        f"CREATE MATERIALIZED VIEW v {made};"
        "CREATE MATERIALIZED VIEW x WITH (DELETION VECTORS = false) AS SELECT k FROM a;"
        f"CREATE CONTINUAL TASK c ON INPUT a WITH (LOCATION = '{place}/c') "
        "AS (INSERT INTO c SELECT * FROM a)"
    )
    con.execute("INSERT INTO a VALUES (2)")
    assert sorted(con.execute("SELECT * FROM c UNION ALL SELECT * FROM v").fetchall()) == [
        (1,), (1,), (2,), (2,)
    ]  # fmt: skip
    assert _read(place / "v") == [(1,), (2,)]
    assert folder(con, "c") == place / "c"
    for text, condition in (
        (f"CREATE MATERIALIZED VIEW w {made}", "FILE_EXISTS"),
        ("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT * FROM a", "NOT_SUPPORTED"),
        ("CREATE OR REPLACE CONTINUAL TASK c ON INPUT a AS (INSERT INTO c SELECT * FROM a)",
         "NOT_SUPPORTED"),
        (f"CREATE CONTINUAL TASK d OUTPUTS (e (k INT), f (k INT)) ON INPUT a "
         f"WITH (LOCATION = '{place}/d') AS (INSERT INTO e SELECT * FROM a)", "INVALID_OPTION"),
        # The option cannot be changed later, nor given twice.
        ("CREATE OR REPLACE MATERIALIZED VIEW x AS SELECT k FROM a", "NOT_SUPPORTED"),
        ("ALTER CONTINUAL TASK c SET (DELETION VECTORS = false)", "INVALID_OPTION"),
        ("CREATE MATERIALIZED VIEW w WITH (DELETION VECTORS = 1) AS SELECT k FROM a",
         "INVALID_OPTION"),
        ("CREATE MATERIALIZED VIEW w WITH (DELETION VECTORS = true, DELETION VECTORS = true) AS "
         "SELECT k FROM a", "INVALID_OPTION"),
    ):  # fmt: skip
        with pytest.raises(CtsqlError) as refused:
            con.execute(text)
        assert refused.value.condition == condition, refused.value
    con.execute(
        "CREATE OR REPLACE MATERIALIZED VIEW x WITH (DELETION VECTORS = false) AS "
        "SELECT k + 1 AS k FROM a; DROP MATERIALIZED VIEW v PURGE"
    )
    assert not (place / "v").exists()
    con.execute(f"CREATE MATERIALIZED VIEW v {made}")
    assert _read(place / "v") == [(1,), (2,)]
