"""Decides which messages of a topic come in next; pure.

What is recorded is, for each partition, the offset that comes next (exclusive upper of what is in).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ctsql.catalog.errors import error

EARLIEST, LATEST = -2, -1
UNKNOWN_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""What brokers give that are too old for topics with ids."""
Offsets = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Topic:
    """What brokers say of a topic: by partition the first offset kept, and the next one written."""

    name: str
    id: str
    earliest: Offsets
    latest: Offsets


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a table is: the number of its polls, and the offset that each partition has next."""

    polls: int
    topic_id: str
    offsets: Offsets

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Progress":
        """From its text."""
        raw = json.loads(text)
        offsets = {int(partition): offset for partition, offset in raw["offsets"].items()}
        return Progress(polls=raw["polls"], topic_id=raw["topic_id"], offsets=offsets)


def first_offsets(start: str, topic: Topic) -> Offsets:
    """Where a new table begins.

    Raises:
        KAFKA_START_INVALID: an offset or a partition is not there.
    """
    if start == "earliest":
        return topic.earliest
    if start == "latest":
        return topic.latest
    offsets = {int(partition): offset for partition, offset in json.loads(start).items()}
    lowers = dict(topic.earliest)
    for partition, offset in offsets.items():
        if partition not in topic.latest:
            detail = f"It has the partitions {', '.join(map(str, sorted(topic.latest)))}."
            what = f"partition {partition}"
            raise error("KAFKA_START_INVALID", topic=topic.name, what=what, detail=detail)
        bounds = topic.earliest[partition], topic.latest[partition]
        lowers[partition] = {EARLIEST: bounds[0], LATEST: bounds[1]}.get(offset, offset)
        if not bounds[0] <= lowers[partition] <= bounds[1]:
            detail = f"It has the offsets from {bounds[0]} on; the next one will be {bounds[1]}."
            what = f"offset {offset} in partition {partition}"
            raise error("KAFKA_START_INVALID", topic=topic.name, what=what, detail=detail)
    return lowers


def next_offsets(progress: Progress, topic: Topic, table: str, *, may_lose: bool) -> Offsets:
    """Where the next poll begins; a partition that is new begins with its first message.

    Args:
        topic: asked after ``progress`` was read, so it is never behind it.
        table: its name. may_lose: whether messages that are gone are passed over.

    Raises:
        KAFKA_TOPIC_REPLACED: it is another topic of that name, or messages that are in are gone
            from its end.
        KAFKA_OFFSETS_LOST: messages are gone before they came in.
    """
    offsets = dict(topic.earliest)
    is_other = UNKNOWN_ID not in (progress.topic_id, topic.id) and progress.topic_id != topic.id
    for partition, upper in progress.offsets.items():
        latest = topic.latest.get(partition)
        if is_other or latest is None or latest < upper:
            ends = "is not there" if latest is None else f"ends before offset {latest}"
            detail = (
                f'"{table}" has partition {partition} up to offset {upper}, exclusive; '
                f"{'another topic has the name now' if is_other else 'now it ' + ends}."
            )
            raise error("KAFKA_TOPIC_REPLACED", topic=topic.name, table=table, detail=detail)
        earliest = topic.earliest[partition]
        if upper < earliest and not may_lose:
            detail = (
                f"Partition {partition} begins at offset {earliest}; offset {upper} comes next."
            )
            raise error("KAFKA_OFFSETS_LOST", topic=topic.name, table=table, detail=detail)
        offsets[partition] = max(upper, earliest)
    return offsets


def next_ranges(
    offsets: Offsets, until: Offsets, records_max: int | None
) -> dict[int, tuple[int, int]]:
    """What one poll reads: by partition the first offset and the one to stop before.

    With a bound each partition gets an equal part of it, and what one does not need goes to others.

    >>> next_ranges({0: 0, 1: 5, 2: 7}, {0: 100, 1: 7, 2: 7}, 10)
    {0: (0, 8), 1: (5, 7)}
    >>> next_ranges({0: 4, 1: 0}, {0: 4}, None)
    {}
    """
    counts = {p: until[p] - lower for p, lower in offsets.items() if until.get(p, lower) > lower}
    if records_max is None:
        return {p: (offsets[p], offsets[p] + count) for p, count in sorted(counts.items())}
    shares, room = {}, records_max
    by_count = sorted(counts, key=lambda p: (counts[p], p))
    for place, partition in enumerate(by_count):
        share = -(-room // (len(by_count) - place))
        shares[partition] = min(counts[partition], share)
        room -= shares[partition]
    return {p: (offsets[p], offsets[p] + count) for p, count in sorted(shares.items()) if count}
