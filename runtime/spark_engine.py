"""Computes rows with Spark, behind the interface that tests implement without Spark."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from operator import itemgetter

from pyspark.sql import DataFrame, SparkSession

from ctsql.catalog.errors import Declined
from ctsql.planner.ivm import Input, PrintedQuery, TableUse, Text
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.spark_types import without_padding
from ctsql.planner.lowering.view import lower_view
from ctsql.planner.nodes import Transaction, ViewWrite
from ctsql.planner.shapes import Shapes
from ctsql.runtime.delta.diff_writer import stage
from ctsql.runtime.rows.collect import collect_bounded
from ctsql.runtime.rows.multiset import consolidate_change_feed
from ctsql.runtime.rows.prepared_rows import derive
from ctsql.runtime.rows.row_set import RowSet, SparkRows
from ctsql.runtime.spark.analyzer import ColumnsOf, SparkAnalyst
from ctsql.runtime.spark.job_metrics import Meter
from ctsql.runtime.spark.temp_views import TemporaryNames
from ctsql.runtime.tasks.body import propose, stage_batched_runs
from ctsql.runtime.views.change_plans import types_given, types_of
from ctsql.runtime.views.view_diff import view_of_few
from ctsql.runtime.warehouse.query_engine import (
    OutputProposal,
    StoredRelations,
    StoredTable,
    TaskSources,
)
from ctsql.runtime.warehouse.replaced_views import table_schema

GUARDED_MAX = 1_000  # the number of view shapes whose plans by Spark are cached


class SparkEngine:
    """The :class:`ctsql.runtime.warehouse.query_engine.QueryEngine` of one session."""

    collect_bounded = staticmethod(collect_bounded)
    consolidate_change_feed = staticmethod(consolidate_change_feed)
    stage = staticmethod(stage)
    stage_batched_runs = staticmethod(stage_batched_runs)
    schema_text = staticmethod(table_schema)

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._types_given: dict[Hashable, tuple[str, ...] | None] = {}

    def analyst(self, columns_of: ColumnsOf) -> SparkAnalyst:
        """Spark's own."""
        return SparkAnalyst(self._session, columns_of)

    def meter(self) -> Meter:
        """Counts Spark's jobs."""
        return Meter(self._session)

    def propose(
        self, body: Transaction, sources: TaskSources, at: int, columns: Mapping[str, list[str]]
    ) -> Mapping[str, OutputProposal]:
        """Nothing is computed yet, unless the body runs more than once."""
        return propose(body, sources, at, columns, self._session)

    def view_rows(
        self, view: ViewWrite, sources: StoredRelations, at: int, *, small: bool = False
    ) -> RowSet:
        """Not computed yet."""
        rows = view_of_few(view, sources, at, self._session) if small else Declined("it is large")
        if not isinstance(rows, Declined):
            return rows
        return SparkRows(lower_view(view, Context(self._session, sources, at, clock_at=at)))

    def types_given(
        self, view: ViewWrite, text: Text, tables: Mapping[str, StoredTable]
    ) -> tuple[str, ...] | None:
        """Compare Spark's plans of both texts, once for all views of one shape."""
        shapes = Shapes()
        query = shapes.of(view.desired)
        numbers = {name: shapes.number(table.object_id) for name, table in tables.items()}
        numbered_columns = sorted(
            ((numbers[name], table.columns) for name, table in tables.items()), key=itemgetter(0)
        )
        sql = text.sql(
            lambda use: f"_{numbers[use.table]}" if isinstance(use, TableUse) else repr(use)
        )
        key = query, tuple(numbered_columns), sql
        if key not in self._types_given:
            if len(self._types_given) >= GUARDED_MAX:
                self._types_given.clear()
            types = types_given(self, self._session, view.desired, text, tables)
            self._types_given[key] = types
        return self._types_given[key]

    def types_of(self, texts: Iterable[Text], tables: Mapping[str, StoredTable]) -> set[str]:
        """By Spark's analysis; nothing runs."""
        return types_of(self, self._session, texts, tables)

    def run(
        self, query: PrintedQuery, inputs: Mapping[Input, RowSet], names: TemporaryNames
    ) -> RowSet:
        """Not computed yet; each input is a temporary view, and the query is a text over these."""
        if inputs and all(rows.is_of_few for rows in inputs.values()):
            return self._run_on_few(query, inputs)
        view_names = {
            use: names.name_of(rows) or names.of(rows, without_padding(rows.frame))
            for use, rows in inputs.items()
        }
        return SparkRows(self._session.sql(query.sql(view_names.__getitem__)))

    def _run_on_few(self, query: PrintedQuery, inputs: Mapping[Input, RowSet]) -> RowSet:
        """The same if the driver holds all inputs: planned once for equal texts."""
        placeholders = {use: f"_{i}" for i, use in enumerate(inputs)}

        def build(frames: Sequence[DataFrame]) -> DataFrame:
            with TemporaryNames() as names:
                view_names = {
                    use: names.of(use, without_padding(frame))
                    for use, frame in zip(inputs, frames, strict=True)
                }
                return self._session.sql(query.sql(view_names.__getitem__))

        return derive(list(inputs.values()), build, query.sql(placeholders.__getitem__))
