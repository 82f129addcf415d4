"""Who writes a table holds the lock of its quarantine, too, however lately it got one."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from filelock import FileLock, Timeout

from ctsql.catalog.items import Catalog, Item, ObjectKind
from ctsql.catalog.names import Name
from ctsql.runtime.delta.locks import LOCK_FILE
from ctsql.runtime.warehouse.multi_table_commit import alone


def _item(folder: Path, name: str) -> Item:
    kind = ObjectKind.TABLE
    location = str(folder / name)
    return Item(id=name, kind=kind, name=Name("default", name), columns=(), location=location)


@pytest.mark.parametrize("looks", [0, 1])
def test_the_lock_of_a_quarantine_is_held(tmp_path: Path, looks: int) -> None:
    """A later writer takes that lock first, by its location, and waits for that of the table."""
    table, away = _item(tmp_path, "t"), _item(tmp_path, "away")
    alone_there = Catalog.of([table])
    both = Catalog.of([replace(table, quarantine=away.id), away])
    catalogs = iter([alone_there] * looks)
    timeline: Any = SimpleNamespace(refresh=lambda: None, intents={})
    completed: list[str] = []
    with alone(timeline, table, lambda: completed.append(""), lambda: next(catalogs, both)):
        lock = FileLock(tmp_path / "away" / "_delta_log" / LOCK_FILE, thread_local=False)
        with pytest.raises(Timeout):
            lock.acquire(timeout=0)
    assert len(completed) == looks
