"""The transforms on collections of (row, time, diff): the vector, and laws between them."""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.times import TIME_MAX
from ctsql.planner.updates import (
    RowUpdate,
    as_of,
    consolidate,
    inserts_input,
    step_forward,
    times_extract,
    times_reduce,
)
from tests.conftest import VECTORS

VECTOR: dict[str, Any] = json.loads((VECTORS / "transforms.json").read_text())


def _updates(rows: list[list[Any]]) -> list[RowUpdate[Any]]:
    return [(row, time, diff) for row, time, diff in rows]


def _negated(updates: list[RowUpdate[Any]]) -> list[RowUpdate[Any]]:
    return [(row, time, -diff) for row, time, diff in updates]


def test_step_forward() -> None:
    """Every update comes one time later."""
    case = VECTOR["step_forward"]
    moved = step_forward(_updates(case["input"]), what="t")
    assert moved == _updates(case["expect"])


def test_step_forward_at_the_greatest_time_names_the_collection() -> None:
    """There is no time after the greatest: an error, never a wrap-around."""
    with pytest.raises(CtsqlError, match="TIME_OUT_OF_RANGE") as refused:
        step_forward([("r", TIME_MAX, 1)], what="the output totals")
    assert "the output totals" in refused.value.message


@pytest.mark.parametrize("name", ["inserts_input", "deletes_input"])
def test_changes_of_an_input(name: str) -> None:
    """What the time inserted, gone again at the next; deletes are inserts of the negation."""
    case = VECTOR[name]
    given = _updates(case["input"])
    made = inserts_input(_negated(given) if name == "deletes_input" else given)
    assert Counter(made) == Counter(_updates(case["expect"]))
    times = sorted({time for _, time, diff in made if diff > 0})
    assert times == case["times"]


def test_times_extract() -> None:
    """Times with the sum of their diffs; zero sums are left out."""
    case = VECTOR["times_extract"]
    made = times_extract(_updates(case["input"]))
    assert sorted(made) == sorted(map(tuple, case["expect"]))


def test_times_reduce() -> None:
    """One update a time, in order."""
    case = VECTOR["times_reduce"]
    assert times_reduce([(t, d) for t, d in case["input"]]) == [tuple(e) for e in case["expect"]]


UPDATES = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 6), st.integers(-2, 2).filter(bool))
)


@given(UPDATES)
def test_consolidating_keeps_every_collection(updates: list[RowUpdate[str]]) -> None:
    """As of every time the collection is the same, and no update of zero is left."""
    made = consolidate(updates)
    for at in range(8):
        assert as_of(made, at) == as_of(updates, at)
    assert all(diff for _, _, diff in made)
    assert len({(row, time) for row, time, _ in made}) == len(made)


@given(UPDATES)
def test_inserts_are_there_at_their_time_alone(updates: list[RowUpdate[str]]) -> None:
    """As of T exactly the inserts of T."""
    made = inserts_input(updates)
    for at in range(8):
        wanted: Counter[str] = Counter()
        for row, time, diff in updates:
            if time == at and diff > 0:
                wanted[row] += diff
        assert as_of(made, at) == dict(wanted)


@given(UPDATES)
def test_stepping_forward_reads_the_time_before(updates: list[RowUpdate[str]]) -> None:
    """As of T the stepped collection is the collection as of T - 1."""
    moved = step_forward(updates, what="t")
    for at in range(1, 8):
        assert as_of(moved, at) == as_of(updates, at - 1)


@given(UPDATES)
def test_due_times_are_unique_and_in_order(updates: list[RowUpdate[str]]) -> None:
    """However inserts are spread over updates, a time is due once."""
    due = [time for time, _ in times_reduce(times_extract(u for u in updates if u[2] > 0))]
    assert due == sorted({time for _, time, diff in updates if diff > 0})
