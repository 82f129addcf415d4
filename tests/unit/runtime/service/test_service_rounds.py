"""One round of the service over outputs by hand: who is brought up when one cannot be."""

import threading
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Catalog, Item, ObjectKind
from ctsql.runtime.delta.log_watch import LogWatch
from ctsql.runtime.service.events import Event, EventKind
from ctsql.runtime.service.service import Service
from ctsql.runtime.warehouse.advance_context import AdvanceContext
from tests.unit.planner.binding.catalog_by_hand import FEED, item


def _problem(condition: str) -> CtsqlError:
    if condition == "TABLE_REPLACED":
        return error(condition, kind="view", name="first", location="file:/w", detail="", hint="")
    if condition == "STORED_DATA_INVALID":
        return error(condition, what="a file of a table", detail="", hint="")
    if condition == "STORAGE_ERROR":
        return error(condition, message="the store does not answer", detail="", hint="")
    return error(condition, location="file:/w", detail="", hint="")


class Table:
    """A log of one version, or a place where the table is not."""

    def __init__(self, location: str | None) -> None:
        self.location = str(location)
        self.problem: CtsqlError | None = None

    def version(self) -> int:
        """As of a real one: another table is refused, whatever is asked."""
        if self.problem is not None:
            raise self.problem
        return 0

    def has(self, version: int) -> bool:
        """There is the first version only."""
        return self.problem is None and version == 0


class Engine:
    """An engine whose outputs are brought up by noting it."""

    location = "memory:/warehouse"

    def __init__(self, *items: Item) -> None:
        self.catalog = Catalog.of(items)
        self.tables = {i.id: Table(i.location) for i in items}
        self.catalog_store = SimpleNamespace(table=Table("catalog"))
        self.timeline = SimpleNamespace(table=Table("timeline"), read_to=0, bound=lambda _: 0)
        self.relations: Any = SimpleNamespace(
            table=lambda i: self.tables[i.id],
            sources=lambda: {i.id: ("", self.tables[i.id]) for i in self.catalog.sources()},
        )
        self.schedules: Any = SimpleNamespace(
            read_times=lambda *_, **__: set(),
            is_refresh_due=lambda _: False,
        )
        self.brought: list[str] = []

    def refresh_catalog(self) -> Catalog:
        """It does not change."""
        return self.catalog

    def mint_for(self, _: object, *, takes_in: bool = True) -> int:
        """The one T that there is."""
        return 7

    def advance_one(self, output: Item, _until: int, *, context: AdvanceContext) -> None:
        """Note it, or fail as its table does."""
        context.check_stop()
        self.tables[output.id].version()
        self.brought.append(output.name.name)


@pytest.mark.parametrize(
    "condition", ["TABLE_REPLACED", "NOT_A_DELTA_TABLE", "STORED_DATA_INVALID"]
)
def test_an_output_that_is_not_there_holds_nobody_up(condition: str) -> None:
    """Its failure is told once, by its name; what comes after it is brought up, in every round."""
    views = [item(ObjectKind.MATERIALIZED_VIEW, n, "k int", reads=[FEED]) for n in ("a", "b", "c")]
    engine = Engine(FEED, *views)
    engine.tables[views[0].id].problem = _problem(condition)
    told: list[Event] = []
    service = Service(
        opened=lambda: nullcontext(engine),  # type: ignore[arg-type, return-value]
        stop=threading.Event(),
        on_event=told.append,
        on_time=lambda _: None,
    )
    for rounds in (1, 2):
        with pytest.raises(CtsqlError) as caught:
            service.run(once=True, interval=0)
        assert caught.value.condition == condition
        assert engine.brought == ["b", "c"] * rounds
        service._watch = LogWatch()  # something moved
        service._troubles = {
            k: replace(t, tried_at=0.0) for k, t in service._troubles.items()
        }  # and long ago
    failed = [(e.name, e.condition) for e in told if e.kind is EventKind.FAILED]
    assert failed == [("a", condition)]


def test_a_tick_that_failed_is_made_again() -> None:
    """Also where no log has moved since: what it was about to do is still to be done."""
    engine = Engine(FEED, item(ObjectKind.MATERIALIZED_VIEW, "a", "k int", reads=[FEED]))
    told: list[Event] = []
    stop = threading.Event()
    answers = [_problem("STORAGE_ERROR"), _problem("STORAGE_ERROR"), None]

    def mint(_: object, *, takes_in: bool = True) -> int:
        problem = answers.pop(0)
        if problem is not None:
            raise problem
        return 7

    engine.mint_for = mint  # type: ignore[method-assign]
    service = Service(
        opened=lambda: nullcontext(engine),  # type: ignore[arg-type, return-value]
        stop=stop,
        on_event=told.append,
        on_time=lambda _: stop.set(),
        maintains=False,
    )
    ended = threading.Timer(20, stop.set)
    ended.start()
    service.run(once=False, interval=0.01)
    ended.cancel()
    assert answers == []
    assert [e.condition for e in told if e.kind is EventKind.FAILED] == ["STORAGE_ERROR"]
    assert not service._troubles
