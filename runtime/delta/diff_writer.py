"""Stages a change of an output: a small one in the driver, a large one by Spark.

Desired - stored, small: both are collected as Arrow, equal rows cancel in the driver, and the rest
is staged as one file. Beyond the bounds of :mod:`ctsql.runtime.rows.collect`, Spark groups equal
rows and persists the result while it is counted and staged; only the row numbers to delete are
collected, one file at a time, 8 bytes each.

Signed: a row with diff d > 0 is inserted d times. Of the stored rows equal to one with diff d < 0,
    the first -d by file and row number are deleted. If there are fewer, the change was computed for
    other stored rows: nothing is staged, and the caller compares in full. Candidates are found by
    Spark's ``<=>``, which also equates 0.0 and -0.0, and are then compared exactly.
"""

from collections.abc import Collection, Hashable
from contextlib import ExitStack, nullcontext
from functools import reduce
from operator import and_, or_

import pyarrow as pa
from pyspark.sql import Column as SparkColumn, DataFrame, SparkSession, functions as F, types as T

from ctsql.catalog.errors import Declined
from ctsql.catalog.names import backtick, backtick_all
from ctsql.catalog.reserved_columns import DIFF, FILE_COLUMN, GONE_, LOCATIONS, ROW_COLUMN
from ctsql.runtime.delta.keyed_scan import StoredRows, group_by_file
from ctsql.runtime.delta.parquet.parquet_reader import PLACES_SCHEMA
from ctsql.runtime.log.staging import Staging
from ctsql.runtime.rows.multiset import (
    cancel,
    consolidate,
    consolidate_all,
    keys,
    multiset_difference,
    repeat_by_diff,
    with_locations,
)
from ctsql.runtime.rows.prepared_rows import derive
from ctsql.runtime.rows.row_set import AnyRows, LocalRows, RowSet, SparkRows, persisted, row_set
from ctsql.runtime.rows.types import fits_arrow, is_comparable
from ctsql.runtime.spark.internals.partitions import partition_rows
from ctsql.runtime.spark.internals.plans import is_row_by_row


def stage(
    staging: Staging, desired: AnyRows, stored_rows: AnyRows, columns: list[str], *, small: bool
) -> bool:
    """Stage desired - stored; returns whether there is a difference.

    ``stored_rows`` have the columns that locate rows. ``small``: few rows are expected.
    """
    if desired is None and stored_rows is None:
        return False
    row_sets = [row_set(rows) for rows in (desired, stored_rows) if rows is not None]
    if small and desired is not None and row_sets[0].is_of_few and not row_sets[0].is_local:
        few_rows = row_sets[0].select(columns).collect()  # by a kept plan, without planning
        small = not isinstance(few_rows, Declined)
        row_sets[0] = row_sets[0] if isinstance(few_rows, Declined) else few_rows
    schema = T.StructType([row_sets[0].schema[c] for c in columns])
    if fits_arrow(schema):
        parts = []
        for rows in row_sets:
            local = _local(rows, columns, small=small)
            if isinstance(local, Declined):
                break
            parts.append(_add_places(local.arrow, columns))
        else:
            both = pa.concat_tables(parts, promote_options="default")  # NULL may be in one only
            return _stage_small(staging, both, schema, row_sets[0].session)
    desired_rows = None if desired is None else row_sets[0].frame
    there = None if stored_rows is None else row_sets[-1].frame
    return _stage_large(staging, desired_rows, there, columns)


def _local(rows: RowSet, columns: list[str], *, small: bool) -> LocalRows | Declined:
    """Some columns of rows, and their places if they have any; collected if ``small``."""
    if not small:
        return rows.local
    places = [name for name in PLACES_SCHEMA.names if name in rows.schema.names]
    return rows.select([*columns, *places]).collect()


def _add_places(rows: pa.Table, columns: list[str]) -> pa.Table:
    for place in PLACES_SCHEMA:
        if place.name not in rows.schema.names:
            rows = rows.append_column(place, pa.nulls(rows.num_rows, place.type))
    return rows.select([*columns, *PLACES_SCHEMA.names])


