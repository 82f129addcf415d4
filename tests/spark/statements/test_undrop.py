"""UNDROP, until MAINTAIN removes it; the rest is the scenario objects_dropped_and_back."""

from collections.abc import Callable
from pathlib import Path

from ctsql.api import Connection
from ctsql.catalog.items import MaterializedView
from tests.helpers.items import changed
from tests.helpers.opened import check_rows, engine_of
from tests.scenarios.runner import expect_error


def _refused(con: Connection, text: str, condition: str, told: str) -> None:
    refused = str(expect_error(con, text, condition))
    assert told in refused, refused


def _shown(con: Connection) -> set[str]:
    return {str(row[1]) for row in con.execute("SHOW DROPPED").fetchall()}


def test_a_named_reader_goes_on(con: Connection) -> None:
    """It is told what was committed while its view was dropped, once."""
    con.execute(
        "CREATE TABLE t (k INT); INSERT INTO t VALUES (1);"
        "CREATE MATERIALIZED VIEW m AS SELECT k FROM t"
    )
    follow = "SUBSCRIBE TO m UP TO NOW AS 'r'"
    assert [row[1:] for row in con.execute(follow).fetchall()] == [(1, 1)]
    con.execute("DROP MATERIALIZED VIEW m CASCADE; INSERT INTO t VALUES (2)")
    con.execute("UNDROP MATERIALIZED VIEW m")
    assert [row[1:] for row in con.execute(follow).fetchall()] == [(1, 2)]


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
    """A table that was attached keeps its rows at DROP, PURGE and MAINTAIN."""
    place = tmp_path / "theirs"
    con.spark.sql("SELECT 3 AS k").write.format("delta").save(str(place))
    con.execute(f"CREATE TABLE a LOCATION '{place}'")
    for drop in ("DROP TABLE a PURGE", "DROP TABLE a; MAINTAIN RETAIN '0 seconds'"):
        con.execute(f"{drop}; CREATE TABLE a LOCATION '{place}'")
        check_rows(con, "SELECT * FROM a", (3,))
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
