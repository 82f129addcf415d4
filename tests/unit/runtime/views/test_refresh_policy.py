"""Which way a view is refreshed, by sizes alone."""

import json

import pytest
from hypothesis import given, strategies as st

from ctsql.runtime.views.refresh_policy import (
    FEW_ROWS_MAX,
    NOTICED_MS,
    READING_MS,
    RECOMPUTED_ROWS_MAX,
    SLOWER_MAX,
    UNTRIED_MAX,
    WORTH_MS,
    Costs,
    Policy,
    Sizes,
    Strategy,
    recompute_why,
)

BIG = 10 * RECOMPUTED_ROWS_MAX


@pytest.mark.parametrize(
    ("policy", "tables", "changes", "why"),
    [
        (Policy.FULL, (BIG,), (1,), "POLICY_FULL"),
        (Policy.AUTO, (10,), (1,), "SMALL_TABLES"),
        (Policy.AUTO, (RECOMPUTED_ROWS_MAX,), (1,), None),
        (Policy.AUTO, (10, BIG), (1, 0), None),
        (Policy.AUTO, (BIG, BIG), (1, BIG // 5), "LARGE_CHANGE"),
        (Policy.AUTO, (BIG,), (BIG * 15 // 100,), None),
        (Policy.AUTO, (None,), (1,), None),
        (Policy.AUTO, (None, 10), (None, 0), None),
        (Policy.INCREMENTAL, (10,), (10,), None),
        (Policy.STRICT, (10,), (10,), None),
    ],
)
def test_the_choice(
    policy: Policy, tables: tuple[int | None, ...], changes: tuple[int | None, ...], why: str | None
) -> None:
    """What a policy asks for, then small tables, then large changes."""
    assert recompute_why(policy, Sizes(tables, changes), Costs()) == why


SMALL, LARGE, HUGE = (Sizes((rows,), (1,)) for rows in (10, BIG, FEW_ROWS_MAX))
MANY = Sizes((BIG,), (1,), readings=50)


@pytest.mark.parametrize(
    ("sizes", "costs", "why"),
    [
        (SMALL, Costs(full_ms=WORTH_MS - 1), "SMALL_TABLES"),
        (SMALL, Costs(full_ms=WORTH_MS), None),  # tried once, to know
        (SMALL, Costs(full_ms=1000, follow_ms=900, follows=2), None),
        (SMALL, Costs(full_ms=1000, follow_ms=1200, follows=2), None),
        (SMALL, Costs(full_ms=1000, follow_ms=1201, follows=2), "SLOWER_BEFORE"),
        (LARGE, Costs(full_ms=1000, follow_ms=1201, follows=2), "SLOWER_BEFORE"),
        (LARGE, Costs(full_ms=1000, follow_ms=5000, follows=1), None),  # its plans were made
        (LARGE, Costs(full_ms=1000, follow_ms=1500, fulls=2, follows=1), None),
        (LARGE, Costs(full_ms=1000, follow_ms=1501, fulls=2, follows=1), "SLOWER_BEFORE"),
        (HUGE, Costs(full_ms=1000, follow_ms=1501, fulls=2, follows=1), None),
        (LARGE, Costs(full_ms=1000, follow_ms=9000, follows=2, untried=UNTRIED_MAX), None),
        (LARGE, Costs(follow_ms=9000, follows=2), None),
        (LARGE, Costs(full_ms=8000, follow_ms=2000 + NOTICED_MS, fulls=1, follows=2), "TIMED_ONCE"),
        (LARGE, Costs(full_ms=8000, follow_ms=1999 + NOTICED_MS, fulls=1, follows=2), None),
        (HUGE, Costs(full_ms=8000, follow_ms=4000 + NOTICED_MS, fulls=1, follows=2), "TIMED_ONCE"),
        (HUGE, Costs(full_ms=8000, follow_ms=3999 + NOTICED_MS, fulls=1, follows=2), None),
        (SMALL, Costs(full_ms=40, follow_ms=400, fulls=1, follows=2), None),
        (LARGE, Costs(full_ms=9000, follow_ms=4500, fulls=2, follows=2), None),
        (Sizes((BIG,), (BIG,)), Costs(full_ms=1000, follow_ms=10, follows=2), "LARGE_CHANGE"),
        (MANY, Costs(), None),
        (MANY, Costs(full_ms=50 * READING_MS), None),
        (MANY, Costs(full_ms=50 * READING_MS - 1), "PLAN_LARGE"),
        (MANY, Costs(full_ms=50 * READING_MS - 1, fulls=1), "PLAN_LARGE"),
        (MANY, Costs(full_ms=1000, untried=UNTRIED_MAX), None),
        (MANY, Costs(full_ms=1000, follow_ms=900, follows=2), None),
    ],
)
def test_what_was_measured_goes_before_what_is_estimated(
    sizes: Sizes, costs: Costs, why: str | None
) -> None:
    """The way that took longer is left, and tried again now and then."""
    assert recompute_why(Policy.AUTO, sizes, costs) == why
    assert recompute_why(Policy.INCREMENTAL, sizes, costs) is None


@pytest.mark.parametrize(("sizes", "slower"), [(HUGE, 1), (LARGE, 2)])
@given(
    follow_ms=st.integers(100, 100_000),
    full_ms=st.integers(100, 100_000),
    slower_first=st.integers(1, 4),
)
def test_no_refresh_costs_much_more_than_the_cheaper_way(
    sizes: Sizes, slower: int, follow_ms: int, full_ms: int, slower_first: int
) -> None:
    """Three times as much at first; from the third on as much, but where recomputing is timed.

    When the view is made its query is new to Spark, so recomputing takes longer than later; over
    few rows most of that time.
    """
    costs = Costs().after(Strategy.RECOMPUTE, slower * slower_first * full_ms)
    cheaper, spent = min(follow_ms, full_ms), []
    for _ in range(UNTRIED_MAX):
        budget_ms = costs.expected_full_ms(sizes) or 0
        if recompute_why(Policy.AUTO, sizes, costs) is not None:
            spent.append(full_ms)
            costs = costs.after(Strategy.RECOMPUTE, full_ms)
        elif follow_ms <= budget_ms:
            spent.append(follow_ms)
            costs = costs.after(Strategy.INCREMENTAL, follow_ms)
        else:  # given up after that
            spent.append(budget_ms + full_ms)
            costs = costs.after(Strategy.RECOMPUTE, full_ms, tried_ms=budget_ms)
    assert max(spent) <= 3 * cheaper
    if slower_first == 2:
        assert max(spent) <= 2 * cheaper
        assert sum(ms > SLOWER_MAX * cheaper for ms in spent[2:]) <= 1


def test_costs_are_handed_on() -> None:
    """From commit to commit, as JSON; of first times nothing stays, of slower ones a quarter."""
    known = Costs().after(Strategy.RECOMPUTE, 900).after(Strategy.NO_CHANGE, 7)
    assert known == Costs(full_ms=900, untried=1, fulls=1)
    known = known.after(Strategy.AFFECTED_KEYS, 100).after(Strategy.RECOMPUTE, 400)
    assert known == Costs(full_ms=400, follow_ms=100, untried=1, fulls=2, follows=1)
    known = known.after(Strategy.RECOMPUTE, 800)
    assert known == Costs(full_ms=500, follow_ms=100, untried=2, fulls=2, follows=1)
    known = known.after(Strategy.RECOMPUTE, 300)
    assert known.full_ms == 300
    for ms in (900, 800, 120, 200):
        known = known.after(Strategy.STATE_TABLE, ms)
    assert known == Costs(full_ms=300, follow_ms=140, untried=0, fulls=2, follows=2)
    tried = known.after(Strategy.RECOMPUTE, 300, tried_ms=240)
    assert tried == Costs(full_ms=300, follow_ms=240, untried=0, fulls=2, follows=2)
    assert Costs.of(json.loads(json.dumps(known.to_metadata()))) == known
    assert Costs.of(None) == Costs.of("?") == Costs()


def test_a_new_state_table_makes_old_times_void() -> None:
    """A view that was slow to follow without one is followed once with it."""
    slow = Costs(full_ms=3_000, follow_ms=9_000, untried=3, follows=2)
    assert recompute_why(Policy.AUTO, Sizes((BIG,), (1,)), slow) == "SLOWER_BEFORE"
    assert recompute_why(Policy.AUTO, Sizes((BIG,), (1,)), slow.anew()) is None
    assert slow.anew().full_ms == slow.full_ms
