"""Key columns that are kept: where the keys are in them, and which are kept."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from ctsql.runtime.delta.parquet.parquet_reader import KeyColumn, may_be_kept

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3), max_size=30)


def column(values: list[int]) -> KeyColumn:
    """A column that was read in two parts."""
    half = len(values) // 2
    parts = [pa.array(values[:half], pa.int64()), pa.array(values[half:], pa.int64())]
    return KeyColumn.of(pa.chunked_array(parts))


@given(NUMBERS, NUMBERS)
def test_places_of_keys_in_a_sorted_column(values: list[int], expected: list[int]) -> None:
    """All rows of each key, in order; the smaller type holds the same numbers."""
    there = column(sorted(values))
    assert there.is_sorted
    assert there.values.tolist() == sorted(values)
    found = there.places(np.unique(np.array(expected, np.int64)))
    assert found.tolist() == [i for i, v in enumerate(sorted(values)) if v in expected]


@pytest.mark.parametrize(
    ("values", "is_sorted", "width"),
    [([], True, 4), ([2, 1], False, 4), ([1, 1], True, 4), ([0, 2**31], True, 8)],
)
def test_what_is_known_of_a_column(values: list[int], is_sorted: bool, width: int) -> None:
    """Whether it is sorted, and its bytes."""
    there = column(values)
    assert (there.is_sorted, there.values.itemsize) == (is_sorted, width)


@pytest.mark.parametrize(
    ("values", "may_be"),
    [
        (pa.array([1, 2]), True),
        (pa.array([1, None]), False),
        (pa.array(["a"]), False),
        (pa.array([1.0]), False),
    ],
)
def test_which_columns_are_kept(tmp_path: Path, values: pa.Array, may_be: bool) -> None:
    """Whole numbers without NULL, as the statistics say."""
    pq.write_table(pa.table({"k": values}), tmp_path / "a")
    group = pq.read_metadata(tmp_path / "a").row_group(0)
    assert may_be_kept(group, 0, values.type) is may_be


def test_a_column_without_statistics_is_not_kept(tmp_path: Path) -> None:
    """It may hold NULL."""
    pq.write_table(pa.table({"k": [1]}), tmp_path / "a", write_statistics=False)
    assert not may_be_kept(pq.read_metadata(tmp_path / "a").row_group(0), 0, pa.int64())
