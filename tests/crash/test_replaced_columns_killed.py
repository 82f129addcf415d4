"""CREATE OR REPLACE by other columns while processes are killed, replace too, or refresh."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest

from ctsql.api import Connection
from tests.helpers.processes import finish_program, race, run_killed, start_program
from tests.helpers.table_folder import folder, log, orphans, transaction
from tests.scenarios.runner import assert_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TABLE = "CREATE TABLE t (k INT, v INT); INSERT INTO t VALUES (1, 10), (1, 5), (2, 20);"
OLD = "SELECT k, sum(v) AS s FROM t GROUP BY k"
NEW = "SELECT CAST(k AS STRING) AS name, count(*) AS n, k FROM t GROUP BY k"
OTHER = "SELECT v FROM t"
REPLACE = "CREATE OR REPLACE MATERIALIZED VIEW m AS "
ROUNDS = 4
SERVICE = "from ctsql.cli.main import main; main()"
SECONDS_TO_START = 15


def _columns(commit: list[dict[str, dict[str, str]]]) -> list[str] | None:
    """The columns that a commit gives its table."""
    for action in commit:
        if "metaData" in action:
            return [f["name"] for f in json.loads(action["metaData"]["schemaString"])["fields"]]
    return None


def _check_log(table: Path) -> None:
    """Each T is written once, in order; no commit holds files of other columns than the table."""
    commits = log(table)
    uppers = [u for c in commits if (u := transaction(c)) is not None]
    assert uppers == sorted(set(uppers))
    live: set[str] = set()
    names = _columns(commits[0])
    for number, commit in enumerate(commits):
        removed = {a["remove"]["path"] for a in commit if "remove" in a}
        added = {a["add"]["path"] for a in commit if "add" in a}
        if number and _columns(commit):
            assert removed == live
            assert transaction(commit) is not None
            names = _columns(commit)
        for path in added - removed:
            assert pq.read_schema(table / unquote(path)).names == names, number
        live = (live - removed) | added


def _names(con: Connection, table: Path) -> list[str]:
    return con.spark.read.format("delta").load(str(table)).columns


@pytest.mark.parametrize(
    "point",
    [
        "cutover_stored",
        "cutover_bound",
        "catalog_committed:2",
        "output_staged",
        "mv_advanced_upper",
        "output_committed:5",
    ],
)
def test_killed_at(point: str, warehouse: Path, connect: Callable[[], Connection]) -> None:
    """The old contents with the old columns, or the new with the new; the next process finishes."""
    first = connect()
    first.execute(TABLE + f"CREATE MATERIALIZED VIEW m AS {OLD}")
    table = folder(first, "m")
    first.close()
    run_killed(warehouse, [REPLACE + NEW], point)
    con = connect()
    held = [tuple(row) for row in con.spark.read.format("delta").load(str(table)).collect()]
    replaced = [("1", 2, 1), ("2", 1, 2)]
    if _names(con, table) == ["k", "s"]:
        assert_rows(held, [(1, 15), (2, 20)], "as it was")
    else:
        assert_rows(held, replaced, "as it is to be")
    if point == "cutover_stored":
        assert con.execute("SELECT s FROM m WHERE k = 1").fetchall() == [(15,)]
        con.execute(REPLACE + NEW)
    assert_rows(con.execute("SELECT * FROM m").fetchall(), replaced, "finished")
    assert _names(con, table) == ["name", "n", "k"]
    con.execute("INSERT INTO t VALUES (3, 3)")
    assert_rows(con.execute("SELECT * FROM m").fetchall(), [*replaced, ("3", 1, 3)], "it goes on")
    _check_log(table)
    if point not in ("output_staged", "mv_advanced_upper"):  # staged files wait for the cleaning
        assert not orphans(table)


def test_two_replace_at_once(warehouse: Path, connect: Callable[[], Connection]) -> None:
    """One of the definitions is in force, and the table is what it says."""
    con = connect()
    con.execute(TABLE + f"CREATE MATERIALIZED VIEW m AS {OLD}")
    scripts = [[REPLACE + query, "SELECT count(*) FROM m"] * ROUNDS for query in (NEW, OTHER)]
    race(warehouse, scripts)
    text = str(con.execute("SHOW CREATE m").fetchall())
    expected, names = ([("1", 2, 1), ("2", 1, 2)], ["name", "n", "k"])
    if OTHER in text:
        expected, names = ([(10,), (5,), (20,)], ["v"])
    table = folder(con, "m")
    assert_rows(con.execute("SELECT * FROM m").fetchall(), expected, text)
    assert _names(con, table) == names
    _check_log(table)
    assert not orphans(table)


def test_a_service_refreshes_meanwhile(warehouse: Path, connect: Callable[[], Connection]) -> None:
    """What brings the view up by the definition that it knows never spoils the one in force."""
    con = connect()
    con.execute(TABLE + f"CREATE MATERIALIZED VIEW m AS {OLD}")
    service = start_program(
        SERVICE, "-w", str(warehouse), "--master", "local[1]", "run", "--interval", "0.01"
    )
    time.sleep(SECONDS_TO_START)
    for number in range(ROUNDS):
        for query in (NEW, OTHER, OLD):
            con.execute(f"INSERT INTO t VALUES ({number}, 1)")
            con.execute(REPLACE + query)
            con.execute(f"INSERT INTO t VALUES ({number}, 2)")
            held = con.execute("SELECT * FROM m").fetchall()
            assert_rows(held, con.execute(query).fetchall(), query)
    assert service.poll() is None
    service.send_signal(signal.SIGTERM)
    said = finish_program(service)
    assert "Traceback" not in said
    commits = [a["commitInfo"]["userMetadata"] for a, *_ in log(folder(con, "m"))[1:]]
    assert len({json.loads(told)["writer"] for told in commits}) == 2, "both wrote"
    _check_log(folder(con, "m"))
    assert con.execute("VERIFY m").fetchall() == []
    assert not orphans(folder(con, "m"))
