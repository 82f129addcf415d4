"""Asks Spark's analyser about a statement, with an empty table for each relation.

Binding a definition runs no job and does not depend on data.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession, functions as F

from ctsql.catalog.errors import CtsqlError, Declined, broken
from ctsql.catalog.reserved_columns import DIFF
from ctsql.catalog.schemas import Column
from ctsql.planner.binding.checks import indefinite, not_by_row
from ctsql.planner.bodies.delete_by_key import KeyLookup
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.merge import assigned_values
from ctsql.planner.lowering.output_state import OutputState, StatementView, value_pieces
from ctsql.planner.lowering.queries import lower_query, run_pieces
from ctsql.planner.lowering.spark_types import declared_type, type_name
from ctsql.planner.nodes import Delete, Merge, Node, Query, SelfReference, Update, descend
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.internals.plans import (
    empty,
    has_union,
    is_assignable,
    is_by_row,
    is_definite,
    optimized_text,
)

ColumnsOf = Callable[[str], Sequence[Column]]  # the columns of an object, by its id


class EmptySources:
    """Empty tables with the columns of objects."""

    translate_errors = staticmethod(translate_spark_errors)
    optimized_text = staticmethod(optimized_text)

    def __init__(self, session: SparkSession, columns_of: ColumnsOf) -> None:
        self._session = session
        self._columns_of = columns_of
        self.own: dict[str, Sequence[Column]] = {}

    def like(self, columns: Sequence[Column]) -> DataFrame:
        """An empty table with these columns."""
        return empty(self._session, columns)

    def contents(self, object_id: str, at: int) -> DataFrame:
        """An empty table like the object."""
        if object_id in self.own:
            return self.like(self.own[object_id])
        return self.like(self._columns_of(object_id))

    def inserts(self, object_id: str, at: int) -> DataFrame:
        """An empty table like the object."""
        return self.contents(object_id, at)

    deletes = inserts

    def changes(self, object_id: str, at: int) -> DataFrame:
        """An empty table like the object, with ``DIFF``."""
        return self.contents(object_id, at).withColumn(DIFF, F.lit(0).cast("bigint"))

    def stored_rows(self, object_id: str) -> DataFrame | None:
        """Nothing is stored."""
        return None

    def stored_with_keys(self, lookup: KeyLookup) -> DataFrame | Declined | None:
        """Nothing is looked up."""
        return Declined("nothing is stored")


class HeldSources(EmptySources):
    """Relations with given rows, by object."""

    def __init__(self, session: SparkSession, rows: Mapping[str, DataFrame]) -> None:
        super().__init__(session, lambda _: ())
        self._rows = rows

    def contents(self, object_id: str, at: int) -> DataFrame:
        """The rows of an object."""
        return self._rows[object_id]


class UnknownSources(EmptySources):
    """Empty tables, one for each object."""

    def __init__(self, session: SparkSession, columns_of: ColumnsOf) -> None:
        super().__init__(session, columns_of)
        self._frames: dict[str, DataFrame] = {}

    def contents(self, object_id: str, at: int) -> DataFrame:
        """An empty table like the object."""
        if object_id not in self._frames:
            self._frames[object_id] = super().contents(object_id, at)
        return self._frames[object_id]


class SparkAnalyst:
    """The planner's ``Analyst``, by Spark; ``sources`` replace new empty tables."""

    def __init__(
        self, session: SparkSession, columns_of: ColumnsOf, sources: EmptySources | None = None
    ) -> None:
        self._session = session
        self._sources = sources or EmptySources(session, columns_of)
        self._context = Context(session, self._sources, 0, clock_at=0)
        self._frames: dict[object, DataFrame] = {}

    def columns(self, query: Query) -> tuple[Column, ...]:
        """Names and types of a query's result."""
        rows = self._analyse(query)
        # The metadata of a union's columns is that of the first query.
        is_mixed = has_union(rows)
        return tuple(
            Column(
                f.name,
                type_name(f.dataType) if is_mixed else declared_type(f),
                f.nullable,
                None,
            )
            for f in rows.schema
        )

    def is_deterministic(self, query: Query) -> bool:
        """Whether Spark finds only deterministic parts in a query."""
        return self._is_definite(self._analyse(query))

    def _is_definite(self, rows: DataFrame) -> bool:
        return is_definite(rows)

    def _is_by_row(self, rows: DataFrame) -> bool:
        return is_by_row(rows)

    def _check_definite(self, node: Node, *frames: DataFrame) -> None:
        """Refuse conditions and values of a task's statement that read the clock."""
        if not all(map(self._is_definite, frames)):
            piece = next(n for n in descend(node) if isinstance(n, Query))
            raise indefinite(piece, "continual task")

    def _analyse(self, query: Query) -> DataFrame:
        """A query over empty tables; it is analysed once."""
        key = (query.sql, query.relations, tuple(self._sources.own.items()))
        if key not in self._frames:
            with translate_spark_errors():
                rows = lower_query(query, self._context, self._own(query))
            self._frames[key] = rows
        return self._frames[key]

    def _own(self, query: Query) -> dict[int, DataFrame]:
        """Empty tables for the relations in which a task reads itself."""
        return {
            i: self._like(node)
            for i, node in enumerate(query.relations)
            if isinstance(node, SelfReference)
        }

    def _like(self, node: SelfReference) -> DataFrame:
        if node.object_id not in self._sources.own:
            invariant = "a task's columns are known before its body is analysed"
            raise broken(invariant, str(node.name))
        return self._sources.like(self._sources.own[node.object_id])

    def set_own(self, object_id: str, columns: Sequence[Column]) -> None:
        """Set the columns of an output that is being defined."""
        self._sources.own[object_id] = tuple(columns)

    def check_predicate(self, node: Delete, columns: Sequence[Column]) -> None:
        """A DELETE's predicate must be a condition over the output's columns."""
        if node.where is None:
            return
        rows = self._sources.like(columns)
        with translate_spark_errors():
            view = StatementView(OutputState(None, rows), self._context, node.ctes)
            selection = view.run(
                [f"SELECT * FROM {{rows}} AS {node.alias} WHERE (", node.where, ")"], {"rows": rows}
            )
            self._check_definite(node, selection)

    def assigned_types(
        self, node: Update | Merge, columns: Sequence[Column]
    ) -> list[tuple[str, ...]]:
        """The types of assigned values; conditions are analysed too."""
        ctes = node.ctes if isinstance(node, Update) else None
        view = StatementView(OutputState(None, self._sources.like(columns)), self._context, ctes)
        with translate_spark_errors():
            frames = _assigned(node, view)
            self._check_definite(node, *frames)
            if not all(map(self._is_by_row, frames)):
                raise self._value_of_rows(node, view)
            return [tuple(type_name(f.dataType) for f in frame.schema)[1:] for frame in frames]

    def _value_of_rows(self, node: Update | Merge, view: StatementView) -> CtsqlError:
        """The error for the first value that is not computed from one row."""
        alone: list[Update | Merge]
        if isinstance(node, Update):
            alone = [replace(node, assignments=(one,)) for one in node.assignments]
        else:
            clauses = [
                replace(c, assignments=(one,)) for c in node.clauses for one in c.assignments
            ]
            alone = [replace(node, clauses=(clause,)) for clause in clauses]
        of_rows = next(one for one in alone if not all(map(self._is_by_row, _assigned(one, view))))
        (assign,) = (of_rows.clauses[0] if isinstance(of_rows, Merge) else of_rows).assignments
        assert assign.value is not None  # NULL is a value of one row
        message = "an aggregate, window or generator function is not allowed in SET or VALUES"
        return not_by_row(assign.value.sql.span, message)

    def value_types(self, values: Sequence[Query]) -> tuple[str, ...]:
        """The types of values that read no relation."""
        types = []
        for value in values:
            with translate_spark_errors():
                frame = run_pieces(["SELECT (", value, ")"], self._context)
                self._check_definite(value, frame)
            types.append(type_name(frame.schema[0].dataType))
        return tuple(types)

    def assignable(self, value_type: str, column_type: str) -> bool:
        """ANSI store assignment, as in Spark's INSERT."""
        return is_assignable(self._session, value_type, column_type)


def _assigned(node: Update | Merge, view: StatementView) -> list[DataFrame]:
    """For each clause its assigned values, after one extra column."""
    if isinstance(node, Merge):
        return assigned_values(node, view)
    pieces = ["SELECT 1", *value_pieces(node.assignments)]
    pieces.append(f" FROM {{rows}} AS {node.alias}")
    if node.where is not None:
        pieces += [" WHERE (", node.where, ")"]
    assert view.output.inserts is not None  # an empty table
    return [view.run(pieces, {"rows": view.output.inserts})]
