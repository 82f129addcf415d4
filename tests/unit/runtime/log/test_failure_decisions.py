"""What to do about a failure, what counts as one, and what the service says: without Spark."""

import json

import pytest

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import ObjectKind, Reading
from ctsql.catalog.names import Name
from ctsql.catalog.spans import Source
from ctsql.runtime.log.failures import Failure, is_final, is_to_record
from ctsql.runtime.monitoring.status import Lag, OutputStatus, State
from ctsql.runtime.service.backoff import LOOK_SECONDS_MIN, RETRY_SECONDS_MAX, Pace, Trouble
from ctsql.runtime.service.events import Event
from tests.helpers.items import an_item

FOUND = Failure(time=7, condition="DATA_ERROR", reason="division by zero")
OTHER = Failure(time=7, condition="DATA_ERROR", reason="a cast")
EARLIER = Failure(time=5, condition="DATA_ERROR", reason="division by zero")
TASK = an_item(
    ObjectKind.CONTINUAL_TASK,
    "1",
    name=Name("default", "t"),
    definition="abc",
    reads=(Reading(name=Name("default", "f"), object_id="2", columns=()),),
)


@pytest.mark.parametrize(
    ("recorded", "again", "expected"),
    [
        (None, False, True),
        (FOUND, False, False),
        (OTHER, False, False),  # a replica that says it otherwise
        (OTHER, True, True),  # RETRY fails for another reason
        (FOUND, True, False),
        (EARLIER, False, True),
    ],
)
def test_a_failure_is_recorded_once(recorded: Failure | None, again: bool, expected: bool) -> None:
    """[equal-records]: at one T the first record stays, unless RETRY found another reason."""
    assert is_to_record(recorded, FOUND, again=again) is expected


def test_a_view_that_goes_on_failing_is_recorded_once() -> None:
    """The record says since when."""
    assert EARLIER.is_like(FOUND)
    assert not EARLIER.is_like(OTHER)


PROBLEMS = [
    (error("DATA_ERROR", message="m", detail="", hint=""), True),
    (error("INVALID_STATEMENT", message="m", detail="", hint=""), True),
    (error("STORAGE_ERROR", message="the disk is full", detail="", hint=""), False),
    (error("STATEMENT_CANCELLED"), False),
    (error("SPARK_ERROR", message="lost", detail="", hint=""), False),
    (error("HISTORY_LOST", relation="r", detail="", hint=""), False),
]


@pytest.mark.parametrize(("problem", "final"), PROBLEMS, ids=lambda p: getattr(p, "condition", p))
def test_only_what_stays_is_final(problem: CtsqlError, final: bool) -> None:
    """[passing-not-recorded]: what may go away by itself is no failure of the task."""
    assert is_final(problem) is final


def test_a_failure_survives_as_text() -> None:
    """Its place in the definition too; anything else is refused by name."""
    span = Source("abc", "definition of t").whole().part(1, 2)
    problem = error("DATA_ERROR", span=span, message="m", detail="d", hint="")
    failure = Failure.of(9, problem, TASK)
    assert Failure.from_json(failure.to_json()) == failure
    again = failure.task_error(TASK)
    assert again.span is not None
    assert (again.span.text, again.given["time"]) == ("b", 9)
    for text in ("", "{}", "[]", '{"t": "x"}'):
        with pytest.raises(CtsqlError, match="failure recorded"):
            Failure.from_json(text)


def test_states_and_last_error() -> None:
    """An own failure is "failed"; waiting for another's is "behind", with that one's name."""
    fine = OutputStatus(item=TASK, upper=8, lag=Lag(0, 0))
    behind = OutputStatus(item=TASK, upper=8, lag=Lag(4, 2))
    failed = OutputStatus(item=TASK, upper=8, lag=Lag(4, 2), failure=FOUND)
    waits = OutputStatus(item=TASK, upper=8, lag=Lag(4, 2), origin=(TASK, FOUND))
    states = [State.UP_TO_DATE, State.BEHIND, State.FAILED, State.BEHIND]
    assert [s.state for s in (fine, behind, failed, waits)] == states
    assert failed.last_error == ("DATA_ERROR", 7, "division by zero")
    assert waits.last_error is not None
    assert waits.last_error[0] == "DATA_ERROR"
    assert 'continual task "t" failed' in waits.last_error[2]
    assert behind.last_error is None


def test_the_service_looks_less_often_when_idle_and_retries_less_often() -> None:
    """Both waits double up to their bounds; a move starts over."""
    pace = Pace(interval=1.0)
    for _ in range(10):
        pace = pace.after(moved=False)
    assert pace.wait == 1.0
    assert pace.after(moved=True).wait == LOOK_SECONDS_MIN
    assert Pace(interval=0.01).after(moved=True).wait == 0.01
    often = Trouble(text="", tries=10**9, tried_at=0.0, until=0, version=0)
    assert not often.is_due(RETRY_SECONDS_MAX - 1)
    assert often.is_due(RETRY_SECONDS_MAX)


def test_a_failure_is_told_without_saying_things_twice() -> None:
    """The line has the name, T and reason once each."""
    event = Event.of_failure(FOUND.task_error(TASK), at=0, name="t")
    line = "1970-01-01T00:00:00.000Z t T=7 (1970-01-01T00:00:00.007Z) failed: "
    line += "division by zero [DATA_ERROR]"
    assert event.line() == line
    assert json.loads(event.to_json())["condition"] == "DATA_ERROR"
