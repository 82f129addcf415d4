"""What is said of a log that lacks commits."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.delta.log import log_files
from ctsql.runtime.delta.log.local_log import LocalTable
from ctsql.runtime.delta.log.log_files import LogFiles
from ctsql.runtime.delta.stores.log_stores import LocalStore
from ctsql.runtime.log.actions import parse_commit

COMMIT = '{"commitInfo":{"timestamp":1}}'


def _log(folder: Path, *names: str) -> LogFiles:
    for name in names:
        (folder / name).write_text(COMMIT if name.endswith(".json") else "")
    return LogFiles(str(folder), LocalStore(folder))


def _commits(*versions: int) -> list[str]:
    return [f"{v:020d}.json" for v in versions]


@pytest.mark.parametrize(
    ("versions", "checkpoints", "missing"),
    [
        ([0, 1, 3], [], 2),
        ([0, 1, 2, 5, 6], [1], 3),
        ([2, 3, 5], [2], 4),
        ([0, 2, 3], [1], None),  # the state is that of the checkpoint
        ([4, 5, 6], [], None),  # nobody knows what was in front
        ([0, 1, 2], [], None),
        ([0, 1, 2], [9], None),
        ([0, 2], [9], 1),
        ([], [3], None),
    ],
)
def test_a_commit_that_is_missing(
    tmp_path: Path, versions: list[int], checkpoints: list[int], missing: int | None
) -> None:
    """It is named, unless a checkpoint stands for it."""
    made = [f"{v:020d}.checkpoint.parquet" for v in checkpoints]
    log = _log(tmp_path, *_commits(*versions), *made)
    if missing is None:
        log.check_whole()
        return
    looks: list[Callable[[], object]] = [log.check_whole]
    if max(checkpoints, default=-1) <= max(versions):
        looks.append(log.newest)  # which opens the log
    for look in looks:
        with pytest.raises(CtsqlError, match="STORED_DATA_INVALID") as raised:
            look()
        assert f"{missing:020d}.json: it is missing" in str(raised.value.detail)


def test_a_listing_that_left_out_a_commit(tmp_path: Path) -> None:
    """One that was committed while the folder was listed is not missing."""
    log = _log(tmp_path, *_commits(0, 1, 2))
    log.check_none_missing(_commits(0, 2), {0, 2})


CHECKSUM = json.dumps(
    {
        "setTransactions": [],
        "domainMetadata": [],
        "metadata": {"id": "x", "schemaString": "{}"},
        "protocol": {"minReaderVersion": 1},
    }
)


@pytest.mark.parametrize(
    ("versions", "seen", "read", "oldest"),
    [
        ([0, 1, 2], 2, False, None),
        ([0, 1, 2], 2, True, None),
        ([5, 6], 2, False, 5),
        ([5, 6], 2, True, 5),
        ([5, 6], 5, False, None),
        ([5, 6], 6, True, None),
    ],
)
def test_the_oldest_commit_behind_those_that_were_cleaned_up(
    tmp_path: Path, versions: list[int], seen: int, read: bool, oldest: int | None
) -> None:
    """Whether or not the log was read before."""
    folder = tmp_path / "_delta_log"
    folder.mkdir()
    _log(folder, *_commits(*versions))
    for version in versions:
        (folder / f"{version:020d}.crc").write_text(CHECKSUM)
    table = LocalTable(str(tmp_path))
    if read:
        table.update()
    assert table.oldest_kept_after(seen) == oldest


def test_files_by_commits_and_checksums(tmp_path: Path) -> None:
    """From the first commit on, or from the version's own checksum, if that lists them."""
    folder = tmp_path / "_delta_log"
    folder.mkdir()
    for version in range(8):
        added = {"path": f"f{version}", "size": 1, "partitionValues": {}, "dataChange": True}
        name = f"{version:020d}.json"
        (folder / name).write_text("\n".join([COMMIT, json.dumps({"add": added})]))

    def files(version: int) -> list[str]:
        return sorted(LocalTable(str(tmp_path)).files(version))

    assert files(2) == ["f0", "f1", "f2"]
    listed = {"path": "all", "size": 1, "partitionValues": {}}
    (folder / f"{4:020d}.crc").write_text(json.dumps({"allFiles": [listed]}))
    assert files(4) == ["all"]
    assert files(7) == [f"f{version}" for version in range(8)]


def test_a_file_that_is_cleaned_up_while_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is lost history, as if it had gone before; a checksum of it saves no work then."""
    log = _log(tmp_path, *_commits(0), f"{0:020d}.crc")
    exists = log._store.mark

    def goes_then(name: str) -> tuple[int, int] | None:
        found = exists(name)
        (tmp_path / name).unlink(missing_ok=True)
        return found

    monkeypatch.setattr(log._store, "mark", goes_then)
    with pytest.raises(CtsqlError, match="HISTORY_LOST"):
        log.commit_at(0)
    assert log.checksum(0) == {}


def _wide_commit(version: int, adds: int) -> str:
    """A commit of many files, with a schema, domains, application ids and a feed of changes."""
    fields = [
        {"name": f"c{i}", "type": "long", "nullable": True, "metadata": {}} for i in range(50)
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    stats = json.dumps({"numRecords": 5, "minValues": {f"c{i}": "ä" * i for i in range(20)}})
    vector = {
        "storageType": "u",
        "pathOrInlineDv": "x" * 20,
        "offset": 1,
        "sizeInBytes": 40,
        "cardinality": 2,
    }
    actions: list[dict[str, Any]] = [
        {"commitInfo": {"userMetadata": json.dumps({"token": "x" * 32, "upper": version})}},
        {"txn": {"appId": "ctsql:" + "x" * 32, "version": version}},
        {"metaData": {"id": "x", "schemaString": schema, "configuration": {"a": "b" * 1_000}}},
        {"domainMetadata": {"domain": "ctsql.x", "configuration": "y" * 2_000, "removed": False}},
    ]
    for n in range(adds):
        file = {
            "path": f"part-{version}-{n}-{'z' * 36}.parquet",
            "size": 9,
            "partitionValues": {"p": "1"},
        }
        actions.append(
            {"add": {**file, "stats": stats, "deletionVector": vector, "tags": {"ctsql.t": "7"}}}
        )
        actions.append({"remove": {**file, "deletionTimestamp": 1, "dataChange": True}})
        actions.append({"cdc": {"path": f"_change_data/cdc-{version}-{n}", "size": 1}})
    return "\n".join(map(json.dumps, actions))


@pytest.mark.parametrize("adds", [0, 1, 300])
def test_what_is_counted_of_a_commit_is_what_it_takes(adds: int) -> None:
    """Not less, and not three times as much; its schema is counted with what is made of it."""
    text = _wide_commit(3, adds)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    commit = parse_commit(3, text, modified_ms=1)
    assert commit.table is not None
    assert (len(commit.table.columns), bool(commit.table.layout)) == (50, True)
    assert commit.metadata
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before <= commit.memory <= 3 * (after - before)


@pytest.mark.parametrize("told", ["0", "-1", "64 MB", "1.5", "٣"])
def test_a_bound_that_is_no_number(monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    """It is refused with its name, before anything is read."""
    monkeypatch.setenv("CTSQL_LOG_CACHE_MB", told)
    log_files.log_cache.cache_clear()
    with pytest.raises(CtsqlError, match="INVALID_USAGE") as raised:
        log_files.log_cache()
    assert "CTSQL_LOG_CACHE_MB" in str(raised.value)
