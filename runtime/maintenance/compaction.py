"""Chooses the files of a table to rewrite, by its log. Pure: no log, no Spark.

Every commit leaves a small file, and deletion vectors on older ones; both slow down every read.
Rewriting the files changes no row, so it gets no T.

[rest-at-rest] nothing is chosen within the limits.
[within-limits-after] the chosen files, rewritten as one file per bin, are within the limits; more
    than ``batch_bytes`` takes several rounds.
[bins-of-one-partition] a bin holds files of one partition, each file is in at most one bin, and no
    bin is a single file without deleted rows.

The limits (Spark 4.2, Delta 4.4, two cores): finding one row took 0.6 s in 70 tiny files with
deletion vectors, 0.36 s in 8 files with a million rows. Delta lists up to 50 files in a commit's
checksum file; with more, Spark replays the log.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ctsql.runtime.log.actions import Bin, DataFile

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When to rewrite, and how much."""

    small_bytes: int  # smaller files are small
    small_files: int  # allowed in a partition
    deleted_share: float  # allowed in a file, and in a table
    deleted_rows: int  # allowed in a table
    file_bytes: int  # the approximate size of a new file
    batch_bytes: int  # of the files read in one round, which has at least one bin


ROUTINE = Limits(
    small_bytes=16 * MEBIBYTE,
    small_files=25,  # and one more a commit until the next look: below 50
    deleted_share=0.2,
    deleted_rows=1_000,
    file_bytes=128 * MEBIBYTE,
    batch_bytes=256 * MEBIBYTE,
)
"""For connections, in the background."""

THOROUGH = Limits(
    small_bytes=64 * MEBIBYTE,
    small_files=1,
    deleted_share=0.0,
    deleted_rows=0,
    file_bytes=128 * MEBIBYTE,
    batch_bytes=2048 * MEBIBYTE,
)
"""For MAINTAIN: at most one small file, no deleted row."""


def choose(files: Iterable[DataFile], limits: Limits) -> tuple[Bin, ...]:
    """Choose the files to rewrite now, one new file per bin; none within the limits."""
    live = sorted(files, key=lambda f: f.path)
    partitions: dict[tuple[tuple[str, str | None], ...], list[DataFile]] = {}
    for file in live:
        partitions.setdefault(file.partition, []).append(file)
    worn = _is_worn(live, limits)
    bins: list[Bin] = []
    for inside in partitions.values():
        crowded = sum(f.size < limits.small_bytes for f in inside) > limits.small_files
        candidates = [
            f
            for f in inside
            if (crowded and f.size < limits.small_bytes)
            or (worn and f.deleted_share > limits.deleted_share)
        ]
        bins += _pack(candidates, limits.file_bytes)
    return _take_within(bins, limits.batch_bytes)


def _is_worn(files: Sequence[DataFile], limits: Limits) -> bool:
    """Whether more rows are deleted than the limits allow."""
    deleted_rows = sum(f.deleted_count for f in files)
    if deleted_rows <= limits.deleted_rows:
        return False
    rows = sum(f.records_count or 0 for f in files)
    return (
        any(f.records_count is None and f.deleted_count for f in files)
        or deleted_rows > limits.deleted_share * rows
    )


def _pack(files: Sequence[DataFile], file_bytes: int) -> list[Bin]:
    """Pack files into bins of at most ``file_bytes`` live bytes: first fit, by decreasing size."""
    bins: list[list[DataFile]] = []
    room: list[int] = []
    for file in sorted(files, key=lambda f: (-f.live_bytes, f.path)):
        at = next((i for i, space in enumerate(room) if file.live_bytes <= space), None)
        if at is None:
            bins.append([file])
            room.append(file_bytes - file.live_bytes)
        else:
            bins[at].append(file)
            room[at] -= file.live_bytes
    return [tuple(b) for b in bins if len(b) > 1 or b[0].deleted_count]


def _take_within(bins: Sequence[Bin], batch_bytes: int) -> tuple[Bin, ...]:
    batch: list[Bin] = []
    total = 0
    for one in bins:
        total += sum(f.size for f in one)
        if batch and total > batch_bytes:
            break
        batch.append(one)
    return tuple(batch)
