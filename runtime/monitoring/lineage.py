"""What an output is made of, for catalogs of data: its columns, what it reads, and where these are.

Columns come from the definition's text (:mod:`ctsql.planner.column_lineage`); which rows are read
for which is not told.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ctsql.catalog.items import Item, ObjectKind, stored_reads, written_by
from ctsql.planner.column_lineage import Origin, column_origins
from ctsql.planner.nodes import TaskWrite, ViewWrite
from ctsql.runtime.log_reader import LogReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A stored object: its name, where it is, and its columns with their types."""

    name: str
    location: str
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A column of a dataset, by the dataset's location."""

    dataset: str
    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """An output of a task, or a view, and what it is made of.

    Attributes:
        id: of the task or view. definition: its text. inputs: what it reads, plain views left out.
        fields: the columns whose values go into a column, where they are known.
        reads: all columns that the definition reads, be it for a condition.
    """

    id: str
    object: str
    kind: str
    definition: str
    output: Dataset
    inputs: tuple[Dataset, ...]
    fields: dict[str, tuple[Field, ...]]
    reads: tuple[Field, ...]


def lineage(reader: LogReader, name: str) -> Lineage | None:
    """The lineage of an output, by its name; None where there is none, or it cannot be read.

    By the name of a task with outputs it is that of the first one.
    """
    catalog = reader.refresh_catalog()
    item = next((i for i in catalog if str(i.name) == name), None)
    if item is None or item.problem:
        return None
    output = reader.relations.lead(item)
    if output.location is None or output.problem:
        return None
    task = catalog.items[output.owner] if output.kind is ObjectKind.TASK_OUTPUT else output
    if task.id not in reader.relations.readable([task.id]) or not task.is_run:
        return None
    current = reader.relations.current(task)
    plan = reader.relations.bound(task).plan
    assert isinstance(plan, ViewWrite | TaskWrite)  # what is run
    own = {i.id for i in written_by(catalog, task)}
    read = {r.object_id: r.columns for r in current.reads if r.object_id not in own | {task.id}}
    leaves = [i for i in stored_reads(catalog, current) if i.id not in own]
    places = {i.id: i.location for i in leaves if i.location is not None}

    def fields(origins: Iterable[Origin]) -> tuple[Field, ...]:
        sources = {(places[i], c) for i, c in origins if i in places}
        return tuple(Field(dataset=place, column=column) for place, column in sorted(sources))

    origins = column_origins(plan).get(output.id, {})
    direct = [(i, c) for i, columns in read.items() for c in columns]
    return Lineage(
        id=task.id,
        object=str(task.name),
        kind=task.kind.keyword,
        definition=current.definition,
        output=_dataset(reader, output),
        inputs=tuple(_dataset(reader, i) for i in leaves),
        fields={column: fields(sources) for column, sources in origins.items()},
        reads=fields(direct),
    )


def _dataset(reader: LogReader, item: Item) -> Dataset:
    columns = reader.relations.columns_now(item)
    assert item.location is not None  # it is stored
    return Dataset(
        name=str(item.name),
        location=item.location,
        columns=tuple((c.name, c.type) for c in columns),
    )
