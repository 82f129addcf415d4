"""UNIQUE of a task's output: which proposed rows break it.

UNIQUE needs other rows: the output's remaining stored rows, and the other proposed rows. There is
no table of keys: the output is read by key, from the files whose statistics allow one, as for a
DELETE by key. So the cost follows the change.

[others-first] only rows that no other constraint excludes are checked, for each UNIQUE in the order
    of definition. So an excluded row takes no key from another.
[definite-winner] a stored row keeps its key. Of several proposed rows with one key, the first by
    its JSON text keeps it. So the outcome does not depend on the order of rows.
[null-is-no-key] a key with a NULL equals no other.
[same-marks] the driver looks few rows up; else Spark joins. Both mark the same rows.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from operator import and_

import pyarrow as pa
from pyspark.sql import Column as SparkColumn, DataFrame, Window, functions as F

from ctsql.catalog.errors import Declined
from ctsql.catalog.items import Item
from ctsql.catalog.names import backtick, backtick_all
from ctsql.catalog.reserved_columns import BROKEN, FILE_COLUMN, KEY_, ROW_COLUMN
from ctsql.planner.lowering.constraints import AS_JSON
from ctsql.planner.nodes import Constraint
from ctsql.planner.syntax.ast import OnViolation
from ctsql.runtime.delta.keyed_scan import find_with_keys, place_columns
from ctsql.runtime.rows.multiset import keys as values_of
from ctsql.runtime.rows.row_set import AnyRows, LocalRows, RowSet, SparkRows, persisted, row_set
from ctsql.runtime.rows.types import fits_arrow
from ctsql.runtime.tasks.constraints import fate, mask_of
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.runtime.warehouse.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What proposed rows are compared with."""

    warehouse: Warehouse
    # with the version that the proposal builds on; None before the first
    output: tuple[Item, int | None]
    victims: AnyRows  # the stored rows that the proposal deletes, with their places
    at: int  # the T

    def stored_keys(self, constraint: Constraint) -> DataFrame | None:
        """The keys of the output's rows that the proposal keeps; None if it has no rows."""
        item, _ = self.output
        sources = StoredSources(self.warehouse, outputs={item.id: self.output})
        rows = sources.stored_rows(item.id)
        if rows is not None and self.victims is not None:
            rows = rows.withColumn(FILE_COLUMN, _file_name())
            places = row_set(self.victims).frame.select(_file_name(), ROW_COLUMN)
            rows = rows.join(places, [FILE_COLUMN, ROW_COLUMN], "left_anti")
        return None if rows is None else place_columns(rows, constraint.key).distinct()

    def find_few(self, constraint: Constraint, few: LocalRows) -> LocalRows | Declined | None:
        """The kept stored rows that have one of the keys; None if the output has no rows."""
        item, version = self.output
        if version is None:
            return None
        table = self.warehouse.relations.table(item)
        pairs = [(column, column) for column in constraint.key]
        rows = find_with_keys(table, version, (few, pairs), only_keys=True)
        if rows is None or isinstance(rows, Declined):
            return rows
        return self._without_victims(rows)

    def _without_victims(self, rows: LocalRows) -> LocalRows | Declined:
        if self.victims is None:
            return rows
        victims = row_set(self.victims).collect()
        if isinstance(victims, Declined):
            return victims
        away = set(_places(victims))
        return rows.take([i for i, place in enumerate(_places(rows)) if place not in away])


def mark_keys(
    constraints: Sequence[Constraint],
    proposed_rows: AnyRows,
    around: Surroundings,
    *,
    small: bool,
    stack: ExitStack,
) -> AnyRows:
    """Proposed rows with ``BROKEN``, to which broken UNIQUE constraints are added.

    ``small``: few rows are expected. ``stack`` keeps Spark's rows until they are staged.
    """
    order = [i for i, c in enumerate(constraints) if c.key]
    if proposed_rows is None or not order:
        return proposed_rows
    rows = row_set(proposed_rows)
    if small or rows.is_of_few:
        local_rows = rows.collect()
        if not isinstance(local_rows, Declined) and fits_arrow(local_rows.schema):
            marked_rows = _mark_few(constraints, order, local_rows, around)
            if not isinstance(marked_rows, Declined):
                return marked_rows
    frame = stack.enter_context(persisted(rows.frame))
    return SparkRows(_mark_many(constraints, order, frame, around))


# ---- in the driver


