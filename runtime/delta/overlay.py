"""Tables whose new commits are kept in memory, for read-only connections.

    stored commits 0 .. n (on disk, pinned)  |  commits n + 1 .. m (in memory only)

Timeline and sinks run as in a writing connection; only their tables keep commits in memory.

[nothing-in-folder] nothing is written into any folder of the warehouse.
[pinned-store] the stored part is pinned when the table is opened. When
    :meth:`ReadOnlyGateway.is_stale` reports later commits, the engine starts again from storage.
[rows-in-spark] inserted rows are computed once and persisted by Spark, in memory or on its local
    disks; deleted rows are kept as file and row number in the driver, eight bytes each.

If an executor and its rows are lost, that read fails and the next one computes them again. NOT
NULL columns are checked here, as Delta does; outputs have no CHECK constraints.
"""

import uuid
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.types import StructType

from ctsql.catalog.errors import Declined
from ctsql.catalog.names import backtick, backtick_all
from ctsql.catalog.reserved_columns import FILE_COLUMN, ROW_COLUMN
from ctsql.planner.lowering.spark_types import declare_as
from ctsql.runtime.delta.log.log_files import Snapshot
from ctsql.runtime.delta.log.table_log import LOOKS_APART_MS
from ctsql.runtime.delta.table import CHANGE_TYPE, DeltaTable, Gateway
from ctsql.runtime.delta.transaction import OptimisticTransaction
from ctsql.runtime.log import clock
from ctsql.runtime.log.actions import Commit, DataFile
from ctsql.runtime.log.batches import StagedDelete, StagedFile
from ctsql.runtime.log.protocol import Conflict
from ctsql.runtime.log.table_metadata import TableMetadata
from ctsql.runtime.rows.row_set import RowSet, computed, row_set
from ctsql.runtime.spark.failures.errors import translate_spark_errors

FILES_KEPT_MAX = 16  # more parts than this are combined into one, to keep plans small

Places = Mapping[str, "array[int]"]
OpenTables = dict[str, "MemoryTable"]


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """Rows staged in memory: computed, counted, and located like stored ones."""

    name: str
    rows: DataFrame
    rows_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCommit:
    """One commit in memory, and the table's rows in memory after it.

    ``parts`` and ``victims`` are those of all commits in memory up to it.
    """

    commit: Commit
    new_parts: tuple[MemoryPart, ...]
    new_victims: Places
    parts: tuple[MemoryPart, ...]
    victims: Places
    rows_count: int | None


class ReadOnlyGateway(Gateway):
    """Outputs and the timeline are tables in memory; every other table cannot be written."""

    read_only = True

    def __init__(self, session: SparkSession) -> None:
        super().__init__(session)
        self._memory_tables: OpenTables = {}
        self._asked_ms = clock.now_ms()

    def output_table(self, location: str) -> "MemoryTable":
        """The table of an output, the same object until :meth:`start_again`."""
        table = self._memory_tables.get(location)
        if table is None:
            table = self._memory_tables[location] = MemoryTable(self.table(location))
        return table

    def forget(self, location: str) -> None:
        """Drop the caches of a deleted table."""
        self._memory_tables.pop(location, None)
        super().forget(location)

    def is_stale(self) -> bool:
        """Whether a pinned table has a newer stored version."""
        asked_ms, self._asked_ms = self._asked_ms, clock.now_ms()
        slept = self._asked_ms - asked_ms >= LOOKS_APART_MS  # the next commits may be cleaned up
        return any(
            t.stored_table.has(t.stored_version + 1)
            or (slept and not t.stored_table.has(t.stored_version))
            for t in self._memory_tables.values()
        )

    def start_again(self, tables: OpenTables | None = None) -> OpenTables:
        """Drop all tables in memory, or restore earlier ones; returns those until now."""
        before, self._memory_tables = self._memory_tables, tables if tables is not None else {}
        return before


