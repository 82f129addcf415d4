"""The state and the live files of a version, by checkpoints of each kind and the commits behind."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.delta.log.log_files import LogFiles
from ctsql.runtime.delta.stores.log_stores import LocalStore

CRC_OF_ANOTHER = b"crc\0" + (512).to_bytes(4, "big") + b"\1\2\3\4"
CHECKPOINTED = 3
LAST = 5
ID = "3f2a7c9e-1b1d-4c7a-9f0e-6a5b4c3d2e1f"
METADATA: dict[str, Any] = {
    "id": "one",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": '{"type": "struct", "fields": []}',
    "partitionColumns": [],
    "configuration": {"a": "b"},
}
PROTOCOL = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["v2Checkpoint"]}
SCHEMA = pa.schema(
    {
        "txn": pa.struct({"appId": pa.string(), "version": pa.int64()}),
        "add": pa.struct(
            {
                "path": pa.string(),
                "partitionValues": pa.map_(pa.string(), pa.string()),
                "size": pa.int64(),
                "modificationTime": pa.int64(),
                "dataChange": pa.bool_(),
                "stats": pa.string(),
                "tags": pa.map_(pa.string(), pa.string()),
            }
        ),
        "metaData": pa.struct(
            {
                "id": pa.string(),
                "schemaString": pa.string(),
                "partitionColumns": pa.list_(pa.string()),
                "configuration": pa.map_(pa.string(), pa.string()),
            }
        ),
        "protocol": pa.struct(
            {
                "minReaderVersion": pa.int32(),
                "minWriterVersion": pa.int32(),
                "readerFeatures": pa.list_(pa.string()),
            }
        ),
        "domainMetadata": pa.struct(
            {"domain": pa.string(), "configuration": pa.string(), "removed": pa.bool_()}
        ),
        "sidecar": pa.struct({"path": pa.string(), "sizeInBytes": pa.int64()}),
    }
)


def _add(version: int) -> dict[str, Any]:
    file = {"path": f"{version}.parquet", "size": 1, "modificationTime": 1, "dataChange": True}
    return {**file, "stats": json.dumps({"numRecords": version})}


def _state() -> list[dict[str, Any]]:
    """What a checkpoint has besides files."""
    gone = {"domain": "gone", "configuration": "x", "removed": True}
    return [
        {"protocol": PROTOCOL},
        {"metaData": METADATA},
        {"txn": {"appId": "app", "version": CHECKPOINTED}},
        {"domainMetadata": {"domain": "d", "configuration": "3", "removed": False}},
        {"domainMetadata": gone},
    ]


def _write(path: Path, actions: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(actions, SCHEMA), path)


def _adds(first: int = 0) -> list[dict[str, Any]]:
    return [{"add": _add(version)} for version in range(first, CHECKPOINTED + 1)]


def _whole(log: Path) -> None:
    _write(log / f"{CHECKPOINTED:020d}.checkpoint.parquet", [*_state(), *_adds()])


def _parts(log: Path) -> None:
    """Two parts, and one of another writer that was killed."""
    for part, actions in enumerate(([*_adds(2)], [*_state(), *_adds()[:2]]), start=1):
        _write(log / f"{CHECKPOINTED:020d}.checkpoint.{part:010d}.{2:010d}.parquet", actions)
    _write(log / f"{CHECKPOINTED:020d}.checkpoint.{1:010d}.{3:010d}.parquet", _adds(3))


def _sidecars(log: Path) -> list[dict[str, Any]]:
    names = [f"a {n}.parquet" for n in range(2)]
    for name, actions in zip(names, (_adds()[:1], _adds(1)), strict=True):
        _write(log / "_sidecars" / name, actions)
    return [{"sidecar": {"path": quote(name), "sizeInBytes": 1}} for name in names]


def _v2_json(log: Path) -> None:
    lines = [{"checkpointMetadata": {"version": CHECKPOINTED}}, *_state(), *_sidecars(log)]
    path = log / f"{CHECKPOINTED:020d}.checkpoint.{ID}.json"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")


def _v2_parquet(log: Path) -> None:
    path = log / f"{CHECKPOINTED:020d}.checkpoint.{ID}.parquet"
    _write(path, [*_state(), *_sidecars(log)])


KINDS: list[Callable[[Path], None]] = [_whole, _parts, _v2_json, _v2_parquet]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with a file and a transaction for each of six versions."""
    folder = tmp_path / "_delta_log"
    folder.mkdir()
    for version in range(LAST + 1):
        lines: list[dict[str, Any]] = [{"add": _add(version)}]
        lines.append({"txn": {"appId": "app", "version": version}})
        domain = {"domain": "d", "configuration": str(version), "removed": False}
        lines.append({"domainMetadata": domain})
        if version == 0:
            lines += [{"metaData": METADATA}, {"protocol": PROTOCOL}]
        (folder / f"{version:020d}.json").write_text("\n".join(map(json.dumps, lines)) + "\n")
    return folder


def _reader(log: Path) -> LogFiles:
    return LogFiles(f"file:{log.parent}", LocalStore(log))


