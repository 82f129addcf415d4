"""Columns of whole numbers in which keys were looked for, kept in memory: the next keys follow.

To find a thousand keys in millions of rows, most of the time goes into decoding the key column, and
it is the same column at the next change. A data file never changes, so what is kept stays true.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ctsql.runtime.delta.bounded_cache import BoundedCache

BYTES_MAX = 128 * 1024 * 1024
"""What all columns that are kept take together."""
COLUMN_BYTES_MAX = BYTES_MAX // 4
"""What one column of a row group may take."""
ROUNDS = 4
"""Of columns that are asked for in turn, and take up to so many times as much, some stay."""
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """The values of a row group's column, in order of the rows.

    Attributes:
        values: of the smallest type of 32 or 64 bits that holds them. is_sorted: ascending.
    """

    values: npt.NDArray[Any]
    is_sorted: bool

    @staticmethod
    def of(read: pa.ChunkedArray) -> "KeyColumn":
        """The values of a column of whole numbers without NULL."""
        values = read.to_numpy()
        if not len(values) or _width(values.min(), values.max()) == 4:
            values = values.astype(np.int32)
        return KeyColumn(values, bool(np.all(values[1:] >= values[:-1])))

    def places(self, numbers: Numbers) -> Numbers:
        """The rows that have one of some sorted, distinct numbers; the column is sorted."""
        bounds = np.iinfo(self.values.dtype)  # numbers of another type would copy all values
        numbers = numbers[(numbers >= bounds.min) & (numbers <= bounds.max)].astype(bounds.dtype)
        low = np.searchsorted(self.values, numbers, "left")
        counts = np.searchsorted(self.values, numbers, "right") - low
        starts = np.repeat(low - np.cumsum(counts) + counts, counts)
        return starts + np.arange(len(starts))


def _width(low: int, high: int) -> int:
    """The bytes of a number between bounds, as they are kept."""
    bounds = np.iinfo(np.int32)
    return 4 if bounds.min <= low and high <= bounds.max else 8


def may_be_kept(group: pq.RowGroupMetaData, place: int, kind: pa.DataType) -> bool:
    """Whether a row group's column is one of whole numbers without NULL, and not too large."""
    if not pa.types.is_signed_integer(kind):
        return False
    stats = group.column(place).statistics
    if stats is None or not stats.has_null_count or stats.null_count or not stats.has_min_max:
        return False
    return bool(group.num_rows * _width(stats.min, stats.max) <= COLUMN_BYTES_MAX)


column_cache: BoundedCache[KeyColumn] = BoundedCache(BYTES_MAX, rounds=ROUNDS)
"""Those of this process."""
