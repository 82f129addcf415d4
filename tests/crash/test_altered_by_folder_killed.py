"""A folder that alters tables: applied again after a kill, it comes to the same end."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.cli.folder_commands import exit_code
from tests.helpers.sql_folder import applied, apply_at_once, apply_killed, planned
from tests.scenarios.runner import assert_rows

OLD = """
CREATE TABLE t (k INT, v INT, w SMALLINT);
CREATE VIEW p AS SELECT * FROM t;
CREATE MATERIALIZED VIEW m AS SELECT k, v, w FROM t;
CREATE MATERIALIZED VIEW every AS SELECT * FROM p;
CREATE CONTINUAL TASK c (k INT, v INT) ON INPUT t AS (INSERT INTO c SELECT k, w FROM t);
"""
NEW = """
CREATE TABLE t (k INT CHECK (k < 5), v INT8, w SMALLINT, n INT DEFAULT 5);
CREATE VIEW p AS SELECT * FROM t;
CREATE MATERIALIZED VIEW m AS SELECT k, v, n FROM t;
CREATE MATERIALIZED VIEW every AS SELECT * FROM p;
CREATE CONTINUAL TASK c (k INT, v INT) ON INPUT t AS (INSERT INTO c SELECT k, n FROM t);
CREATE MATERIALIZED VIEW aside AS SELECT count(*) AS n FROM t WHERE v > 3;
"""
POINTS = (
    "table_prepared",
    "source_committed",
    "source_committed:2",
    "source_committed:4",
    "catalog_committed:2",
    "tables_altered",
    "output_committed:2",
    "cutover_stored",
    "cutover_bound",
)
EACH_TIME = ("tables_altered",)


@pytest.mark.parametrize(
    "point", [pytest.param(p, marks=[] if p in EACH_TIME else [pytest.mark.slow]) for p in POINTS]
)
def test_killed_at(
    point: str, warehouse: Path, tmp_path: Path, connect: Callable[[], Connection]
) -> None:
    """What is there goes on between, and the next apply does the rest, once."""
    first = connect()
    applied(first, OLD)
    first.execute("INSERT INTO t VALUES (1, 1, 10), (2, 2, 20); SELECT * FROM c; SELECT * FROM m")
    first.execute("SELECT * FROM every")
    first.close()
    apply_killed(warehouse, tmp_path, NEW, point)
    con = connect()
    is_new = "aside" in {str(row[1]) for row in con.execute("SHOW OBJECTS").fetchall()}
    assert is_new == (point == "cutover_bound")
    con.execute("INSERT INTO t (k, v) VALUES (3, 3)")
    rows = [(1, 10), (2, 20), (3, 5 if is_new else None)]
    assert_rows(con.execute("SELECT * FROM c").fetchall(), rows, point)
    applied(con, NEW, prune=True)
    assert exit_code(planned(con, NEW, prune=True)) == 0
    con.execute("INSERT INTO t (k, v) VALUES (4, 4)")
    with pytest.raises(CtsqlError, match="DATA_ERROR"):
        con.execute("INSERT INTO t (k, v) VALUES (5, 5)")
    rows.append((4, 5))
    assert_rows(con.execute("SELECT * FROM c").fetchall(), rows, point)
    found = con.execute("SELECT k, v FROM every").fetchall()
    assert_rows(found, [(1, 1), (2, 2), (3, 3), (4, 4)], point)
    assert con.execute("SELECT * FROM every").columns == ["k", "v", "w", "n"]
    assert con.execute("SELECT * FROM m").fetchall()
    assert_rows(con.execute("SELECT * FROM aside").fetchall(), [(1,)], point)


@pytest.mark.slow
def test_two_folders_alter_a_table_at_once(
    warehouse: Path, tmp_path: Path, connect: Callable[[], Connection]
) -> None:
    """One wins, the other is told; the table and the view are one folder's."""
    con = connect()
    text = "CREATE TABLE t (k INT); CREATE MATERIALIZED VIEW m AS SELECT * FROM t;"
    applied(con, text)
    con.execute("INSERT INTO t VALUES (1); SELECT * FROM m")
    texts = [text.replace("(k INT)", f"(k INT, {name} INT, z{name} INT)") for name in "ab"]
    ended = apply_at_once(warehouse, tmp_path, texts)
    columns = con.execute("SELECT * FROM t").columns
    assert columns in (["k", "a", "za"], ["k", "b", "zb"]), ended
    assert con.execute("SELECT * FROM m").columns == columns
    assert ended["ab".index(columns[1])] == (0, "")
    assert set(ended) <= {(0, ""), (7, "DEFINITIONS_CHANGED"), (7, "ALTERED_MEANWHILE")}
