"""Stages a signed change of an output: rows to insert and, found among the stored ones, to delete.

A row with diff d > 0 is inserted d times. Of the stored rows that equal one with diff d < 0,
the first -w by file and row number are deleted. If there are not so many, what is stored is not
what the change was computed for: nothing is staged then, and the caller compares in full.

Equality is that of :mod:`ctsql.runtime.rows.multiset` and :mod:`ctsql.runtime.rows.multiset_local`.
Stored rows are first looked for by Spark's ``<=>``, which finds more (0.0 for -0.0), with the rows
to delete broadcast; then the equal ones among them are told exactly.
"""

from array import array
from collections.abc import Collection, Hashable
from contextlib import ExitStack
from enum import Enum
from functools import reduce
from operator import and_, or_

import pyarrow as pa
from pyspark.sql import Column as SparkColumn, DataFrame, functions as F, types as T

from ctsql.catalog.names import backtick, backtick_all
from ctsql.catalog.reserved_columns import DIFF, FILE_COLUMN, GONE_, LOCATIONS, ROW_COLUMN
from ctsql.runtime.delta.diff_writer import stage_counted
from ctsql.runtime.delta.keyed_scan import StoredRows
from ctsql.runtime.log.staging import Staging
from ctsql.runtime.rows.declined import Declined
from ctsql.runtime.rows.multiset import copied, net, with_places
from ctsql.runtime.rows.multiset_local import keys
from ctsql.runtime.rows.row_set import LocalRows, RowSet, SparkRows, persisted
from ctsql.runtime.rows.types import fits_arrow, is_comparable


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
    not_null: Collection[str] = (),
) -> Staged:
    """Stage a signed change.

    Args:
        signed: the output's columns and ``DIFF``; equal rows may come several times.
        stored: the output's rows; None for none.
        not_null: columns in which no row that is inserted may have NULL; nothing is staged then.
    """
    schema = T.StructType([signed.schema[c] for c in columns])
    with ExitStack() as stack:
        # Each row of the change once, where what comes and goes of it does not cancel.
        change: RowSet = SparkRows(net(signed, schema.names)).kept(stack)
        local = change.local
        if not isinstance(local, Declined) and fits_arrow(schema):
            done = _stage_few(staging, local, stored, schema, not_null)
            if not isinstance(done, Declined):
                return done
        seen = change.plain_frame
        if seen.isEmpty():
            return Staged.NOTHING
        nulls = [F.col(backtick(c)).isNull() for c in not_null]
        come, gone = (seen.where(F.col(DIFF) > 0), seen.where(F.col(DIFF) < 0))
        if nulls and not come.where(reduce(or_, nulls)).isEmpty():
            return Staged.REFUSED
        names = backtick_all(columns)
        both = change.frame.select(*names, DIFF, *_nowhere())
        if not gone.isEmpty():
            if stored is None:
                return Staged.ROWS_DIFFER
            found = _equal(stored.all.frame, gone.select(*names), schema)
            both = both.unionAll(
                found.select(*names, F.lit(0).alias(DIFF), FILE_COLUMN, ROW_COLUMN)
            )
        located = stack.enter_context(persisted(with_places(both, columns)))
        short = F.size(LOCATIONS) < -F.col(DIFF)
        if not located.where(short).isEmpty():
            return Staged.ROWS_DIFFER
        inserts = copied(located.where(F.col(DIFF) > 0), columns)
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
    other = gone.toDF(*(f"{GONE_}{i}" for i in range(len(schema))))
    conditions = [
        F.col(backtick(f.name)).eqNullSafe(F.col(f"{GONE_}{i}"))
        for i, f in enumerate(schema)
        if is_comparable(f.dataType)
    ]
    together = reduce(and_, conditions) if conditions else F.lit(True)
    return stored.join(F.broadcast(other), together, "left_semi")


def _stage_few(
    staging: Staging,
    change: LocalRows,
    stored: StoredRows | None,
    schema: T.StructType,
    not_null: Collection[str],
) -> Staged | Declined:
    """Stage it from here; declined where too many stored rows equal one that goes."""
    diffs = change.arrow.column(DIFF).to_pylist()
    if not diffs:
        return Staged.NOTHING
    values = change.arrow.select(schema.names)
    come = [i for i, diff in enumerate(diffs) for _ in range(diff)]
    gone = [i for i, diff in enumerate(diffs) if diff < 0]
    if any(values.column(c).take(pa.array(come, pa.int64())).null_count for c in not_null):
        return Staged.REFUSED
    victims: dict[str, array[int]] = {}
    if gone:
        if stored is None:
            return Staged.ROWS_DIFFER
        away = change.taken(gone).select(schema.names)
        places = _places(stored, away, schema)
        if isinstance(places, Declined):
            return places
        missing = {k: -diffs[i] for k, i in zip(keys(away.arrow), gone, strict=True)}
        for key, file, number in places:
            if missing.get(key, 0) > 0:
                missing[key] -= 1
                victims.setdefault(file, array("Q")).append(number)
        if any(missing.values()):
            return Staged.ROWS_DIFFER
    if come:
        staging.stage(change.taken(come).select(schema.names))
    if victims:
        staging.delete_rows(victims.items())
    return Staged.ROWS


def _places(
    stored: StoredRows, away: LocalRows, schema: T.StructType
) -> list[tuple[Hashable, str, int]] | Declined:
    """Of stored rows, among which are all that equal one that goes: the row, and where it is.

    Declined where they are not few.
    """
    candidates = stored.having(away, [(c, c) for c in schema.names])
    found = candidates.local
    if isinstance(found, Declined):
        found = SparkRows(_equal(candidates.frame, away.plain_frame, schema)).collected()
        if isinstance(found, Declined):
            return found
    rows = found.arrow
    files, numbers = (rows.column(c).to_pylist() for c in (FILE_COLUMN, ROW_COLUMN))
    located = zip(keys(rows.select(schema.names)), files, numbers, strict=True)
    return sorted(located, key=lambda one: one[1:])
