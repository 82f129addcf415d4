"""Delta tables in memory, as a store keeps them: the logs' texts and the files.

The commits are Delta's own text, so the engine's parser reads them; which commits conflict is
decided by Delta's rules as far as the engine relies on them. What a process sees of it is
:mod:`tests.simulation.memory_log`.

Left out of Delta's rules: read predicates (the engine gives none) and row tracking.

Source: the Delta protocol, "Delta Log Entries"; Delta 4.4's ConflictChecker.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Protocol

from ctsql.catalog.schemas import Column
from ctsql.runtime.log.actions import Commit, parse_commit

Row = tuple[Any, ...]
Bag = Counter[Row]


class Kill(BaseException):
    """The process is dead; nothing it still does has an effect."""


class Fate(Enum):
    """What becomes of a commit that is sent to the store."""

    ANSWERED = auto()
    REFUSED = auto()  # an error, and it is not in
    LOST = auto()  # an error, and it is in
    LATE = auto()  # an error, and it comes in later if its version is still free (answers_late)


class Link(Protocol):
    """One process's way to the store."""

    name: str

    def step(self, call: str, where: str) -> None:
        """Before every call to a table; may raise Kill, or an error of ours."""

    def fate(self, *, rows: bool) -> Fate:
        """What becomes of a commit; called after its step."""

    def noted(self, what: str, *, rows: bool | None = None) -> None:
        """Something rare happened; to a commit with or without rows."""


@dataclass(frozen=True, slots=True)
class File:
    """An added file. ``vector`` names the deletion vector's, ``deleted_count`` its cardinality."""

    path: str
    records: int
    vector: str | None = None
    deleted_count: int = 0

    @property
    def vector_id(self) -> str:
        """Names the deletion vector; empty for none."""
        return self.vector or ""

    def line(self, kind: str, *, data_change: bool) -> str:
        action: dict[str, Any] = {
            "path": self.path,
            "dataChange": data_change,
            "stats": json.dumps({"numRecords": self.records}),
        }
        if self.vector is not None:
            action["deletionVector"] = {
                "storageType": "p",
                "pathOrInlineDv": self.vector,
                "cardinality": self.deleted_count,
            }
        return json.dumps({kind: action})

    @staticmethod
    def of(line: str) -> "File":
        action = json.loads(line)["add"]
        vector = action.get("deletionVector", {})
        return File(
            action["path"],
            json.loads(action["stats"])["numRecords"],
            vector.get("pathOrInlineDv"),
            vector.get("cardinality", 0),
        )


@dataclass
class SentCommit:
    """A commit on its way into a log: what it read, and its actions."""

    by: str
    version_read: int
    actions: list[str]
    apps_read: frozenset[str] = frozenset()
    files_read: frozenset[str] = frozenset()
    was_late: bool = False
    all_read: bool = False

    def parsed(self, version: int = -1) -> Commit:
        return parse_commit(version, "\n".join(self.actions), modified_ms=0)


