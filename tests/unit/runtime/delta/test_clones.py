"""Which rows of a table its copy says are gone."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from pyroaring import BitMap64

from ctsql.runtime.delta import clones
from ctsql.runtime.delta.transaction import whole_file
from ctsql.runtime.log.data_files import DataFile


def _file(path: str, stats: str | None) -> DataFile:
    action = {"path": path, "size": 9, "partitionValues": {}, "dataChange": True}
    return DataFile(json.dumps({"add": action | ({} if stats is None else {"stats": stats})}))


@pytest.mark.parametrize(("stats", "by_spark"), [('{"numRecords": 2}', False), (None, True)])
def test_rows_of_a_file_that_goes_as_a_whole(
    stats: str | None, by_spark: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One without statistics does not say how many they are: then the file is read."""
    stored = {f.path: f for f in (_file("a.parquet", '{"numRecords": 3}'), _file("b", stats))}
    copy: Any = clones.Clone.__new__(clones.Clone)
    copy.version, copy.numbers_rows = 7, False
    copy.origin = SimpleNamespace(
        files=lambda _: stored, vectors=SimpleNamespace(deleted_rows=lambda _: BitMap64())
    )
    copy.gateway = SimpleNamespace(session=None)
    monkeypatch.setattr(
        copy.__class__, "changes", lambda _: ((), [*map(whole_file, stored.values())])
    )
    monkeypatch.setattr(
        clones, "row_locations", lambda _, gone: [(p, list(rows)) for p, rows in gone]
    )
    monkeypatch.setattr(clones, "_places", lambda _, files, version: ([*files], version))
    found = copy.victims()
    if by_spark:
        assert found == ([*stored.values()], 7)
    else:
        assert found == [("a.parquet", [0, 1, 2]), ("b", [0, 1])]
