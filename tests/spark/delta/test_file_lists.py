"""Which files a table has, by few calls: the same as Delta says."""

import json
from pathlib import Path
from typing import Any

import pytest

from ctsql.api import Connection
from ctsql.runtime.delta.log.log_files import LogFiles
from ctsql.runtime.delta.stores.log_stores import LocalStore
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.log.actions import DataFile
from tests.helpers.opened import table_of, write_checkpoint

TABLES = """
CREATE TABLE a (k BIGINT, s STRING, d DATE, n STRUCT<x: INT, y: ARRAY<STRING>>);
INSERT INTO a SELECT id, concat('line\u2028sep ', id), DATE'2026-01-01', (1, array('q', NULL))
FROM range(0, 100, 1, 3);
DELETE FROM a WHERE k % 7 = 0;
UPDATE a SET s = 'é"\\\\' WHERE k = 5;
"""


def _by_delta(table: DeltaTable) -> dict[str, object]:
    table.handle.log.update(False, table.gateway.none, table.gateway.none)
    adds = table.snapshot_in_jvm(table.version()).allFiles().collectAsList()
    return {file.path: _plain(file) for file in (DataFile(add.json()) for add in adds)}


def _plain(file: DataFile) -> object:
    """What a file is like; of a commit's own action Delta's state says no change of data."""
    action = json.loads(file.line)["add"]
    action["stats"] = json.loads(action["stats"])
    return {name: value for name, value in action.items() if name != "dataChange" and value != {}}


def _partitioned(con: Connection, warehouse: Path) -> None:
    """A table of another writer, with partitions whose values have to be escaped."""
    place = str(warehouse.parent / "of_others")
    rows = con.spark.sql("SELECT id AS k, concat('a/b=', id % 3, ' ü') AS p FROM range(30)")
    rows.write.format("delta").partitionBy("p").save(place)
    con.spark.sql(f"DELETE FROM delta.`{place}` WHERE k = 4")
    con.execute(f"CREATE TABLE b USING DELTA LOCATION '{place}'")


def test_files_of_a_checkpoint(con: Connection, warehouse: Path) -> None:
    """With deletion vectors, partitions, and commits behind it, at each version."""
    con.execute(TABLES)
    _partitioned(con, warehouse)
    for name in ("a", "b"):
        _check_checkpoint(con, name)


def _check_checkpoint(con: Connection, name: str) -> None:
    table = table_of(con, name)
    con.execute(f"INSERT INTO {name} SELECT * FROM {name} WHERE k = 1")
    made = write_checkpoint(table)
    con.execute(f"DELETE FROM {name} WHERE k = 8")
    log = Path(table.location.removeprefix("file:")) / "_delta_log"
    for crc in log.glob("*.crc"):
        crc.unlink()  # which list the files of small tables
    found = table.log_files.files_at(table.version())
    assert {path: _plain(file) for path, file in found.items()} == _by_delta(table)
    assert any(file.deleted_count for file in found.values()) is (name == "a")
    for version in range(made):
        (log / f"{version:020d}.json").unlink()
    assert table.log_files.files_at(table.version()).keys() == found.keys()
    state = LogFiles(table.location, LocalStore(log)).newest()
    assert state is not None
    assert (state.table_id, state.domains()) == (table.table_id, table.domains()[1])


def test_lists_hold_what_delta_reads_one_by_one(
    con: Connection, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With deletion vectors, partitions, tags and statistics."""
    monkeypatch.setattr("ctsql.runtime.delta.internals.jvm.FILES_A_CALL", 2)
    con.execute(TABLES)
    _partitioned(con, warehouse)
    for name in ("a", "b"):
        table = table_of(con, name)
        files = list(table.files(table.version()).values())
        assert len(files) > 2
        made = table.gateway.file_list(files)
        assert made.equals(_one_by_one(table, files))


def _one_by_one(table: DeltaTable, files: list[DataFile]) -> Any:
    adds = table.gateway.jvm.java.util.ArrayList()
    for file in files:
        adds.add(table.gateway.parse_action(file.line))
    return adds
