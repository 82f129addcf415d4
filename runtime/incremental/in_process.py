"""Runs texts of a change plan on DuckDB, inside this process, where all that they read is held.

What it can run means the same to Spark (:mod:`ctsql.planner.changes.in_process`); what fails here,
for whatever reason, is run by Spark, which then gives the error that users know.
"""

import decimal
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TypeVar

import duckdb
import pyarrow as pa
from pyspark.sql import SparkSession, types as T

from ctsql.catalog.names import double_quoted
from ctsql.planner.changes import TableUse, Text, TopTexts
from ctsql.planner.changes.in_process.sources import InProcess, Relation, Relations
from ctsql.planner.changes.in_process.types import NotHeld, OnlySpark, Type, type_of
from ctsql.planner.changes.in_process.values import Division, is_cast_alike
from ctsql.planner.changes.nodes import PREFIX, Col, Step
from ctsql.runtime.duck import connect_plainly
from ctsql.runtime.sinks.held import HeldRows

ROWS_MAX = 100_000
"""Rows that a text may give here; more are for Spark."""
SECONDS_MAX = 20.0
"""How long a query may run here; what takes longer multiplies rows, and is for Spark."""

_Made = TypeVar("_Made")

_SIMPLE = {
    t.simpleString(): t
    for t in (
        T.BooleanType(), T.ByteType(), T.ShortType(), T.IntegerType(), T.LongType(),
        T.FloatType(), T.DoubleType(), T.StringType(), T.BinaryType(), T.DateType(),
        T.TimestampType(), T.TimestampNTZType(),
    )
}  # fmt: skip

_PRECISION = "spark.sql.decimalOperations.allowPrecisionLoss"
_FAILED = (OnlySpark, duckdb.Error, pa.ArrowException)
"""What is run by Spark then."""


