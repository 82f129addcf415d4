"""Which store a location is in, and what becomes of one that Arrow cannot open."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem, S3FileSystem, SubTreeFileSystem

from ctsql.runtime.delta.file_stores import (
    REMOTE_THREADS,
    FileStore,
    open_store,
    path_in_store,
    split_store,
)
from ctsql.runtime.delta.table import LATE_SECONDS, DeltaTable
from ctsql.runtime.rows.declined import Declined


def test_locations() -> None:
    """As Arrow takes them: nothing in one is encoded."""
    assert split_store("s3a://lake/w/t 1%20") == ("s3a", "lake", "/w/t 1%20")
    assert path_in_store("s3a://lake/w/t 1%20") == "lake/w/t 1%20"
    assert path_in_store("abfss://box@lake.dfs.core.windows.net/w@1") == "box/w@1"
    assert path_in_store("hdfs://n:8020/w/t 1%20") == "/w/t 1%20"


def test_a_store_is_opened_by_its_kind() -> None:
    """Nothing is asked of it: this one is nowhere."""
    settings = {"fs.s3a.endpoint": "http://127.0.0.1:1", "fs.s3a.acl.default": "Private"}
    store = open_store("s3a://lake/w", settings.get)
    assert isinstance(store, FileStore)
    assert isinstance(store.files, S3FileSystem)
    assert not store.may_write
    assert not store.is_local


def test_a_store_of_another_kind_is_left_to_spark() -> None:
    """Its reads are Spark's."""
    assert open_store("wasbs://a@b/w", {}.get) == Declined("Spark reads this kind of store")


@pytest.mark.parametrize("problem", [ImportError("a"), TypeError("b"), OSError("c")])
def test_a_store_that_arrow_cannot_open_is_left_to_spark(
    problem: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow is built without it, or too old for it, or refuses."""

    def connect(**_arguments: Any) -> None:
        raise problem

    monkeypatch.setattr("pyarrow.fs.GcsFileSystem", connect)
    told = Declined(f"Arrow cannot reach gs://lake: {problem}")
    assert open_store("gs://lake/w", {}.get) == told


def test_hdfs_without_its_library_is_left_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what is missing."""
    monkeypatch.delenv("CLASSPATH", raising=False)
    monkeypatch.setenv("JAVA_HOME", "/java")
    told = Declined("Arrow cannot reach hdfs://n:8020: CLASSPATH is not set")
    assert open_store("hdfs://n:8020/w", {}.get) == told


def test_a_remote_store_is_read_with_more_threads(tmp_path: Path) -> None:
    """Its answers take long."""
    assert FileStore(SubTreeFileSystem(str(tmp_path), LocalFileSystem())).threads == REMOTE_THREADS


class _Table:
    """What a table knows of itself, and a store that answers in its own way."""

    location = "gs://lake/w"
    _find_store = DeltaTable._find_store

    def __init__(self, monkeypatch: pytest.MonkeyPatch, size: int | Exception, seconds: float):
        self.clock = 100.0
        self.size, self.seconds = size, seconds
        self.given_up: list[tuple[str, Declined]] = []
        clock = SimpleNamespace(monotonic=lambda: self.clock)
        monkeypatch.setattr("ctsql.runtime.delta.table.time", clock)
        files: Any = self
        store = FileStore(files)
        self.gateway = SimpleNamespace(
            file_store=lambda _location: store,
            leave_to_spark=lambda *given: self.given_up.append(given),
        )
        self.log_files = SimpleNamespace(mark=lambda _version: (0, 7))

    def version(self) -> int:
        return 3

    def get_file_info(self, path: str) -> SimpleNamespace:
        """The newest commit."""
        assert path == f"lake/w/_delta_log/{3:020d}.json"
        self.clock += self.seconds
        if isinstance(self.size, Exception):
            raise self.size
        return SimpleNamespace(size=self.size)


@pytest.mark.parametrize("size", [8, None])
def test_a_store_must_show_what_spark_sees(
    size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bucket of the same name elsewhere has another log, or none."""
    table: Any = _Table(monkeypatch, 7, 0)
    assert isinstance(table._find_store(), FileStore)
    table.size = size
    seen = table._find_store()
    assert isinstance(seen, Declined)
    assert seen.reason.endswith("as Spark does")
    assert not table.given_up


@pytest.mark.parametrize("problem", [OSError("no"), pa.ArrowException("no token")])
@pytest.mark.parametrize("seconds", [0.1, 10])
def test_a_store_that_fails_late_is_asked_once(
    problem: Exception, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without credentials each question takes long; what is forbidden is told at once."""
    table: Any = _Table(monkeypatch, problem, seconds)
    seen = table._find_store()
    assert isinstance(seen, Declined)
    assert str(problem) in seen.reason
    assert table.given_up == ([("gs://lake/w", seen)] if seconds > LATE_SECONDS else [])
