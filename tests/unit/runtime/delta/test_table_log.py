"""A process that slept while a log went on and lost its oldest commits: of a table, the catalog."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.runtime.delta.log.log_files import LogFiles, commit_name
from ctsql.runtime.delta.log.table_log import LOOKS_APART_MS, LogWatch, TableLog
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


class RemoteTable(TableLog):
    """A table in a store where each question is a round trip; the files are in a folder."""

    def __init__(self, folder: Path) -> None:
        self._files = folder
        super().__init__("s3a://bucket/t")

    def _open_log(self) -> LogFiles:
        return LogFiles(self.location, LocalStore(self._files))

    def begin(self) -> None:
        """Nothing is committed."""


def _commit(folder: Path, versions: Sequence[int]) -> None:
    """Commits, each of which makes another schema in the catalog."""
    for version in versions:
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


def _clean(folder: Path, *, below: int) -> None:
    for version in range(below):
        for path in folder.glob(f"{version:020d}.*"):
            path.unlink()


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that stands."""
    found = SimpleNamespace(now=1_000_000)
    monkeypatch.setattr(clock, "now_ms", lambda: found.now)
    return found


@pytest.mark.parametrize("slept", [LOOKS_APART_MS, 90 * LOOKS_APART_MS])
def test_the_newest_version_after_a_sleep(
    tmp_path: Path, hands: SimpleNamespace, slept: int
) -> None:
    """A commit onto the version from before would take the place of one that was cleaned up."""
    _commit(tmp_path, range(3))
    table, watch = RemoteTable(tmp_path), LogWatch()
    known: Any = table
    watch.note(known, table.version())
    assert not watch.has_new_version([known])
    _commit(tmp_path, range(3, 9))
    _clean(tmp_path, below=6)
    hands.now += slept
    assert watch.has_new_version([known])
    assert table.version() == 8
    watch.note(known, 8)
    assert not watch.has_new_version([known])


@pytest.mark.parametrize("cut", [0, 6])
def test_the_newest_catalog_after_a_sleep(tmp_path: Path, hands: SimpleNamespace, cut: int) -> None:
    """The commit that follows the one it knows may be gone."""
    _commit(tmp_path, range(3))
    gateway: Any = SimpleNamespace(table=lambda _: RemoteTable(tmp_path))
    store = DeltaCatalog(gateway, "", "")
    assert {"s1", "s2"} < {*store.load().schemas}
    _commit(tmp_path, range(3, 9))
    _clean(tmp_path, below=cut)
    hands.now += LOOKS_APART_MS
    assert "s8" in store.load().schemas


def test_between_looks_that_are_near_no_round_trip_is_made(
    tmp_path: Path, hands: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the newest commit is still the same file is asked after a pause only."""
    _commit(tmp_path, [0])
    table = RemoteTable(tmp_path)
    asked: list[int] = []
    mark = table.log_files.mark
    monkeypatch.setattr(table.log_files, "mark", lambda v: (asked.append(v), mark(v))[1])
    table.version()
    asked.clear()
    for _ in range(5):
        hands.now += LOOKS_APART_MS - 1
        table.version()
    assert asked == []
