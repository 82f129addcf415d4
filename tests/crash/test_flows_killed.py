"""CREATE FLOW and DROP FLOW while processes are killed: each row is appended once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection
from tests.helpers.processes import race, run_killed
from tests.scenarios.runner import assert_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SET_UP = """
    CREATE TABLE a (k INT);
    CREATE TABLE b (k INT);
    INSERT INTO a VALUES (1), (1);
    INSERT INTO b VALUES (10), (11);
    CREATE STREAMING TABLE x AS SELECT k FROM STREAM a;
"""
FLOW = "CREATE FLOW IF NOT EXISTS {} AS INSERT INTO x BY NAME SELECT k + {} AS k FROM STREAM b"


@pytest.mark.parametrize(
    "point", ["catalog_committed", "timeline_committed", "output_staged", "output_committed"]
)
def test_killed_at(point: str, warehouse: Path, connect: Callable[[], Connection]) -> None:
    """What was there comes in once, whether the flow was in force by then or is created again."""
    con = connect()
    con.execute(SET_UP)
    con.close()
    run_killed(warehouse, [FLOW.format("f", 0)], point)
    con = connect()
    con.execute("INSERT INTO b VALUES (12); INSERT INTO a VALUES (2)")
    con.execute(FLOW.format("f", 0))
    con.execute("INSERT INTO b VALUES (13)")
    wanted = [(1,), (1,), (2,), (10,), (11,), (12,), (13,)]
    assert_rows(con.execute("SELECT * FROM x").fetchall(), wanted, point)
    con.execute("DROP FLOW f; INSERT INTO b VALUES (14); INSERT INTO a VALUES (3)")
    assert_rows(con.execute("SELECT * FROM x").fetchall(), [*wanted, (3,)], "without the flow")


def test_two_add_flows_at_once(warehouse: Path, connect: Callable[[], Connection]) -> None:
    """Both are there afterwards, and neither has taken a row in twice."""
    con = connect()
    con.execute(SET_UP)
    race(warehouse, [[FLOW.format(f"f{n}", n * 100)] for n in (1, 2)])
    con.execute("INSERT INTO b VALUES (12)")
    wanted = [(1,), (1,), *((k + n,) for k in (10, 11, 12) for n in (100, 200))]
    assert_rows(con.execute("SELECT * FROM x").fetchall(), wanted, "both flows")


@pytest.mark.parametrize("point", ["catalog_committed", "timeline_committed"])
def test_a_drop_is_killed(point: str, warehouse: Path, connect: Callable[[], Connection]) -> None:
    """The flow goes on until the drop is in force, and can be dropped again until then."""
    con = connect()
    con.execute(SET_UP)
    con.execute(FLOW.format("f", 0))
    con.close()
    run_killed(warehouse, ["DROP FLOW f"], point)
    con = connect()
    con.execute("INSERT INTO b VALUES (12)")
    wanted = [(1,), (1,), (10,), (11,)]
    if point == "catalog_committed":
        wanted.append((12,))
        assert_rows(con.execute("SELECT * FROM x").fetchall(), wanted, "not dropped")
        con.execute("DROP FLOW f; INSERT INTO b VALUES (13)")
    assert_rows(con.execute("SELECT * FROM x").fetchall(), wanted, "dropped")
