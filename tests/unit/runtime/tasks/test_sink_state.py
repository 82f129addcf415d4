"""The continual-task sink's decision: the vector's steps, a table of our own, and its laws."""

import json
import operator
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ctsql.planner.updates import inserts_input
from ctsql.runtime.tasks.sink_state import CountedRows, SinkState
from ctsql.runtime.warehouse.sink_decisions import WAIT, Advance, Decision, Wait, Write
from tests.conftest import VECTORS

TABLE = """
times known | times< | data row@t        | data< | out< || decision
-           | 0      | -                 | 0     | 0    || wait
-           | 0      | a@1 b@1           | 2     | 0    || wait       # nothing is known of times
1           | 0      | a@1 b@1           | 2     | 0    || wait       # an earlier one may follow
1           | 2      | -                 | 0     | 0    || advance 1  # rows are not complete
1           | 2      | a@1               | 1     | 1    || wait       # complete below 1, not at 1
0 1         | 3      | a@1 b@1           | 2     | 0    || write 1    # due at 0, nothing proposed
0 1         | 3      | a@1 b@1           | 2     | 1    || write 2 a b
0 1         | 3      | a@1 b@1           | 2     | 2    || advance 3  # known empty, in one step
0 1         | 3      | a@1 b@1           | 2     | 3    || wait
0 1 5       | 6      | a@1 b@1           | 2     | 3    || advance 5  # to the next due time only
0 1 5       | 6      | a@1 b@1           | 2     | 5    || wait
0 1 5       | 6      | a@1 b@1 a@5- c@5  | 6     | 5    || write 6 b c
4 9         | 10     | a@4 a@5- b@9      | 10    | 0    || write 5 a  # the earliest, with its own
4 9         | 10     | a@4 a@5- b@9      | 10    | 5    || write 10 b # a took itself back
4 9         | 9      | a@4 a@5-          | 9     | 5    || advance 9  # 9 is not known to be all
2           | 3      | a@2 a@2           | 3     | 2    || write 3 a a
"""
ROWS = TABLE.strip().splitlines()[1:]


def _state(row: str) -> tuple[SinkState[str], str]:
    left, right = row.split("#")[0].split("||")
    times, times_below, data, data_below, out = (cell.strip() for cell in left.split("|"))
    pushed = []
    for update in () if data == "-" else data.split():
        name, at = update.rstrip("-").split("@")
        pushed.append((name, int(at), -1 if update.endswith("-") else 1))
    state = SinkState(
        append_times=[] if times == "-" else [int(t) for t in times.split()],
        append_times_progress=int(times_below),
        to_append=pushed,
        to_append_progress=int(data_below),
        output_upper=int(out),
    )
    return state, right.strip()


def _rows(decision: Decision[CountedRows[str]]) -> list[str]:
    if not isinstance(decision, Write):
        return []
    return sorted(row for row, count in decision.what for _ in range(count))


def _shown(decision: Decision[CountedRows[str]]) -> str:
    match decision:
        case Wait():
            return "wait"
        case Advance(upper):
            return f"advance {upper}"
        case Write(upper, _):
            return " ".join(["write", str(upper), *_rows(decision)])


@pytest.mark.parametrize("row", ROWS, ids=range(1, len(ROWS) + 1))
def test_state_table(row: str) -> None:
    """Each row of the table decides as it says."""
    state, wanted = _state(row)
    assert _shown(state.decide()) == wanted


def test_vector_steps() -> None:
    """The vector's steps, one after the other on one state."""
    state: SinkState[str] = SinkState()
    for step in json.loads((VECTORS / "ct_sink_state.json").read_text())["steps"]:
        state = _changed(state, step["set"])
        decision = state.decide()
        wanted = step["expect"]
        if wanted is None:
            assert decision == WAIT, step
            continue
        assert not isinstance(decision, Wait), step
        assert decision.upper == wanted["upper"], step
        assert _rows(decision) == sorted(wanted["rows"]), step
        if isinstance(decision, Write):
            assert all(count > 0 for _, count in decision.what), step


