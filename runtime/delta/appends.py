"""Rows that an open transaction appends to a table: staged as files of the table, without a commit.

A transaction that only appends needs no copy of the table (:mod:`ctsql.runtime.delta.clones`):
what it reads is the version that it saw and these files.
"""

from urllib.parse import unquote

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.declined import Declined
from ctsql.catalog.names import backtick, fold
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.log.actions import DataFile
from ctsql.runtime.log.batches import StagedDelete, StagedFile
from ctsql.runtime.rows.row_set import LocalRows, SparkRows
from ctsql.runtime.spark.internals.plans import are_constants

_PLAIN = ("comment", "delta.columnMapping.")
"""Prefixes of a column's metadata that do not change what is written for its values."""


class Appends:
    """Rows appended to the version ``version`` of a table."""

    def __init__(self, table: DeltaTable, version: int) -> None:
        self.origin = table
        self.version = version
        self.files: list[StagedFile] = []

    def frame(self) -> DataFrame:
        """The table's rows as of the version and the appended ones, lazily."""
        new_files = [DataFile(file.action) for file in self.files]
        files = self.origin.files(self.version).values()
        return self.origin.frame_of([*files, *new_files], self.version)

    def stage(self, appended: DataFrame | Declined) -> int | Declined:
        """Write what a statement appends into files; returns the number of rows."""
        rows = complete(self.origin, self.version, appended)
        if isinstance(rows, Declined):
            return rows
        few = constants(rows)
        files = self.origin.begin().stage(rows if isinstance(few, Declined) else few)
        self.files += files
        return sum(DataFile(file.action).rows_count or 0 for file in files)

    def changes(self) -> tuple[tuple[StagedFile, ...], tuple[StagedDelete, ...]]:
        """What is inserted and deleted, as files for the table."""
        return tuple(self.files), ()

    def drop(self) -> None:
        """Delete the files."""
        self.origin.discard(unquote(file.path) for file in self.files)
        self.files.clear()

    def release(self) -> None:
        """The table has the files now."""
        self.files.clear()


def complete(table: DeltaTable, version: int, rows: DataFrame | Declined) -> DataFrame | Declined:
    """Rows of some columns with all columns of a version of a table, in order, NULL for the others.

    Declined where Delta has to compute columns, or the table's columns are others by now.
    """
    if isinstance(rows, Declined):
        return rows
    metadata = table.metadata_at(version)
    if metadata.layout != table.metadata.layout:
        return Declined("the table has other columns now")
    fields = [column.field for column in metadata.columns.values()]
    if not all(key.startswith(_PLAIN) for field in fields for key in field["metadata"]):
        return Declined("columns are computed, padded or counted")
    fields_by_name = {fold(field.name): field for field in rows.schema}
    columns = []
    for field in table.schema_at(version):
        match = fields_by_name.pop(fold(field.name), None)
        kind = field.dataType
        if match is not None and match.dataType.simpleString() != kind.simpleString():
            return Declined("values have other types")
        value = F.lit(None).cast(kind) if match is None else F.col(backtick(match.name))
        columns.append(value.alias(field.name))
    if fields_by_name:
        return Declined("it adds columns")
    return rows.select(*columns)


def constants(rows: DataFrame) -> LocalRows | Declined:
    """The rows that stand in a statement's text, if they are few."""
    return SparkRows(rows).collect() if are_constants(rows) else Declined("not in the text")
