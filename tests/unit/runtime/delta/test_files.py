"""The files in a table's folder, as they are told from those of others."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ctsql.runtime.delta.files import stored_files
from ctsql.runtime.maintenance.retention import removable

COPY = "txn-" + 32 * "a"
OWN = {"a.parquet", "p=1/b.parquet", "_change_data/c.parquet"}
OF_COPY = {
    f"{COPY}/d.parquet",
    f"{COPY}/_delta_log/0.json",
    f"{COPY}/_delta_log/.0.json.crc",
    f"{COPY}/_change_data/e.parquet",
}
OF_OTHERS = {
    "_delta_log/0.json",
    "_state/ff/f.parquet",
    "nested/_delta_log/0.json",
    "nested/g.parquet",
    "txn-mine/_delta_log/0.json",
    "txn-mine/h.parquet",
    "metadata/i.avro",
    ".hidden/j.parquet",
}


def _listed(folder: Path) -> list[Any]:
    for name in OWN | OF_COPY | OF_OTHERS:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    table: Any = SimpleNamespace(gateway=None, location=str(folder))
    return stored_files(table)


def test_whose_files_are_listed(tmp_path: Path) -> None:
    """Those of a table within another one are not; a copy for a transaction is no such table."""
    assert {file.path for file in _listed(tmp_path)} == OWN | OF_COPY


def test_what_a_killed_transaction_left_goes_once_it_is_old(tmp_path: Path) -> None:
    """But for the files that the table took over before the kill."""
    taken = f"{COPY}/d.parquet"
    listed = _listed(tmp_path)
    newest = max(file.modified_ms for file in listed)
    needed = OWN | {taken}
    assert removable(listed, needed, set(), unnamed_before_ms=0) == []
    gone = removable(listed, needed, set(), unnamed_before_ms=newest + 1)
    assert {file.path for file in gone} == OF_COPY - {taken}
