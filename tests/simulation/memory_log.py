"""Delta tables in memory, as one process sees them: the engine's interface to a log, and no Spark.

Everything that a process asks of the store goes through its :class:`Link`, which may let others go
first, fail the call, or end the process: after that nothing of it reaches the store any more, as
after ``kill -9``.
"""

import json
import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

from pyspark.sql.types import StructType

from ctsql.catalog.errors import error
from ctsql.catalog.reserved_columns import DIFF
from ctsql.runtime.log.actions import Commit, parse_commit
from ctsql.runtime.log.batches import StagedDelete, StagedFile
from ctsql.runtime.log.protocol import Conflict, RowsGone
from ctsql.runtime.log.table_changes import added_files
from ctsql.runtime.log.table_metadata import TableMetadata
from tests.simulation.memory_store import (
    Bag,
    Fate,
    File,
    Folder,
    Link,
    Row,
    SentCommit,
    Store,
    metadata_action,
)


class Rows:
    """A DataFrame as far as the engine needs one when nothing is computed by Spark.

    ``places`` are (file, row number) of each row, where they are asked for.
    """

    def __init__(self, rows: Iterable[Row], places: Sequence[tuple[str, int]] = ()) -> None:
        self.rows = list(rows)
        self.places = list(places)
        self.schema = StructType()
        self.sparkSession = Session()

    def bag(self) -> Bag:
        return Counter(self.rows)

    def isEmpty(self) -> bool:
        return not self.rows

    is_local = True

    @property
    def frame(self) -> "Rows":
        return self

    plain_frame = frame

    def coalesce(self, partitions: int) -> "Rows":
        return self

    def unionByName(self, other: "Rows", allowMissingColumns: bool = False) -> "Rows":
        return Rows([*self.rows, *other.rows])

    def withColumn(self, name: str, value: object) -> "Rows":
        """A column of Delta's that nobody here reads."""
        return self

    def persist(self, level: object) -> "Rows":
        return self

    def unpersist(self) -> None:
        """Nothing is kept."""

    def where(self, condition: str) -> "Rows":
        """The rows of the timeline's archive before a T, or at it; of a change those inserted."""
        column, sign, value = condition.split()
        if column == DIFF:
            return self  # the change feed here tells of no others
        compare = {"<": operator.lt, "=": operator.eq}[sign]
        return Rows(row for row in self.rows if compare(row[0], int(value)))

    def orderBy(self, column: str, *, ascending: bool) -> "Rows":
        return Rows(sorted(self.rows, reverse=not ascending))

    def limit(self, count: int) -> "Rows":
        return Rows(self.rows[:count])

    def collect(self) -> list[dict[str, Any]]:
        """The rows of the timeline's archive."""
        return [dict(zip(("t", "source", "version"), row, strict=True)) for row in self.rows]


class Session:
    """A SparkSession as far as the engine needs one; its own ``conf``."""

    def __init__(self) -> None:
        self.conf = self
        settings = SimpleNamespace(put=lambda *_: None, remove=lambda *_: None)
        state = SimpleNamespace(conf=lambda: SimpleNamespace(settings=lambda: settings))
        self._jsparkSession = SimpleNamespace(sessionState=lambda: state)

    def get(self, name: str, default: str | None = None) -> str:
        """A sum that is too large is an error; no other setting matters."""
        return "true"


class MemoryGateway:
    """What :class:`ctsql.runtime.delta.table.Gateway` is to the engine, for one process."""

    read_only = False

    def __init__(self, store: Store, link: Link) -> None:
        self.store = store
        self.link = link
        self.session = Session()
        self._tables: dict[str, MemoryTable] = {}

    def rows_of(self, rows: Sequence[Row], columns: str) -> Rows:
        return Rows(rows)

    def table(self, location: str) -> "MemoryTable":
        """The table at a location; the same object for the same location."""
        found = self._tables.get(location)
        if found is None:
            found = self._tables[location] = MemoryTable(self, self.store.folders[location])
        return found

    def output_table(self, location: str) -> "MemoryTable":
        """The table of an output; here as any other."""
        return self.table(location)

    def create_table(self, location: str, columns: str, properties: object) -> None:
        self.store.make(location)

    def keep_log(self, location: str, *, keeps: bool) -> None:
        """The store here cleans no log up."""

    def entries(self, location: str) -> list[str]:
        """No folder has others."""
        return []

    def exists(self, location: str) -> bool:
        self.link.step("has", location)
        return location in self.store.folders

    def forget(self, location: str) -> None:
        self._tables.pop(location, None)


