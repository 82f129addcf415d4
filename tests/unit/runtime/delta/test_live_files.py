"""The live files of a table at any version, whatever this process still has in memory."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ctsql.runtime.delta.log import log_files
from ctsql.runtime.delta.table import DeltaTable

STATS = json.dumps({"numRecords": 5, "minValues": {f"column_{i}": i for i in range(20)}})


def _action(path: str) -> dict[str, Any]:
    return {"path": path, "size": 9, "partitionValues": {}, "dataChange": True, "stats": STATS}


def _log(folder: Path, changes: int, files: int) -> list[set[str]]:
    """A log that adds and removes some files a commit, by chance; the live files by version."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    draw, live, found = random.Random(folder.name), list[str](), list[set[str]]()
    for version in range(changes):
        lines = [{"commitInfo": {"operation": "WRITE"}}]
        if version == 0:
            lines.append({"metaData": {"id": "x", "schemaString": "{}"}})
        for path in draw.sample(live, draw.randrange(len(live) // 2 + 1)):
            live.remove(path)
            lines.append({"remove": {"path": path, "dataChange": True}})
        for n in range(files):
            live.append(f"part-{version}-{n}.parquet")
            lines.append({"add": _action(live[-1])})
        (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, lines)))
        state = {"allFiles": [_action(path) for path in live], "numFiles": len(live)}
        (log / f"{version:020d}.crc").write_text(json.dumps(state))
        found.append(set(live))
    return found


def _table(folder: Path) -> DeltaTable:
    """A table whose log alone is read: no JVM."""
    return DeltaTable(None, str(folder))  # type: ignore[arg-type]


@pytest.fixture(params=["1", "64"])
def megabytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """What the process keeps: too little for all lists here, or enough."""
    monkeypatch.setenv("CTSQL_LOG_CACHE_MB", request.param)
    log_files.log_cache.cache_clear()
    yield int(request.param)
    log_files.log_cache.cache_clear()


def test_files_of_several_tables_at_any_version(tmp_path: Path, megabytes: int) -> None:
    """Asked for forward, back and by chance; all lists together are within the bound."""
    wanted = {name: _log(tmp_path / name, 40, 25) for name in "ab"}
    tables = {name: _table(tmp_path / name) for name in wanted}
    forward = [(name, version) for version in range(40) for name in wanted]
    by_chance = random.Random(1).sample(forward, len(forward))
    for name, version in [*forward, *reversed(forward), *by_chance]:
        files = tables[name].files(version)
        assert files.keys() == wanted[name][version], (name, version)
        assert all(file.statistics == STATS for file in files.values())
    assert log_files.log_cache().bytes_kept <= megabytes * 1024 * 1024