class MemoryTable(DeltaTable):
    """A stored table, pinned, and commits in memory on top of it."""

    def __init__(self, table: DeltaTable) -> None:
        """A table at its newest stored version."""
        newest = table.update()
        # The handles and the caches of what is stored are shared: nothing is opened twice.
        self.__dict__.update(table.__dict__)
        self.stored_table = table
        self._pinned_snapshot = self._snapshot = newest
        self.stored_version = self._pinned_snapshot.version
        self.steps: list[MemoryCommit] = []
        self.staged_rows: dict[str, MemoryPart] = {}
        self.staged_places: dict[str, array[int]] = {}

    def has(self, version: int) -> bool:
        """Whether this version is committed, in memory or in the pinned part."""
        if version > self.stored_version:
            return version <= self.version()
        return super().has(version)

    def update(self) -> Snapshot:
        """The pinned snapshot."""
        return self._pinned_snapshot

    def check_same(self, *, near: bool = False) -> None:
        """Check that the log is still the one that was read."""
        self.stored_table.check_same(near=near)

    def version(self) -> int:
        """The newest version, including those in memory."""
        return self.stored_version + len(self.steps)

    def step(self, version: int) -> MemoryCommit | None:
        """The commit in memory of a version; None for a stored version."""
        if version <= self.stored_version:
            return None
        return self.steps[version - self.stored_version - 1]

    def commit_at(self, version: int) -> Commit:
        """One commit."""
        step = self.step(version)
        return super().commit_at(version) if step is None else step.commit

    def find_commit(self, version: int) -> Commit | None:
        """One commit, if it is in memory or still in the log."""
        if version > self.stored_version:
            return self.commit_at(version) if self.has(version) else None
        return super().find_commit(version)

    def application_version(self, app: str) -> int | None:
        """The version of an application id, including commits in memory."""
        for step in reversed(self.steps):
            version = step.commit.transaction(app)
            if version is not None:
                return version
        return super().application_version(app)

    def domains(self) -> tuple[int, dict[str, str]]:
        """The newest version and its domain metadata."""
        domains = self._pinned_snapshot.domains()
        for step in self.steps:
            for name, configuration in step.commit.domains:
                domains.pop(name, None)
                if configuration is not None:
                    domains[name] = configuration
        return self.version(), domains

    def files(self, version: int) -> dict[str, Any]:
        """The live files at a version; those in memory by name only."""
        step = self.step(version)
        if step is None:
            return super().files(version)
        return {**super().files(self.stored_version), **{p.name: None for p in step.parts}}

    def rows_count(self, version: int) -> int | None:
        """The number of rows at a version; None if unknown."""
        step = self.step(version)
        return super().rows_count(version) if step is None else step.rows_count

    def frame(self, version: int) -> DataFrame:
        """The rows at a version, lazily."""
        if self.step(version) is None:
            return super().frame(version)
        return self.locate_rows(version).drop(FILE_COLUMN, ROW_COLUMN)

    def locate_rows(self, version: int) -> DataFrame:
        """The rows at a version with their locations."""
        step = self.step(version)
        if step is None:
            return super().locate_rows(version)
        parts = [super().locate_rows(self.stored_version), *(p.rows for p in step.parts)]
        return _without(reduce(DataFrame.unionAll, parts), step.victims)

    def is_stored(self, version: int) -> bool:
        """Whether all rows of a version are in committed files."""
        return self.step(version) is None

    def paths_in_store(self, files: Iterable[DataFile], version: int) -> Declined:
        """Declined: Spark locates these rows by full paths."""
        return Declined("Spark locates these rows")

    def metadata_at(self, version: int) -> TableMetadata:
        """The metadata of a version; commits in memory do not change it."""
        return super().metadata_at(min(version, self.stored_version))

    def schema_at(self, version: int) -> StructType:
        """The schema of a version, as rows are read."""
        return super().schema_at(min(version, self.stored_version))

    def added_rows(self, versions: Sequence[int], times: range | None = None) -> DataFrame:
        """The rows of commits that only add rows; in memory each commit has one T."""
        stored_versions = [v for v in versions if v <= self.stored_version]
        frames = [super().added_rows(stored_versions, times)] if stored_versions else []
        for version in versions:
            step = self.step(version)
            if step is not None:
                frames += [p.rows.drop(FILE_COLUMN, ROW_COLUMN) for p in step.new_parts]
        return reduce(DataFrame.unionAll, frames) if frames else self.frame_of(())

    def change_rows(self, first: int, last: int) -> DataFrame:
        """Rows changed by the commits first..last, both inclusive, with ``_change_type``."""
        columns = [*self.schema.names, CHANGE_TYPE]
        names = backtick_all(columns)
        frames: list[DataFrame] = []
        if first <= self.stored_version:
            stored_changes = super().change_rows(first, min(last, self.stored_version))
            frames.append(stored_changes.select(*names))
        for version in range(max(first, self.stored_version + 1), last + 1):
            step = self.step(version)
            assert step is not None  # above the stored versions
            parts = [p.rows for p in step.new_parts]
            frames += [p.withColumn(CHANGE_TYPE, F.lit("insert")) for p in parts]
            if step.new_victims:
                places = F.broadcast(_places(self.gateway.session, step.new_victims))
                deletes = self.locate_rows(version - 1).join(
                    places, [FILE_COLUMN, ROW_COLUMN], "left_semi"
                )
                frames.append(deletes.withColumn(CHANGE_TYPE, F.lit("delete")))
        if not frames:
            return self.frame_of(()).withColumn(CHANGE_TYPE, F.lit("insert"))
        return reduce(DataFrame.unionAll, [f.select(*names) for f in frames])

    @property
    def answers_late(self) -> bool:
        """A commit in memory succeeds when the call returns, or never."""
        return False

    def discard(self, paths: Iterable[str]) -> None:
        """Drop rows staged under these names."""
        for path in paths:
            self.staged_rows.pop(path, None)
            self.staged_places.pop(path, None)

    def missing(self, paths: Iterable[str]) -> list[str]:
        """The names under which nothing is staged."""
        return [p for p in paths if p not in self.staged_rows and p not in self.staged_places]

    def begin(self) -> "_MemoryTransaction":
        """Start a transaction that commits in memory."""
        return _MemoryTransaction(self)

    def take_in(self, transaction: "_MemoryTransaction", metadata: str) -> int:
        """Make a transaction the newest commit; returns its version."""
        version = self.version() + 1
        before, base = self.step(version - 1), self.rows_count(version - 1)
        inserted_count = sum(p.rows_count for p in transaction.parts)
        deleted_count = sum(len(numbers) for numbers in transaction.places.values())
        for memory_part in transaction.parts:
            self.staged_rows.pop(memory_part.name, None)
        parts, victims = (before.parts, dict(before.victims)) if before is not None else ((), {})
        for file, numbers in transaction.places.items():
            victims[file] = victims.get(file, array("q")) + numbers
        parts, victims = _compact((*parts, *transaction.parts), victims)
        self.steps.append(
            MemoryCommit(
                commit=Commit(
                    version=version,
                    time_ms=clock.now_ms(),
                    adds=tuple(_action(p.name, p.rows_count) for p in transaction.parts),
                    removes=(_action("memory:deleted", deleted_count),) if deleted_count else (),
                    change_paths=(),
                    transactions=tuple(transaction.applications.items()),
                    domains=tuple(transaction.domains.items()),
                    user_metadata=metadata,
                ),
                new_parts=tuple(transaction.parts),
                new_victims=transaction.places,
                parts=parts,
                victims=victims,
                rows_count=None if base is None else base + inserted_count - deleted_count,
            )
        )
        return version