def _nowhere() -> list[SparkColumn]:
    kinds = {FILE_COLUMN: "string", ROW_COLUMN: "bigint"}
    return [F.lit(None).cast(kind).alias(name) for name, kind in kinds.items()]


def _stage_small(
    staging: Staging, rows: pa.Table, schema: T.StructType, session: SparkSession
) -> bool:
    files = rows.column(FILE_COLUMN).to_pylist()
    numbers = rows.column(ROW_COLUMN).to_pylist()
    values = rows.select(schema.names)
    is_desired = [i for i, file in enumerate(files) if file is None]
    is_stored = sorted(
        (i for i, file in enumerate(files) if file is not None),
        key=lambda i: (files[i], numbers[i]),
    )
    inserts, deletes = is_desired, is_stored
    if is_desired and is_stored:
        key = keys(values)
        plus, minus = cancel([key[i] for i in is_desired], [key[i] for i in is_stored])
        inserts, deletes = [is_desired[i] for i in plus], [is_stored[i] for i in minus]
    if inserts:
        fresh = values.take(pa.array(inserts, pa.int64()))
        staging.stage(LocalRows(session, schema, fresh))
    if deletes:
        staging.delete_rows(group_by_file((files[i], numbers[i]) for i in deletes).items())
    return bool(inserts or deletes)


def _stage_large(
    staging: Staging, desired: DataFrame | None, stored_rows: DataFrame | None, columns: list[str]
) -> bool:
    # Without stored rows nothing cancels, so no grouping is needed.
    if stored_rows is None or (desired is not None and stored_rows.isEmpty()):
        assert desired is not None  # one of them is not None
        rows = desired.select(*backtick_all(columns))
        with nullcontext(rows) if is_row_by_row(rows) else persisted(rows) as inserts:
            if inserts.isEmpty():
                return False
            staging.stage(inserts)
            return True
    with persisted(multiset_difference(desired, stored_rows, columns)) as change:
        inserts = repeat_by_diff(change.where(F.col(DIFF) > 0), columns)
        return _stage_counted(staging, change, inserts)


def _stage_counted(staging: Staging, change: DataFrame, inserts: DataFrame) -> bool:
    """Stage a difference with ``DIFF`` and ``LOCATIONS``; returns whether there is one."""
    counts = change.agg(
        F.sum(F.greatest(F.col(DIFF), F.lit(0))).alias("i"),
        F.sum(F.greatest(-F.col(DIFF), F.lit(0))).alias("d"),
    ).first()
    assert counts is not None  # an aggregate without groups gives one row
    if counts["i"]:
        staging.stage(inserts)
    if counts["d"]:
        places = change.where(F.col(DIFF) < 0).select(F.explode(LOCATIONS).alias("p"))
        by_file = places.groupBy("p.file").agg(F.collect_list("p.row").alias("rows"))
        staging.delete_rows((r["file"], r["rows"]) for r in partition_rows(by_file))
    return bool(counts["i"] or counts["d"])


ROWS_DIFFER = Declined("ROWS_DIFFER")  # rows to delete are not stored
HAS_NULL = Declined("TEXTS_FAILED", "the view has a row that its assertion excludes")
"""The whole query then reports the error."""


