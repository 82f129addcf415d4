"""Which store a location is in, and what becomes of one that Arrow cannot open."""

from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem, S3FileSystem, SubTreeFileSystem

from ctsql.runtime.delta.file_stores import (
    REMOTE_THREADS,
    FileStore,
    open_store,
    path_in_store,
    split_store,
)
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