def _check(log: Path, versions: range) -> None:
    """All that is known of each version, by a reader that knows nothing yet."""
    for version in versions:
        files = _reader(log).files_at(version)
        assert sorted(files) == [f"{n}.parquet" for n in range(version + 1)]
        assert all(file.records_count == int(path[0]) for path, file in files.items())
        state = _reader(log).snapshot_at(version)
        assert (state.version, state.transaction("app")) == (version, version)
        assert (state.table_id, state.metadata.configuration) == ("one", {"a": "b"})
        assert state.domains() == {"d": str(version)}
        assert state.has_feature("v2Checkpoint")
        assert state.is_understood
    newest = _reader(log).newest()
    assert newest is not None
    assert (newest.version, newest.transaction("app")) == (LAST, LAST)


@pytest.mark.parametrize("write", KINDS)
@pytest.mark.parametrize("is_cut", [False, True])
def test_checkpoint_and_commits_behind_it(
    log: Path, write: Callable[[Path], None], is_cut: bool
) -> None:
    """At each version that is left, whether or not the commits in front were cleaned up."""
    write(log)
    if is_cut:
        for version in range(CHECKPOINTED + 1):
            (log / f"{version:020d}.json").unlink()
    _check(log, range(CHECKPOINTED if is_cut else 0, LAST + 1))
    if is_cut:
        for read in (_reader(log).snapshot_at, _reader(log).files_at):
            with pytest.raises(CtsqlError, match="HISTORY_LOST"):
                read(CHECKPOINTED - 1)


@pytest.mark.parametrize("write", KINDS)
@pytest.mark.parametrize("damage", [b"", b"PAR1", None])
def test_a_checkpoint_that_is_damaged(
    log: Path, write: Callable[[Path], None], damage: bytes | None
) -> None:
    """The log is read from its first commit on; an error names the file if that is gone."""
    write(log)
    places = [*log.glob("_sidecars/*"), *log.glob("*.checkpoint.*")]
    if damage is None:
        places[0].unlink()
    else:
        places[0].write_bytes(damage)
    _check(log, range(LAST + 1))
    if damage is None and places[0].parent == log:
        return  # there is none, or not all of it
    (log / f"{0:020d}.json").unlink()
    with pytest.raises(CtsqlError, match="STORED_DATA_INVALID") as raised:
        _reader(log).files_at(LAST)
    assert ".checkpoint." in str(raised.value.detail)


def test_a_log_of_which_nothing_is_left_but_a_checkpoint(log: Path) -> None:
    """Its state and files are those of the checkpoint."""
    _whole(log)
    for path in log.glob("*.json"):
        path.unlink()
    newest = _reader(log).newest()
    assert newest is not None
    assert (newest.version, newest.domains()) == (CHECKPOINTED, {"d": "3"})
    assert len(_reader(log).files_at(CHECKPOINTED)) == 4


def test_a_log_that_begins_without_a_checkpoint(log: Path) -> None:
    """Nobody can say what the table is."""
    (log / f"{0:020d}.json").unlink()
    with pytest.raises(CtsqlError, match="a file of a table") as raised:
        _reader(log).newest()
    assert raised.value.condition == "STORED_DATA_INVALID"
    assert f"{0:020d}.json: it is missing" in str(raised.value.detail)


@pytest.mark.parametrize("hint", ["{", "[]", '{"version": "3"}', '{"version": 3, "parts": 2}'])
@pytest.mark.parametrize("table_folder", [None, "here"])
def test_a_hint_of_no_use(log: Path, hint: str, table_folder: str | None) -> None:
    """A damaged one, and one beside the checksums of another, change nothing."""
    _whole(log)
    (log / "_last_checkpoint").write_text(hint)
    (log / "._last_checkpoint.crc").write_bytes(CRC_OF_ANOTHER)
    store = LocalStore(log)
    store.table_folder = table_folder  # None is a store that lists from a name on
    newest = LogFiles("memory", store).newest()
    assert newest is not None
    assert (newest.version, newest.table_id) == (LAST, "one")


def test_statistics_without_text(log: Path) -> None:
    """Of a writer that leaves out the JSON: counts, and bounds of types that JSON has."""
    values = {"k": 1, "s": "x", "d": 0.5, "n": {"m": True}}
    others = {"t": datetime(2026, 1, 1, tzinfo=UTC), "c": Decimal("1.5"), "nan": float("nan")}
    parsed = {"numRecords": 7, "minValues": {**values, **others}, "nullCount": {"k": 0}}
    add = {k: v for k, v in _add(0).items() if k != "stats"} | {"stats_parsed": parsed}
    actions = [{"add": add}, *({k: METADATA | {"format": None}} for k in ("metaData",))]
    path = log / f"{CHECKPOINTED:020d}.checkpoint.parquet"
    pq.write_table(pa.Table.from_pylist(actions), path)
    (file,) = _reader(log).files_at(CHECKPOINTED).values()
    assert json.loads(file.statistics or "") == {
        "numRecords": 7,
        "minValues": values,
        "nullCount": {"k": 0},
    }
