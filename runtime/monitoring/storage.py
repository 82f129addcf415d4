"""One row for each Delta table that holds an object's rows, or is an auxiliary table of a view."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item
from ctsql.runtime.log.actions import sum_known
from ctsql.runtime.log_reader import LogReader
from ctsql.runtime.spark.versions import import_pyspark
from ctsql.runtime.warehouse.times.replaced_tables import UNREADABLE

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
    """The tables of some objects; missing tables are left out.

    Raises:
        NeedsSpark: a table has too many files for its log alone to list them.
    """
    import_pyspark()
    from ctsql.runtime.views.side_table import tables_beside  # imports Spark

    for item in sorted(items, key=lambda i: i.name.key):
        if item.location is None or item.problem:
            continue
        try:
            yield _row(item, ROWS, reader.relations.table(item))
            side_tables = list(tables_beside(reader.warehouse, item))
        except CtsqlError as problem:
            if problem.condition not in UNREADABLE:
                raise
            continue
        for beside in side_tables:
            yield _row(item, beside.kind.value, beside.table)


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
