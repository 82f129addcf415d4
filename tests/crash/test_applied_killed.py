"""A folder that is applied, and a replacement, while processes are killed or apply others."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection
from ctsql.cli.folder_commands import exit_code
from tests.helpers.processes import run_killed
from tests.helpers.sql_folder import applied, apply_at_once, apply_killed, planned
from tests.scenarios.runner import assert_rows

pytestmark = pytest.mark.spark

OLD = """
CREATE TABLE t (k INT, v INT);
CREATE VIEW p AS SELECT k, v FROM t WHERE v > 0;
CREATE MATERIALIZED VIEW m AS SELECT k, sum(v) AS s FROM p GROUP BY k;
CREATE CONTINUAL TASK c (k INT, v INT) ON INPUT t AS (INSERT INTO c SELECT k, v FROM t);
CREATE MATERIALIZED VIEW gone AS SELECT k FROM t;
"""
NEW = """
CREATE TABLE t (k INT, v INT);
CREATE TABLE u AS SELECT k FROM t;
CREATE VIEW p AS SELECT k, v FROM t WHERE v > 1;
CREATE MATERIALIZED VIEW m AS SELECT k, sum(v) AS s, count(*) AS n FROM p GROUP BY k;
CREATE CONTINUAL TASK c (k INT, v INT) ON INPUT t AS (INSERT INTO c SELECT k, v + 100 FROM t);
CREATE MATERIALIZED VIEW next AS SELECT n FROM m;
CREATE CONTINUAL TASK d (k INT) ON INPUT t AS (INSERT INTO d SELECT k FROM t);
"""
BEFORE = ("output_committed", "catalog_table_made", "cutover_stored")
"""The first commit of an output gives a view its new column."""
POINTS = (*BEFORE, "cutover_bound", "catalog_committed:2", "output_staged", "output_committed:3")
EACH_TIME = ("cutover_bound",)


@pytest.mark.parametrize(
    "point", [pytest.param(p, marks=[] if p in EACH_TIME else [pytest.mark.slow]) for p in POINTS]
)
def test_killed_at(
    point: str, warehouse: Path, tmp_path: Path, connect: Callable[[], Connection]
) -> None:
    """All definitions are old, or all are new; applied again, it comes to the same end."""
    first = connect()
    applied(first, OLD)
    first.execute("INSERT INTO t VALUES (1, 1), (1, 5); SELECT * FROM m; SELECT * FROM c")
    first.close()
    apply_killed(warehouse, tmp_path, NEW, point)
    con = connect()
    names = {str(row[1]) for row in con.execute("SHOW OBJECTS").fetchall()}
    text = str(con.execute("SHOW CREATE VIEW p").fetchall())
    is_new = "next" in names
    after, before = {"t", "u", "p", "m", "c", "next", "d"}, {"t", "p", "m", "c", "gone"}
    assert names == (after if is_new else before)
    assert ("v > 1" in text) == is_new, "all definitions or none"
    assert is_new == (point not in BEFORE)
    if is_new:
        assert_rows(con.execute("SELECT * FROM next").fetchall(), [(1,)], point)
    con.execute("INSERT INTO t VALUES (1, 7)")
    added = 107 if is_new else 7
    assert_rows(con.execute("SELECT v FROM c").fetchall(), [(1,), (5,), (added,)], point)
    applied(con, NEW, prune=True)
    assert exit_code(planned(con, NEW, prune=True)) == 0
    assert_rows(con.execute("SELECT * FROM m").fetchall(), [(1, 12, 2)], point)
    assert_rows(con.execute("SELECT * FROM d").fetchall(), [(1,)] * 3, point)
    assert_rows(con.execute("SELECT * FROM next").fetchall(), [(2,)], point)


@pytest.mark.slow
def test_two_folders_at_once(
    warehouse: Path, tmp_path: Path, connect: Callable[[], Connection]
) -> None:
    """One wins, and the other is told; what is there is one of the two folders, whole."""
    con = connect()
    applied(con, OLD)
    texts = []
    for number in (1, 2):
        text = OLD.replace("v > 0", f"v > {number}")
        text = text.replace("SELECT k, v FROM t)", f"SELECT k, {number} FROM t)")
        texts.append(text + f"CREATE VIEW extra{number} AS SELECT * FROM m;")
    ended = apply_at_once(warehouse, tmp_path, texts)
    view = str(con.execute("SHOW CREATE VIEW p").fetchall())
    task = str(con.execute("SHOW CREATE CONTINUAL TASK c").fetchall())
    names = {str(row[1]) for row in con.execute("SHOW OBJECTS").fetchall()}
    last = 1 if "v > 1" in view else 2
    assert f"SELECT k, {last} FROM t" in task
    assert f"extra{last}" in names
    assert set(ended) <= {(0, ""), (7, "DEFINITIONS_CHANGED")}
    assert ended[last - 1] == (0, "")


REPLACED = ["ALTER MATERIALIZED VIEW m APPLY REPLACEMENT r"]
TASK_ON_VIEW = """
CREATE CONTINUAL TASK seen (k INT, s BIGINT) ON INPUT m AS (INSERT INTO seen SELECT * FROM m);
INSERT INTO t VALUES (1, 1), (2, 5);
SELECT * FROM seen;
CREATE REPLACEMENT MATERIALIZED VIEW r FOR m AS
    SELECT k, sum(v) + (CASE WHEN k > 1 THEN 1 ELSE 0 END) AS s FROM p GROUP BY k;
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    ["cutover_stored", "cutover_bound", "catalog_committed:2", "output_staged"],
)
def test_replacement_killed_at(
    point: str, warehouse: Path, connect: Callable[[], Connection]
) -> None:
    """The view has the old query and its replacement is there, or it has the new one."""
    first = connect()
    applied(first, OLD)
    first.execute(TASK_ON_VIEW)
    first.close()
    run_killed(warehouse, REPLACED, point)
    con = connect()
    is_new = point != "cutover_stored"
    names = {str(row[1]) for row in con.execute("SHOW OBJECTS").fetchall()}
    assert ("r" in names) != is_new
    rows = [(1, 1), (2, 6)] if is_new else [(1, 1), (2, 5)]
    assert_rows(con.execute("SELECT * FROM m").fetchall(), rows, point)
    if not is_new:
        con.execute(REPLACED[0])
    assert_rows(con.execute("SELECT * FROM m").fetchall(), [(1, 1), (2, 6)], point)
    seen = [(1, 1), (2, 5), (2, 6)]
    assert_rows(con.execute("SELECT * FROM seen").fetchall(), seen, "the difference, once")
