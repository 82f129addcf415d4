"""The catalog of a process that slept while others changed it, and its log was cut."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.runtime.delta.log.log_files import LogFiles, commit_name
from ctsql.runtime.delta.log.table_log import LOOKS_APART_MS, TableLog
from ctsql.runtime.delta.stores.log_stores import LocalStore
from ctsql.runtime.log import clock
from ctsql.runtime.warehouse.stores.catalog_store import (
    FORMAT,
    FORMAT_PROPERTY,
    SCHEMA,
    DeltaCatalog,
)

METADATA = {
    "id": "one",
    "schemaString": '{"type": "struct", "fields": []}',
    "configuration": {FORMAT_PROPERTY: str(FORMAT)},
}
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}


class _Table(TableLog):
    """The catalog's log, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._files = folder
        super().__init__("s3a://bucket/catalog")

    def _open_log(self) -> LogFiles:
        return LogFiles(self.location, LocalStore(self._files))

    def begin(self) -> None:
        """Nothing is committed."""


def _commit(folder: Path, version: int) -> None:
    """One that makes another schema."""
    made = [
        {"domain": f"{SCHEMA}s{n}", "configuration": f"s{n}", "removed": False}
        for n in range(1, version + 1)
    ]
    lines: list[dict[str, Any]] = [{"commitInfo": {"inCommitTimestamp": version}}]
    lines += [{"domainMetadata": domain} for domain in made[-1:]]
    (folder / commit_name(version)).write_text("\n".join(map(json.dumps, lines)))
    state = {"metadata": METADATA, "protocol": PROTOCOL, "setTransactions": []}
    told = json.dumps({**state, "domainMetadata": made, "numFiles": 0})
    (folder / f"{version:020d}.crc").write_text(told)


@pytest.mark.parametrize("cut", [0, 6])
def test_the_newest_catalog_after_a_sleep(
    tmp_path: Path, cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit that follows the one it knows may be gone."""
    hands = SimpleNamespace(now=1_000_000)
    monkeypatch.setattr(clock, "now_ms", lambda: hands.now)
    for version in range(3):
        _commit(tmp_path, version)
    gateway: Any = SimpleNamespace(table=lambda _: _Table(tmp_path))
    store = DeltaCatalog(gateway, "", "")
    assert {"s1", "s2"} < {*store.load().schemas}
    for version in range(3, 9):
        _commit(tmp_path, version)
    for version in range(cut):
        for path in tmp_path.glob(f"{version:020d}.*"):
            path.unlink()
    hands.now += LOOKS_APART_MS
    assert "s8" in store.load().schemas
