"""BLAME gives each row the T and the commit that last wrote it, through compaction and copies."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ctsql.api import Connection, connect
from ctsql.catalog.errors import CtsqlError
from tests.conftest import TEST_MASTER
from tests.scenarios.runner import expect_error


def _blamed(con: Connection, text: str) -> Counter[tuple[Any, ...]]:
    """Rows with their T, as a multiset."""
    result = con.execute(text)
    t = result.columns.index("_t")
    return Counter((row[t], *row[4:]) for row in result.fetchall())


def _folder(con: Connection) -> str:
    found = con.execute("SELECT location FROM system.objects WHERE object = 'feed'").fetchone()
    assert found is not None
    return str(found[0])


def _now(con: Connection) -> int:
    """The newest T after what was written was bound."""
    con.execute("SELECT count(*) FROM feed")
    return con.now()


def test_it_runs_no_python_on_executors(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors need Python only for the user's own functions."""
    con.execute("CREATE TABLE feed (k INT); INSERT INTO feed VALUES (1)")
    first = _now(con)
    con.execute("INSERT INTO feed VALUES (2)")
    monkeypatch.setattr(con.spark.sparkContext, "pythonExec", "/no/python/here")
    assert _blamed(con, "BLAME feed") == Counter([(first, 1), (_now(con), 2)])


@pytest.mark.parametrize("vectors", [True, False])
def test_against_a_history(con: Connection, vectors: bool) -> None:
    """After inserts, updates, deletes and compactions each row has the T of its last change."""
    draw = random.Random(9)
    con.execute("CREATE TABLE feed (k INT, v DOUBLE)")
    con.execute("CREATE MATERIALIZED VIEW both AS SELECT k, v FROM feed WHERE k < 6")
    folder = _folder(con)
    con.spark.sql(
        f"ALTER TABLE delta.`{folder}` SET TBLPROPERTIES"
        f" ('delta.enableDeletionVectors' = '{str(vectors).lower()}')"
    )
    wanted: dict[int, tuple[int, float]] = {}
    value = 0.0
    for kind in ("insert", "insert", "update", "maintain", "delete", "update"):
        value += 1
        keys = draw.sample(range(10), 3)
        listed = ", ".join(map(str, keys))
        if kind == "insert":
            keys = [k for k in keys if k not in wanted]
            rows = ", ".join(f"({k}, {value})" for k in keys) or "(99, 0.5)"
            con.execute(f"INSERT INTO feed VALUES {rows}")
            if not keys:
                continue
        elif kind == "update":
            con.execute(f"UPDATE feed SET v = {value} WHERE k IN ({listed})")
            keys = [k for k in keys if k in wanted]
        elif kind == "delete":
            con.execute(f"DELETE FROM feed WHERE k IN ({listed})")
            wanted = {k: found for k, found in wanted.items() if k not in keys}
            keys = []
        else:
            con.execute("SELECT count(*) FROM both")
            con.execute("MAINTAIN ALL")
            keys = []
        con.execute("SELECT count(*) FROM both")
        now = con.now()
        wanted |= dict.fromkeys(keys, (now, value))
    assert _blamed(con, "BLAME feed WHERE k < 90") == Counter(
        (t, k, v) for k, (t, v) in wanted.items()
    )
    assert _blamed(con, "BLAME both") == Counter((t, k, v) for k, (t, v) in wanted.items() if k < 6)


def test_equal_rows_copies_and_lost_files(con: Connection, warehouse: Path) -> None:
    """Copies of a row keep the Ts of their own; what files that are gone would tell is not told."""
    con.execute("CREATE TABLE feed (t STRING, m MAP<STRING, INT>, f DOUBLE)")
    written = []
    for _ in range(2):
        con.execute("INSERT INTO feed VALUES (NULL, map('a', 1), double('NaN')), ('x', NULL, -0.0)")
        written.append(_now(con))
    con.execute("MAINTAIN ALL")
    blamed = con.execute("BLAME feed WHERE t IS NULL")
    assert sorted(row[0] for row in blamed.fetchall()) == written
    assert blamed.columns == ["_t", "_time", "_version", "_note", "t", "m", "f"]
    folder = _folder(con)
    con.execute("MAINTAIN ALL RETAIN '0 seconds'")
    con.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    con.spark.sql(f"VACUUM delta.`{folder}` RETAIN 0 HOURS")
    for row in con.execute("BLAME feed").fetchall():
        assert row[0] is None
        assert "is removed; not after it" in row[3]


def test_refusals_and_read_only(con: Connection, warehouse: Path) -> None:
    """What has no table is refused; a read-only connection tells of what it has in memory."""
    con.execute("CREATE TABLE feed (k INT); CREATE VIEW plain AS SELECT k FROM feed")
    con.execute("CREATE MATERIALIZED VIEW mv AS SELECT k, count(*) AS n FROM feed GROUP BY k")
    con.execute("INSERT INTO feed VALUES (1); SELECT * FROM mv")
    first = con.now()
    con.execute("INSERT INTO feed VALUES (2)")
    second = _now(con)
    with pytest.raises(CtsqlError, match="plain") as raised:
        con.execute("BLAME plain")
    assert raised.value.condition == "WRONG_OBJECT_KIND"
    expect_error(con, "BLAME feed WHERE nothing = 1", "UNKNOWN_COLUMN")
    with connect(str(warehouse), master=TEST_MASTER, read_only=True) as reader:
        assert _blamed(reader, "BLAME mv") == Counter([(first, 1, 1), (second, 2, 1)])
        assert _blamed(reader, f"BLAME mv AS OF {first}") == Counter([(first, 1, 1)])
        assert reader.execute(f"BLAME feed AS OF {first - 1}").fetchall() == []


def test_tables_of_other_programs(con: Connection, tmp_path: Path) -> None:
    """A table that says nothing of deletion vectors, and one without rows, are told like others."""
    plain, split = tmp_path / "plain", tmp_path / "split"
    con.spark.sql(f"CREATE TABLE delta.`{plain}` (id INT, k INT) USING delta")
    con.spark.sql(f"CREATE TABLE delta.`{split}` (id INT, k INT) USING delta PARTITIONED BY (k)")
    con.execute(f"CREATE TABLE feed LOCATION '{plain}'; CREATE TABLE split LOCATION '{split}'")
    con.execute("CREATE MATERIALIZED VIEW counts AS SELECT k, count(*) AS n FROM feed GROUP BY k")
    assert _blamed(con, "BLAME feed") == Counter()
    con.spark.sql(f"INSERT INTO delta.`{split}` VALUES (1, 1)")
    con.spark.sql(f"INSERT INTO delta.`{plain}` VALUES (1, 1), (2, 1), (3, 2)")
    first = _now(con)
    con.spark.sql(f"UPDATE delta.`{plain}` SET k = 2 WHERE id = 2")
    second = _now(con)
    wanted = Counter([(first, 1, 1), (second, 2, 2), (first, 3, 2)])
    assert _blamed(con, "BLAME feed") == wanted
    lines = con.execute("WHY counts WHERE k = 2").fetchall()
    assert [(line[1], line[6]) for line in lines[1:]] == [
        ("feed", '{"id":3,"k":2}'),
        ("feed", '{"id":2,"k":2}'),
    ]
    with pytest.raises(CtsqlError, match="NOT_SUPPORTED"):
        con.execute("BLAME split").fetchall()
