"""Files come into a table once, wherever the process that takes them in is killed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection
from tests.helpers.processes import Process, race, run_killed
from tests.helpers.table_folder import folder, log, transaction

pytestmark = pytest.mark.spark


@pytest.fixture
def inbox(tmp_path: Path, connect: Callable[[], Connection]) -> Path:
    """A folder whose files come into the table t; two have, two are there."""
    made = tmp_path / "in"
    made.mkdir()
    (made / "0.csv").write_text("k\n0\n")
    con = connect()
    con.execute(f"CREATE TABLE t (k INT) FROM FILES '{made}/*.csv'")
    con.close()
    for k in (1, 2):
        (made / f"{k}.csv").write_text(f"k\n{k}\n")
    return made


def _check(con: Connection, expected: list[int]) -> None:
    assert sorted(con.execute("SELECT k FROM t").fetchall()) == [(k,) for k in expected]
    numbers = [n for commit in log(folder(con, "t")) if (n := transaction(commit)) is not None]
    assert numbers == list(range(1, len(numbers) + 1)), "each entry once, in order"


@pytest.mark.parametrize("point", ["files_planned", "output_staged", "files_loaded"])
def test_killed_at(
    point: str, inbox: Path, warehouse: Path, connect: Callable[[], Connection]
) -> None:
    """What it had begun is done by the next, with what came since; nothing is doubled or lost."""
    run_killed(warehouse, ["SELECT * FROM t"], point)
    (inbox / "3.csv").write_text("k\n3\n")
    if point == "files_planned":
        (inbox / "2.csv").unlink()  # it was not in, and is gone: it does not come in
    con = connect()
    wanted = [0, 1, 3] if point == "files_planned" else [0, 1, 2, 3]
    _check(con, wanted)
    _check(con, wanted)


def test_all_files_of_an_entry_are_gone(
    inbox: Path, warehouse: Path, connect: Callable[[], Connection]
) -> None:
    """The entry is ended without rows, and the next files come in."""
    process = Process(warehouse, ["SELECT * FROM t"], fault="files_planned")
    process.wait_ready()
    process.go()
    process.finish()
    for k in (1, 2):
        (inbox / f"{k}.csv").unlink()
    con = connect()
    _check(con, [0])
    (inbox / "3.csv").write_text("k\n3\n")
    _check(con, [0, 3])


def test_two_processes_at_once(
    inbox: Path, warehouse: Path, connect: Callable[[], Connection]
) -> None:
    """Each file is in once."""
    race(warehouse, [["SELECT * FROM t"] * 3] * 2)
    _check(connect(), [0, 1, 2])