def _changed(state: SinkState[str], changes: dict[str, Any]) -> SinkState[str]:
    """The state that a sink makes of what is known after a step, as it does for each look."""
    known = {f.name: getattr(state, f.name) for f in fields(state)}
    for name, value in changes.items():
        match name:
            case "push":
                known["to_append"] += [(row, time, diff) for row, time, diff in value]
            case "append_times":
                known["append_times"] += value
            case _:
                known[name] = value
    return SinkState(**known)


TIMES = st.integers(min_value=0, max_value=12)
STATES = st.builds(
    SinkState,
    append_times=st.lists(TIMES),
    append_times_progress=TIMES,
    to_append=st.lists(st.tuples(st.sampled_from("abc"), TIMES, st.sampled_from([-1, 1, 2]))),
    to_append_progress=TIMES,
    output_upper=TIMES,
)


@given(STATES)
def test_decision_moves_forward(state: SinkState[str]) -> None:
    """[written-once]: what is decided is past the upper, and deciding again decides the same."""
    upper = state.output_upper
    decision = state.decide()
    assert isinstance(decision, Wait) or decision.upper > upper
    assert state.decide() == decision


@given(STATES)
def test_nothing_is_written_too_early(state: SinkState[str]) -> None:
    """[complete-first]: rows go in only at a due time whose rows and earlier times are all
    known.
    """
    due = state.due()
    decision = state.decide()
    if isinstance(decision, Write):
        assert due is not None
        assert decision.upper == due + 1
        assert due < state.append_times_progress
        assert due < state.to_append_progress


@given(STATES)
def test_what_is_due_and_complete_does_not_wait(state: SinkState[str]) -> None:
    """To wait means that nothing is due, or that its rows are not complete yet."""
    if state.decide() == WAIT:
        due = state.due()
        if due is None:
            assert state.append_times_progress <= state.output_upper
        else:
            assert state.to_append_progress <= due


PROGRESS = st.lists(st.tuples(st.integers(0, 13), st.integers(0, 13)), max_size=6)


@given(st.dictionaries(TIMES, st.lists(st.sampled_from("abc"), max_size=3)), PROGRESS)
def test_each_due_time_is_written_once_in_order(
    proposals: dict[int, list[str]], progress: list[tuple[int, int]]
) -> None:
    """[smallest-first]: however progress comes, each due time is written once, in order, with its
    rows.
    """
    state: SinkState[str] = SinkState(append_times=list(proposals))
    for time, rows in proposals.items():
        state.to_append += inserts_input([(row, time, 1) for row in rows])
    written: dict[int, list[str]] = {}
    for times_below, rows_below in [*progress, (13, 13)]:
        state.append_times_progress = max(state.append_times_progress, times_below)
        state.to_append_progress = max(state.to_append_progress, rows_below)
        while not isinstance(decision := state.decide(), Wait):
            assert decision.upper > state.output_upper
            if isinstance(decision, Write):
                due = decision.upper - 1
                assert due > max(written, default=-1)
                written[due] = _rows(decision)
            state.output_upper = decision.upper
    assert state.output_upper == 13
    assert written == {time: sorted(rows) for time, rows in proposals.items()}


class _CountingTime(int):
    """A time that counts how often times are compared."""

    compared = 0


def _counting(compare: Callable[[int, int], bool]) -> Callable[[int, int], bool]:
    def compared(one: int, other: int) -> bool:
        _CountingTime.compared += 1
        return compare(int(one), int(other))

    return compared


for _compare in (operator.lt, operator.le, operator.gt, operator.ge):
    setattr(_CountingTime, f"__{_compare.__name__}__", _counting(_compare))


def test_many_waiting_times_take_their_number_of_steps() -> None:
    """A backlog of n times is decided in some n comparisons, not in n times n."""
    count = 2_000
    state: SinkState[str] = SinkState(
        append_times=[_CountingTime(t) for t in range(count)],
        append_times_progress=_CountingTime(count),
    )
    _CountingTime.compared = written = 0
    while (due := state.due()) is not None:
        time = _CountingTime(due)
        state.to_append += [("row", time, 1), ("row", _CountingTime(time + 1), -1)]
        state.to_append_progress = _CountingTime(time + 1)
        decision = state.decide()
        assert isinstance(decision, Write)
        state.output_upper = _CountingTime(decision.upper)
        written += 1
    assert written == count
    assert _CountingTime.compared < 60 * count
    assert len(state.to_append) <= 2
