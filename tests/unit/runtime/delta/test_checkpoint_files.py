"""Which files a table has by a checkpoint, and when Delta is to say it."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ctsql.runtime.delta.checkpoint_files import checkpointed_files
from ctsql.runtime.delta.local_log import LocalLogFiles

CRC_OF_ANOTHER = b"crc\0" + (512).to_bytes(4, "big") + b"\1\2\3\4"


def _add(path: str) -> dict[str, object]:
    return {"path": path, "size": 1, "modificationTime": 1, "dataChange": True, "stats": "{}"}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with a file for each of six versions, and a checkpoint of version 3."""
    folder = tmp_path / "_delta_log"
    folder.mkdir()
    for version in range(6):
        line = json.dumps({"add": _add(f"{version}.parquet")})
        (folder / f"{version:020d}.json").write_text(line + "\n")
    adds = [{"add": _add(f"{version}.parquet")} for version in range(4)]
    pq.write_table(pa.Table.from_pylist(adds), folder / f"{3:020d}.checkpoint.parquet")
    (folder / "_last_checkpoint").write_text('{"version": 3, "size": 4}')
    return folder


def _files(log: Path, version: int) -> list[str] | None:
    found = checkpointed_files(LocalLogFiles(f"file:{log.parent}", log), version)
    return None if found is None else sorted(found)


def test_checkpoint_and_commits_behind_it(log: Path) -> None:
    """At each version from the checkpoint on."""
    assert _files(log, 2) is None
    assert _files(log, 3) == [f"{n}.parquet" for n in range(4)]
    assert _files(log, 5) == [f"{n}.parquet" for n in range(6)]


@pytest.mark.parametrize("hint", ["{", "[]", '{"version": "3"}', '{"version": 3, "parts": 2}'])
def test_a_hint_of_no_use(log: Path, hint: str) -> None:
    """A damaged one, or one of a checkpoint in parts, leaves the files to Delta."""
    (log / "_last_checkpoint").write_text(hint)
    assert _files(log, 5) is None


def test_a_hint_beside_the_checksums_of_another(log: Path) -> None:
    """A writer without Hadoop has replaced it, and left what Spark wrote beside it."""
    (log / "._last_checkpoint.crc").write_bytes(CRC_OF_ANOTHER)
    assert _files(log, 5) is None


def test_a_hint_of_a_checkpoint_before_commits_that_are_gone(log: Path) -> None:
    """The log has been cleaned up below a newer checkpoint, as it may be while this one is read."""
    (log / f"{4:020d}.json").unlink()
    assert _files(log, 5) is None
    assert _files(log, 3) is not None
