"""Checkpoints of the tables that a tick commits to fall on different commits."""

from itertools import combinations
from math import gcd

from ctsql.runtime.statements.definitions.output_tables import checkpoint_interval
from ctsql.runtime.warehouse.times.timeline import ARCHIVE_EVERY_COMMITS, CHECKPOINT_EVERY_COMMITS

INPUT = 103


def test_no_two_intervals_have_a_common_divisor() -> None:
    """So two tables that move in step meet once in thousands of commits."""
    outputs = {checkpoint_interval(f"{number:032x}") for number in range(100)}
    assert len(outputs) == 6
    intervals = [*outputs, CHECKPOINT_EVERY_COMMITS, INPUT]
    assert all(gcd(a, b) == 1 for a, b in combinations(intervals, 2))
    assert gcd(CHECKPOINT_EVERY_COMMITS, ARCHIVE_EVERY_COMMITS) == 1
