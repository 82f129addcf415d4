"""One commit of a Delta log as a value, and what kind of change it is.

Pure: reads the text of a commit file, no store and no Spark.

Source: the Delta protocol, "Actions". An add that replaces a remove of the same path with a larger
deletion vector deletes rows and inserts none: the vectors of a file only grow, but where a table
goes back to an earlier version. That may bring rows back and delete others.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from sys import getsizeof
from typing import Any

from ctsql.runtime.log.data_files import DataFile
from ctsql.runtime.log.table_metadata import TableMetadata

ROWS_CHANGED = (
    "numOutputRows",
    "numDeletedRows",
    "numUpdatedRows",
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
    "numTargetRowsDeleted",
    "num_added_rows",
    "num_updated_rows",
    "num_deleted_rows",
)
"""Metrics, of Delta's Spark and Rust writers, that say that a commit changed rows."""


OBJECT_BYTES = 512
"""What a :class:`Commit` takes without its texts and files."""
METADATA_CACHED_MAX = 64
"""The user metadata of so many commits, a few kilobytes each, is kept as it was read."""
ITEM_BYTES = 128
"""What an item of its tuples takes beside its text."""
TREE_GROWS = 8
"""So many times as much as its text an object of JSON takes, and what is made of it."""

_decode = json.JSONDecoder().raw_decode
_GOING_BACK = ("RESTORE", "CLONE")
"""Operations after which a file may have any of its earlier deletion vectors."""


@lru_cache(maxsize=METADATA_CACHED_MAX)
def _read_metadata(text: str) -> dict[str, Any]:
    try:
        metadata = json.loads(text)
    except json.JSONDecodeError:
        return {}
    return metadata if isinstance(metadata, dict) else {}


class DamagedCommit(ValueError):
    """A commit file is damaged; the message continues a sentence that begins with its name."""


@dataclass(frozen=True)
class Commit:
    """One commit; ``table`` and ``protocol`` are the new ones, None if unchanged.

    ``time_ms`` is the in-commit timestamp; without one, the time of the commit's file.
    """

    version: int
    time_ms: int
    adds: tuple[DataFile, ...]
    removes: tuple[DataFile, ...]
    change_paths: tuple[str, ...]
    transactions: tuple[tuple[str, int], ...]
    domains: tuple[tuple[str, str | None], ...]
    user_metadata: str | None
    table: TableMetadata | None = None
    protocol: dict[str, Any] | None = None
    operation: str | None = None

    @property
    def changes_schema(self) -> bool:
        """Whether it has a metadata action."""
        return self.table is not None

    def transaction(self, app: str) -> int | None:
        """The version this commit records for an application id."""
        return dict(self.transactions).get(app)

    @property
    def metadata(self) -> dict[str, Any]:
        """The user metadata as JSON, not to be changed; empty if it is not a JSON object."""
        return _read_metadata(self.user_metadata or "{}")

    @property
    def memory(self) -> int:
        """The bytes that this object takes, roughly and at least."""
        texts = [text or "" for pair in self.domains for text in pair]
        texts += [*self.change_paths, *(app for app, _ in self.transactions)]
        table = "" if self.table is None else f"{self.table.schema_text}{self.table.configuration}"
        protocol = "" if self.protocol is None else str(self.protocol)
        return (
            OBJECT_BYTES
            + sum(file.memory for file in (*self.adds, *self.removes))
            + sum(ITEM_BYTES + getsizeof(text) for text in (self.user_metadata or "", *texts))
            + TREE_GROWS * (getsizeof(table) + getsizeof(protocol))
        )

    @property
    def changes_data(self) -> bool:
        """Whether the commit changes rows; OPTIMIZE, for example, does not."""
        return bool(self.change_paths) or any(
            action.data_change for action in (*self.adds, *self.removes)
        )


class RowChange(Enum):
    """What a commit does to a table's rows, according to its log."""

    NONE = "none"  # no row
    APPEND = "append"  # inserts only
    DELETE = "delete"  # deletes only
    MIXED = "mixed"  # the rows have to be looked at
    FAILED = "failed"  # what an output holds has become an error; no commit of a source is this


def classify(commit: Commit) -> RowChange:
    """Classify a commit by its actions alone."""
    if not commit.changes_data:
        return RowChange.NONE
    if commit.change_paths:
        return RowChange.MIXED
    adds = [a for a in commit.adds if a.data_change]
    removes = {r.path: r for r in commit.removes if r.data_change}
    if not removes:
        live = [a for a in adds if a.rows_count != 0]
        if any(a.deleted_count for a in live):
            return RowChange.MIXED
        return RowChange.APPEND if live else RowChange.NONE
    grown = all(_has_grown(commit, removes.get(a.path), a) for a in adds)
    return RowChange.DELETE if grown else RowChange.MIXED


def _has_grown(commit: Commit, old: DataFile | None, new: DataFile) -> bool:
    """Whether a commit only deletes rows of a file."""
    is_larger = old is not None and new.deleted_count > old.deleted_count
    return is_larger and commit.operation not in _GOING_BACK