@dataclass
class Folder:
    """One table as the store keeps it, the same for every process.

    Attributes:
        files: rows by path. vectors: row numbers by file, by the vector file's name. owners: who
            wrote a file. named_files: those that some commit ever named. late: commits on their
            way, with the version they are for.
        sent_commits: by version, who committed it and what it read. commits: the same as read.
        schemas: by version, the columns as the log writes them.
    """

    store: "Store"
    location: str
    log: dict[int, str] = field(default_factory=dict)
    files: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    vectors: dict[str, dict[str, frozenset[int]]] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    named_files: set[str] = field(default_factory=set)
    late: list[tuple[int, SentCommit]] = field(default_factory=list)
    sent_commits: list[SentCommit] = field(default_factory=list)
    live: list[dict[str, File]] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    schemas: list[str] = field(default_factory=list)

    @property
    def newest(self) -> int:
        return len(self.sent_commits) - 1

    def conflict(self, attempt: SentCommit) -> str | None:
        """Why a commit cannot come after those it has not seen; None if it can."""
        ours = attempt.parsed()
        removed = {r.path for r in ours.removes}
        for version in range(attempt.version_read + 1, self.newest + 1):
            theirs = self.commits[version]
            gone = {r.path for r in theirs.removes}
            if any(app in attempt.apps_read for app, _ in theirs.transactions):
                return "ConcurrentTransaction"
            if attempt.all_read and theirs.changes_data:
                return "ConcurrentAppend"
            if theirs.changes_schema:
                return "MetadataChanged"
            if gone & attempt.files_read:
                return "ConcurrentDeleteRead"
            if gone & removed:
                return "ConcurrentDeleteDelete"
            if {d for d, _ in theirs.domains} & {d for d, _ in ours.domains}:
                return "DomainMetadata"
        return None

    def append(self, attempt: SentCommit) -> int:
        version = len(self.sent_commits)
        time_ms = self.store.clock_ms
        if self.commits:
            time_ms = max(time_ms, self.commits[-1].time_ms + 1)
        info = next(
            (json.loads(a) for a in attempt.actions if '"commitInfo"' in a), {"commitInfo": {}}
        )
        info["commitInfo"]["inCommitTimestamp"] = time_ms
        lines = [a for a in attempt.actions if '"commitInfo"' not in a]
        text = "\n".join([json.dumps(info), *lines])
        commit = parse_commit(version, text, modified_ms=time_ms)
        files = dict(self.live[-1]) if self.live else {}
        for removed in commit.removes:
            files.pop(removed.path, None)
        for added in commit.adds:
            file = File.of(added.line)
            files[file.path] = file
            self.named_files |= {file.path} | ({file.vector} if file.vector else set())
        self.sent_commits.append(attempt)
        self.log[version] = text
        self.commits.append(commit)
        self.live.append(files)
        before = self.schemas[-1] if self.schemas else ""
        given = (json.loads(a)["metaData"] for a in lines if '"metaData"' in a)
        self.schemas.append(next((m.get("schemaString", "") for m in given), before))
        self.store.on_commit(self, commit, attempt)
        return version

    def rows(self, file: File) -> Iterator[tuple[int, Row]]:
        """The live rows of a file with their numbers."""
        gone = self.vectors[file.vector][file.path] if file.vector else frozenset()
        return ((i, row) for i, row in enumerate(self.files[file.path]) if i not in gone)

    def contents(self, version: int) -> Bag:
        """The rows at a version; negative for none."""
        if version < 0:
            return Counter()
        return Counter(row for f in self.live[version].values() for _, row in self.rows(f))

    def write_file(self, rows: Sequence[Row], by: str) -> File:
        """A new data file that no commit names."""
        path = f"part-{self.store.number()}.parquet"
        self.files[path] = tuple(rows)
        self.owners[path] = by
        return File(path, len(rows))

    def write_vector(self, found: dict[str, frozenset[int]], by: str) -> str:
        """A new file of deletion vectors that no commit names."""
        name = f"deletion_vector_{self.store.number()}.bin"
        self.vectors[name] = found
        self.owners[name] = by
        return name

    def delete_file(self, path: str) -> None:
        self.store.on_delete(self, path)
        self.files.pop(path, None)
        self.vectors.pop(path, None)

    def unnamed(self) -> set[str]:
        """Files that no commit names, and none under way."""
        coming = {
            f
            for _, sent in self.late
            for a in sent.parsed().adds
            for f in (a.path, File.of(a.line).vector)
            if f is not None
        }
        return {*self.files, *self.vectors} - self.named_files - coming

    def clean_log(self, before: int) -> None:
        """Delete the texts of old commits; checkpoints hold the state they led to."""
        for version in [v for v in self.log if v < before]:
            del self.log[version]


def schema_text(columns: Sequence[Column]) -> str:
    """Columns as the log writes them."""
    types = {"int": "integer"}
    fields = [
        {"name": c.name, "type": types.get(c.type, c.type), "nullable": c.nullable, "metadata": {}}
        for c in columns
    ]
    return json.dumps({"type": "struct", "fields": fields})


COLUMNS = (Column("k", "int"), Column("v", "int"))
"""Those of all tables but a few."""


def metadata_action(
    configuration: dict[str, str], schema: str = schema_text(COLUMNS)
) -> dict[str, Any]:
    """The action that gives a table its properties and its columns."""
    return {"metaData": {"id": "one", "configuration": configuration, "schemaString": schema}}


class Store:
    """All tables, and the clock by which commits get their times."""

    def __init__(self) -> None:
        self.folders: dict[str, Folder] = {}
        self.clock_ms = 1_000
        self.answers_late = False
        self.on_commit: Callable[[Folder, Commit, SentCommit], None] = lambda *_: None
        self.on_delete: Callable[[Folder, str], None] = lambda *_: None
        self._numbers = 0

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def make(self, location: str, **configuration: str) -> Folder:
        folder = self.folders[location] = Folder(self, location)
        metadata = json.dumps(metadata_action(configuration))
        folder.append(SentCommit("setup", -1, [metadata]))
        return folder
