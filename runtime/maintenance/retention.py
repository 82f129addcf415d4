"""Which versions and files of a table are still needed, and which may go. Pure: no log, no store.

A consumer needs a table from a version on: the contents there, and every change after it. So for
a table only the smallest such version counts, its *floor*.

N1: a file is needed when it is live now, or when a commit after the floor removes it (it was live
    at the floor, or came and went since), or when it is a change file of such a commit; and so
    is each deletion vector that one of these actions names.
N2: of the other files, one that a readable commit removed may go at once: whoever could have
    needed it was asked. One that no readable commit names may belong to a commit that is being
    made, so it may go only when it is old.
N3: log files may go below the newest checkpoint at or below the floor: from that checkpoint on
    every version is rebuilt.

Why not by Delta's VACUUM alone: it counts by time of removal in whole hours, and its list of
removed files forgets what was removed longer ago than ``delta.deletedFileRetentionDuration``, so
with a consumer ten days behind it would delete what a longer RETAIN is to keep.

Source: the Delta protocol, "Deletion Vectors" (where a vector's file is), "Change Data Files",
"Metadata Cleanup".
"""

import base64
import re
from collections.abc import Iterable, Sequence
from urllib.parse import unquote

from ctsql.runtime.log.actions import Commit
from ctsql.runtime.log.data_files import DataFile, StoredFile

DAY_MS = 86_400_000
RETAIN_DEFAULT_MS = 7 * DAY_MS
"""How long old versions are kept when MAINTAIN does not say it: as long as Delta's VACUUM does."""
LOG_RETAIN_DEFAULT_MS = 30 * DAY_MS
"""How long log files are kept when MAINTAIN does not say it: as long as Delta does."""
UNNAMED_AGE_MS = DAY_MS
"""A file or folder that nothing names is left over when it is older than this and than RETAIN."""
LOG_AGE_MS = DAY_MS
"""Younger log files are kept: a process that looks once a day finds all that it missed."""

_LOG_FILE = re.compile(r"(\d{20})\.(json|crc|checkpoint\.parquet|checkpoint\.\d+\.\d+\.parquet)")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(\.\d{10}\.(\d{10}))?\.parquet")
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_UUID_LENGTH = 20  # of a UUID in Z85


def named_by(file: DataFile) -> set[str]:
    """The files that an action names, relative and decoded.

    >>> sorted(named_by(DataFile('{"add": {"path": "a%20b.parquet", "deletionVector": null}}')))
    ['a b.parquet']
    """
    found = {unquote(file.path)}
    vector = vector_file(file.vector)
    return found | {vector} if vector is not None else found


def vector_file(descriptor: dict[str, object] | None) -> str | None:
    """The file of a deletion vector, relative to the table; None for one kept in the log itself.

    >>> vector_file({"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^"})
    'ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin'
    """
    if not descriptor or descriptor["storageType"] == "i":
        return None
    text = str(descriptor["pathOrInlineDv"])
    if descriptor["storageType"] == "p":
        return unquote(text)
    folder, encoded = text[:-_UUID_LENGTH], text[-_UUID_LENGTH:]
    digits = base64.a85decode(bytes(33 + _Z85.index(c) for c in encoded)).hex()
    uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    name = f"deletion_vector_{uuid}.bin"
    return f"{folder}/{name}" if folder else name


def needed_files(live: Iterable[DataFile], after_floor: Iterable[Commit]) -> set[str]:
    """The files that somebody may still read (N1).

    Args:
        live: those of the newest version. after_floor: every commit above the
            floor, the newest included.
    """
    needed: set[str] = set()
    for file in live:
        needed |= named_by(file)
    for commit in after_floor:
        for action in (*commit.removes, *commit.adds):
            needed |= named_by(action)
        needed.update(unquote(path) for path in commit.change_paths)
    return needed


def named_below(commits: Iterable[Commit]) -> set[str]:
    """The files that commits at or below the floor name (N2)."""
    named: set[str] = set()
    for commit in commits:
        for action in (*commit.removes, *commit.adds):
            named |= named_by(action)
        named.update(unquote(path) for path in commit.change_paths)
    return named


def removable(
    files: Iterable[StoredFile], needed: set[str], named: set[str], *, unnamed_before_ms: int
) -> list[StoredFile]:
    """The files that may go (N1, N2).

    Args:
        named: what commits at or below the floor name. unnamed_before_ms: files that no commit
            names may go when they are older than this instant.
    """
    return [
        f
        for f in files
        if f.path not in needed and (f.path in named or f.modified_ms < unnamed_before_ms)
    ]


def removable_log(names: Iterable[str], floor: int) -> list[str]:
    """The log files that may go, oldest first (N3); none without a checkpoint to start from.

    >>> names = [f"{v:020}.json" for v in range(4)] + [f"{2:020}.checkpoint.parquet"]
    >>> [int(n[:20]) for n in removable_log(names, 3)], removable_log(names, 1)
    ([0, 1], [])

    Args:
        names: of the log's files, without their folder. floor: the oldest version needed.
    """
    listed = list(names)
    base = max((v for v in _checkpoints(listed) if v <= floor), default=None)
    if base is None:
        return []
    return sorted(n for n in listed if _LOG_FILE.fullmatch(n) and int(n[:20]) < base)


def _checkpoints(names: Sequence[str]) -> set[int]:
    """The versions with a whole checkpoint: one file, or all the parts that its names promise."""
    parts: dict[int, int] = {}
    whole: set[int] = set()
    for name in names:
        match = _CHECKPOINT.fullmatch(name)
        if match is None:
            continue
        version = int(match[1])
        parts[version] = parts.get(version, 0) + 1
        if match[3] is None or parts[version] == int(match[3]):
            whole.add(version)
    return whole