@dataclass
class _MemoryTransaction(OptimisticTransaction):
    """One transaction on a table in memory."""

    table: MemoryTable
    parts: list[MemoryPart] = field(default_factory=list)
    places: dict[str, "array[int]"] = field(default_factory=dict)
    domains: dict[str, str | None] = field(default_factory=dict)
    applications: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gateway = self.table.gateway
        self.version_read = self.table.version()

    def read_application(self, app: str) -> None:
        """Depend on an application id: every commit of the table does."""

    def set_application(self, app: str, version: int, now_ms: int) -> None:
        self.applications[app] = version

    def set_domain(self, domain: str, configuration: str, *, removed: bool = False) -> None:
        self.domains[domain] = None if removed else configuration

    def stage(self, rows: RowSet | DataFrame) -> list[StagedFile]:
        with translate_spark_errors():
            whole = _with_all(row_set(rows).frame, self.table.schema)
            memory_part = part(declare_as(_check_not_null(whole, self.table), self.table.schema))
        if not memory_part.rows_count:
            return []
        self.table.staged_rows[memory_part.name] = memory_part
        return [StagedFile(memory_part.name, "")]

    def add_files(self, files: Iterable[StagedFile]) -> None:
        self.parts += [self.table.staged_rows[file.path] for file in files]

    def stage_deletes(
        self, victims: Iterable[tuple[str, Collection[int]]]
    ) -> tuple[list[StagedDelete], list[StagedFile]]:
        deletes = []
        for file, rows in victims:
            numbers = array("q", rows)
            name = f"memory:{uuid.uuid4().hex}"
            self.table.staged_places[name] = numbers
            deletes.append(
                StagedDelete(
                    path=file,
                    rows_count=len(numbers),
                    known_vector="",
                    action=None,
                    vector_file=name,
                )
            )
        return deletes, []

    def delete(self, deletions: Iterable[StagedDelete]) -> set[str]:
        """No other writer moves rows here."""
        used = set()
        for one in deletions:
            assert one.vector_file is not None  # stage_deletes names each
            numbers = self.table.staged_places[one.vector_file]
            self.places[one.path] = self.places.get(one.path, array("q")) + numbers
            used.add(one.vector_file)
        return used

    def commit(self, *, label: str, epoch: int, metadata: str) -> int:
        if self.version_read != self.table.version():
            raise Conflict("a commit in memory")
        return self.table.take_in(self, metadata)


