"""UPDATE and DELETE with subqueries that Delta does not run.

    the statement as a query --> the selected rows, with their locations and new values
        --> their difference to the new rows is staged, as for a task's output

Spark runs the query over a private copy of the table (:mod:`ctsql.runtime.delta.clones`), and the
difference is committed there: constraints, the number of rows and the table's commit are those of a
transaction. Delta computes generated columns and checks CHECK and NOT NULL.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.errors import Declined
from ctsql.catalog.names import backtick, fold
from ctsql.catalog.reserved_columns import FILE_COLUMN, ROW_COLUMN, VALUE_
from ctsql.catalog.schemas import Column, get
from ctsql.planner.binding.checks import not_assignable, not_by_row
from ctsql.planner.lowering.context import temporary_view
from ctsql.planner.lowering.spark_types import type_name
from ctsql.planner.lowering.store_assignment import as_stored, may_store
from ctsql.planner.syntax.ast import Assignment
from ctsql.runtime.delta.diff_writer import stage
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.log.staging import Staging, discard_on_error
from ctsql.runtime.rows.row_set import RowSet, SparkRows
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.internals.plans import is_by_row

_GENERATED = "delta.generationExpression"


def change_rows(
    copy: DeltaTable,
    columns: Sequence[Column],
    assignments: Sequence[Assignment],
    select: Callable[[str], DataFrame],
    label: str,
) -> int:
    """Change or delete the selected rows of a copy of a table; returns their number.

    Args:
        columns: of the table. assignments: of UPDATE; none to delete. label: of the copy's commit.
            select: the rows that the statement's query selects from a view of this name.

    Raises UNKNOWN_COLUMN, TYPE_MISMATCH, INVALID_STATEMENT, and Spark's errors of rows.
    """
    version = copy.version()
    with translate_spark_errors(), ExitStack() as stack:
        selected = select(stack.enter_context(temporary_view(copy.locate_rows(version))))
        targets = _check(selected, columns, assignments)
        rows = SparkRows(selected).keep(stack)
        names = _names(copy, version, targets)
        txn = copy.begin()
        staging = Staging(copy, txn)
        with discard_on_error([staging]):
            desired = _new_rows(rows, columns, names, targets) if assignments else None
            stored = rows.select([*names, FILE_COLUMN, ROW_COLUMN])
            if stage(staging, desired, stored, names, small=True):
                part = staging.part(0)
                txn.add_files(part.inserts)
                txn.delete(part.deletes)
                txn.commit(label=label, epoch=0, metadata="{}")
        local = rows.local
        return rows.frame.count() if isinstance(local, Declined) else local.row_count


def _check(
    selected: DataFrame, columns: Sequence[Column], assignments: Sequence[Assignment]
) -> list[Column]:
    """The assigned columns; raises UNKNOWN_COLUMN and TYPE_MISMATCH."""
    if not is_by_row(selected):
        message = "an aggregate, window or generator function in SET"
        raise not_by_row(assignments[0].span, message)
    targets = []
    for number, one in enumerate(assignments):
        column = get(columns, one.column, span=one.span, heading="The table has the columns")
        targets.append(column)
        given = type_name(selected.schema[f"{VALUE_}{number}"].dataType)
        if not may_store(given, column.type):
            span = one.span if one.value is None else one.value.span
            raise not_assignable(column, f"the value is {given}", span, span.text)
    return targets


def _names(copy: DeltaTable, version: int, targets: Sequence[Column]) -> list[str]:
    """The written columns; Delta computes generated ones."""
    stored_columns = copy.metadata_at(version).columns
    assigned = {fold(column.name) for column in targets}

    def is_written(name: str) -> bool:
        field = stored_columns[fold(name)].field
        return fold(name) in assigned or _GENERATED not in (field.get("metadata") or {})

    return [name for name in copy.schema_at(version).names if is_written(name)]


def _new_rows(
    rows: RowSet, columns: Sequence[Column], names: Sequence[str], targets: Sequence[Column]
) -> DataFrame:
    number = {column.name: i for i, column in enumerate(targets)}
    by_name = {column.name: column for column in columns}
    return rows.frame.select(
        *(
            as_stored(F.col(f"{VALUE_}{number[name]}"), by_name[name])
            if name in number
            else F.col(backtick(name))
            for name in names
        )
    )
