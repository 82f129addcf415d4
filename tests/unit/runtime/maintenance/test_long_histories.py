"""Histories that are kept for somebody who is far behind are looked through commit by commit."""

import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.items import ObjectKind
from ctsql.runtime.maintenance import vacuum
from tests.helpers.items import an_item

COMMITS = 5_000


class _Commit:
    """One that names nothing."""

    adds = removes = change_paths = ()
    time_ms = 0


class _Table:
    """A long log, which counts its commits that are in memory at once."""

    location = "file:/t"

    def __init__(self) -> None:
        self.alive = self.most = 0

    def commit_at(self, version: int) -> _Commit:
        made = _Commit()
        self.alive += 1
        self.most = max(self.most, self.alive)
        weakref.finalize(made, self._gone)
        return made

    def _gone(self) -> None:
        self.alive -= 1

    def version(self) -> int:
        return COMMITS

    def files(self, version: int) -> dict[str, Any]:
        return {}


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(vacuum.adapter, "stored_files", lambda _: [])
    monkeypatch.setattr(vacuum.adapter, "first_logged", lambda _: 0)
    return _Table()


def test_a_plan_holds_few_commits(table: Any) -> None:
    """However old the version is that is still needed."""
    vacuum.plan(table, floor=1, log_floor=None, unnamed_before_ms=1)
    assert table.most < 10


def test_a_look_at_the_history_holds_few_commits(
    table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for a replay from long ago."""
    engine: Any = SimpleNamespace(
        relations=SimpleNamespace(table=lambda _: table),
        versions=SimpleNamespace(version_at=lambda *_: 1, settled=lambda _, version: version),
    )
    monkeypatch.setattr(vacuum, "check_tables", lambda *_: None)
    item = an_item(ObjectKind.TABLE, "t")
    vacuum.check_history(engine, [item], 5)
    assert table.most < 10


@pytest.mark.parametrize("first", [0, 9])
def test_a_log_of_which_all_is_needed_is_not_listed(
    table: Any, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """Every hundred commits it is asked what can be cut."""
    listed = []
    engine: Any = SimpleNamespace(gateway=SimpleNamespace(table=lambda _: table))
    monkeypatch.setattr(vacuum, "needs", lambda *_, **__: {})
    monkeypatch.setattr(vacuum, "log_floors", lambda *_: {table.location: 9})
    monkeypatch.setattr(vacuum.adapter, "first_logged", lambda _: first)
    monkeypatch.setattr(vacuum.adapter, "log_names", lambda one: listed.append(one) or [])
    assert vacuum.trim_logs(engine, 1) == 0
    assert listed == ([table] if first < 9 else [])