def _without(rows: DataFrame, places: Places) -> DataFrame:
    if not places:
        return rows
    return rows.join(
        F.broadcast(_places(rows.sparkSession, places)), [FILE_COLUMN, ROW_COLUMN], "left_anti"
    )


def _places(session: SparkSession, places: Places) -> DataFrame:
    files = [file for file, numbers in places.items() for _ in numbers]
    numbers = array("q", chain.from_iterable(places.values()))
    table = pa.table({FILE_COLUMN: files, ROW_COLUMN: pa.array(numbers, pa.int64())})
    return session.createDataFrame(table)


def _compact(
    parts: tuple[MemoryPart, ...], victims: dict[str, "array[int]"]
) -> tuple[tuple[MemoryPart, ...], dict[str, "array[int]"]]:
    if len(parts) <= FILES_KEPT_MAX:
        return parts, victims
    names = {p.name for p in parts}
    within = {file: numbers for file, numbers in victims.items() if file in names}
    rows = _without(reduce(DataFrame.unionAll, [p.rows for p in parts]), within)
    whole = part(rows.drop(FILE_COLUMN, ROW_COLUMN))
    return (whole,), {file: n for file, n in victims.items() if file not in names}


def part(rows: DataFrame) -> MemoryPart:
    """Compute rows, located in a file of their own name."""
    name = f"memory:{uuid.uuid4().hex}"
    frame = computed(
        rows.withColumn(FILE_COLUMN, F.lit(name)).withColumn(
            ROW_COLUMN, F.monotonically_increasing_id()
        )
    )
    return MemoryPart(name, frame, frame.count())


def _with_all(rows: DataFrame, schema: StructType) -> DataFrame:
    """Rows with all columns of a table, NULL for columns unknown to an older definition."""
    new_fields = [f for f in schema.fields if f.name not in rows.columns]
    return rows.select("*", *(F.lit(None).cast(f.dataType).alias(f.name) for f in new_fields))


def _check_not_null(rows: DataFrame, table: MemoryTable) -> DataFrame:
    for column in table.frame_of(()).schema.fields:
        if column.nullable:
            continue
        value = F.col(backtick(column.name))
        message = F.lit(f"NOT NULL constraint violated for column: {column.name}")
        failing = F.raise_error(message).cast(column.dataType)
        rows = rows.withColumn(column.name, F.when(value.isNull(), failing).otherwise(value))
    return rows


def _action(name: str, rows_count: int) -> DataFile:
    return DataFile.of({"path": name, "size": 0, "stats": f'{{"numRecords": {rows_count}}}'})
