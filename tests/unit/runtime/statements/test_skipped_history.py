"""SKIP of a T whose history is gone leaves out that one alone."""

from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import ObjectKind
from ctsql.runtime.statements.objects import failed_task
from ctsql.runtime.tasks.sink import OutdatedDefinition
from tests.helpers.items import an_item

TASK = an_item(ObjectKind.CONTINUAL_TASK, "x", location="file:/x")
NOW = 20


class _Task:
    """One with something to do at some Ts; of some of them history is gone."""

    def __init__(self, due: list[int], lost_times: list[int], *, fails: int | None = None) -> None:
        self.due, self.lost_times, self.fails = due, lost_times, fails
        self.ran: list[int] = []
        self.is_outdated = False

    def sink(self, *_: Any) -> Any:
        made = SimpleNamespace(lost_at=None)

        def advance(until: int) -> None:
            if self.is_outdated:
                self.is_outdated = False
                raise OutdatedDefinition
            waiting = [t for t in self.due if t <= until and t not in self.ran]
            lost = [t for t in waiting if t in self.lost_times]
            if lost:  # all that is due is looked at before anything is run
                made.lost_at = lost[-1]
                raise error("HISTORY_LOST", relation="t")
            for time in waiting:
                if time == self.fails:
                    raise error("TASK_FAILED", name="x", time=time, reason="it is so")
                self.ran.append(time)

        made.advance = advance
        return made


def _lost(task: _Task, monkeypatch: pytest.MonkeyPatch) -> int | None:
    monkeypatch.setattr(failed_task, "TaskSink", task.sink)
    monkeypatch.setattr(failed_task, "check_not_suspended", lambda *_: None)
    catalog = Catalog.of([TASK])
    engine: Any = SimpleNamespace(
        mint=lambda: NOW,
        advance=lambda *_: None,
        warehouse=None,
        catalog=catalog,
        refresh_catalog=lambda: catalog,
        timeline=SimpleNamespace(refresh=lambda: None),
    )
    found = failed_task.lost_history(engine, TASK)
    return None if found is None else found.time


@pytest.mark.parametrize(
    ("due", "lost_times", "lost"), [([10, 11, 12, 14, 15], [12, 14], 12), ([10, 11], [], None)]
)
def test_what_is_due_before_is_run(
    due: list[int], lost_times: list[int], lost: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by another input, whose history is there; of several lost ones it is the first."""
    task = _Task(due, lost_times)
    task.is_outdated = True  # by a definition of another process
    assert _lost(task, monkeypatch) == lost
    assert task.ran == [10, 11]


def test_a_failure_before_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is recorded, and left out first."""
    task = _Task([10, 11], [11], fails=10)
    with pytest.raises(CtsqlError, match="TASK_FAILED"):
        _lost(task, monkeypatch)
