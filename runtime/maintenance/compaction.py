"""Which files of a table to rewrite, from what its log says of them. Pure: no log, no Spark.

Every tick leaves a small file, and deletion vectors on older ones. Small files cost a read one
task and one request each; rows under a deletion vector are read and thrown away. Both are cured
by rewriting the files, which changes no row and therefore gets no T.

K1: nothing is chosen while the limits are kept, so a table at rest is left alone.
K2: what is chosen, rewritten as one file a bin, no longer exceeds the limits; it takes several
    rounds when it is more than ``batch_bytes`` at once.
K3: a bin holds files of one partition, each file is in at most one bin, and no bin is a single
    file without deleted rows: rewriting it would change nothing.

Where the limits come from (Spark 4.2, Delta 4.4, two cores): finding one row in about 70 tiny
files with deletion vectors took 0.6 s, in 8 files of a million rows together 0.36 s.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ctsql.runtime.log.data_files import Bin, DataFile

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When to rewrite, and how much.

    Attributes:
        small_bytes: a file below this is small. small_files: so many small files of a partition
            are left alone. deleted_share: a file with a greater share of deleted rows is worn,
            and so is a table. deleted_rows: so many deleted rows are left alone.
        file_bytes: a new file is about this large at most. batch_bytes: of files read in one
            round, so that a round ends soon; at least one bin is taken all the same.
    """

    small_bytes: int
    small_files: int
    deleted_share: float
    deleted_rows: int
    file_bytes: int
    batch_bytes: int


ROUTINE = Limits(
    small_bytes=16 * MEBIBYTE,
    small_files=50,
    deleted_share=0.2,
    deleted_rows=1_000,
    file_bytes=128 * MEBIBYTE,
    batch_bytes=256 * MEBIBYTE,
)
"""What the service keeps to, between two ticks."""

THOROUGH = Limits(
    small_bytes=64 * MEBIBYTE,
    small_files=1,
    deleted_share=0.0,
    deleted_rows=0,
    file_bytes=128 * MEBIBYTE,
    batch_bytes=2048 * MEBIBYTE,
)
"""What a MAINTAIN statement goes for: no second small file, no deleted row."""


def choose(files: Iterable[DataFile], limits: Limits) -> tuple[Bin, ...]:
    """The files to rewrite now, one new file a bin; none while the limits are kept (K1)."""
    live = sorted(files, key=lambda f: (f.partition, f.path))
    partitions: dict[tuple[tuple[str, str | None], ...], list[DataFile]] = {}
    for file in live:
        partitions.setdefault(file.partition, []).append(file)
    worn = _is_worn(live, limits)
    bins: list[Bin] = []
    for inside in partitions.values():
        crowded = sum(f.size < limits.small_bytes for f in inside) > limits.small_files
        chosen = [
            f
            for f in inside
            if (crowded and f.size < limits.small_bytes)
            or (worn and f.deleted_share > limits.deleted_share)
        ]
        bins += _pack(chosen, limits.file_bytes)
    return _take_within(bins, limits.batch_bytes)


def _is_worn(files: Sequence[DataFile], limits: Limits) -> bool:
    """Are so many rows deleted that reads are slowed?"""
    deleted = sum(f.deleted_count for f in files)
    if deleted <= limits.deleted_rows:
        return False
    rows = sum(f.records_count or 0 for f in files)
    return (
        any(f.records_count is None and f.deleted_count for f in files)
        or deleted > limits.deleted_share * rows
    )


def _pack(files: Sequence[DataFile], file_bytes: int) -> list[Bin]:
    """Bins of at most so many live bytes; the largest file first, into the first that has room."""
    bins: list[list[DataFile]] = []
    room: list[int] = []
    for file in sorted(files, key=lambda f: (-f.live_bytes, f.path)):
        at = next((i for i, left in enumerate(room) if file.live_bytes <= left), None)
        if at is None:
            bins.append([file])
            room.append(file_bytes - file.live_bytes)
        else:
            bins[at].append(file)
            room[at] -= file.live_bytes
    return [tuple(b) for b in bins if len(b) > 1 or b[0].deleted_count]


def _take_within(bins: Sequence[Bin], batch_bytes: int) -> tuple[Bin, ...]:
    taken: list[Bin] = []
    total = 0
    for one in bins:
        total += sum(f.size for f in one)
        if taken and total > batch_bytes:
            break
        taken.append(one)
    return tuple(taken)
