"""What AUTO CDC means, in plain Python: the target as a function of the set of events.

An event is (id, a, b, is_delete, sequence); ids, a and b may be None. Of events of one id with one
sequence value only the last counts: a delete before others, then the greatest (a, b), None below
everything.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

Value = int | None


@dataclass(frozen=True)
class Event:
    """A change of the row of an id."""

    id: Value
    a: Value
    b: Value
    is_delete: bool
    sequence: int


def _rank(event: Event) -> tuple[int, bool, tuple[bool, int], tuple[bool, int]]:
    def low(value: Value) -> tuple[bool, int]:
        return value is not None, value or 0

    none = event.is_delete
    return (
        event.sequence,
        event.is_delete,
        low(None if none else event.a),
        low(None if none else event.b),
    )


def _by_id(events: Iterable[Event]) -> dict[Value, list[Event]]:
    """Each id's events in order, one for each sequence value."""
    found: dict[Value, dict[int, Event]] = defaultdict(dict)
    for event in sorted(events, key=_rank):
        found[event.id][event.sequence] = event
    return {key: [of[s] for s in sorted(of)] for key, of in found.items()}


def scd1(events: Iterable[Event]) -> list[tuple[Value, ...]]:
    """(id, a, b) of each id whose last event is no delete."""
    last = {key: of[-1] for key, of in _by_id(events).items()}
    return [(key, e.a, e.b) for key, e in last.items() if not e.is_delete]


def scd1_ignoring_nulls(events: Iterable[Event]) -> list[tuple[Value, ...]]:
    """Each column has the last value that is not None, of the events after the last delete.

    Here several events may share a sequence value: each column is decided by itself.
    """
    found: dict[Value, list[Event]] = defaultdict(list)
    for event in events:
        found[event.id].append(event)
    rows: list[tuple[Value, ...]] = []
    for key, of in found.items():
        gone = max((e.sequence for e in of if e.is_delete), default=-1)
        alive = [e for e in of if not e.is_delete and e.sequence > gone]
        if alive:
            a = [(e.sequence, e.a) for e in alive if e.a is not None]
            b = [(e.sequence, e.b) for e in alive if e.b is not None]
            rows.append((key, max(a)[1] if a else None, max(b)[1] if b else None))
    return rows


def scd2(
    events: Iterable[Event], *, ignore_nulls: bool = False, tracked: str = "ab"
) -> list[tuple[Value, ...]]:
    """(id, a, b, start, end) of each version; end is None for the current one."""
    rows: list[tuple[Value, ...]] = []
    for key, of in _by_id(events).items():
        open_row: list[Value] | None = None
        for event in of:
            if event.is_delete:
                if open_row is not None:
                    rows.append((*open_row, event.sequence))
                open_row = None
                continue
            a, b = event.a, event.b
            if ignore_nulls and open_row is not None:
                a = open_row[1] if a is None else a
                b = open_row[2] if b is None else b
            if open_row is None:
                open_row = [key, a, b, event.sequence]
                continue
            before = {"a": open_row[1], "b": open_row[2]}
            after = {"a": a, "b": b}
            if any(before[c] != after[c] for c in tracked):
                rows.append((*open_row, event.sequence))
                open_row = [key, a, b, event.sequence]
            else:
                open_row[1:3] = [a, b]
        if open_row is not None:
            rows.append((*open_row, None))
    return rows
