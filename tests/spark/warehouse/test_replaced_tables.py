"""A table deleted and made anew at the same place is another table: never a mixture of both."""

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item
from ctsql.catalog.times import to_iso
from ctsql.runtime.log import clock
from ctsql.runtime.monitoring.status import status
from tests.helpers.foreign_writers import Place, by_ctsql, remove
from tests.helpers.opened import engine_of
from tests.helpers.table_folder import folder
from tests.scenarios.runner import assert_rows, expect_error

Connect = Callable[[], Connection]


def attached(con: Connection, tmp_path: Path) -> Place:
    """A table of a foreigner with a view and a task over it, and a view that does not read it."""
    place = Place(con.spark, str(tmp_path / "b"))
    write(place, (1, 10), (2, 20))
    con.execute(f"CREATE TABLE b LOCATION '{place.path}'")
    con.execute("CREATE TABLE other (k INT); INSERT INTO other VALUES (7)")
    con.execute("CREATE MATERIALIZED VIEW seen AS SELECT k, v FROM b")
    con.execute("CREATE MATERIALIZED VIEW apart AS SELECT k FROM other")
    con.execute(
        "CREATE CONTINUAL TASK copied (k INT, v INT) ON INPUT b AS"
        " (INSERT INTO copied SELECT k, v FROM b)"
    )
    return place


def write(place: Place, *rows: tuple[int, int]) -> None:
    """Append as a foreign Spark does."""
    frame = place.spark.createDataFrame(list(rows), "k INT, v INT").coalesce(1)
    frame.write.format("delta").mode("append").save(place.path)


def made_anew(place: Place, commits: int) -> None:
    """Delete it, and write another table in its place."""
    remove(place)
    for n in range(commits):
        write(place, (5 + n, 50 + 10 * n))


def _refused(con: Connection) -> None:
    """All that reads the table says what is the matter, all else goes on."""
    for text in (
        "SELECT * FROM b",
        "SELECT * FROM seen",
        "SELECT * FROM copied",
        "REFRESH MATERIALIZED VIEW seen",
        "INSERT INTO b VALUES (9, 90)",
        "ALTER CONTINUAL TASK copied SKIP",
    ):
        problem = by_ctsql(con, text)
        assert isinstance(problem, CtsqlError), text
        assert problem.condition == "TABLE_REPLACED", (text, problem)
        assert '"b"' in problem.message, text
        assert "DROP TABLE b CASCADE" in str(problem.hint), text
    assert_rows(con.execute("SELECT * FROM apart").fetchall(), [(7,)], "apart")
    told = {s.item.name.name: s.last_error for s in status(engine_of(con))}
    assert told["apart"] is None
    for name in ("seen", "copied"):
        assert (told[name] or ("",))[0] == "TABLE_REPLACED", told


def test_an_attached_table_made_anew(connect: Connect, tmp_path: Path) -> None:
    """With as many commits as before nothing but its id tells it; it is told by all connections."""
    con, second = connect(), connect()
    place = attached(con, tmp_path)
    assert_rows(second.execute("SELECT * FROM seen").fetchall(), [(1, 10), (2, 20)], "seen")
    made_anew(place, commits=1)
    _refused(con)
    _refused(second)
    _refused(connect())
    con.execute("INSERT INTO other VALUES (8)")
    with pytest.raises(CtsqlError, match='"b"'):
        con.run(once=True)
    assert_rows(con.execute("SELECT * FROM apart").fetchall(), [(7,), (8,)], "others go on")
    con.execute("DROP TABLE b CASCADE")
    assert Path(place.path, "_delta_log").exists(), "the new table is not ours to delete"
    con.execute(f"CREATE TABLE b LOCATION '{place.path}'")
    con.execute("CREATE MATERIALIZED VIEW seen AS SELECT k, v FROM b")
    assert_rows(con.execute("SELECT * FROM seen").fetchall(), [(5, 50)], "seen")
    write(place, (6, 60))
    assert_rows(second.execute("SELECT * FROM seen").fetchall(), [(5, 50), (6, 60)], "seen")


def _maintained(con: Connection) -> None:
    """What is about the whole warehouse goes on without the table; by name it says why not."""
    told = {row[2]: row[8] for row in con.execute("SHOW PENDING").fetchall()}
    assert told["apart"] is None
    assert '"b"' in told["seen"]
    assert '"b"' in told["copied"]
    retained = {row[1] for row in con.execute("SHOW RETENTION").fetchall()}
    assert "apart" in retained
    assert "b" not in retained
    maintained = {row[1] for row in con.execute("MAINTAIN ALL").fetchall()}
    assert {"apart", "copied", "other"} <= maintained
    for text in ("MAINTAIN b", "SHOW RETENTION b"):
        expect_error(con, text, "TABLE_REPLACED")


