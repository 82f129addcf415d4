"""Files of a store that only Spark's connector reaches are read and written as others are."""

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ctsql.api import Connection, connect
from ctsql.runtime.delta.stores.connector_store import ConnectorStore
from tests.conftest import TEST_MASTER
from tests.helpers.opened import engine_of


@pytest.fixture
def store(con: Connection) -> ConnectorStore:
    """The local disk, as a store that is reached in the JVM."""
    con.start()
    found = engine_of(con).gateway.connector_store("file:/")
    assert isinstance(found, ConnectorStore)
    return found


def test_any_place_of_a_file_is_read(store: ConnectorStore, tmp_path: Path) -> None:
    """In any order, more than once, and not beyond its end; nothing is left behind."""
    rng = Random(7)
    data = rng.randbytes(1_000_000)
    file = tmp_path / "a b%20[1]"
    file.write_bytes(data)
    with store.open_input(str(file), len(data)) as opened:
        assert opened.size() == len(data)
        for _ in range(20):
            start, size = rng.randrange(len(data)), rng.choice([0, 1, 100, 300_000])
            opened.seek(start)
            assert opened.read(size) == data[start : start + size]
        opened.seek(0)
        assert opened.read() == data
        assert opened.read(1) == b""


def test_what_is_written_is_there_when_it_is_closed(store: ConnectorStore, tmp_path: Path) -> None:
    """With the folders around it; a file that is there is not written over."""
    path = str(tmp_path / "x" / "y.parquet")
    rows = pa.table({"a": range(1000), "b": [b"\xff" * 100] * 1000})
    with store.open_output(path) as opened:
        pq.write_table(rows, opened, compression="none")
        size = opened.tell()
    assert Path(path).stat().st_size == size
    assert pq.read_table(path).equals(rows)
    with pytest.raises(OSError, match="already exists"):
        store.open_output(path)


def test_what_the_connector_raises_is_an_os_error(store: ConnectorStore, tmp_path: Path) -> None:
    """A file that is missing, one that was cut off, and one that cannot be made."""
    with (
        store.open_input(str(tmp_path / "none"), 9) as missing,
        pytest.raises(OSError, match="FileNotFoundException"),
    ):
        missing.read(1)
    file = tmp_path / "cut"
    file.write_bytes(b"1" * 50)
    with (
        store.open_input(str(file), 100) as opened,
        pytest.raises(OSError, match="shorter than the table's log says"),
    ):
        opened.read(100)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="ot a directory"):
        store.open_output(str(tmp_path / "file" / "below"))


def test_a_file_is_not_asked_for_before_it_is_read(store: ConnectorStore) -> None:
    """Its size is known from the log; so no request is made that only asks for it."""
    with store.open_input("/nowhere/at/all", 7) as opened:
        assert opened.size() == 7
        opened.seek(7)
        assert opened.read() == b""


SET_UP = """
CREATE TABLE t (k BIGINT, s STRING);
CREATE CONTINUAL TASK copy ON INPUT t AS (INSERT INTO copy SELECT * FROM t);
CREATE MATERIALIZED VIEW v WITH (REFRESH POLICY = incremental) AS
  SELECT s, count(*) AS c, sum(k) AS n FROM t GROUP BY s;
INSERT INTO t SELECT id, chr(65 + id % 26) FROM range(1000);
REFRESH MATERIALIZED VIEW v
"""
CHANGES = (
    "INSERT INTO t VALUES (-1, 'new')",
    "UPDATE t SET s = 'B' WHERE k = 27",
    "DELETE FROM t WHERE k = 99",
)


def test_a_warehouse_behind_another_scheme(con: Connection, tmp_path: Path) -> None:
    """Its rows are those of one on a local disk, and its refreshes take as few jobs.

    A store may have no name: its locations are a scheme and a path. One change is made there.
    """
    con.start()
    hadoop = engine_of(con).session.sparkContext._jsc.hadoopConfiguration()
    for name in ("far", "default"):
        hadoop.set(f"fs.viewfs.mounttable.{name}.link.{tmp_path}", f"file://{tmp_path}")
    told = []
    for place in (str(tmp_path / "near"), f"viewfs://far{tmp_path}/far"):
        with connect(place, master=TEST_MASTER) as there:
            there.execute(SET_UP)
            jobs = []
            for change in CHANGES:
                there.execute(f"{change}; REFRESH MATERIALIZED VIEW v")
                jobs.append(there.commits("v")[-1].said["work"]["jobs"])
            rows = [sorted(there.execute(f"SELECT * FROM {n}").fetchall()) for n in ("copy", "v")]
            assert there.execute("VERIFY v").fetchall() == []
            told.append((rows, jobs))
    assert told[0] == told[1]
    with connect(f"viewfs:{tmp_path}/nameless", master=TEST_MASTER) as there:
        there.execute(f"{SET_UP}; {CHANGES[0]}; REFRESH MATERIALIZED VIEW v")
        assert there.execute("SELECT * FROM v WHERE s = 'new'").fetchall() == [("new", 1, -1)]
        assert there.execute("SELECT count(*) FROM copy").fetchall() == [(1001,)]
        assert there.execute("VERIFY v").fetchall() == []