class Identity:
    """Which table it is is never in doubt."""

    owner: str | None = None
    expected: str | None = None
    newest = 1 << 62

    def expect(self, owner: str, table_id: str | None, _replaced_error: object) -> None:
        """Whose it is."""
        self.owner, self.expected = owner, table_id


class Versions:
    """All are read alike."""

    def read_alike(self, _first: int, _last: int) -> bool:
        """They are."""
        return True


class MemoryTable:
    """What :class:`ctsql.runtime.delta.table.DeltaTable` is to the engine, for one process."""

    def __init__(self, gateway: MemoryGateway, folder: Folder) -> None:
        self.gateway = gateway
        self.folder = folder
        self.location = folder.location
        self._link = gateway.link
        self._commits: dict[int, Commit] = {}
        self._version = -1
        self.own_id = ""
        self.identity = Identity()
        self.versions = Versions()

    def has(self, version: int) -> bool:
        self._link.step("has", self.location)
        return version in self.folder.log

    def oldest_kept_after(self, version: int) -> int | None:
        """None: a source's commit is not cleaned up here before it has a T."""
        return None

    def update(self) -> int:
        """The newest version, as a snapshot."""
        if self._version < 0 or self.has(self._version + 1):
            self._link.step("update", self.location)
            self._version = self.folder.newest
        return self._version

    def version(self) -> int:
        return self.update()

    def commit_at(self, version: int) -> Commit:
        """One commit, parsed; HISTORY_LOST when it was cleaned up."""
        found = self._commits.get(version)
        if found is None:
            self._link.step("commit_at", self.location)
            text = self.folder.log.get(version)
            if text is None:
                raise error(
                    "HISTORY_LOST", relation=self.location, detail=f"Version {version}.", hint=""
                )
            found = self._commits[version] = parse_commit(version, text, modified_ms=0)
        return found

    def application_version(self, app: str) -> int | None:
        snapshot = self.update()
        self._link.step("transaction_version", self.location)
        found = (self.folder.commits[v].transaction(app) for v in range(snapshot + 1))
        return max((u for u in found if u is not None), default=None)

    def check_whole(self) -> None:
        """No commit is damaged or missing here, but for those that a test damages."""

    def check_same(self, *, near: bool = False) -> None:
        """Nobody makes a table anew here."""

    def reshapes(self, version: int) -> bool:
        """Nobody changes the columns of a source here."""
        return False

    def metadata_at(self, version: int) -> TableMetadata:
        """The metadata of a version; the same object for the same columns."""
        return _metadata(self.folder.schemas[version])

    def schema_at(self, version: int) -> StructType:
        return _columns(self.folder.schemas[version])

    @property
    def table_id(self) -> str:
        return self.own_id or self.location

    @property
    def answers_late(self) -> bool:
        return self.folder.store.answers_late

    def domains(self) -> tuple[int, dict[str, str]]:
        version = self.update()
        found: dict[str, str | None] = {}
        for commit in self.folder.commits[: version + 1]:
            found.update(commit.domains)
        return version, {k: v for k, v in found.items() if v is not None}

    def configuration(self) -> dict[str, str]:
        line = self.folder.sent_commits[0].actions[0]
        found: dict[str, str] = json.loads(line)["metaData"]["configuration"]
        return found

    @property
    def schema(self) -> StructType:
        return self.schema_at(self.update())

    def schema_text(self) -> str:
        """The same, as the log writes them."""
        return self.folder.schemas[self.update()]

    def files(self, version: int) -> dict[str, File]:
        return self.folder.live[version]

    def rows_count(self, version: int) -> int:
        return sum(f.records - f.deleted_count for f in self.files(version).values())

    def frame(self, version: int) -> Rows:
        return self.frame_of(self.files(version).values())

    def frame_of(self, files: Iterable[File]) -> Rows:
        self._link.step("read", self.location)
        found = Rows(row for f in files for _, row in self.folder.rows(f))
        found.schema = self.schema_at(self.folder.newest)
        return found

    def locate_rows(self, version: int) -> Rows:
        self._link.step("read", self.location)
        found = [
            (row, (f.path, i))
            for f in self.files(version).values()
            for i, row in self.folder.rows(f)
        ]
        return Rows([row for row, _ in found], [place for _, place in found])

    def is_stored(self, version: int) -> bool:
        """Not in files."""
        return False

    def added_rows(self, versions: Sequence[int], times: range | None = None) -> Rows:
        """The rows of the files added by commits that do nothing else."""
        table: Any = self
        adds = added_files(table.commit_at, versions, times)
        return self.frame_of([File.of(a.line) for a in adds])

    def change_rows(self, first: int, last: int) -> Rows:
        """The rows that the commits first..last insert, net."""
        self._link.step("read", self.location)
        return Rows((self.folder.contents(last) - self.folder.contents(first - 1)).elements())

    def discard(self, paths: Iterable[str]) -> None:
        for path in sorted(paths):
            self._link.step("delete", self.location)
            self.folder.delete_file(path)

    def missing(self, paths: Iterable[str]) -> list[str]:
        self._link.step("missing", self.location)
        return [p for p in sorted(paths) if p not in self.folder.files | self.folder.vectors]

    def begin(self) -> "MemoryTransaction":
        """Start a transaction, as a rule on the newest version."""
        self._link.step("begin", self.location)
        self._version = self.folder.newest
        return MemoryTransaction(self, self._version)


