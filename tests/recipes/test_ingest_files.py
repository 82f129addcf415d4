"""examples/ingest_files.py: each row of each file is in the table once."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

from ctsql.api import Connection
from examples.ingest_files import follow
from tests.helpers.ingesting import run_killed

pytestmark = pytest.mark.spark

ROWS_OF_FILE = 3


class Folder:
    """A folder of files, a checkpoint, and the arguments that name them."""

    def __init__(self, warehouse: Path, place: Path) -> None:
        self.place, self.folder, self.checkpoint = place, place / "in", place / "checkpoint"
        self.folder.mkdir()
        self.arguments = ("-w", warehouse, self.folder, self.checkpoint)

    def load(self, con: Connection) -> None:
        """Load what is there, in this process."""
        self.follow(con, once=True).awaitTermination()

    def follow(self, con: Connection, *, once: bool = False) -> StreamingQuery:
        """Begin to load."""
        return follow(con, str(self.folder), str(self.checkpoint), once=once)

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
    run_killed("ingest_files", *files.arguments, fault="source_committed")
    assert _loaded(con) == dict.fromkeys((1, 2), ROWS_OF_FILE)
    files.put(3)
    files.load(con)
    assert _loaded(con) == dict.fromkeys((1, 2, 3), ROWS_OF_FILE)
    con.execute("DELETE FROM deliveries WHERE item = 1")
    shutil.rmtree(files.checkpoint)
    files.put(4)
    files.load(con)
    assert _loaded(con) == dict.fromkeys((2, 3, 4), ROWS_OF_FILE), "what was deleted stays deleted"


def test_a_file_with_columns_in_another_order(con: Connection, files: Folder) -> None:
    """It stops the query: values are not stored in the columns of others."""
    files.put(1)
    files.load(con)
    (files.folder / "2.csv").write_text("pieces,item\n7,2\n")
    with pytest.raises(StreamingQueryException, match="header"):
        files.load(con)
    assert _loaded(con) == {1: ROWS_OF_FILE}


def test_beside_inserts(connect: Callable[[], Connection], files: Folder) -> None:
    """Rows that others insert meanwhile are kept, and so is each row of each file."""
    con, items = connect(), range(6)
    files.put(0)
    query = files.follow(connect())
    query.processAllAvailable()
    for item in items[1:]:
        files.put(item)
        con.execute(f"INSERT INTO deliveries VALUES ({100 + item}, 0, NULL)")
    query.processAllAvailable()
    query.stop()
    assert _loaded(con) == dict.fromkeys(items, ROWS_OF_FILE) | {100 + i: 1 for i in items[1:]}