class Queries:
    """DuckDB for one refresh; it holds no rows of its own.

    Attributes:
        done: texts that were run here. left: for each one left to Spark, why.

    Args:
        table, step, state: the rows of a relation, None where this process does not hold them.
        large: the same for a table of more rows, where no keys are known.
        empty: no rows of a table.
        keep: is given a step of this process's own, whose keys are wanted of a table.
    """

    def __init__(
        self,
        session: SparkSession,
        table: Callable[[TableUse], HeldRows | None],
        large: Callable[[TableUse], HeldRows | None],
        empty: Callable[[TableUse], HeldRows],
        step: Callable[[str], HeldRows | None],
        state: Callable[[int], HeldRows | None],
        keep: Callable[[str, HeldRows], None],
    ) -> None:
        self._session = session
        self._connection = connect_plainly()
        self._known: dict[int, tuple[HeldRows, Relation]] = {}
        self._functions: set[str] = set()
        self._relations = Relations(
            table=lambda use: self._relation(table(use)),
            empty=lambda use: self._relation(empty(use)),
            step=lambda name: self._relation(step(name)),
            state=lambda number: self._relation(state(number)),
            keys=self._keys,
        )
        self._with_large = replace(self._relations, table=lambda use: self._relation(large(use)))
        self._keep = keep
        self._wanted = 0
        self.done = 0
        self.left: list[str] = []
        # With another setting decimals have other types than those computed here.
        self._is_usual = session.conf.get(_PRECISION, "true") == "true"

    def close(self) -> None:
        """Let everything go."""
        self._connection.close()

    def rows(self, text: Text) -> HeldRows | None:
        """The rows of a text; None where only Spark can tell them."""
        try:
            if not self._is_usual:
                raise OnlySpark(f"{_PRECISION} is false")
            found = self._run(self._made(text.in_process), text.names)
        except _FAILED as problem:
            self.left.append(_told(problem))
            return None
        self.done += 1
        return found

    def holds(self, texts: TopTexts) -> bool | None:
        """Are the first rows right? None where only Spark can tell."""
        try:
            (found,) = self._fetched(self._made(texts.holds_in_process)).to_pylist()
        except _FAILED as problem:
            self.left.append(_told(problem))
            return None
        self.done += 1
        return bool(found["holds"])

    def having(
        self, rows: HeldRows, keys: HeldRows, pairs: Sequence[tuple[str, str]]
    ) -> HeldRows | None:
        """The rows that have a key, NULL equal to NULL; None where only Spark can tell.

        Args:
            pairs: a column of the rows, and one of the keys.
        """
        try:
            there, wanted = self._relation(rows), self._relation(keys)
            for mine, key in pairs:
                kind = there.type(mine)
                if kind != wanted.type(key) or not kind.is_comparable:
                    return None
            equal = " AND ".join(
                f"r.{double_quoted(mine)} IS NOT DISTINCT FROM k.{double_quoted(key)}"
                for mine, key in pairs
            )
            rows_name, keys_name = double_quoted(there.name), double_quoted(wanted.name)
            text = f"SELECT r.* FROM {rows_name} r SEMI JOIN {keys_name} k ON {equal or 'true'}"
            found = self._fetched(text)
        except _FAILED:
            return None
        return HeldRows(self._session, rows.schema, found)

    def cast(self, rows: HeldRows, schema: T.StructType) -> HeldRows | None:
        """The rows with their columns, in order, of a schema's types; None as above."""
        relation = self._relation(rows)
        try:
            listed = []
            for mine, wanted in zip(rows.schema.fields, schema.fields, strict=True):
                given, kind = relation.type(mine.name), _type(wanted.dataType)
                if not is_cast_alike(given, kind):
                    return None
                listed.append(
                    f"CAST({double_quoted(mine.name)} AS {kind.sql}) AS {double_quoted(mine.name)}"
                )
            text = f"SELECT {', '.join(listed)} FROM {double_quoted(relation.name)}"
            found = self._fetched(text)
        except _FAILED:
            return None
        fields = zip(rows.schema.fields, schema.fields, strict=True)
        made = T.StructType([T.StructField(m.name, w.dataType) for m, w in fields])
        return HeldRows(self._session, made, found)

    def _made(self, make: Callable[[Relations], _Made]) -> _Made:
        """A query: over small tables and few rows of others; else over larger tables as well."""
        try:
            return make(self._relations)
        except NotHeld:
            return make(self._with_large)

    def _run(self, made: InProcess, names: Sequence[str]) -> HeldRows:
        for division in made.divisions:
            self._register(division)
        found = self._fetched(f"{made.sql} LIMIT {ROWS_MAX + 1}")
        if found.num_rows > ROWS_MAX:
            raise NotHeld(f"more than {ROWS_MAX:,} rows")
        schema = T.StructType(
            [T.StructField(n, _data_type(t)) for n, t in zip(names, made.types, strict=True)]
        )
        return HeldRows(self._session, schema, found.rename_columns(list(names)))

    def _fetched(self, text: str) -> pa.Table:
        """The rows of a query; an error of DuckDB if it takes too long."""
        timer = threading.Timer(SECONDS_MAX, self._connection.interrupt)
        timer.daemon = True
        timer.start()
        try:
            return self._connection.execute(text).to_arrow_table()
        finally:
            timer.cancel()

    def _keys(self, made: InProcess, cols: Sequence[Col]) -> Step:
        """The keys that a query gives, as a step."""
        self._wanted += 1
        step = Step(name=f"{PREFIX}wanted_{self._wanted}", columns=tuple(cols))
        self._keep(step.name, self._run(made, [c.sql for c in cols]))
        return step

    def _relation(self, rows: HeldRows | None) -> Relation:
        if rows is None:
            raise NotHeld("rows that this process does not hold")
        known = self._known.get(id(rows))
        if known is not None:
            return known[1]
        types = {}
        for field in rows.schema.fields:
            try:
                types[field.name] = _type(field.dataType)
            except OnlySpark:
                continue  # whoever reads the column is told
        made = Relation(f"r{len(self._known)}", types, is_empty=not rows.arrow.num_rows)
        self._connection.register(made.name, rows.arrow)
        self._known[id(rows)] = (rows, made)  # held, so that the id stays its own
        return made

    def _register(self, division: Division) -> None:
        if division.name in self._functions:
            return
        self._functions.add(division.name)
        left, right, made = (
            self._connection.type(t.sql) for t in (division.left, division.right, division.made)
        )
        self._connection.create_function(division.name, divider(division), [left, right], made)


def divider(division: Division) -> Callable[[Decimal, Decimal], Decimal]:
    """Division of decimals as Spark has it: 38 digits, then the places of the result, half up."""
    digits = decimal.Context(prec=76, rounding=decimal.ROUND_HALF_UP)
    unit = Decimal(1).scaleb(-division.made.places)
    whole = division.made.digits - division.made.places

    def divide(left: Decimal, right: Decimal) -> Decimal:
        found = digits.divide(left, right).quantize(unit, context=digits)
        if found.adjusted() >= whole and found:
            raise OverflowError(found)
        return found

    return divide


def _told(problem: Exception) -> str:
    """Why a text is Spark's."""
    if isinstance(problem, OnlySpark):
        return str(problem)
    return f"{type(problem).__name__}: {str(problem).partition(chr(10))[0]}"


def _type(data_type: T.DataType) -> Type:
    return type_of(data_type.simpleString())


def _data_type(kind: Type) -> T.DataType:
    return T.DecimalType(kind.digits, kind.places) if kind.is_decimal else _SIMPLE[kind.name]
