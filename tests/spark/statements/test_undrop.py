"""UNDROP: what one DROP took comes back and goes on, until MAINTAIN removes it."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection
from ctsql.catalog.items import MaterializedView
from tests.helpers.items import changed
from tests.helpers.opened import check_rows, engine_of
from tests.scenarios.runner import expect_error

pytestmark = pytest.mark.spark

SET_UP = """
CREATE TABLE t (k INT, v INT);
INSERT INTO t VALUES (1, 1);
CREATE CONTINUAL TASK c ON INPUT t AS (INSERT INTO c SELECT k, v FROM t);
CREATE VIEW p AS SELECT k FROM c;
CREATE MATERIALIZED VIEW m AS SELECT k, sum(v) AS s FROM c GROUP BY k;
SELECT * FROM m
"""


def _status(con: Connection, text: str) -> str:
    return con.execute(text).status


def _refused(con: Connection, text: str, condition: str, told: str) -> None:
    refused = str(expect_error(con, text, condition))
    assert told in refused, refused


def _follow(con: Connection) -> list[tuple[tuple[object, ...], int]]:
    """The changes that the named reader has not seen yet: (row, diff)."""
    with con.subscribe("m", reader="r", up_to="now") as sub:
        return [(tuple(change.row), change.diff) for change in sub]


def _net(changes: list[tuple[tuple[object, ...], int]]) -> dict[tuple[object, ...], int]:
    found: Counter[tuple[object, ...]] = Counter()
    for row, diff in changes:
        found[row] += diff
    return {row: diff for row, diff in found.items() if diff}


def _shown(con: Connection) -> set[str]:
    return {str(row[1]) for row in con.execute("SHOW DROPPED").fetchall()}


def test_all_of_a_drop_comes_back_and_goes_on(connect: Callable[[], Connection]) -> None:
    """The task runs for what was committed meanwhile, once; the named reader goes on, too."""
    con, other = connect(), connect()
    con.execute(SET_UP)
    assert _follow(con) == [((1, 1), 1)]
    dropped = "DROP CONTINUAL TASK (with materialized view m, view p)"
    assert _status(other, "DROP CONTINUAL TASK c CASCADE") == dropped
    con.execute("INSERT INTO t VALUES (1, 5); INSERT INTO t VALUES (2, 2)")
    _refused(con, "SELECT * FROM m", "UNKNOWN_RELATION", "UNDROP MATERIALIZED VIEW m")
    _refused(con, "UNDROP TABLE m", "WRONG_OBJECT_KIND", "UNDROP MATERIALIZED VIEW m")
    assert _shown(con) == {"c", "p", "m"}
    # Whichever of them is named.
    back = "UNDROP VIEW (with continual task c, materialized view m, subscription 'r')"
    assert _status(con, "UNDROP VIEW p") == back
    assert _shown(con) == set()
    check_rows(other, "SELECT * FROM c", (1, 1), (1, 5), (2, 2))
    check_rows(other, "SELECT * FROM m", (1, 6), (2, 2))
    check_rows(con, "SELECT * FROM p", (1,), (1,), (2,))
    con.execute("INSERT INTO t VALUES (2, 3)")
    check_rows(other, "SELECT * FROM m", (1, 6), (2, 5))
    changes = _follow(con)
    assert _net(changes) == {(1, 1): -1, (1, 6): 1, (2, 5): 1}


def test_a_task_has_each_t_of_a_view_that_was_read_meanwhile(
    connect: Callable[[], Connection],
) -> None:
    """While it is dropped nobody else follows the views, and yet no T of them is passed over."""
    con, other = connect(), connect()
    con.execute("""
        CREATE TABLE t (k INT, v INT);
        CREATE MATERIALIZED VIEW m AS SELECT k, sum(v) AS s FROM t GROUP BY k;
        CREATE MATERIALIZED VIEW twice AS SELECT 2 * s AS s FROM m;
        CREATE CONTINUAL TASK f ON INPUT m AS (INSERT INTO f SELECT s, diff FROM changes(m));
        CREATE CONTINUAL TASK g ON INPUT twice
            AS (INSERT INTO g SELECT s, diff FROM changes(twice));
        DROP CONTINUAL TASK f;
        DROP MATERIALIZED VIEW twice CASCADE""")
    # As it is a day later: what is about to be followed counts as followed for so long.
    engine_of(con).change_catalog(
        lambda c: c.with_items(
            changed(i, followed_until=0) for i in c if isinstance(i, MaterializedView)
        )
    )
    con.execute("INSERT INTO t VALUES (1, 1); INSERT INTO t VALUES (1, 2)")
    check_rows(other, "SELECT * FROM m", (1, 3))
    con.execute("UNDROP CONTINUAL TASK f; UNDROP CONTINUAL TASK g")
    check_rows(other, "SELECT * FROM f", (1, 1), (1, -1), (3, 1))
    check_rows(con, "SELECT * FROM g", (2, 1), (2, -1), (6, 1))
    con.execute("DROP CONTINUAL TASK f PURGE; DROP MATERIALIZED VIEW twice CASCADE PURGE")
    con.execute("INSERT INTO t VALUES (1, 3); INSERT INTO t VALUES (1, 4)")
    before = len(con.commits("m"))
    check_rows(con, "SELECT * FROM m", (1, 10))
    assert len(con.commits("m")) == before + 1, "nobody can have back what followed it"


def test_purge_and_maintain_remove_for_good(con: Connection, warehouse: Path) -> None:
    """PURGE deletes the folders at once, MAINTAIN those that were dropped before RETAIN."""
    con.execute("CREATE TABLE a (k INT); CREATE TABLE b (k INT); CREATE TABLE d (k INT)")
    home = warehouse / "default"

    def folders() -> set[str]:
        return {place.name.rpartition("-")[0] for place in home.iterdir()}

    con.execute("DROP TABLE a PURGE; DROP TABLE b")
    assert folders() == {"b", "d"}
    assert _shown(con) == {"b"}
    con.execute("MAINTAIN")  # seven days
    assert _shown(con) == {"b"}
    planned = con.execute("MAINTAIN RETAIN '0 seconds' DRY RUN").fetchall()
    assert _shown(con) == {"b"}
    done = con.execute("MAINTAIN RETAIN '0 seconds'").fetchall()
    assert [row[1:3] for row in done if "dropped" in row[2]] == [("b", "dropped table")]
    assert next(row[4] for row in planned if row[1] == "b") > 0
    assert folders() == {"d"}
    expect_error(con, "UNDROP TABLE b", "UNKNOWN_RELATION")


def test_a_folder_that_others_use_stays(con: Connection, tmp_path: Path) -> None:
    """A table that was dropped and attached again keeps its rows at MAINTAIN."""
    place = tmp_path / "theirs"
    con.spark.sql("SELECT 3 AS k").write.format("delta").save(str(place))
    con.execute(f"CREATE TABLE a LOCATION '{place}'")
    con.execute(f"DROP TABLE a; CREATE TABLE mine LOCATION '{place}'")
    _refused(con, "UNDROP TABLE a", "UNDROP_BLOCKED", "Another table is in the folder")
    con.execute("MAINTAIN RETAIN '0 seconds'")
    check_rows(con, "SELECT * FROM mine", (3,))
    at = tmp_path / "out"
    made = f"CREATE MATERIALIZED VIEW w WITH (LOCATION = '{at}') AS SELECT k FROM mine"
    con.execute(f"{made}; DROP MATERIALIZED VIEW w")
    _refused(con, made, "FILE_EXISTS", "UNDROP MATERIALIZED VIEW w")
    con.execute("UNDROP MATERIALIZED VIEW w; DROP MATERIALIZED VIEW w PURGE")
    con.execute(made)
    check_rows(con, "SELECT * FROM w", (3,))