def stage_signed(
    staging: Staging,
    signed_rows: RowSet,
    stored_rows: StoredRows,
    columns: list[str],
    not_null: Collection[str],
) -> Declined | None:
    """Stage a signed change; returns ``ROWS_DIFFER`` or ``HAS_NULL`` if nothing is staged for that.

    Args:
        signed_rows: the output's columns and ``DIFF``; may contain equal rows.
        not_null: columns in which inserted rows may not have NULL, else nothing is staged; those
            that are not the output's are computed from the row and not stored.
    """
    all_columns = [*columns, *(c for c in not_null if c not in columns)]
    with ExitStack() as stack:
        # Consolidated: each row of the change once, with its total diff.
        if signed_rows.is_local:
            net_change = consolidate_all([signed_rows.select([*all_columns, DIFF])], all_columns)
        else:
            net_change = derive(
                [signed_rows],
                lambda rows: consolidate(rows[0], all_columns),
                ("net", tuple(all_columns)),
            )
        change = net_change.keep(stack)
        schema = T.StructType([change.schema[c] for c in columns])
        local = change.local
        if not isinstance(local, Declined) and fits_arrow(schema):
            declined = _stage_signed_few(staging, local, stored_rows, schema, not_null)
            if declined in (None, ROWS_DIFFER, HAS_NULL):
                return declined
        frame = change.plain_frame
        if frame.isEmpty():
            return None
        nulls = [F.col(backtick(c)).isNull() for c in not_null]
        plus, minus = (frame.where(F.col(DIFF) > 0), frame.where(F.col(DIFF) < 0))
        if nulls and not plus.where(reduce(or_, nulls)).isEmpty():
            return HAS_NULL
        names = backtick_all(columns)
        both = change.frame.select(*names, DIFF, *_nowhere())
        if not minus.isEmpty():
            matches = _equal(stored_rows.all.frame, minus.select(*names), schema)
            both = both.unionAll(
                matches.select(*names, F.lit(0).alias(DIFF), FILE_COLUMN, ROW_COLUMN)
            )
        locations = stack.enter_context(persisted(with_locations(both, columns)))
        short = F.size(LOCATIONS) < -F.col(DIFF)
        if not locations.where(short).isEmpty():
            return ROWS_DIFFER
        inserts = repeat_by_diff(locations.where(F.col(DIFF) > 0), columns)
        _stage_counted(staging, locations, inserts)
        return None


def _equal(stored_rows: DataFrame, deletes: DataFrame, schema: T.StructType) -> DataFrame:
    other = deletes.toDF(*(f"{GONE_}{i}" for i in range(len(schema))))
    conditions = [
        F.col(backtick(f.name)).eqNullSafe(F.col(f"{GONE_}{i}"))
        for i, f in enumerate(schema)
        if is_comparable(f.dataType)
    ]
    together = reduce(and_, conditions) if conditions else F.lit(True)
    return stored_rows.join(F.broadcast(other), together, "left_semi")


def _stage_signed_few(
    staging: Staging,
    change: LocalRows,
    stored_rows: StoredRows,
    schema: T.StructType,
    not_null: Collection[str],
) -> Declined | None:
    """As :func:`stage_signed`, in the driver; or why Spark must: many rows equal one to delete."""
    diffs = change.arrow.column(DIFF).to_pylist()
    if not diffs:
        return None
    inserts = [i for i, diff in enumerate(diffs) for _ in range(diff)]
    deletes = [i for i, diff in enumerate(diffs) if diff < 0]
    if any(change.arrow.column(c).take(pa.array(inserts, pa.int64())).null_count for c in not_null):
        return HAS_NULL
    victims: list[tuple[str, int]] = []
    if deletes:
        away = change.take(deletes).select(schema.names)
        places = _places(stored_rows, away, schema)
        if isinstance(places, Declined):
            return places
        missing = {k: -diffs[i] for k, i in zip(keys(away.arrow), deletes, strict=True)}
        for key, file, number in places:
            if missing.get(key, 0) > 0:
                missing[key] -= 1
                victims.append((file, number))
        if any(missing.values()):
            return ROWS_DIFFER
    if inserts:
        staging.stage(change.take(inserts).select(schema.names))
    if victims:
        staging.delete_rows(group_by_file(victims).items())
    return None


def _places(
    stored_rows: StoredRows, away: LocalRows, schema: T.StructType
) -> list[tuple[Hashable, str, int]] | Declined:
    """Key, file and row number of a superset of the rows to delete, in order of location."""
    candidates = stored_rows.having(away, [(c, c) for c in schema.names])
    matches = candidates.local
    if isinstance(matches, Declined):
        matches = SparkRows(_equal(candidates.frame, away.plain_frame, schema)).collect()
        if isinstance(matches, Declined):
            return matches
    rows = matches.arrow
    files, numbers = (rows.column(c).to_pylist() for c in (FILE_COLUMN, ROW_COLUMN))
    places = zip(keys(rows.select(schema.names)), files, numbers, strict=True)
    return sorted(places, key=lambda one: one[1:])
