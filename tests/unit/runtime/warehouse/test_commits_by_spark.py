"""Commits that Spark makes by itself hold the lock of the table, as all of ours on a local disk."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from filelock import FileLock, Timeout

from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.names import Name
from ctsql.runtime.delta.locks import LOCK_FILE
from ctsql.runtime.warehouse import watched_files, watched_topics
from ctsql.runtime.warehouse.kafka_offsets import Progress


class _Asked(Exception):
    """Spark was asked; whether the lock was held then."""


class _Session:
    """It is asked for one statement, which ends the test."""

    def __init__(self, table: Path) -> None:
        self.lock = FileLock(table / "_delta_log" / LOCK_FILE, thread_local=False)

    def sql(self, text: str) -> None:
        try:
            self.lock.acquire(timeout=0)
        except Timeout:
            raise _Asked(True) from None
        self.lock.release()
        raise _Asked(False)


@pytest.fixture
def gateway(tmp_path: Path) -> Any:
    (tmp_path / "_delta_log").mkdir()
    return SimpleNamespace(session=_Session(tmp_path))


def _table(gateway: Any, folder: Path) -> Any:
    return SimpleNamespace(
        gateway=gateway,
        location=str(folder),
        has_feature=lambda _: False,
        files=lambda _: range(watched_files.RECORD_FILES_MAX),
        version=lambda: 1,
    )


def test_the_record_of_files_is_rewritten_under_its_lock(gateway: Any, tmp_path: Path) -> None:
    """Else the entry of another process could be lost, and its files come in twice."""
    record: Any = object.__new__(watched_files._Record)
    record._gateway, record._table = gateway, _table(gateway, tmp_path)
    record._version, record.entries = 1, {"a": 1}
    with pytest.raises(_Asked) as asked:
        record.add(["b"])
    assert asked.value.args == (True,)


def test_a_table_of_messages_is_prepared_under_its_lock(gateway: Any, tmp_path: Path) -> None:
    """Else rows that another process inserts at once could be lost."""
    table = _table(gateway, tmp_path)
    warehouse: Any = SimpleNamespace(
        gateway=gateway, relations=SimpleNamespace(table=lambda _: table)
    )
    nothing: Any = None
    topics = watched_topics.WatchedTopics(warehouse, nothing, nothing)
    name, new = Name("default", "t"), Progress(polls=1, topic_id="", offsets={})
    item = Item(id="t", kind=ObjectKind.TABLE, name=name, columns=(), location=str(tmp_path))
    with pytest.raises(_Asked) as asked:
        topics._commit(item, None, new)
    assert asked.value.args == (True,)
