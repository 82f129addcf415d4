"""The search for the rows at fault: it finds them all, and no other, in few runs."""

import pytest
from hypothesis import given, strategies as st

from ctsql.runtime.tasks.faulty_rows import find_faulty

COUNT = 40


def _search(faulty: set[int], count: int, runs_max: int) -> tuple[dict[int, str], int, list[int]]:
    sizes: list[int] = []

    def fault_of(start: int, stop: int) -> str | None:
        """As Spark does it: of several rows at fault it names any one."""
        sizes.append(stop - start)
        bad = [row for row in range(start, stop) if row in faulty]
        return f"row {bad[-1]}" if bad else None

    found = find_faulty(count, f"row {max(faulty)}", fault_of, runs_max)
    return (*found, sizes) if found is not None else ({}, -1, sizes)


@given(st.sets(st.integers(0, COUNT - 1), min_size=1))
def test_exactly_the_rows_at_fault_each_with_its_own_fault(faulty: set[int]) -> None:
    """However many there are, and wherever."""
    found, runs, sizes = _search(faulty, COUNT, 1_000)
    assert found == {row: f"row {row}" for row in faulty}
    assert runs == len(sizes)
    assert runs <= 2 * len(faulty) * 6, "about 2 k log2(n)"


def test_one_row_needs_no_run() -> None:
    """It is the one that failed."""
    assert _search({0}, 1, 0) == ({0: "row 0"}, 0, [])


def test_one_among_many_takes_a_run_for_each_halving() -> None:
    """At most two."""
    found, runs, _ = _search({700}, 1_024, 500)
    assert found == {700: "row 700"}
    assert 10 <= runs <= 20


@given(st.sets(st.integers(0, COUNT - 1), min_size=1), st.integers(0, 30))
def test_the_bound_holds(faulty: set[int], runs_max: int) -> None:
    """No more runs than allowed, and then nothing is said of any row."""
    found, runs, sizes = _search(faulty, COUNT, runs_max)
    assert len(sizes) <= runs_max
    assert found in ({}, {row: f"row {row}" for row in faulty})
    assert (runs == -1) == (not found)


@pytest.mark.parametrize(("count", "fails", "runs"), [(0, True, 0), (3, True, 1), (1, True, 1)])
def test_no_row_is_at_fault_where_it_fails_without_them(count: int, fails: bool, runs: int) -> None:
    """What fails is another row, which the time writes as well: it is not searched for."""
    tried: list[tuple[int, int]] = []

    def fault_of(start: int, stop: int) -> str | None:
        tried.append((start, stop))
        return "of another row" if fails else None

    assert find_faulty(count, "of another row", fault_of, has_others=True) == ({}, runs)
    assert tried == [(0, 0)] * runs


def test_rows_are_at_fault_beside_others_that_are_not() -> None:
    """One more run than without others."""
    found = find_faulty(
        1, "bad", lambda start, stop: "bad" if stop > start else None, has_others=True
    )
    assert found == ({0: "bad"}, 1)
