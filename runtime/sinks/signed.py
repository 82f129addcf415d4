"""Stages a signed change of an output: rows to insert and, found among the stored ones, to delete.

A row with weight w > 0 is inserted w times. Of the stored rows that equal one with weight w < 0,
the first -w by file and row number are deleted. If there are not so many, what is stored is not
what the change was computed for: nothing is staged then, and the caller compares in full.

Equality is that of :mod:`ctsql.runtime.sinks.correction` and :mod:`ctsql.runtime.sinks.cancel`.
Stored rows are first looked for by Spark's ``<=>``, which finds more (0.0 for -0.0), with the rows
to delete broadcast; then the equal ones among them are told exactly.
"""

from array import array
from contextlib import ExitStack
from enum import Enum
from functools import reduce
from operator import and_

import pyarrow as pa
from pyspark.sql import Column as SparkColumn, DataFrame, functions as F, types as T

from ctsql.runtime.delta_log import FILE_COLUMN, ROW_COLUMN
from ctsql.runtime.incremental.near_rows import StoredRows
from ctsql.runtime.sinks.cancel import keys
from ctsql.runtime.sinks.correction import (
    COPIES,
    PLACES,
    column_name,
    copied,
    net,
    with_places,
)
from ctsql.runtime.sinks.few import at_hand, few
from ctsql.runtime.sinks.staging import fits_arrow, persisted, stage_counted
from ctsql.runtime.staged import Staging


class Staged(Enum):
    """What came of it."""

    NOTHING = "there is no difference"
    ROWS = "rows were staged"
    ROWS_DIFFER = "rows to delete are not there"
    REFUSED = "a row to insert may not be there"


def stage_signed(
    staging: Staging,
    signed: DataFrame,
    stored: StoredRows | None,
    columns: list[str],
    refused: SparkColumn | None = None,
) -> Staged:
    """Stage a signed change.

    Args:
        signed: the output's columns and ``COPIES``; equal rows may come several times.
        stored: the output's rows; None for none.
        refused: says of a row that it may not be inserted; nothing is staged then.
    """
    schema = T.StructType([signed.schema[c] for c in columns])
    with ExitStack() as stack:
        change = net(signed, columns)
        local = few(change)
        # What the driver holds is looked at without a job.
        seen = stack.enter_context(persisted(change)) if local is None else local
        if seen.isEmpty():
            return Staged.NOTHING
        if refused is not None and not seen.where((F.col(COPIES) > 0) & refused).isEmpty():
            return Staged.REFUSED
        change = seen if local is None else local.coalesce(1)
        names = [column_name(c) for c in columns]
        nowhere = change.select(*names, COPIES, *_nowhere())
        gone = change.where(F.col(COPIES) < 0).select(*names)
        both = nowhere
        if not seen.where(F.col(COPIES) < 0).isEmpty():
            if stored is None:
                return Staged.ROWS_DIFFER
            away = None if local is None else local.where(F.col(COPIES) < 0)
            candidates = stored.having(away, [(c, c) for c in columns])
            found = _equal(candidates, gone, schema)
            places = found.select(*names, F.lit(0).alias(COPIES), FILE_COLUMN, ROW_COLUMN)
            both = nowhere.unionAll(places)
        if local is not None and fits_arrow(schema):
            rows = few(both)
            if rows is not None:
                return _stage_few(staging, rows, schema)
        located = stack.enter_context(persisted(with_places(both, columns)))
        short = F.size(PLACES) < -F.col(COPIES)
        if not located.where(short).isEmpty():
            return Staged.ROWS_DIFFER
        inserts = copied(located.where(F.col(COPIES) > 0), columns)
        stage_counted(staging, located, inserts)
        return Staged.ROWS


def _nowhere() -> list[SparkColumn]:
    """The columns that locate a row, of rows that are not stored."""
    return [
        F.lit(None).cast("string").alias(FILE_COLUMN),
        F.lit(None).cast("bigint").alias(ROW_COLUMN),
    ]


def _equal(stored: DataFrame, gone: DataFrame, schema: T.StructType) -> DataFrame:
    """The stored rows that may equal one that goes."""
    other = gone.toDF(*(f"__ct_g{i}" for i in range(len(schema))))
    conditions = [
        F.col(column_name(f.name)).eqNullSafe(F.col(f"__ct_g{i}"))
        for i, f in enumerate(schema)
        if is_comparable(f.dataType)
    ]
    together = reduce(and_, conditions) if conditions else F.lit(True)
    return stored.join(F.broadcast(other), together, "left_semi")


def is_comparable(data_type: T.DataType) -> bool:
    """Can Spark say whether two values are equal?"""
    match data_type:
        case T.MapType() | T.VariantType() | T.CalendarIntervalType():
            return False
        case T.ArrayType():
            return is_comparable(data_type.elementType)
        case T.StructType():
            return all(is_comparable(f.dataType) for f in data_type.fields)
        case _:
            return True


def _stage_few(staging: Staging, rows: DataFrame, schema: T.StructType) -> Staged:
    table = rows.toArrow()
    files = table.column(FILE_COLUMN).to_pylist()
    numbers = table.column(ROW_COLUMN).to_pylist()
    weights = table.column(COPIES).to_pylist()
    values = table.select(schema.names)
    key = keys(values)
    inserts: list[int] = []
    missing: dict[object, int] = {}
    places: list[int] = []
    for i, file in enumerate(files):
        if file is not None:
            places.append(i)
        elif weights[i] > 0:
            inserts += [i] * weights[i]
        else:
            missing[key[i]] = -weights[i]
    victims: dict[str, array[int]] = {}
    for i in sorted(places, key=lambda i: (files[i], numbers[i])):
        if missing.get(key[i], 0) > 0:
            missing[key[i]] -= 1
            victims.setdefault(files[i], array("Q")).append(numbers[i])
    if any(missing.values()):
        return Staged.ROWS_DIFFER
    if inserts:
        fresh = values.take(pa.array(inserts, pa.int64()))
        staging.stage(at_hand(rows.sparkSession, fresh, schema).coalesce(1))
    if victims:
        staging.delete_rows(victims.items())
    return Staged.ROWS
