"""UNIQUE and REFERENCES of a task's output: which proposed rows break them.

What CHECK and NOT NULL say of a row is told from the row (:mod:`ctsql.planner.lowering
.constraints`); these two need other rows:

    UNIQUE       the output's stored rows that stay, and the other proposed rows that are kept
    REFERENCES   the rows of another table as of T

No table of keys is kept beside: the output and the other table are looked into by key, in the files
whose statistics allow one, as a DELETE by key does. So the cost follows the change.

[others-first] only rows that no other constraint keeps out are looked at, REFERENCES first, then
    UNIQUE, each in the order of definition; so a row that is left out takes no key from another.
[definite-winner] of several proposed rows with a key the first by its JSON text keeps it, of equal
    ones one; a stored row keeps it before all. No order of rows matters, so the outcome is
    definite.
[null-is-no-key] a key with a NULL equals no other and refers to nothing.
[same-marks] few rows are looked up by the driver; else Spark joins. Both mark the same rows.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from operator import and_

import pyarrow as pa
from pyspark.sql import Column as SparkColumn, DataFrame, Window, functions as F

from ctsql.catalog.errors import error, not_supported
from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.names import backtick, backtick_all, fold
from ctsql.catalog.reserved_columns import BROKEN, FILE_COLUMN, KEY_, ROW_COLUMN
from ctsql.catalog.schemas import Column
from ctsql.planner.binding.constraints import compares
from ctsql.planner.lowering import AS_JSON
from ctsql.planner.lowering.type_names import type_name
from ctsql.planner.nodes import Constraint, Relation
from ctsql.planner.syntax.ast import OnViolation
from ctsql.runtime.delta.key_lookup import Keys, find_with_keys, place_columns
from ctsql.runtime.rows.declined import Declined
from ctsql.runtime.rows.multiset_local import keys as values_of
from ctsql.runtime.rows.row_set import AnyRows, LocalRows, RowSet, SparkRows, persisted, row_set
from ctsql.runtime.rows.types import fits_arrow
from ctsql.runtime.tasks.fates import fate, mask_of
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.runtime.warehouse.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What proposed rows are compared with.

    Attributes:
        output: with the version that the proposal builds on; None before it had one.
        victims: its rows that the proposal takes out, with their places. at: the T.
    """

    warehouse: Warehouse
    output: tuple[Item, int | None]
    victims: AnyRows
    at: int

    def stored_keys(self, constraint: Constraint) -> DataFrame | None:
        """The keys of the output's rows that stay, or those that rows may refer to."""
        if constraint.references is not None:
            rows: DataFrame | None = self._referred_rows(constraint)
        else:
            item, _ = self.output
            sources = StoredSources(self.warehouse, outputs={item.id: self.output})
            rows = sources.stored_rows(item.id)
            if rows is not None and self.victims is not None:
                rows = rows.withColumn(FILE_COLUMN, _file_name())
                places = row_set(self.victims).frame.select(_file_name(), ROW_COLUMN)
                rows = rows.join(places, [FILE_COLUMN, ROW_COLUMN], "left_anti")
        return None if rows is None else place_columns(rows, _looked_in(constraint)).distinct()

    def _referred_rows(self, constraint: Constraint) -> DataFrame:
        """All that rows may refer to; raises UNKNOWN_COLUMN if another writer took a key away."""
        node = _referred_relation(constraint)
        sources = StoredSources(self.warehouse)
        rows = sources.contents(node.object_id, self.at)
        missing_columns = {fold(c) for c in constraint.keys} - {fold(c) for c in rows.columns}
        for column in (c for c in constraint.keys if fold(c) in missing_columns):
            raise error(
                "UNKNOWN_COLUMN",
                column=column,
                detail=f'"{node.name}" has lost it, and constraint "{constraint.name}" refers to '
                "it.",
                hint=f'Give "{node.name}" the column again, or drop the constraint.',
            )
        return rows

    def find_few(self, constraint: Constraint, few: LocalRows) -> LocalRows | Declined | None:
        """The rows that have one of the keys, of those that stay or may be referred to."""
        if constraint.references is None:
            item, version = self.output
        else:
            item = self.warehouse.relations.item(_referred_relation(constraint).object_id)
            if item.kind is ObjectKind.MATERIALIZED_VIEW:
                return Declined("what a view holds as of T may have to be computed")
            storage = self.warehouse.versions.find_storage(item, self.at)
            if storage.shared_version is not None:
                return Declined("a commit holds more than T")
            version = storage.version
        if version is None:
            return None
        table = self.warehouse.relations.table(item)
        keys = Keys(few, constraint.key)
        rows = find_with_keys(table, version, _looked_in(constraint), keys, only_keys=True)
        if rows is None or isinstance(rows, Declined) or constraint.references is not None:
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
    """Proposed rows with ``BROKEN`` where UNIQUE and REFERENCES are among what they break.

    Args:
        small: whether few rows are expected. stack: keeps what Spark holds until rows are staged.
    """
    order = sorted(
        (i for i, c in enumerate(constraints) if c.key), key=lambda i: not constraints[i].references
    )
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
        by_key = _by_key(rows, constraint.key, _numbers_to_write(marks, constraints))
        if not by_key:
            continue
        firsts = rows.take([numbers[0] for numbers in by_key.values()])
        matches = around.find_few(constraint, firsts)
        if isinstance(matches, Declined):
            return matches
        there = set() if matches is None else set(_keys(matches, _looked_in(constraint)))
        for number in _breaking(constraint, by_key, there, rows):
            marks[number] |= 1 << index
    schema, arrow = rows.schema, rows.arrow
    place = schema.names.index(BROKEN)
    return rows.with_rows(
        schema, arrow.set_column(place, arrow.schema.field(place), pa.array(marks, pa.int64()))
    )


