"""Which way a view is refreshed, by sizes alone."""

import pytest

from ctsql.runtime.incremental.choice import (
    RECOMPUTED_ROWS_MAX,
    WHY,
    Policy,
    Sizes,
    recompute_why,
)

BIG = 10 * RECOMPUTED_ROWS_MAX


@pytest.mark.parametrize(
    ("policy", "tables", "changed", "why"),
    [
        (Policy.FULL, (BIG,), (1,), "POLICY_FULL"),
        (Policy.AUTO, (10,), (1,), "SMALL_TABLES"),
        (Policy.AUTO, (RECOMPUTED_ROWS_MAX,), (1,), None),
        (Policy.AUTO, (10, BIG), (1, 0), None),
        (Policy.AUTO, (BIG, BIG), (1, BIG // 4), "LARGE_CHANGE"),
        (Policy.AUTO, (BIG,), (BIG // 5,), None),
        (Policy.AUTO, (None,), (1,), None),
        (Policy.AUTO, (None, 10), (None, 0), None),
        (Policy.INCREMENTAL, (10,), (10,), None),
        (Policy.STRICT, (10,), (10,), None),
    ],
)
def test_the_choice(
    policy: Policy, tables: tuple[int | None, ...], changed: tuple[int | None, ...], why: str | None
) -> None:
    """What a policy asks for, then small tables, then large changes."""
    assert recompute_why(policy, Sizes(tables, changed)) == why


def test_every_code_is_listed_in_order() -> None:
    """EXPLAIN and commits name codes of one table."""
    assert list(WHY) == sorted(WHY)
    with pytest.raises(ValueError, match="fast"):
        Policy("fast")
