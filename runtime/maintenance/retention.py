"""Needed files of a table, and those that may be deleted. Pure: no log, no store.

A consumer needs a table's contents at a version and every later change. The smallest such version
of a table is its *floor*. Delta's VACUUM would delete needed files: it goes by age
(``delta.deletedFileRetentionDuration``).

[needed-files] a file is needed if it is live, if a commit after the floor removes or adds it, or if
    it is a change file of such a commit; so is each deletion vector named by these actions.
[removable-files] another file may be deleted at once if a readable commit names it. A file that no
    readable commit names may belong to a commit in progress, so it must be old.
[removable-logs] log files may be deleted below the newest checkpoint at or below the floor: every
    later version can be rebuilt from that checkpoint.

Source: the Delta protocol, "Deletion Vectors", "Change Data Files", "Metadata Cleanup".
"""

import base64
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

from ctsql.runtime.delta.log.checkpoints import complete_checkpoints
from ctsql.runtime.log.actions import Commit, DataFile, StoredFile

DAY_MS = 86_400_000
RETAIN_DEFAULT_MS = 7 * DAY_MS  # how long MAINTAIN keeps old versions by default, as Delta's VACUUM
LOG_RETAIN_DEFAULT_MS = 30 * DAY_MS  # how long MAINTAIN keeps log files by default, as Delta
UNNAMED_AGE_MS = DAY_MS
"""Files and folders without a name in a log are deleted if older than this and than RETAIN."""
LOG_AGE_MS = DAY_MS  # younger log files are kept for processes that read the log once a day

_LOG_FILE = re.compile(r"(\d{20})\.(json|crc|checkpoint\.parquet|checkpoint\.\d+\.\d+\.parquet)")
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_UUID_LENGTH = 20  # of a UUID in Z85


def named_by(file: DataFile) -> set[str]:
    """The files that an action names, as the log writes paths.

    >>> sorted(named_by(DataFile('{"add": {"path": "a%20b.parquet", "deletionVector": null}}')))
    ['a%20b.parquet']
    """
    paths = {file.path}
    vector = vector_file(file.vector)
    return paths | {vector} if vector is not None else paths


def vector_file(descriptor: dict[str, object] | None) -> str | None:
    """The file of a deletion vector, as paths in a log; None for one kept in the log itself.

    >>> vector_file({"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^"})
    'ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin'
    """
    if not descriptor or descriptor["storageType"] == "i":
        return None
    text = str(descriptor["pathOrInlineDv"])
    if descriptor["storageType"] == "p":
        return text
    folder, code = text[:-_UUID_LENGTH], text[-_UUID_LENGTH:]
    digits = base64.a85decode(bytes(33 + _Z85.index(c) for c in code)).hex()
    uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    name = f"deletion_vector_{uuid}.bin"
    return f"{folder}/{name}" if folder else name


def needed_files(live: Iterable[DataFile], after_floor: Iterable[Commit]) -> set[str]:
    """The files that may still be read [needed-files], as the log writes paths.

    ``live`` files are of the newest version; ``after_floor`` are all commits above the floor.
    """
    return named_in(after_floor).union(*(named_by(file) for file in live))


def named_in(commits: Iterable[Commit]) -> set[str]:
    """The files that commits name, as they write paths."""
    paths: set[str] = set()
    for commit in commits:
        for action in (*commit.removes, *commit.adds):
            paths |= named_by(action)
        paths.update(commit.change_paths)
    return paths


def removable(
    files: Iterable[StoredFile],
    needed_paths: set[str],
    named_paths: set[str],
    *,
    unnamed_before_ms: int,
) -> list[StoredFile]:
    """The files that may be deleted [needed-files], [removable-files].

    Args:
        needed_paths, named_paths: relative and decoded; the latter by commits up to the floor.
            unnamed_before_ms: files that no commit names may be deleted if older than this instant.
    """
    return [
        f
        for f in files
        if f.path not in needed_paths
        and (f.path in named_paths or f.modified_ms < unnamed_before_ms)
    ]


def newest_before(versions: Sequence[int], before_ms: int, time_of: Callable[[int], int]) -> int:
    """The newest version before an instant; the first one if there is none, by log2(n) reads.

    >>> newest_before(range(3, 9), 50, lambda version: version * 10)
    4
    >>> newest_before(range(3, 9), 30, lambda version: version * 10)
    3
    """
    later = bisect_left(versions, before_ms, key=time_of)
    return versions[max(later - 1, 0)]


def removable_log(names: Iterable[str], floor: int) -> list[str]:
    """The log files below the oldest needed version that may be deleted, oldest first.

    >>> names = [f"{v:020}.json" for v in range(4)] + [f"{2:020}.checkpoint.parquet"]
    >>> [int(n[:20]) for n in removable_log(names, 3)], removable_log(names, 1)
    ([0, 1], [])
    """
    name_list = list(names)
    base = max((v for v in complete_checkpoints(name_list) if v <= floor), default=None)
    if base is None:
        return []
    return sorted(n for n in name_list if _LOG_FILE.fullmatch(n) and int(n[:20]) < base)
