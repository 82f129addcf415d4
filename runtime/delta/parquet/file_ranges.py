"""Selects the files that may hold a row with given keys, by their statistics. Pure.

A file's statistics have bounds of a column's values, which need not be tight (long texts are cut,
and rows may be deleted). Without usable statistics a file may hold any value.

Source: the Delta protocol, "Per-file Statistics".
"""

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any


class KeyRanges:
    """The wanted values of each key column, to be compared with files' statistics.

    >>> ranges = KeyRanges({"k": [5, 3, None]})
    >>> def told(low, high):
    ...     return json.dumps({"minValues": {"k": low}, "maxValues": {"k": high}})
    >>> [ranges.may_hold(told(*bounds)) for bounds in ((0, 2), (0, 3), (4, 4), (4, 9), (6, 9))]
    [False, True, False, True, False]
    >>> ranges.may_hold(None), ranges.may_hold("{}"), ranges.may_hold('{"minValues": null}')
    (True, True, True)
    """

    def __init__(self, values_by_column: Mapping[str, Sequence[int | str | None]]) -> None:
        """Args: values_by_column: integers or texts, by column; NULL is never found."""
        self._sorted_values: dict[str, list[Any]] = {
            column: sorted(v for v in set(values) if v is not None)
            for column, values in values_by_column.items()
        }

    def may_hold(self, statistics: str | None) -> bool:
        """Whether a file with these statistics (JSON) may hold a wanted value in each column."""
        stats = json.loads(statistics) if statistics else {}
        low, high = (stats.get(bound) or {} for bound in ("minValues", "maxValues"))
        return all(
            meets(values, low.get(column), high.get(column))
            for column, values in self._sorted_values.items()
        )


def meets(values: Sequence[Any], low: Any, high: Any) -> bool:
    """Whether one of the sorted values may be within the bounds; True for other types of bounds."""
    if not values:
        return False
    kind = type(values[0])
    if type(low) is not kind or type(high) is not kind:
        return True
    first = bisect_left(values, low)
    return first < len(values) and bool(values[first] <= high)