@cache
def _columns(schema: str) -> StructType:
    return StructType.fromJson(json.loads(schema))


@cache
def _metadata(schema: str) -> TableMetadata:
    return TableMetadata({"id": "one", "schemaString": schema})


class MemoryTransaction:
    """What :class:`ctsql.runtime.delta.transaction.OptimisticTransaction` is to the engine."""

    def __init__(self, table: MemoryTable, version_read: int) -> None:
        self.table = table
        self.version_read = version_read
        self._folder = table.folder
        self._link = table.gateway.link
        self._apps: set[str] = set()
        self._files_read: set[str] = set()
        self._actions: list[str] = []
        self._all_read = False

    def set_columns(self, schema: str) -> None:
        metadata = metadata_action(self.table.configuration(), schema)
        self._actions.append(json.dumps(metadata))

    def overwrite_with_schema(self, schema: str) -> None:
        """Give the table other columns, and take away all that it holds."""
        self.depend_on_all()
        self.set_columns(schema)
        for file in self.table.files(self.version_read).values():
            self._actions.append(file.line("remove", data_change=True))

    def read_application(self, app: str) -> None:
        self._apps.add(app)

    def depend_on_all(self) -> None:
        self._all_read = True

    def revert(self, version: int) -> None:
        """Add the reverse of what a version did."""
        before, after = self.table.files(version - 1), self.table.files(version)
        live = self.table.files(self.version_read)
        for path, file in after.items():
            if before.get(path) != file:
                if live.get(path) != file:
                    raise RowsGone(path)
                self._files_read.add(path)
                self._actions.append(file.line("remove", data_change=True))
        for path, file in before.items():
            if after.get(path) != file:
                self._actions.append(file.line("add", data_change=True))

    def set_application(self, app: str, version: int, now_ms: int) -> None:
        self._actions.append(json.dumps({"txn": {"appId": app, "version": version}}))

    def set_domain(self, domain: str, configuration: str, *, removed: bool = False) -> None:
        action = {"domain": domain, "configuration": configuration, "removed": removed}
        self._actions.append(json.dumps({"domainMetadata": action}))

    def stage(self, rows: Rows) -> list[StagedFile]:
        """Write rows into a file that no commit names."""
        self._link.step("stage", self.table.location)
        file = self._folder.write_file(rows.rows, self._link.name)
        return [StagedFile(file.path, file.line("add", data_change=True))]

    def add_files(self, files: Iterable[StagedFile]) -> None:
        self._actions += [f.action for f in files]

    def stage_deletes(
        self, victims: Iterable[tuple[str, frozenset[int]]]
    ) -> tuple[list[StagedDelete], list[StagedFile]]:
        """Write down rows of the version read to delete."""
        live = self.table.files(self.version_read)
        gone = {path: self._gone(live[path]) | numbers for path, numbers in victims}
        added = {path: len(gone[path] - self._gone(live[path])) for path in gone}
        return self._written([(live[path], gone[path], added[path]) for path in gone]), []

    def delete(self, deletions: Iterable[StagedDelete]) -> set[str]:
        """Add staged deletions, joined where a file has lost other rows since."""
        by_file: dict[str, list[StagedDelete]] = {}
        for one in deletions:
            by_file.setdefault(one.path, []).append(one)
        live = self.table.files(self.version_read)
        used: set[str] = set()
        joined: list[StagedDelete] = []
        for path, deletes in by_file.items():
            file = live.get(path)
            try:
                if file is None:
                    raise RowsGone(path)
                self._files_read.add(path)
                if len(deletes) > 1 or deletes[0].known_vector != (file.vector or ""):
                    deletes = [self._joined(file, deletes)]
                    joined += deletes
                    self._link.noted("staged deletions were joined with others")
            except RowsGone:
                self.table.discard({one.vector_file for one in joined if one.vector_file})
                raise
            (one,) = deletes
            self._actions.append(file.line("remove", data_change=True))
            if one.action is not None and one.vector_file is not None:
                self._actions.append(one.action)
                used.add(one.vector_file)
        return used

    def _joined(self, file: File, deletes: Sequence[StagedDelete]) -> StagedDelete:
        rows_count = sum(one.rows_count for one in deletes)
        before = self._gone(file)
        gone = before
        for one in deletes:
            if one.action is None:
                raise RowsGone(file.path)
            gone |= self._gone(File.of(one.action))
        if len(gone) != len(before) + rows_count:
            raise RowsGone(file.path)
        (made,) = self._written([(file, gone, rows_count)])
        return made

    def _gone(self, file: File) -> frozenset[int]:
        return self._folder.vectors[file.vector][file.path] if file.vector else frozenset()

    def _written(self, deletions: list[tuple[File, frozenset[int], int]]) -> list[StagedDelete]:
        """Deletions with their vectors in one new file, where a vector is needed."""
        found = {file.path: gone for file, gone, _ in deletions if len(gone) < file.records}
        name = None
        if found:
            self._link.step("stage", self.table.location)
            name = self._folder.write_vector(found, self._link.name)
        return [
            StagedDelete(
                path=file.path,
                rows_count=rows_count,
                known_vector=file.vector or "",
                action=None
                if file.path not in found
                else File(file.path, file.records, name, len(gone)).line("add", data_change=True),
                vector_file=None if file.path not in found else name,
            )
            for file, gone, rows_count in deletions
        ]

    def commit(self, *, label: str, epoch: int, metadata: str) -> int:
        """Commit; gives the new version, or raises Conflict or an error of the store."""
        link, folder = self._link, self._folder
        link.step("commit", self.table.location)
        info = json.dumps({"commitInfo": {"userMetadata": metadata}})
        sent = SentCommit(
            link.name,
            self.version_read,
            [info, *self._actions],
            frozenset(self._apps),
            frozenset(self._files_read),
            all_read=self._all_read,
        )
        has_rows = bool(sent.parsed().adds)
        reason = folder.conflict(sent)
        if reason is not None:
            link.noted(reason, rows=has_rows)
            raise Conflict(reason)
        fate = link.fate(rows=has_rows)
        if fate is Fate.LATE:
            sent.was_late = True
            folder.late.append((folder.newest + 1, sent))
        elif fate is not Fate.REFUSED:
            version = folder.append(sent)
            if fate is Fate.ANSWERED:
                link.step("answer", self.table.location)
                return version
        link.step("answer", self.table.location)
        raise error("STORAGE_ERROR", message="the answer was lost", detail=fate.name, hint="")