def _numbers_to_write(marks: Sequence[int], constraints: Sequence[Constraint]) -> list[int]:
    """The numbers of the rows that are written, by what is known of them."""
    fates = (None, OnViolation.WARN)
    return [i for i, mark in enumerate(marks) if fate(mark, constraints) in fates]


def _by_key(
    rows: LocalRows, columns: Sequence[str], numbers: Sequence[int]
) -> Mapping[Hashable, list[int]]:
    """The numbers of rows by their keys; those with a NULL left out."""
    keys = rows.arrow.select(list(columns)).take(pa.array(numbers, pa.int64()))
    is_null = reduce(lambda a, b: [x or y for x, y in zip(a, b, strict=True)], (
        column.is_null().to_pylist() for column in keys.columns
    ))  # fmt: skip
    numbers_by_key: dict[Hashable, list[int]] = defaultdict(list)
    for number, key, no_key in zip(numbers, values_of(keys), is_null, strict=True):
        if not no_key:
            numbers_by_key[key].append(number)
    return numbers_by_key


def _keys(rows: LocalRows, columns: Sequence[str]) -> list[Hashable]:
    return values_of(rows.arrow.select(list(columns)))


def _breaking(
    constraint: Constraint,
    by_key: Mapping[Hashable, list[int]],
    there: set[Hashable],
    rows: LocalRows,
) -> list[int]:
    """The numbers of the rows that break a constraint, by the keys that are there."""
    if constraint.references is not None:
        return [n for key, numbers in by_key.items() if key not in there for n in numbers]
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
    """Spark and the driver spell a file's path differently; its name is that of no other file."""
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
        if there is not None and constraint.references is not None:
            _check_types(constraint, rows, there)
        if there is not None:
            there = there.withColumn(_THERE, F.lit(True))
            equal = reduce(and_, (k == F.col(f"{KEY_}{i}") for i, k in enumerate(key)))
            rows = rows.join(there, equal, "left")
            is_there = F.col(_THERE).isNotNull()
        is_broken = ~is_there
        if constraint.references is None:
            text = _text(rows.select(*backtick_all(columns)))
            first = Window.partitionBy(looked_at, *key).orderBy(text)
            is_broken = is_there | (F.row_number().over(first) > 1)
        bit = F.when(looked_at & is_broken, F.lit(1 << index)).otherwise(F.lit(0)).cast("bigint")
        mark = F.col(BROKEN).bitwiseOR(bit).alias(BROKEN)
        rows = rows.select(*(mark if c == BROKEN else backtick(c) for c in columns))
    return rows


def _check_types(constraint: Constraint, rows: DataFrame, there: DataFrame) -> None:
    """Raise NOT_SUPPORTED if another writer has made keys such that a cast is needed.

    Several keys could equal one then, and a row would come once for each.
    """
    own = {f.name: f for f in rows.schema}
    for name, key, now in zip(constraint.key, constraint.keys, there.schema, strict=True):
        types = [type_name(f.dataType) for f in (own[name], now)]
        if not compares(*(Column(key, one) for one in types)):
            one, other = map(str.upper, types)
            relation = _referred_relation(constraint).name
            what = f'a key of type {one} that refers to "{key}" of "{relation}" of type {other}'
            why = f'Constraint "{constraint.name}" refers to it by its values, and several may '
            why += "equal one after the cast."
            hint = "Give it a type that is compared as it is, or drop the constraint."
            raise not_supported(None, what, why=why, hint=hint)


_THERE = f"{KEY_}there"


def _looked_in(constraint: Constraint) -> Sequence[str]:
    """The columns that hold the keys, of the output or of what is referred to."""
    return constraint.key if constraint.references is None else constraint.keys


def _referred_relation(constraint: Constraint) -> Relation:
    node = constraint.references
    assert isinstance(node, Relation)  # the rules have run
    return node
