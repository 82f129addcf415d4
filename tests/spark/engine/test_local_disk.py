"""Files on a local disk: their modes, how many there are, and what is noticed of damage."""

import os
from pathlib import Path
from typing import Any

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError

UPSERT = """
CREATE CONTINUAL TASK latest (k BIGINT, v BIGINT) ON INPUT feed AS (
    DELETE FROM latest WHERE k IN (SELECT k FROM feed);
    INSERT INTO latest SELECT k, max(v) FROM feed GROUP BY k;
)
"""
FILES_MAX = 9
"""A tick's: two of each of three logs, two of rows, and which rows are deleted."""


def _local(con: Connection) -> tuple[Any, Any]:
    jvm: Any = con.spark._jvm
    hadoop = jvm.org.apache.hadoop.fs
    configured = con.spark.sparkContext._jsc.hadoopConfiguration()
    return hadoop, hadoop.FileSystem.getLocal(configured)


def test_what_spark_writes(con: Connection, tmp_path: Path) -> None:
    """New files have the mode of the process's umask, and none of checksums is written."""
    con.spark.range(3).coalesce(1).write.parquet(str(tmp_path / "written"))
    files = [tmp_path / "written" / name for name in os.listdir(tmp_path / "written")]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o644}
    assert not any(file.name.endswith(".parquet.crc") for file in files)


@pytest.mark.parametrize("by", ["writing", "renaming"])
def test_checksums_of_others(con: Connection, tmp_path: Path, by: str) -> None:
    """What replaces a file of a writer with checksums is not compared with those."""
    hadoop, local = _local(con)
    file, new = tmp_path / "last", tmp_path / "new"

    def write(path: Path, text: str) -> None:
        out = local.create(hadoop.Path(str(path)), True)
        out.write(text.encode())
        out.close()

    local.setWriteChecksum(True)
    write(file, "before")
    local.setWriteChecksum(False)
    assert (tmp_path / ".last.crc").exists()
    if by == "writing":
        write(file, "after")
    else:
        write(new, "after")
        file.unlink()  # Spark's file system renames to no file that is there
        assert local.rename(hadoop.Path(str(new)), hadoop.Path(str(file)))
    read = con.spark.read.text(str(file)).collect()
    assert [row.value for row in read] == ["after"]


def test_files_of_a_tick(con: Connection, warehouse: Path) -> None:
    """A commit of ten rows and the task's commit leave no file that only this disk needs."""
    con.execute("CREATE TABLE feed (k BIGINT, v BIGINT)")
    con.execute("INSERT INTO feed SELECT id, id FROM range(1000)")
    con.execute(UPSERT)
    con.run(once=True)
    before = {path for path in warehouse.rglob("*") if path.is_file()}
    con.execute("INSERT INTO feed VALUES " + ", ".join(f"({7 * n}, {n})" for n in range(10)))
    con.run(once=True)
    made = [path for path in warehouse.rglob("*") if path.is_file() and path not in before]
    assert len(made) <= FILES_MAX, made
    assert con.execute("SELECT count(*), max(v) FROM latest").fetchall() == [(1000, 999)]


@pytest.mark.parametrize("read", ["SELECT max(v) FROM t", "UPDATE t SET v = upper(v)"])
def test_a_damaged_page(con: Connection, warehouse: Path, read: str) -> None:
    """A page that is not what was written is noticed by a query and by a statement."""
    con.execute("CREATE TABLE t (k BIGINT, v STRING)")
    con.execute("INSERT INTO t SELECT id, concat('text ', id) FROM range(0, 100000, 1, 1)")
    (file,) = warehouse.rglob("default/t-*/*.parquet")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)
    with pytest.raises(CtsqlError, match=file.name) as raised:
        con.execute(read).fetchall()
    assert raised.value.condition == "STORED_DATA_INVALID"
