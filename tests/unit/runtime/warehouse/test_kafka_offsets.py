"""Which messages of a topic come in next is decided by what is recorded and what is there."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.warehouse.kafka_offsets import (
    UNKNOWN_ID,
    Progress,
    Topic,
    first_offsets,
    next_offsets,
    next_ranges,
)

TOPIC = Topic("x", "id", earliest={0: 0, 1: 4}, latest={0: 10, 1: 9})
DONE = Progress(polls=1, topic_id="id", offsets={0: 3, 1: 9})


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("earliest", {0: 0, 1: 4}),
        ("latest", {0: 10, 1: 9}),
        ('{"1": 6}', {0: 0, 1: 6}),
        ('{"0": -1, "1": -2}', {0: 10, 1: 4}),
        ('{"0": 10}', {0: 10, 1: 4}),
    ],
)
def test_first(start: str, expected: dict[int, int]) -> None:
    """Partitions that START does not name begin with their first message."""
    assert first_offsets(start, TOPIC) == expected


@pytest.mark.parametrize("start", ['{"2": 0}', '{"0": 11}', '{"1": 3}'])
def test_no_such_start(start: str) -> None:
    """A partition or an offset that is not there is refused."""
    with pytest.raises(CtsqlError, match="KAFKA_START_INVALID"):
        first_offsets(start, TOPIC)


def test_next() -> None:
    """It goes on where it was; what is new begins at its first message; ids may be unknown."""
    assert next_offsets(DONE, TOPIC, "t", may_lose=False) == {0: 3, 1: 9}
    grown = replace(TOPIC, earliest={0: 0, 1: 4, 2: 0}, latest={0: 10, 1: 9, 2: 5})
    assert next_offsets(DONE, grown, "t", may_lose=False) == {0: 3, 1: 9, 2: 0}
    for old in (replace(TOPIC, id=UNKNOWN_ID), TOPIC):
        assert next_offsets(replace(DONE, topic_id=UNKNOWN_ID), old, "t", may_lose=False)


@pytest.mark.parametrize(
    ("topic", "condition", "skips"),
    [
        (replace(TOPIC, earliest={0: 5, 1: 4}), "KAFKA_OFFSETS_LOST", {0: 5, 1: 9}),
        (replace(TOPIC, id="other"), "KAFKA_TOPIC_REPLACED", None),
        (replace(TOPIC, latest={0: 10, 1: 8}), "KAFKA_TOPIC_REPLACED", None),
        (replace(TOPIC, earliest={0: 0}, latest={0: 10}), "KAFKA_TOPIC_REPLACED", None),
    ],
)
def test_lost(topic: Topic, condition: str, skips: dict[int, int] | None) -> None:
    """What is gone is an error; only what retention took away may be passed over."""
    with pytest.raises(CtsqlError) as refused:
        next_offsets(DONE, topic, "t", may_lose=False)
    assert refused.value.condition == condition
    if skips is None:
        with pytest.raises(CtsqlError, match=condition):
            next_offsets(DONE, topic, "t", may_lose=True)
    else:
        assert next_offsets(DONE, topic, "t", may_lose=True) == skips


def test_as_text() -> None:
    """Progress is read as it was written."""
    assert Progress.from_json(DONE.to_json()) == DONE


_OFFSETS = st.dictionaries(st.integers(0, 6), st.integers(0, 50), max_size=7)


@given(_OFFSETS, _OFFSETS, st.none() | st.integers(1, 60))
def test_ranges(offsets: dict[int, int], more: dict[int, int], records_max: int | None) -> None:
    """Polls read each offset once, in order, never more than the bound, as much as it allows."""
    until = {p: offsets.get(p, 0) + count for p, count in more.items()}
    left = {p: until[p] - lower for p, lower in offsets.items() if p in until}
    seen = dict(offsets)
    for _ in range(1 + sum(left.values())):
        ranges = next_ranges(seen, until, records_max)
        if not ranges:
            break
        count = sum(upper - lower for lower, upper in ranges.values())
        due = sum(until[p] - seen[p] for p in left)
        assert count == (due if records_max is None else min(records_max, due))
        for partition, (lower, upper) in ranges.items():
            assert lower == seen[partition] < upper
            seen[partition] = upper
    assert seen == {**offsets, **{p: until[p] for p in left}}
