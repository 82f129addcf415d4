"""At which Ts a rehearsal brings up what."""

from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.errors import error
from ctsql.catalog.items import Catalog, Item, ObjectKind
from ctsql.catalog.names import Name
from ctsql.runtime.pipelines import rehearsal


def _item(name: str, kind: ObjectKind) -> Item:
    return Item(
        id=name, kind=kind, name=Name("default", name), columns=(), location=f"file:/{name}"
    )


def test_a_task_that_failed_earlier_holds_nobody_else_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """With COALESCE a T may fail that is none of the changes: others come to each of these."""
    task = _item("task", ObjectKind.CONTINUAL_TASK)
    view = _item("view", ObjectKind.MATERIALIZED_VIEW)
    brought: list[tuple[str, int]] = []

    def advance_one(item: Item, at: int) -> None:
        brought.append((item.id, at))
        if item is task:
            raise error("TASK_FAILED", name="task", time=15, reason="", detail="", hint="")

    trial: Any = SimpleNamespace(
        catalog=Catalog.of([task, view]), advance_one=advance_one, warehouse=None
    )
    monkeypatch.setattr(rehearsal, "failure_of", lambda *_: SimpleNamespace(time=15))
    made: Any = rehearsal._Rehearsing.__new__(rehearsal._Rehearsing)
    made.running, made.problems, made.failed_at = [task, view], {}, {}
    made._go_through(trial, [10, 20, 30])
    assert brought == [("task", 10), ("view", 10), ("view", 20), ("view", 30)]
    assert made.failed_at == {"task": 15}
