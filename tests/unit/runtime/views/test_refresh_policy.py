"""Which way a view is refreshed, by sizes alone."""

import json

import pytest
from hypothesis import given, strategies as st

from ctsql.runtime.views.refresh_policy import (
    FEW_ROWS_MAX,
    GRACE_MS,
    READING_MS,
    RECOMPUTED_ROWS_MAX,
    SLOWER_MAX,
    UNKNOWN_ROWS,
    UNTRIED_MAX,
    WORTH_MS,
    Costs,
    Policy,
    Sizes,
    Strategy,
    recompute_why,
    stopped_after,
)

BIG = 10 * RECOMPUTED_ROWS_MAX


@pytest.mark.parametrize(
    ("policy", "tables", "changes", "why"),
    [
        (Policy.FULL, (BIG,), (1,), "POLICY_FULL"),
        (Policy.AUTO, (10,), (1,), "SMALL_TABLES"),
        (Policy.AUTO, (RECOMPUTED_ROWS_MAX,), (1,), None),
        (Policy.AUTO, (10, BIG), (1, 0), None),
        (Policy.AUTO, (BIG, BIG), (1, BIG // 2 + 1), "LARGE_CHANGE"),
        (Policy.AUTO, (BIG,), (BIG // 2,), None),
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
PASSED, UNCOUNTED = Sizes((FEW_ROWS_MAX,), (0,)), Sizes((FEW_ROWS_MAX,), (None,))
MANY = Sizes((BIG,), (1,), readings=50)


@pytest.mark.parametrize(
    ("sizes", "costs", "why"),
    [
        (SMALL, Costs(full_ms=WORTH_MS - 1), "SMALL_TABLES"),
        (SMALL, Costs(full_ms=WORTH_MS), None),  # tried once, to know
        (SMALL, Costs(full_ms=1000, is_followed=True), None),
        (SMALL, Costs(full_ms=1000, is_followed=True, slow_change=1), "SLOWER_BEFORE"),
        (LARGE, Costs(full_ms=1000, slow_change=1), "SLOWER_BEFORE"),
        (LARGE, Costs(full_ms=1000, slow_change=2), "SLOWER_BEFORE"),  # half of it
        (LARGE, Costs(full_ms=1000, slow_change=3), None),  # a smaller change
        (LARGE, Costs(full_ms=1000, slow_change=0), None),  # when only time passed
        (PASSED, Costs(full_ms=1000, slow_change=0), "SLOWER_BEFORE"),
        (PASSED, Costs(full_ms=1000, slow_change=1), None),
        (LARGE, Costs(full_ms=1000, slow_change=UNKNOWN_ROWS), None),
        (UNCOUNTED, Costs(full_ms=1000, slow_change=UNKNOWN_ROWS), "SLOWER_BEFORE"),
        (LARGE, Costs(full_ms=1000, slow_change=1, untried=UNTRIED_MAX), None),
        (LARGE, Costs(slow_change=1), None),
        (Sizes((BIG,), (BIG,)), Costs(full_ms=1000, is_followed=True), "LARGE_CHANGE"),
        (MANY, Costs(), None),
        (MANY, Costs(full_ms=50 * READING_MS), None),
        (MANY, Costs(full_ms=50 * READING_MS - 1), "PLAN_LARGE"),
        (MANY, Costs(full_ms=50 * READING_MS - 1, fulls=1), "PLAN_LARGE"),
        (MANY, Costs(full_ms=1000, untried=UNTRIED_MAX), None),
        (MANY, Costs(full_ms=1000, is_followed=True), None),
    ],
)
def test_what_was_measured_goes_before_what_is_estimated(
    sizes: Sizes, costs: Costs, why: str | None
) -> None:
    """The way that took longer is left, and tried again now and then."""
    assert recompute_why(Policy.AUTO, sizes, costs) == why
    assert recompute_why(Policy.INCREMENTAL, sizes, costs) is None


def refreshed(costs: Costs, sizes: Sizes, follow_ms: int, full_ms: int) -> tuple[Costs, int]:
    """The costs after a refresh under ``auto``, and what it took."""
    changed, expected_ms = sizes.changed, costs.expected_full_ms(sizes) or 0
    budget_ms = stopped_after(expected_ms)
    if recompute_why(Policy.AUTO, sizes, costs) is not None:
        return costs.after(Strategy.RECOMPUTE, full_ms, changed=changed), full_ms
    if follow_ms <= budget_ms:
        costs = costs.after(
            Strategy.INCREMENTAL, follow_ms, changed=changed, expected_ms=expected_ms
        )
        return costs, follow_ms
    tried = costs.after(Strategy.RECOMPUTE, full_ms, tried_ms=budget_ms, changed=changed)
    return tried, budget_ms + full_ms


@pytest.mark.parametrize(("sizes", "slower"), [(HUGE, 1), (LARGE, 2)])
@given(
    follow_ms=st.integers(100, 100_000),
    full_ms=st.integers(100, 100_000),
    slower_first=st.integers(1, 4),
)
def test_no_refresh_costs_much_more_than_the_cheaper_way(
    sizes: Sizes, slower: int, follow_ms: int, full_ms: int, slower_first: int
) -> None:
    """Both ways at first; from the third on as much, and what goes unnoticed.

    When the view is made its query is new to Spark, so recomputing takes longer than later; over
    few rows most of that time.
    """
    costs = Costs().after(Strategy.RECOMPUTE, slower * slower_first * full_ms)
    cheaper, spent = min(follow_ms, full_ms), []
    for _ in range(UNTRIED_MAX):
        costs, ms = refreshed(costs, sizes, follow_ms, full_ms)
        spent.append(ms)
    assert max(spent) <= 3.3 * cheaper + GRACE_MS
    if slower_first == 2:
        assert max(spent) <= 2.2 * cheaper + GRACE_MS
        assert all(ms <= SLOWER_MAX * cheaper + GRACE_MS for ms in spent[2:])


@pytest.mark.parametrize("rows", [BIG, FEW_ROWS_MAX])
@given(
    of_small=st.integers(100, 999),
    of_large=st.integers(1_201, 100_000),
    are_large=st.lists(st.booleans(), max_size=3 * UNTRIED_MAX),
)
def test_large_changes_do_not_stop_small_ones_from_being_followed(
    rows: int, of_small: int, of_large: int, are_large: list[bool]
) -> None:
    """Following small changes is cheaper, and large ones not: after one of these each is right."""
    costs, full_ms, seen = Costs(full_ms=1_000, fulls=2), 1_000, 0
    for is_large in are_large:
        sizes, follow_ms = Sizes((rows,), (rows // 10 if is_large else 9,)), of_small
        if is_large:
            seen, follow_ms = seen + 1, of_large
        costs, ms = refreshed(costs, sizes, follow_ms, full_ms)
        if not is_large:
            assert ms == of_small
        elif 1 < seen <= UNTRIED_MAX:
            assert ms == full_ms


def test_costs_are_handed_on() -> None:
    """From commit to commit, as JSON; of first times nothing stays, of slower ones a quarter."""
    known = Costs().after(Strategy.RECOMPUTE, 900).after(Strategy.NO_CHANGE, 7)
    assert known == Costs(full_ms=900, untried=1, fulls=1)
    known = known.after(Strategy.AFFECTED_KEYS, 100).after(Strategy.RECOMPUTE, 400)
    assert known == Costs(full_ms=400, is_followed=True, untried=1, fulls=2)
    known = known.after(Strategy.RECOMPUTE, 800)
    assert known == Costs(full_ms=500, is_followed=True, untried=2, fulls=2)
    known = known.after(Strategy.RECOMPUTE, 300)
    assert known.full_ms == 300
    for ms, changed in ((361, 40), (900, 20), (360, 9)):
        known = known.after(Strategy.STATE_TABLE, ms, changed=changed, expected_ms=300)
    assert known == Costs(full_ms=300, is_followed=True, slow_change=20, fulls=2)
    assert Costs.of(json.loads(json.dumps(known.to_metadata()))) == known
    assert known.after(Strategy.STATE_TABLE, 1200, changed=9, expected_ms=1200) == known
    tried = known.after(Strategy.RECOMPUTE, 300, tried_ms=61, changed=7)
    assert tried.slow_change == 7
    assert tried.after(Strategy.STATE_TABLE, 360, changed=30).slow_change is None
    assert Costs.of(None) == Costs.of("?") == Costs()


@pytest.mark.parametrize(
    ("sizes", "fulls", "warm_ms", "cold_ms"),
    [(LARGE, 1, 200, 800), (HUGE, 1, 400, 1600), (LARGE, 2, 800, 3200), (HUGE, 2, 800, 3200)],
)
def test_what_recomputing_should_take(sizes: Sizes, fulls: int, warm_ms: int, cold_ms: int) -> None:
    """The first time is that of a new query; a process's first is longer."""
    costs = Costs(full_ms=800, fulls=fulls)
    assert costs.expected_full_ms(sizes) == warm_ms
    assert costs.expected_full_ms(sizes, is_cold=True) == cold_ms
    assert Costs().expected_full_ms(sizes, is_cold=True) is None


@pytest.mark.parametrize(
    ("fulls", "tried_ms", "full_ms", "slow_change"),
    [(1, 500, 501, None), (1, 500, 500, 7), (2, 500, 501, 7)],
)
def test_a_guess_may_stop_a_refresh_too_early(
    fulls: int, tried_ms: int, full_ms: int, slow_change: int | None
) -> None:
    """After the view's first recomputation, a stopped refresh counts if it took as long."""
    costs = Costs(full_ms=1_000, fulls=fulls)
    after = costs.after(Strategy.RECOMPUTE, full_ms, tried_ms=tried_ms, changed=7)
    assert after.slow_change == slow_change


def test_new_expiry_tables_make_old_times_void() -> None:
    """A view that was slow to follow without them is followed once with them."""
    slow = Costs(full_ms=3_000, slow_change=1, untried=3)
    assert recompute_why(Policy.AUTO, Sizes((BIG,), (1,)), slow) == "SLOWER_BEFORE"
    assert recompute_why(Policy.AUTO, Sizes((BIG,), (1,)), slow.anew()) is None
    assert slow.anew().full_ms == slow.full_ms