@pytest.mark.slow
@pytest.mark.parametrize("commits", [1, 2, 5])
def test_with_fewer_and_more_commits(connect: Connect, tmp_path: Path, commits: int) -> None:
    """However many commits the new table has."""
    con, second = connect(), connect()
    place = attached(con, tmp_path)
    write(place, (3, 30))
    assert con.execute("SELECT count(*) FROM copied").fetchone() == (3,)
    made_anew(place, commits)
    _refused(second)
    _refused(con)
    _refused(connect())
    _maintained(con)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["seen", "copied"])
def test_an_output_made_anew(connect: Connect, tmp_path: Path, name: str) -> None:
    """Nothing of an output is believed when its folder holds another table."""
    con = connect()
    place = attached(con, tmp_path)
    own = Place(con.spark, str(folder(con, name)))
    remove(own)
    write(own, (1, 10))
    for one in (con, connect()):
        expect_error(one, f"SELECT * FROM {name}", "TABLE_REPLACED")
        write(place, (3, 30))
        expect_error(one, f"SELECT * FROM {name}", "TABLE_REPLACED")
        assert_rows(one.execute("SELECT * FROM apart").fetchall(), [(7,)], "apart")
    maintained = {row[1] for row in con.execute("MAINTAIN").fetchall()}
    assert "apart" in maintained
    assert name not in maintained
    told = con.execute("SELECT DISTINCT object FROM system.refreshes").fetchall()
    assert {"apart", name} & {row[0] for row in told} == {"apart"}


@pytest.mark.slow
def test_a_view_past_its_last_refresh_made_anew(connect: Connect, tmp_path: Path) -> None:
    """A view that is only to be finished keeps nobody else from reading."""
    con = connect()
    place = attached(con, tmp_path)
    soon = clock.now_ms() + 15_000
    con.execute(
        f"CREATE MATERIALIZED VIEW last WITH (REFRESH AT '{to_iso(soon)}') AS SELECT k, v FROM b"
    )
    own = Place(con.spark, str(folder(con, "last")))
    con.close()
    remove(own)
    write(own, (1, 10))
    time.sleep(max(0, soon + 1_000 - clock.now_ms()) / 1000)
    for one in (connect(), connect()):
        assert_rows(one.execute("SELECT * FROM apart").fetchall(), [(7,)], "apart")
        assert_rows(one.execute("SELECT * FROM seen").fetchall(), [(1, 10), (2, 20)], "seen")
        expect_error(one, "SELECT * FROM last", "TABLE_REPLACED")
    made_anew(place, commits=1)
    assert_rows(connect().execute("SELECT * FROM apart").fetchall(), [(7,)], "apart")


@pytest.mark.slow
def test_a_table_that_is_gone_and_one_from_a_copy(connect: Connect, tmp_path: Path) -> None:
    """An empty place is said to be one; the same table put back is the table."""
    con = connect()
    place = attached(con, tmp_path)
    copy = shutil.copytree(place.path, tmp_path / "copy")
    write(place, (3, 30))
    assert con.execute("SELECT count(*) FROM seen").fetchone() == (3,)
    newer = shutil.copytree(place.path, tmp_path / "newer")
    remove(place)
    expect_error(con, "SELECT * FROM seen", "NOT_A_DELTA_TABLE")
    assert_rows(con.execute("SELECT * FROM apart").fetchall(), [(7,)], "apart")
    shutil.copytree(copy, place.path)
    expect_error(con, "SELECT * FROM seen", "TABLE_REPLACED")
    remove(place)
    shutil.copytree(newer, place.path)
    assert con.execute("SELECT count(*) FROM seen").fetchone() == (3,)
    write(place, (4, 40))
    assert con.execute("SELECT count(*) FROM copied").fetchone() == (4,)


def test_a_catalog_without_ids(connect: Connect, tmp_path: Path) -> None:
    """Of tables that were not seen yet the ids are remembered from the next start on."""
    con = connect()
    place = attached(con, tmp_path)
    engine = engine_of(con)
    known = {i.id: i.storage.table_id for i in engine.catalog if i.storage}
    assert all(known.values())

    def unseen(item: Item) -> Item:
        storage = item.storage
        return item if storage is None else replace(item, storage=replace(storage, table_id=None))

    engine.catalog_store.change(lambda c: c.with_items(map(unseen, c)))
    after = connect()
    assert by_ctsql(after, "SELECT count(*) FROM seen") == {(2,): 1}
    assert {i.id: i.storage.table_id for i in engine_of(after).catalog if i.storage} == known
    made_anew(place, commits=1)
    _refused(connect())
