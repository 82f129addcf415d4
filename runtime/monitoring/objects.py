"""One row for each object, its inputs, its progress, and each Delta table that holds its rows."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctsql.catalog.dependencies import outputs_of
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import (
    Item,
    Maintained,
    MaterializedView,
    Table,
    Task,
    TaskOutput,
    View,
)
from ctsql.catalog.times import CLOSED
from ctsql.planner.column_lineage import Origin, column_origins, query_origins
from ctsql.planner.nodes import TaskWrite, ViewWrite
from ctsql.planner.syntax.tokens.tokenizer import named_columns
from ctsql.runtime.log.actions import sum_known
from ctsql.runtime.log.table_changes import due_changes
from ctsql.runtime.log_reader import LogReader
from ctsql.runtime.monitoring.status import OutputStatus, status_of
from ctsql.runtime.spark.versions import import_pyspark
from ctsql.runtime.tasks.progress import complete_through
from ctsql.runtime.warehouse.table_checks import are_there
from ctsql.runtime.warehouse.times.replaced_tables import UNREADABLE

INPUT, REFERENCE, OUTPUT = "input", "reference", "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRow:
    """An object; the columns of ``system.objects``, in their order."""

    object: str
    schema: str
    name: str
    kind: str
    state: str | None
    created_t: int | None
    columns: tuple[str, ...]
    comment: str | None
    definition: str
    location: str | None
    object_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRow:
    """The progress of an output; the columns of ``system.lag``, in their order."""

    object: str
    kind: str
    state: str
    upper: int | None
    complete_through: int | None
    lag_seconds: float
    lag_versions: int
    error_condition: str | None
    error_t: int | None
    error_message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyRow:
    """An input of an object; the columns of ``system.dependencies``, in their order."""

    object: str
    kind: str
    reads: str
    reads_kind: str
    role: str
    columns: tuple[str, ...]
    column_lineage: Mapping[str, tuple[str, ...]]


def objects(reader: LogReader, items: Iterable[Item]) -> Iterator[ObjectRow]:
    """The objects in order of name, by the cached catalog and timeline."""
    for item in sorted(items, key=lambda i: i.name.key):
        run = isinstance(item, Maintained) or bool(item.problem)
        known = not item.problem and isinstance(item, Table)
        is_there = known and are_there(reader.relations, [item])
        columns = reader.relations.columns_now(item) if is_there else item.columns
        yield ObjectRow(
            object=str(item.name),
            schema=item.name.schema,
            name=item.name.name,
            kind=item.kind.value,
            state=status_of(reader, item).state.value if run else None,
            created_t=item.created_at if isinstance(item, Maintained) else None,
            columns=tuple(c.name for c in columns),
            comment=item.comment,
            definition=item.definition.text,
            location=item.location,
            object_id=item.id,
        )


def lags(reader: LogReader, items: Iterable[Item]) -> Iterator[LagRow]:
    """The progress of tasks and views, by the cached catalog and timeline."""
    for item in sorted(items, key=lambda i: i.name.key):
        if isinstance(item, Maintained) or item.problem:
            yield lag_of(reader, status_of(reader, item))


def lag_of(reader: LogReader, status: OutputStatus) -> LagRow:
    """The row of a status."""
    item, known = status.item, status.problem is None
    condition, time, message = status.last_error or (None, None, None)
    return LagRow(
        object=str(item.name),
        kind=item.kind.value,
        state=status.state.value,
        upper=None if status.upper in (0, CLOSED) else status.upper,
        complete_through=complete_through(reader.warehouse, [item]) if known else None,
        lag_seconds=status.lag.milliseconds / 1000,
        lag_versions=status.lag.versions,
        error_condition=condition,
        error_t=time,
        error_message=message,
    )


def dependencies(reader: LogReader, items: Iterable[Item]) -> Iterator[DependencyRow]:
    """The inputs of objects, by the cached catalog and timeline."""
    catalog = reader.catalog
    for item in sorted(items, key=lambda i: i.name.key):
        inputs, origins = _inputs(reader, item), _column_origins(reader, item)
        for reading in item.reads:
            read = catalog.items.get(reading.object_id)
            if read is None or read.id == item.id:
                continue
            role = INPUT if read.id in inputs else REFERENCE
            yield DependencyRow(
                object=str(item.name),
                kind=item.kind.value,
                reads=str(read.name),
                reads_kind=read.kind.value,
                role=OUTPUT if isinstance(item, TaskOutput) else role,
                columns=named_columns(item.definition.text, reading.columns),
                column_lineage={
                    column: tuple(sorted(c for i, c in sources if i == read.id))
                    for column, sources in origins.items()
                    if any(i == read.id for i, _ in sources)
                },
            )


def _column_origins(reader: LogReader, item: Item) -> Mapping[str, frozenset[Origin]]:
    """The origins of each column; of a task with OUTPUTS by ``output.column``."""
    if item.id not in reader.relations.readable([item.id]):
        return {}
    if isinstance(item, View):
        return query_origins(reader.relations.bound(item).query, [c.name for c in item.columns])
    if not isinstance(item, Maintained):
        return {}
    plan = reader.relations.bound(item).plan
    assert isinstance(plan, ViewWrite | TaskWrite)  # what is run
    by_output = column_origins(plan, direct=True)
    if item.id in by_output:
        return by_output[item.id]
    names = {o.id: o.name for o in outputs_of(reader.catalog, item)}
    return {f"{names[o]}.{c}": origins for o, by in by_output.items() for c, origins in by.items()}


def _inputs(reader: LogReader, item: Item) -> set[str]:
    """The ids of the objects that an object follows; its other inputs are references."""
    if isinstance(item, MaterializedView):
        return {r.object_id for r in item.reads}
    if not isinstance(item, Task) or item.id not in reader.relations.readable([item.id]):
        return set()
    plan = reader.relations.bound(item).plan
    assert isinstance(plan, TaskWrite)
    return set(due_changes(plan))


if TYPE_CHECKING:
    from ctsql.runtime.delta.table import DeltaTable

ROWS = "rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageRow:
    """A table's live files; the columns of ``system.storage``, in their order."""

    object: str
    kind: str
    part: str
    version: int
    files: int
    bytes: int
    rows: int | None
    deleted_rows: int
    location: str


def storage(reader: LogReader, items: Iterable[Item]) -> Iterator[StorageRow]:
    """The tables of objects, without missing ones.

    Raises NeedsSpark if a table has too many files for its log alone to list them.
    """
    import_pyspark()
    from ctsql.runtime.views.side_table import side_tables_of  # imports Spark

    for item in sorted(items, key=lambda i: i.name.key):
        if item.location is None or item.problem:
            continue
        try:
            yield _row(item, ROWS, reader.relations.table(item))
            side_tables = list(side_tables_of(reader.warehouse, item))
        except CtsqlError as problem:
            if problem.condition not in UNREADABLE:
                raise
            continue
        for side_table in side_tables:
            yield _row(item, side_table.kind.value, side_table.table)


def _row(item: Item, part: str, table: "DeltaTable") -> StorageRow:
    version = table.version()
    files = table.files(version).values()
    return StorageRow(
        object=str(item.name),
        kind=item.kind.value,
        part=part,
        version=version,
        files=len(files),
        bytes=sum(f.size for f in files),
        rows=sum_known(f.rows_count for f in files),
        deleted_rows=sum(f.deleted_count for f in files),
        location=table.location,
    )