def _mark_few(
    constraints: Sequence[Constraint], order: Sequence[int], rows: LocalRows, around: Surroundings
) -> RowSet | Declined:
    marks: list[int] = rows.arrow.column(BROKEN).to_pylist()
    for index in order:
        constraint = constraints[index]
        # The rows that would be written, by the marks set so far.
        written = (None, OnViolation.WARN)
        numbers = [i for i, mark in enumerate(marks) if fate(mark, constraints) in written]
        by_key = _by_key(rows, constraint.key, numbers)
        if not by_key:
            continue
        firsts = rows.take([numbers[0] for numbers in by_key.values()])
        matches = around.find_few(constraint, firsts)
        if isinstance(matches, Declined):
            return matches
        there: set[Hashable] = set()
        if matches is not None:
            there.update(values_of(matches.arrow.select(list(constraint.key))))
        for number in _breaking(by_key, there, rows):
            marks[number] |= 1 << index
    schema, arrow = rows.schema, rows.arrow
    place = schema.names.index(BROKEN)
    return rows.with_rows(
        schema, arrow.set_column(place, arrow.schema.field(place), pa.array(marks, pa.int64()))
    )


def _by_key(
    rows: LocalRows, columns: Sequence[str], numbers: Sequence[int]
) -> Mapping[Hashable, list[int]]:
    """The numbers of rows by their keys; those with a NULL left out."""
    keys = rows.arrow.select(list(columns)).take(pa.array(numbers, pa.int64()))
    nulls = zip(*(column.is_null().to_pylist() for column in keys.columns), strict=True)
    numbers_by_key: dict[Hashable, list[int]] = defaultdict(list)
    for number, key, are_null in zip(numbers, values_of(keys), nulls, strict=True):
        if not any(are_null):
            numbers_by_key[key].append(number)
    return numbers_by_key


def _breaking(
    by_key: Mapping[Hashable, list[int]], there: set[Hashable], rows: LocalRows
) -> list[int]:
    """The numbers of the rows that break a UNIQUE, by the keys that are stored."""
    breaking_numbers = [n for key, numbers in by_key.items() if key in there for n in numbers]
    rivals = [numbers for key, numbers in by_key.items() if key not in there and len(numbers) > 1]
    if rivals:
        row_numbers = [n for numbers in rivals for n in numbers]
        texts = dict(zip(row_numbers, _texts(rows, row_numbers), strict=True))
        for numbers in rivals:
            breaking_numbers += sorted(numbers, key=lambda n: (texts[n], n))[1:]
    return breaking_numbers


def _texts(rows: LocalRows, numbers: Sequence[int]) -> list[bytes]:
    frame = rows.take(numbers).plain_frame.drop(BROKEN)
    return [bytes(row[0]) for row in frame.select(_text(frame)).collect()]


def _text(rows: DataFrame) -> SparkColumn:
    own = [c for c in rows.columns if c != BROKEN]
    text = F.to_json(F.struct(*backtick_all(own)), AS_JSON)
    return F.encode(text, "UTF-8")


def _file_name() -> SparkColumn:
    """A file's name, which is unique; Spark and the driver spell its path differently."""
    return F.substring_index(FILE_COLUMN, "/", -1).alias(FILE_COLUMN)


def _places(rows: LocalRows) -> list[tuple[str, int]]:
    files, numbers = (rows.arrow.column(c).to_pylist() for c in (FILE_COLUMN, ROW_COLUMN))
    names = (file.rpartition("/")[2] for file in files)
    return list(zip(names, numbers, strict=True))


# ---- by Spark


def _mark_many(
    constraints: Sequence[Constraint], numbers: Sequence[int], rows: DataFrame, around: Surroundings
) -> DataFrame:
    columns = rows.columns
    out = mask_of(constraints, OnViolation.FAIL, OnViolation.QUARANTINE, OnViolation.DROP)
    for index in numbers:
        constraint = constraints[index]
        key = [F.col(backtick(c)) for c in constraint.key]
        looked_at = (F.col(BROKEN).bitwiseAND(out) == 0) & reduce(
            and_, (k.isNotNull() for k in key)
        )
        there = around.stored_keys(constraint)
        is_there = F.lit(False)
        if there is not None:
            there = there.withColumn(_THERE, F.lit(True))
            equal = reduce(and_, (k == F.col(f"{KEY_}{i}") for i, k in enumerate(key)))
            rows = rows.join(there, equal, "left")
            is_there = F.col(_THERE).isNotNull()
        text = _text(rows.select(*backtick_all(columns)))
        first = Window.partitionBy(looked_at, *key).orderBy(text)
        is_broken = is_there | (F.row_number().over(first) > 1)
        bit = F.when(looked_at & is_broken, F.lit(1 << index)).otherwise(F.lit(0)).cast("bigint")
        mark = F.col(BROKEN).bitwiseOR(bit).alias(BROKEN)
        rows = rows.select(*(mark if c == BROKEN else backtick(c) for c in columns))
    return rows


_THERE = f"{KEY_}there"
