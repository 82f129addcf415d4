"""One commit of a Delta log as a value, and the kind of its change. Pure: reads the file's text.

Source: the Delta protocol, "Actions". If a commit removes a file and adds it again with a larger
deletion vector, it deletes rows only. Vectors shrink only if a table goes back to an old version.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from sys import getsizeof
from typing import Any, Self

from ctsql.runtime.log.table_metadata import TableMetadata

_COUNT_FIRST = re.compile(r'\{"numRecords": ?(\d+)[,}]', re.ASCII)
FILE_BYTES = 384  # memory of a :class:`DataFile` without its texts
TIME_TAG = "ctsql.t"  # tag of a file: the T of its rows, if several Ts share the commit


class DataFile:
    """A file with rows of a table, by the JSON of its ``add`` or ``remove`` action.

    Many are kept in memory, so rarely read fields stay text.

    Attributes:
        path: as the log writes it.
        data_change: whether the action changes rows; that of OPTIMIZE does not.
        time: the T of its rows, if several Ts share the commit.
        records_count: the number of its rows, deleted ones included; None without statistics.
        vector_id: identifies its deletion vector; empty if it has none.
        memory: its bytes in memory, its entry in a mapping included.
    """

    __slots__ = (
        "__weakref__", "_others", "data_change", "deleted_count", "memory", "path", "records_count",
        "statistics", "time", "vector_id",
    )  # fmt: skip

    def __init__(self, line: str) -> None:
        """Raises KeyError, TypeError, ValueError or AttributeError if the action is damaged."""
        (action,) = json.loads(line).values()
        self._take(action)

    @classmethod
    def of(cls, action: Mapping[str, Any]) -> Self:
        """From the fields of an action; raises as the constructor does."""
        made = cls.__new__(cls)
        made._take(action)
        return made

    def _take(self, action: Mapping[str, Any]) -> None:
        others = dict(action)
        self.path = str(others["path"])
        self.data_change = bool(others.get("dataChange", True))
        time = (others.get("tags") or {}).get(TIME_TAG)
        self.time = None if time is None else int(time)
        self.statistics: str | None = others.pop("stats", None)
        self.records_count = _records_count(self.statistics or "{}")
        vector = others.get("deletionVector")
        self.vector_id = "" if vector is None else _vector_id(vector)
        self.deleted_count = 0 if vector is None else int(vector["cardinality"])
        self._others = json.dumps(others)
        texts = (self.path, self.statistics or "", self._others, self.vector_id)
        self.memory = FILE_BYTES + sum(map(getsizeof, texts))

    @property
    def action(self) -> dict[str, Any]:
        """The fields of the action."""
        fields: dict[str, Any] = json.loads(self._others)
        return fields if self.statistics is None else {**fields, "stats": self.statistics}

    @property
    def line(self) -> str:
        """The action as a line of a log: that of an ``add``."""
        return json.dumps({"add": self.action})

    @property
    def size(self) -> int:
        """In bytes."""
        return int(self.action["size"])

    @property
    def partition(self) -> tuple[tuple[str, str | None], ...]:
        """Its partition values; only files with equal ones may be compacted together."""
        return tuple(sorted((self.action.get("partitionValues") or {}).items()))

    @property
    def vector(self) -> dict[str, Any] | None:
        """The descriptor of its deletion vector."""
        return self.action.get("deletionVector")

    @property
    def rows_count(self) -> int | None:
        """The number of its live rows; None without statistics."""
        return None if self.records_count is None else self.records_count - self.deleted_count

    @property
    def deleted_share(self) -> float:
        """The fraction of its rows that is deleted, between 0 and 1; 1 if it is unknown."""
        if not self.deleted_count:
            return 0.0
        return self.deleted_count / self.records_count if self.records_count else 1.0

    @property
    def live_bytes(self) -> int:
        """Its estimated size without deleted rows."""
        return round(self.size * (1 - self.deleted_share))

    def with_vector(self, vector: dict[str, Any]) -> Self:
        """The same file with another deletion vector, as a commit that changes rows adds it."""
        action = {**self.action, "deletionVector": vector, "dataChange": True}
        if self.statistics is not None:
            # The minimum or the maximum may be that of a deleted row.
            action["stats"] = json.dumps({**json.loads(self.statistics), "tightBounds": False})
        return type(self).of(action)


def _records_count(statistics: str) -> int | None:
    # The bounds of the columns take longer to read than all the rest of a commit.
    first = _COUNT_FIRST.match(statistics)
    if first is not None and statistics.endswith("}"):
        return int(first[1])
    count = json.loads(statistics).get("numRecords")
    return None if count is None else int(count)


def _vector_id(vector: Mapping[str, Any]) -> str:
    offset = f"@{vector['offset']}" if vector.get("offset") is not None else ""
    return f"{vector['storageType']}{vector['pathOrInlineDv']}{offset}"


def select_changed(
    files: Mapping[str, DataFile], others: Mapping[str, DataFile]
) -> dict[str, DataFile]:
    """The files that are missing among others or have another deletion vector there."""
    return {
        path: file
        for path, file in files.items()
        if path not in others or others[path].vector_id != file.vector_id
    }


def is_elsewhere(path: str) -> bool:
    """Whether a file is named by its whole path, as a shallow clone names those of its origin.

    >>> [is_elsewhere(p) for p in ("file:/a/b", "s3a://a/b", "/a/b", "x=file%3A/b")]
    [True, True, True, False]
    """
    return path.startswith(("/", "file:")) or "://" in path


Bin = tuple[DataFile, ...]  # files that are rewritten together


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file in a table's folder; ``path`` is relative and decoded."""

    path: str
    size: int
    modified_ms: int


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
"""Metrics with which Delta's Spark and Rust writers count changed rows."""

COMMIT_BYTES = 512  # memory of a :class:`Commit` without its texts and files
METADATA_CACHED_MAX = 64  # commits whose parsed user metadata is cached; a few kilobytes each
ITEM_BYTES = 128  # memory of an item of its tuples in addition to its text
TREE_GROWS = 8  # parsed JSON takes at most so many times the memory of its text

_decode = json.JSONDecoder().raw_decode
_GOING_BACK = ("RESTORE", "CLONE")  # operations that may give a file an earlier deletion vector


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
            COMMIT_BYTES
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
    MIXED = "mixed"  # only the rows show it
    FAILED = "failed"  # an output's contents became an error; never of a source


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
    """The numbers of rows inserted and deleted; None if the log lacks it."""
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
    """Apply commits, oldest first, to the live files by path; changes and returns the mapping."""
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
    """Whether its metadata or metrics announce actions that are missing."""
    upper = commit.metadata.get("upper")
    if upper is not None:
        return upper not in dict(commit.transactions).values()
    if "token" in commit.metadata or commit.adds or commit.removes or commit.change_paths:
        return False  # ctsql may have staged rows that the commit does not add
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
    in_commit_ms = info.get("inCommitTimestamp")
    domains = (
        (d["domain"], None if d.get("removed", False) else d["configuration"])
        for d in by_kind["domainMetadata"]
    )
    return Commit(
        version=version,
        time_ms=modified_ms if in_commit_ms is None else int(in_commit_ms),
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
    """Read a version checksum file; values are None if the file lacks them."""
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
