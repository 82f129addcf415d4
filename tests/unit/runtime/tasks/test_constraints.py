"""What becomes of rows that break constraints, and what is counted of them."""

import json

import pytest
from hypothesis import given, strategies as st

from ctsql.catalog.errors import CatalogError
from ctsql.planner.nodes import Constraint
from ctsql.planner.syntax.ast import OnViolation
from ctsql.runtime.tasks.constraints import count_marks, fate, mask_of
from ctsql.runtime.tasks.tallies import TALLIES, Tally, add_tallies, tallies_of

FAIL, DROP, WARN, AWAY = (
    OnViolation.FAIL, OnViolation.DROP, OnViolation.WARN, OnViolation.QUARANTINE
)  # fmt: skip


def _constraints(*actions: OnViolation) -> tuple[Constraint, ...]:
    return tuple(
        Constraint(
            object_id="x", name=f"c{i}", action=action, rule=f"NOT NULL (k{i})", not_null=(f"k{i}",)
        )
        for i, action in enumerate(actions)
    )


@pytest.mark.parametrize(
    ("actions", "mark", "expected"),
    [
        ((), 0, None),
        ((FAIL,), 0b0, None),
        ((FAIL,), 0b1, FAIL),
        ((DROP, FAIL), 0b01, DROP),
        ((DROP, FAIL), 0b10, FAIL),
        ((DROP, FAIL), 0b11, FAIL),
        ((WARN, DROP), 0b11, DROP),
        ((WARN, DROP), 0b01, WARN),
        ((DROP, AWAY), 0b11, AWAY),
        ((AWAY, FAIL, WARN), 0b111, FAIL),
        ((AWAY, FAIL, WARN), 0b101, AWAY),
    ],
)
def test_the_first_of_several_fates_counts(
    actions: tuple[OnViolation, ...], mark: int, expected: OnViolation | None
) -> None:
    """FAIL before QUARANTINE before DROP before WARN."""
    assert fate(mark, _constraints(*actions)) is expected


_ACTIONS = st.lists(st.sampled_from(list(OnViolation)), min_size=1, max_size=6)


@given(_ACTIONS, st.integers(0, 63))
def test_masks_and_fates_agree(actions: list[OnViolation], mark: int) -> None:
    """What Spark tells by masks is what the driver tells by fates."""
    constraints = _constraints(*actions)
    mark &= (1 << len(actions)) - 1
    found = fate(mark, constraints)
    goes = mark & mask_of(constraints, AWAY, DROP, FAIL) != 0
    assert goes == (found in (AWAY, DROP, FAIL))
    fails = mark & mask_of(constraints, FAIL) != 0
    assert fails == (found is FAIL)
    if not fails:
        assert (mark & mask_of(constraints, AWAY) != 0) == (found is AWAY)


def test_a_row_is_counted_for_each_constraint_that_it_breaks() -> None:
    """By marks; a constraint that no row breaks is not among them."""
    constraints = _constraints(DROP, WARN, AWAY)
    assert count_marks({0b000: 9, 0b001: 2, 0b011: 3}, constraints) == {"c0": 5, "c1": 3}
    assert count_marks({0: 1}, constraints) == {}


def test_sums_go_on() -> None:
    """From T to T; a constraint that asks for something else begins anew, one that went is gone."""
    one, two = _constraints(DROP, WARN)
    first = add_tallies({}, (one, two), {"c0": 2}, 10)
    known = tallies_of({TALLIES: first})
    assert known == {"c0": Tally(one.rule, 2, 10, 2)}
    second = tallies_of({TALLIES: add_tallies(known, (one, two), {"c0": 1, "c1": 4}, 20)})
    assert second == {"c0": Tally(one.rule, 3, 20, 1), "c1": Tally(two.rule, 4, 20, 4)}
    other = Constraint(
        object_id="x", name="c0", action=DROP, rule="NOT NULL (other)", not_null=("other",)
    )
    third = tallies_of({TALLIES: add_tallies(second, (other,), {"c0": 5}, 30)})
    assert third == {"c0": Tally(other.rule, 5, 30, 5)}


@pytest.mark.parametrize("text", ["", "[]", "1", '{"c": {}}', json.dumps({"c": {"rows": "x"}})])
def test_damaged_sums_are_an_error_of_the_warehouse(text: str) -> None:
    """They say what is damaged, and are no crash."""
    with pytest.raises(CatalogError, match="counts of an output's constraints"):
        tallies_of({TALLIES: text})
