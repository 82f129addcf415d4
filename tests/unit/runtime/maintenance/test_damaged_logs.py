"""A log with a damaged commit keeps the logs of others from nothing."""

from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item, ObjectKind, Reading
from ctsql.runtime.log import clock
from ctsql.runtime.maintenance import consumers, vacuum
from ctsql.runtime.maintenance.consumers import Needs
from ctsql.runtime.subscriptions.cursors import RetentionNeed
from tests.helpers.items import an_item

COMMITS = 16
DAMAGED = COMMITS // 2
"""Looked at first where a commit is searched for by its time."""


def _item(key: str, *reads: Item) -> Item:
    return an_item(
        ObjectKind.CONTINUAL_TASK if reads else ObjectKind.TABLE,
        key,
        location=f"file:/{key}",
        reads=tuple(Reading(name=r.name, object_id=r.id, columns=()) for r in reads),
    )


GOOD, BROKEN = _item("good"), _item("broken")
READER = _item("reader", GOOD, BROKEN)


class _Table:
    """A log of commits that are all of today."""

    def __init__(self, location: str) -> None:
        self.location = location

    def version(self) -> int:
        return COMMITS

    def commit_at(self, version: int) -> Any:
        if version == DAMAGED and self.location == BROKEN.location:
            raise error("STORED_DATA_INVALID", what=f"commit {version}")
        return SimpleNamespace(time_ms=clock.now_ms())


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(consumers, "first_logged", lambda _: 0)
    return SimpleNamespace(
        catalog=Catalog.of([GOOD, BROKEN, READER]),
        relations=SimpleNamespace(table=lambda item: _Table(str(item.location))),
        warehouse=None,
        timeline=SimpleNamespace(table=_Table("file:/timeline"), archived_to=0),
        catalog_store=SimpleNamespace(table=_Table("file:/catalog")),
    )


def test_a_log_stays_that_is_damaged_before_what_is_needed(engine: Any) -> None:
    """The floors of all others are known."""
    known = {i.id: Needs((), COMMITS) for i in engine.catalog}
    damaged: dict[str, CtsqlError] = {}
    floors = vacuum.log_floors(engine, known, 0, damaged)
    assert list(damaged) == [BROKEN.id]
    assert BROKEN.location not in floors
    assert {str(GOOD.location), str(READER.location)} < {*floors}


def test_a_commit_that_one_reader_alone_needs_may_be_damaged(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table has no needs that are known then, and all others have."""

    def need(_: Any, item: Item, at: int, consumer: str, *__: object) -> RetentionNeed:
        if at < 10:
            _Table(str(item.location)).commit_at(DAMAGED)
        return RetentionNeed(version=at, since=at, consumer=consumer, object_id=item.id)

    engine.refresh_catalog = lambda: engine.catalog
    engine.timeline.refresh = lambda: None
    monkeypatch.setattr(consumers, "missing_table", lambda *_: None)
    monkeypatch.setattr(consumers, "_need", need)
    monkeypatch.setattr(consumers, "_version_at", lambda *_: 0)
    monkeypatch.setattr(consumers, "_last_write", lambda *_: 0)
    monkeypatch.setattr(
        consumers,
        "reads_kept",
        lambda _, item, __: [(GOOD, 5, 5), (BROKEN, 5, 5)] if item is READER else [],
    )
    monkeypatch.setattr(consumers, "Readers", lambda _: SimpleNamespace(retention_needs=list))
    with pytest.raises(CtsqlError):
        consumers.needs(engine, keep_from=20)
    damaged: dict[str, CtsqlError] = {}
    known = consumers.needs(engine, keep_from=20, problems=damaged)
    assert list(damaged) == [BROKEN.id]
    assert {*known} == {GOOD.id, READER.id}
    assert [n.version for n in known[GOOD.id].rows] == [20, 5]
