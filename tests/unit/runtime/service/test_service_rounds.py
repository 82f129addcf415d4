"""One round of the service over outputs by hand: who is brought up when one cannot be."""

import threading
from contextlib import nullcontext
from dataclasses import replace

import pytest

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import ObjectKind
from ctsql.runtime.delta.log.table_log import LogWatch
from ctsql.runtime.service.events import Event, EventKind
from ctsql.runtime.service.service import Service
from tests.unit.planner.binding.catalog_by_hand import FEED, item
from tests.unit.runtime.service.engine_by_hand import Engine


def _problem(condition: str) -> CtsqlError:
    if condition == "TABLE_REPLACED":
        return error(condition, kind="view", name="first", location="file:/w", detail="", hint="")
    if condition == "STORED_DATA_INVALID":
        return error(condition, what="a file of a table", detail="", hint="")
    if condition == "STORAGE_ERROR":
        return error(condition, message="the store does not answer", detail="", hint="")
    return error(condition, location="file:/w", detail="", hint="")


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
        open_engine=lambda: nullcontext(engine),  # type: ignore[arg-type, return-value]
        stop=threading.Event(),
        on_event=told.append,
    )
    for rounds in (1, 2):
        with pytest.raises(CtsqlError, match=condition):
            service.run(once=True, interval=0)
        assert engine.advanced_names == ["b", "c"] * rounds
        service.watch = LogWatch()  # something moved
        service.troubles = {
            k: replace(t, tried_at=0.0) for k, t in service.troubles.items()
        }  # and long ago
    failed = [(e.name, e.condition) for e in told if e.kind is EventKind.FAILED]
    assert failed == [("a", condition)]


def test_a_tick_that_failed_is_made_again() -> None:
    """Also where no log has moved since: what it was about to do is still to be done."""
    engine = Engine(FEED, item(ObjectKind.MATERIALIZED_VIEW, "a", "k int", reads=[FEED]))
    told: list[Event] = []
    stop = threading.Event()
    answers = [_problem("STORAGE_ERROR"), _problem("STORAGE_ERROR"), None]

    def mint(_: object) -> int:
        problem = answers.pop(0)
        if problem is not None:
            raise problem
        return 7

    def tell(event: Event) -> None:
        told.append(event)
        if event.kind is EventKind.REACHED:
            stop.set()

    engine.mint_for = mint  # type: ignore[method-assign]
    service = Service(
        open_engine=lambda: nullcontext(engine),  # type: ignore[arg-type, return-value]
        stop=stop,
        on_event=tell,
    )
    ended = threading.Timer(20, stop.set)
    ended.start()
    service.run(once=False, interval=0.01)
    ended.cancel()
    assert answers == []
    assert [e.condition for e in told if e.kind is EventKind.FAILED] == ["STORAGE_ERROR"]
    assert not service.troubles


@pytest.mark.parametrize("problem", [ValueError("no"), OSError("no"), _problem("STORAGE_ERROR")])
def test_an_exception_of_the_hook_ends_the_service(problem: Exception) -> None:
    """It is no failure of an output; one of ctsql's is the cause of what is raised."""
    engine = Engine(FEED, item(ObjectKind.MATERIALIZED_VIEW, "a", "k int", reads=[FEED]))
    told: list[Event] = []

    def hook(event: Event) -> None:
        told.append(event)
        if event.kind is EventKind.REACHED:
            raise problem

    service = Service(
        open_engine=lambda: nullcontext(engine),  # type: ignore[arg-type, return-value]
        stop=threading.Event(),
        on_event=hook,
    )
    with pytest.raises(RuntimeError if isinstance(problem, CtsqlError) else type(problem)) as found:
        service.run(once=True, interval=0)
    assert problem in (found.value, found.value.__cause__)
    assert [e.kind for e in told if e.kind is EventKind.FAILED] == []
