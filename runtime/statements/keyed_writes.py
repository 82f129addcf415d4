"""UPDATE, DELETE and MERGE of few rows that their condition finds by key.

    condition --> keys --> stored rows with them --> Spark evaluates the statement over these
                                                 --> deletion vectors, a file of new rows, a commit

Spark's own way plans the statement as a query over the table, several times: one to two seconds
whatever it changes. Here the rows are found as those of a task's DELETE
(:mod:`ctsql.runtime.delta.key_lookup`), and the expressions that Spark's analyser made of the
statement are evaluated over them (:mod:`ctsql.runtime.spark.table_writes`), the condition included.

[as-spark-would] the table holds afterwards what it would hold had Spark run the statement, its
    change data feed says the same, and the number of rows is the same.
    (tests/spark/statements/test_writes_by_key.py)
[else-spark-runs] where that is not certain nothing is written, and Spark runs the statement: other
    conditions, tables and types, many rows, an error on a row, a row that MERGE matches twice.
[compared-version] another commit that comes between the reading of the table and the commit makes
    the commit fail, as :meth:`depend_on_all` asks, and the rows are looked for again.

An UPDATE or MERGE that changes no row makes no commit.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from ctsql.catalog.errors import DataError
from ctsql.catalog.names import fold
from ctsql.catalog.reserved_columns import ACTION, FILE_COLUMN, KEY_, ROW_COLUMN, VALUE_
from ctsql.planner.keyed_writes import combinations
from ctsql.runtime.delta.key_lookup import Keys, find_with_keys, group_by_file
from ctsql.runtime.delta.local_scan import PLACES
from ctsql.runtime.delta.parquet_writer import why_not_by_rows
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.delta.table_rows import CHANGE_TYPE
from ctsql.runtime.delta.transaction import Transaction
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.batches import BatchPart
from ctsql.runtime.log.protocol import Conflict, RowsGone
from ctsql.runtime.log.staging import discard_on_error
from ctsql.runtime.log.table_metadata import is_on
from ctsql.runtime.rows.declined import Declined
from ctsql.runtime.rows.row_set import LocalRows, SparkRows
from ctsql.runtime.rows.types import fits_arrow
from ctsql.runtime.spark.table_writes import DELETED, INSERTED, UPDATED, TableWrite
from ctsql.runtime.statements.kept_constraints import Gate

TRIES_MAX = 5
FILES_MAX = 10_000
"""The most files of a table in which rows are looked for."""
BYTES_MAX = 512 * 1024 * 1024
"""The most bytes of the files that may hold a key."""
_FEED = "delta.enableChangeDataFeed"
"""The table property that asks for change data."""


def write_by_key(
    table: DeltaTable, statement: TableWrite, gate: Gate | None = None
) -> int | Declined:
    """Run a statement on few rows of a table; returns their number.

    Declined where Spark is to run it; then the table is as it was.

    Args:
        gate: looks at the rows that come first.

    Raises CONSTRAINT_VIOLATED.
    """
    if statement.why_not or not fits_arrow(statement.schema):
        return Declined(statement.why_not or "Arrow does not hold values of these types")
    if not statement.keys:
        return Declined("the condition does not say which keys the rows have")
    try:
        keys_and_source = _keys_of(statement)
        if isinstance(keys_and_source, Declined):
            return keys_and_source
        for _ in range(TRIES_MAX):
            try:
                return _write(table, statement, *keys_and_source, gate)
            except (Conflict, RowsGone):
                continue
    except DataError as problem:
        if problem.condition == "CONSTRAINT_VIOLATED":
            raise
        return Declined(problem.message)
    return Declined("other writers came first")


def _keys_of(statement: TableWrite) -> tuple[Keys, LocalRows | None] | Declined:
    """The keys of the rows that a statement is about, and of a MERGE the rows of its source."""
    source: LocalRows | None = None
    if statement.verb == "MERGE":
        if not statement.source_is_small:
            return Declined("the source is large")
        names = [fold(name) for name in statement.source.columns]
        if len(set(names)) < len(names):
            return Declined("columns of the source have one name")
        local_rows = SparkRows(statement.source).collect()
        if isinstance(local_rows, Declined):
            return local_rows
        source = local_rows
    values = SparkRows(statement.key_values(_in_jvm(statement, source))).collect()
    if isinstance(values, Declined):
        return values
    numbers = [column.values for column in statement.keys]
    if source is not None:
        return Keys(values, [f"{KEY_}{number}" for (number,) in numbers]), source
    # One row of values becomes a row for each combination of them.
    fields, columns = [], []
    places = combinations([len(of_column) for of_column in numbers])
    for i, of_column in enumerate(numbers):
        fields.append(T.StructField(f"{KEY_}{i}", values.schema[f"{KEY_}{of_column[0]}"].dataType))
        array = pa.chunked_array(
            [c for n in of_column for c in values.arrow.column(f"{KEY_}{n}").chunks]
        )
        columns.append(array.take(pa.array(places[i], pa.int64())))
    names = [field.name for field in fields]
    arrow = pa.table(columns, names=names)
    return Keys(values.with_rows(T.StructType(fields), arrow), names), None


def _in_jvm(statement: TableWrite, source: LocalRows | None) -> tuple[Any, Any] | None:
    return None if source is None else (source.in_jvm.rows, statement.source_output)


def _write(
    table: DeltaTable,
    statement: TableWrite,
    keys: Keys,
    source: LocalRows | None,
    gate: Gate | None,
) -> int | Declined:
    """Find the rows and change them; raises Conflict and RowsGone if another writer was first."""
    txn = table.begin()
    txn.depend_on_all()
    why = _why_not(table, statement, txn)
    if why:
        return Declined(why)
    columns = [column.name for column in statement.keys]
    version = txn.version_read
    stored_rows = find_with_keys(table, version, columns, keys, bytes_max=BYTES_MAX)
    if isinstance(stored_rows, Declined):
        return stored_rows
    if stored_rows is None:
        if source is None:
            return 0
        schema = T.StructType([*table.schema_at(version), *PLACES])
        stored_rows = LocalRows(table.gateway.session, schema, _nothing(schema))
    candidates = stored_rows.in_jvm.rows, stored_rows.in_jvm.output
    rows = SparkRows(statement.changes(candidates, _in_jvm(statement, source))).collect()
    if isinstance(rows, Declined):
        return rows
    changes = _Changes.of(rows, statement.schema.names)
    if isinstance(changes, Declined):
        return changes
    new_rows = changes.new_rows if changes.brings_rows else None
    if gate is not None and not gate.lets(txn, new_rows, changes.places):
        return Declined("rows are set aside, or only counted")
    if changes.count:
        source_count = 0 if source is None else int(source.in_jvm.rows.size())
        _commit(table, txn, statement, changes, changes.counts(statement.verb, source_count))
    return changes.count


def _why_not(table: DeltaTable, statement: TableWrite, txn: Transaction) -> str:
    types = [(f.name, f.dataType) for f in table.schema_at(txn.version_read)]
    if types != [(f.name, f.dataType) for f in statement.schema]:
        return "the table has other columns now"
    files = table.files_count(txn.version_read)
    if files is None or files > FILES_MAX:
        return f"the table has more than {FILES_MAX} files, or nobody knows"
    return why_not_by_rows(txn.metadata)


def _nothing(schema: T.StructType) -> pa.Table:
    return to_arrow_schema(schema, timezone="UTC").empty_table()


@dataclass(frozen=True, slots=True)
class _Changes:
    """What a statement does: rows with their locations, what is done with each, and new values."""

    rows: LocalRows
    names: list[str]
    numbers: dict[int, list[int]]

    @staticmethod
    def of(rows: LocalRows, names: list[str]) -> "_Changes | Declined":
        """Declined if a stored row is matched more than once, whatever is done with it."""
        numbers: dict[int, list[int]] = {DELETED: [], UPDATED: [], INSERTED: []}
        for i, action in enumerate(rows.arrow.column(ACTION).to_pylist()):
            if action:
                numbers[action].append(i)
        files, places = (rows.arrow.column(c).to_pylist() for c in (FILE_COLUMN, ROW_COLUMN))
        stored_places = [one for one in zip(files, places, strict=True) if one[0] is not None]
        if len(set(stored_places)) < len(stored_places):
            return Declined("a row is matched more than once")
        return _Changes(rows, names, numbers)

    @property
    def count(self) -> int:
        """The number of rows that it changes."""
        return sum(len(of_action) for of_action in self.numbers.values())

    @property
    def brings_rows(self) -> bool:
        """Whether rows come, and not only go."""
        return bool(self.numbers[UPDATED] or self.numbers[INSERTED])

    @property
    def places(self) -> list[tuple[str, int]]:
        """Where the rows are that go."""
        indices = pa.array([*self.numbers[DELETED], *self.numbers[UPDATED]], pa.int64())
        files, numbers = (
            self.rows.arrow.column(c).take(indices).to_pylist() for c in (FILE_COLUMN, ROW_COLUMN)
        )
        return list(zip(files, numbers, strict=True))

    @property
    def new_rows(self) -> LocalRows:
        """The rows that come."""
        return self._new((UPDATED, INSERTED))

    def _new(self, actions: Iterable[int]) -> LocalRows:
        numbers = [n for action in actions for n in self.numbers[action]]
        values = [f"{VALUE_}{i}" for i in range(len(self.names))]
        return self.rows.take(numbers).select(values, self.names)

    def _old(self, action: int) -> LocalRows:
        return self.rows.take(self.numbers[action]).select(self.names)

    @property
    def feed(self) -> LocalRows:
        """The changes as Delta's change data feed tells them."""
        parts = [
            (self._old(UPDATED), "update_preimage"),
            (self._new([UPDATED]), "update_postimage"),
            (self._old(DELETED), "delete"),
            (self._new([INSERTED]), "insert"),
        ]
        tables = [
            rows.arrow.append_column(
                CHANGE_TYPE, pa.array([kind] * rows.arrow.num_rows, pa.string())
            )
            for rows, kind in parts
        ]
        fields = [*parts[0][0].schema, T.StructField(CHANGE_TYPE, T.StringType())]
        return self.rows.with_rows(T.StructType(fields), pa.concat_tables(tables))

    def counts(self, verb: str, source_count: int) -> dict[str, int]:
        """The counts by the names that DESCRIBE HISTORY has for them.

        Args:
            source_count: the number of rows of a source.
        """
        counts = {action: len(numbers) for action, numbers in self.numbers.items()}
        if verb == "DELETE":
            return {"numDeletedRows": counts[DELETED]}
        if verb == "UPDATE":
            return {"numUpdatedRows": counts[UPDATED]}
        return {
            "numTargetRowsInserted": counts[INSERTED],
            "numTargetRowsUpdated": counts[UPDATED],
            "numTargetRowsDeleted": counts[DELETED],
            "numTargetRowsCopied": 0,
            "operationNumSourceRows": source_count,
        }


class _StagedFiles:
    """Files that are not in the table yet."""

    def __init__(self, table: DeltaTable) -> None:
        self._table = table
        self.part = BatchPart(0)

    def discard(self) -> None:
        """Delete them."""
        self._table.discard(self.part.own_files())


def _commit(
    table: DeltaTable,
    txn: Transaction,
    statement: TableWrite,
    changes: _Changes,
    counts: dict[str, int],
) -> None:
    """Write the files and commit; raises Conflict and RowsGone, with the files deleted."""
    batch = _StagedFiles(table)
    with discard_on_error([batch]):
        new: Sequence[Any] = ()
        if changes.numbers[UPDATED] and is_on(txn.metadata["configuration"], _FEED):
            new = txn.stage_with_changes(changes.new_rows, changes.feed)
        elif changes.brings_rows:
            new = txn.stage(changes.new_rows)
        batch.part = BatchPart(0, tuple(new))
        deletes, _ = txn.stage_deletes(group_by_file(changes.places).items())
        batch.part = BatchPart(0, tuple(new), tuple(deletes))
        faults.point("statement_staged")
        txn.add_files(new)
        txn.delete(deletes)
    try:
        txn.commit_statement(statement.operation(), counts)
    except Conflict:
        batch.discard()
        raise
