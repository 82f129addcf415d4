"""examples/ingest_files.py: each row of each file is in the table once."""

import shutil
import time
from pathlib import Path

import pytest

from ctsql.api import Connection
from tests.helpers.ingesting import kill, run, run_killed, start

pytestmark = pytest.mark.spark

EXAMPLE = "ingest_files"
ROWS_OF_FILE = 3
SECONDS_MAX = 120
"""For what a program that follows the folder is to have loaded."""


class Folder:
    """A folder of files, a checkpoint, and the arguments that name them."""

    def __init__(self, warehouse: Path, place: Path) -> None:
        self.place, self.folder, self.checkpoint = place, place / "in", place / "checkpoint"
        self.folder.mkdir()
        self.arguments = ("-w", warehouse, self.folder, self.checkpoint)

    def put(self, item: int) -> None:
        """A file whose rows have that item."""
        made = self.place / f"{item}.csv"
        rows = "".join(f"{item},{n}\n" for n in range(ROWS_OF_FILE))
        made.write_text(f"item,pieces\n{rows}")
        made.rename(self.folder / made.name)


@pytest.fixture
def files(warehouse: Path, tmp_path: Path) -> Folder:
    return Folder(warehouse, tmp_path)


def _loaded(con: Connection) -> dict[int, int]:
    """How many rows each item has."""
    rows = con.execute("SELECT item, count(*) FROM deliveries GROUP BY item").fetchall()
    return {int(item): int(count) for item, count in rows}


def test_killed_and_without_its_checkpoint(con: Connection, files: Folder) -> None:
    """Killed after a commit that the checkpoint does not know, and started without a checkpoint."""
    files.put(1)
    files.put(2)
    run_killed(EXAMPLE, *files.arguments, fault="source_committed")
    assert _loaded(con) == dict.fromkeys((1, 2), ROWS_OF_FILE)
    files.put(3)
    run(EXAMPLE, *files.arguments)
    assert _loaded(con) == dict.fromkeys((1, 2, 3), ROWS_OF_FILE)
    con.execute("DELETE FROM deliveries WHERE item = 1")
    shutil.rmtree(files.checkpoint)
    files.put(4)
    run(EXAMPLE, *files.arguments)
    assert _loaded(con) == dict.fromkeys((2, 3, 4), ROWS_OF_FILE), "what was deleted stays deleted"


def test_a_file_with_columns_in_another_order(con: Connection, files: Folder) -> None:
    """It stops the query: values are not stored in the columns of others."""
    files.put(1)
    run(EXAMPLE, *files.arguments)
    (files.folder / "2.csv").write_text("pieces,item\n7,2\n")
    with pytest.raises(AssertionError, match="header"):
        run(EXAMPLE, *files.arguments)
    assert _loaded(con) == {1: ROWS_OF_FILE}


def test_beside_inserts(con: Connection, files: Folder) -> None:
    """Rows that others insert meanwhile are kept, and so is each row of each file."""
    items = range(1, 6)
    files.put(0)
    run(EXAMPLE, *files.arguments)
    process = start(EXAMPLE, *files.arguments)
    for item in items:
        files.put(item)
        con.execute(f"INSERT INTO deliveries VALUES ({100 + item}, 0, NULL)")
    wanted = dict.fromkeys((0, *items), ROWS_OF_FILE) | {100 + item: 1 for item in items}
    until = time.monotonic() + SECONDS_MAX
    while (loaded := _loaded(con)) != wanted and time.monotonic() < until:
        con.execute("INSERT INTO deliveries VALUES (100, 0, NULL)")
        wanted[100] = wanted.get(100, 0) + 1
        assert process.poll() is None, process.communicate()
        time.sleep(0.2)
    kill(process)
    assert loaded == wanted
