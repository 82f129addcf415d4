"""Which keys a condition fixes, told from its conjuncts."""

import pytest
from hypothesis import given, strategies as st

from ctsql.planner.keyed_writes import (
    KEYS_MAX,
    Comparison,
    GivenValue,
    KeyColumn,
    OwnColumn,
    combinations,
    key_columns,
)

K, L = OwnColumn("k"), OwnColumn("l")
ONE, TWO, THREE = GivenValue(0), GivenValue(1), GivenValue(2)
OTHER = None
"""What is no comparison, or a side that is neither a column nor a value."""


def equals(side: object, *others: object) -> Comparison:
    """A conjunct."""
    return Comparison(side, others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("conjuncts", "columns", "whole"),
    [
        pytest.param([], {}, {}, id="no condition"),
        pytest.param([equals(K, ONE)], {"k": (0,)}, {"k": (0,)}, id="k = 1"),
        pytest.param([equals(ONE, K)], {"k": (0,)}, {"k": (0,)}, id="1 = k"),
        pytest.param([equals(K, ONE, TWO)], {"k": (0, 1)}, {"k": (0, 1)}, id="k IN (1, 2)"),
        pytest.param([equals(ONE, K, L)], {}, {}, id="1 IN (k, l)"),
        pytest.param([equals(K, L)], {}, {}, id="k = l"),
        pytest.param([equals(K, ONE, OTHER)], {}, {}, id="k IN (1, f(l))"),
        pytest.param([equals(OTHER, ONE)], {}, {}, id="f(k) = 1"),
        pytest.param(
            [equals(K, ONE), equals(L, TWO, THREE)],
            {"k": (0,), "l": (1, 2)},
            {"k": (0,), "l": (1, 2)},
            id="k = 1 AND l IN (2, 3)",
        ),
        pytest.param([equals(K, ONE), OTHER], {"k": (0,)}, {}, id="k = 1 AND f(l)"),
        pytest.param([OTHER, equals(K, ONE)], {}, {}, id="f(l) AND k = 1"),
        pytest.param(
            [equals(K, ONE), OTHER, equals(L, TWO)], {"k": (0,)}, {}, id="k = 1 AND f(l) AND l = 2"
        ),
        pytest.param([equals(K, ONE), equals(K, TWO)], {"k": (0,)}, {}, id="k = 1 AND k = 2"),
        pytest.param([equals(K)], {"k": ()}, {"k": ()}, id="k IN ()"),
    ],
)
def test_keys_of_a_condition(
    conjuncts: list[Comparison | None],
    columns: dict[str, tuple[int, ...]],
    whole: dict[str, tuple[int, ...]],
) -> None:
    """Equalities at the front count; a MERGE's condition may have nothing else."""

    def told(is_whole: bool) -> dict[str, tuple[int, ...]]:
        return {c.name: c.values for c in key_columns(conjuncts, is_whole=is_whole)}

    assert told(is_whole=False) == columns
    assert told(is_whole=True) == whole


def test_too_many_keys_are_none() -> None:
    """The combinations of values are bounded, not the values of one column."""
    many = [GivenValue(i) for i in range(KEYS_MAX)]
    assert key_columns([equals(K, *many)])
    assert not key_columns([equals(K, *many), equals(L, ONE, TWO)])
    assert key_columns([equals(K, *many), equals(L, ONE)]) == (
        KeyColumn("k", tuple(range(KEYS_MAX))),
        KeyColumn("l", (0,)),
    )


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_combinations_are_all_and_each_once(counts: list[int]) -> None:
    """The columns of places, row by row, are the product of the counts."""
    columns = combinations(counts)
    rows = list(zip(*columns, strict=True))
    total = 1
    for count in counts:
        total *= count
    assert len(rows) == len(set(rows)) == total
    assert all(0 <= place < counts[i] for row in rows for i, place in enumerate(row))
