"""Which files may hold a row with given keys, from what the log says of their values. Pure.

A file's statistics give the least and the greatest value of a column, or bounds beyond them (long
texts are cut, and the rows of either may be deleted since). Where they say nothing that is
understood, the file may hold anything.

Source: the Delta protocol, "Per-file Statistics".
"""

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any


class KeyRanges:
    """The values that each key column is looked for, to be compared with files' statistics.

    >>> ranges = KeyRanges({"k": [5, 3, None]})
    >>> def told(low, high):
    ...     return json.dumps({"minValues": {"k": low}, "maxValues": {"k": high}})
    >>> [ranges.may_hold(told(*bounds)) for bounds in ((0, 2), (0, 3), (4, 4), (4, 9), (6, 9))]
    [False, True, False, True, False]
    >>> ranges.may_hold(None), ranges.may_hold("{}")
    (True, True)
    """

    def __init__(self, wanted: Mapping[str, Sequence[int | str | None]]) -> None:
        """Numbers without a fraction, or texts, by column; NULL is never found."""
        self._sorted: dict[str, list[Any]] = {}
        for column, values in wanted.items():
            self._sorted[column] = sorted(v for v in set(values) if v is not None)

    def may_hold(self, statistics: str | None) -> bool:
        """May a file with these statistics (JSON) hold a row that equals a key in each column?"""
        told = json.loads(statistics) if statistics else {}
        low, high = told.get("minValues", {}), told.get("maxValues", {})
        return all(
            meets(values, low.get(column), high.get(column))
            for column, values in self._sorted.items()
        )


def meets(values: Sequence[Any], low: Any, high: Any) -> bool:
    """Is one of the sorted values within the bounds, or may one be? Other types say nothing."""
    if not values:
        return False
    kind = type(values[0])
    if type(low) is not kind or type(high) is not kind:
        return True
    first = bisect_left(values, low)
    return first < len(values) and bool(values[first] <= high)