def rows_changed(commit: Commit) -> tuple[int | None, int | None]:
    """The numbers of rows a commit inserts and deletes; None where the log does not say.

    A file added again with a larger deletion vector deletes the rows by which the vector grew.
    """
    removes = {r.path: r for r in commit.removes if r.data_change}
    adds = {a.path: a for a in commit.adds if a.data_change}
    if not all(_has_grown(commit, removes[path], adds[path]) for path in adds.keys() & removes):
        return None, None
    insert_counts = [a.rows_count for path, a in adds.items() if path not in removes]
    delete_counts: list[int | None] = [
        r.rows_count if path not in adds else adds[path].deleted_count - r.deleted_count
        for path, r in removes.items()
    ]
    return sum_known(insert_counts), sum_known(delete_counts)


def roll_files(files: dict[str, DataFile], commits: Iterable[Commit]) -> dict[str, DataFile]:
    """Live files by path, which are changed to those after some commits, oldest first."""
    for commit in commits:
        for remove in commit.removes:
            files.pop(remove.path, None)
        for add in commit.adds:
            files[add.path] = add
    return files


def sum_known(counts: Iterable[int | None]) -> int | None:
    """The sum; None if a count is None."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def parse_commit(version: int, text: str, *, modified_ms: int) -> Commit:
    """Read a commit file; ``modified_ms`` is its own time. Raises :class:`DamagedCommit`."""
    actions = list(_actions(text))
    if not actions:
        raise DamagedCommit("it is empty")
    try:
        commit = _commit(version, actions, modified_ms)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise DamagedCommit("its actions are not those of a Delta commit") from problem
    if _is_cut_off(commit, actions):
        raise DamagedCommit("it is cut off")
    return commit


def _is_cut_off(commit: Commit, actions: Sequence[dict[str, Any]]) -> bool:
    """Whether a line announces actions that are missing."""
    upper = commit.metadata.get("upper")
    if upper is not None:
        return upper not in dict(commit.transactions).values()
    if "token" in commit.metadata or commit.adds or commit.removes or commit.change_paths:
        return False  # a commit of ours may have staged rows that it does not add
    infos = (info for action in actions if (info := action.get("commitInfo")) is not None)
    metrics = [m for info in infos if isinstance(m := info.get("operationMetrics"), dict)]
    counts = (str(metric.get(name)) for metric in metrics for name in ROWS_CHANGED)
    return any(count.isdecimal() and int(count) > 0 for count in counts)


def _actions(text: str) -> Iterator[dict[str, Any]]:
    # Not splitlines(): a value in a line may have U+2028 and the like.
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.strip()
        if not line:
            continue
        try:
            action, end = _decode(line)  # loads() looks for white space around it again
            if end != len(line):
                raise json.JSONDecodeError("Extra data", line, end)
        except json.JSONDecodeError as problem:
            raise DamagedCommit(f"line {number} is cut off or is no JSON") from problem
        if not isinstance(action, dict):
            raise DamagedCommit(f"line {number} is no action")
        yield action


def _commit(version: int, actions: Sequence[dict[str, Any]], modified_ms: int) -> Commit:
    by_kind: defaultdict[str, list[Any]] = defaultdict(list)
    for action in actions:
        for kind, fields in action.items():
            if fields is not None:  # some writers name all kinds in each line
                by_kind[kind].append(fields)
    info = by_kind["commitInfo"][-1] if by_kind["commitInfo"] else {}
    told_ms = info.get("inCommitTimestamp")
    domains = (
        (d["domain"], None if d.get("removed", False) else d["configuration"])
        for d in by_kind["domainMetadata"]
    )
    return Commit(
        version=version,
        time_ms=modified_ms if told_ms is None else int(told_ms),
        adds=tuple(map(DataFile.of, by_kind["add"])),
        removes=tuple(map(DataFile.of, by_kind["remove"])),
        change_paths=tuple(change["path"] for change in by_kind["cdc"]),
        transactions=tuple((txn["appId"], int(txn["version"])) for txn in by_kind["txn"]),
        domains=tuple(domains),
        user_metadata=info.get("userMetadata"),
        table=TableMetadata(by_kind["metaData"][-1]) if by_kind["metaData"] else None,
        protocol=by_kind["protocol"][-1] if by_kind["protocol"] else None,
        operation=info.get("operation"),
    )


def parse_checksum(text: str) -> dict[str, Any]:
    """Read a version checksum file; None for what it lacks.

    Returns:
        transactions, domains, files, files_count, table and protocol.
    """
    checksum = json.loads(text)
    kinds = ("transactions", "domains", "files", "files_count", "table", "protocol")
    fields: dict[str, Any] = dict.fromkeys(kinds)
    if (transactions := checksum.get("setTransactions")) is not None:
        fields["transactions"] = {t["appId"]: int(t["version"]) for t in transactions}
    if (domains := checksum.get("domainMetadata")) is not None:
        there = (d for d in domains if not d.get("removed", False))
        fields["domains"] = {d["domain"]: d["configuration"] for d in there}
    if checksum.get("metadata"):
        fields["table"] = TableMetadata(checksum["metadata"])
    fields["protocol"] = checksum.get("protocol")
    fields["files_count"] = checksum.get("numFiles")
    if (files := checksum.get("allFiles")) is not None:
        fields["files"] = {f["path"]: DataFile.of(f) for f in files}
    return fields
