"""What is said of a log that lacks commits."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.delta import local_log, log_files
from ctsql.runtime.delta.local_log import LocalLogFiles, LocalTable, NeedsSpark

COMMIT = '{"commitInfo":{"timestamp":1}}'


def _log(folder: Path, *names: str) -> LocalLogFiles:
    for name in names:
        (folder / name).write_text(COMMIT if name.endswith(".json") else "")
    return LocalLogFiles(str(folder), folder)


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
        looks.append(log.newest)  # who opens the log; Delta reads one with a checkpoint behind it
    for look in looks:
        with pytest.raises(CtsqlError) as raised:
            look()
        assert raised.value.condition == "STORED_DATA_INVALID"
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


def test_files_are_told_from_as_many_commits_as_may_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first commit on, or from a checksum that lists them; one more is left to Spark."""
    monkeypatch.setattr(local_log, "ROLLED_MAX", 3)
    folder = tmp_path / "_delta_log"
    folder.mkdir()
    for version in range(8):
        added = {"path": f"f{version}", "size": 1, "partitionValues": {}, "dataChange": True}
        name = f"{version:020d}.json"
        (folder / name).write_text("\n".join([COMMIT, json.dumps({"add": added})]))

    def files(version: int) -> list[str]:
        return sorted(LocalTable(str(tmp_path)).files(version))

    assert files(2) == ["f0", "f1", "f2"]
    with pytest.raises(NeedsSpark):
        files(3)
    listed = {"path": "all", "size": 1, "partitionValues": {}}
    (folder / f"{4:020d}.crc").write_text(json.dumps({"allFiles": [listed]}))
    assert files(7) == ["all", "f5", "f6", "f7"]


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
    with pytest.raises(CtsqlError) as raised:
        log.commit_at(0)
    assert raised.value.condition == "HISTORY_LOST"
    assert log.checksum(0) == {}


def test_commits_that_are_cached_are_bounded_by_their_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by their number alone: a commit may add a thousand files."""
    log = _log(tmp_path, *_commits(*range(20)))
    monkeypatch.setattr(log_files, "LENGTHS_MAX", 4 * len(COMMIT))
    for version in range(20):
        assert log.commit_at(version).version == version
        assert sum(map(log.remembers, range(20))) <= 6
    assert log.remembers(19)
    for version in reversed(range(20)):
        assert log.commit_at(version).version == version
