"""The engine in the place of Spark: the product's own lowering, whose SQL DuckDB runs.

Not there: change plans, so each view is computed as of both times and compared; and whatever the
product does sooner for few rows. What
:class:`ctsql.runtime.warehouse.query_engine.QueryEngine` has beyond these methods is an
AttributeError.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from ctsql.catalog.errors import Declined
from ctsql.catalog.names import backtick_all
from ctsql.catalog.reserved_columns import BROKEN, DIFF, FILE_COLUMN, ROW_COLUMN
from ctsql.catalog.schemas import Column, plain_type
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.spark_types import declared_type, fields_of
from ctsql.planner.lowering.store_assignment import may_store
from ctsql.planner.lowering.view import lower_view
from ctsql.planner.nodes import Query, Transaction, ViewWrite
from ctsql.runtime.delta.table_rows import CHANGE_TYPE
from ctsql.runtime.rows.multiset import cancel
from ctsql.runtime.rows.row_set import LocalRows
from ctsql.runtime.spark.analyzer import ColumnsOf, EmptySources, SparkAnalyst
from ctsql.runtime.tasks.body import propose
from ctsql.runtime.views.refresh import RefreshOutcome
from ctsql.runtime.views.refresh_policy import Strategy
from ctsql.runtime.warehouse.query_engine import OutputProposal
from ctsql.runtime.warehouse.replaced_views import table_schema
from ctsql.runtime.warehouse.sources import StoredSources
from tests.scenarios.without_spark.session import Frame
from tests.simulation.model_engine import Idle


class _Empty(EmptySources):
    def like(self, columns: Sequence[Column]) -> Any:
        session: Any = self._session
        return Frame(session, fields_of(list(columns)), ())


class DriverRows(LocalRows):
    """Few rows as the product sorts those that break constraints."""

    @staticmethod
    def marked(rows: Any) -> Any:
        """Rows with a mark of what they break; others stay a frame."""
        if rows is None or BROKEN not in rows.columns:
            return rows
        values = zip(*rows.rows, strict=True) if rows.rows else ((),) * len(rows.columns)
        arrow = pa.table([pa.array(v) for v in values], rows.columns)
        return DriverRows(rows.sparkSession, rows.schema, arrow)

    @property
    def plain_frame(self) -> Any:  # type: ignore[override]
        session: Any = self.session
        return Frame(session, self.schema, (tuple(r.values()) for r in self.arrow.to_pylist()))

    def with_rows(self, schema: T.StructType, arrow: pa.Table) -> "DriverRows":
        return DriverRows(self.session, schema, arrow)


class DuckAnalyst(SparkAnalyst):
    """The planner's ``Analyst``, by what DuckDB says of the types of a query."""

    def columns(self, query: Query) -> tuple[Column, ...]:
        fields = self._analyse(query).schema
        return tuple(Column(f.name, declared_type(f), f.nullable, None) for f in fields)

    def _is_definite(self, rows: Any) -> bool:
        return bool(rows.is_definite)

    def _is_by_row(self, rows: Any) -> bool:
        return True  # what Spark's plan says

    def is_deterministic(self, query: Query) -> bool:
        return self._is_definite(self._analyse(query))

    def assignable(self, value_type: str, column_type: str) -> bool:
        return value_type == "void" or may_store(value_type, column_type)


class DuckEngine:
    """The QueryEngine of a warehouse whose session is a DuckSession."""

    schema_text = staticmethod(table_schema)

    def __init__(self, session: Any) -> None:
        self._session = session

    def analyst(self, columns_of: ColumnsOf) -> DuckAnalyst:
        return DuckAnalyst(self._session, columns_of, _Empty(self._session, columns_of))

    def meter(self) -> Idle:
        return Idle()

    def collect_bounded(self, rows: Frame) -> Declined:
        """All rows stay frames."""
        return Declined("rows are held as frames")

    def consolidate_change_feed(self, change_rows: Frame, columns: list[str]) -> Frame:
        """Each row once, with how often it comes or goes."""
        wanted = change_rows.select(*backtick_all(columns), CHANGE_TYPE)
        total = Counter[Any]()
        for *row, kind in wanted.rows:
            total[tuple(row)] += 1 if kind == "insert" else -1
        fields = [*wanted.schema.fields[:-1], T.StructField(DIFF, T.LongType())]
        rows = ((*row, diff) for row, diff in total.items() if diff)
        return Frame(self._session, T.StructType(fields), rows)

    def propose(
        self, body: Transaction, sources: Any, at: int, columns: Mapping[str, list[str]]
    ) -> Mapping[str, OutputProposal]:
        found = replace(sources, are_small=False)  # else keys are looked up in Delta's files
        made = propose(body, found, at, columns, self._session)
        return {
            output: OutputProposal(DriverRows.marked(one.inserts), one.victims)
            for output, one in made.items()
        }

    def stage_batched_runs(self, *_: object) -> Declined:
        """Each T by itself."""
        return Declined("each T by itself")

    def view_rows(self, view: ViewWrite, sources: Any, at: int, *, small: bool = False) -> Any:
        return lower_view(view, Context(self._session, sources, at, clock_at=at))

    def types_given(self, view: ViewWrite, *_: object) -> tuple[str, ...]:
        """Those that the view stores: no plan's text is compared with the query."""
        return tuple(plain_type(c.type) for c in view.columns)

    def types_of(self, *_: object) -> set[str]:
        """None that matters: nothing is followed by its sums."""
        return set()

    def stage(
        self,
        staging: Any,
        desired: Any,
        stored: Frame | None,
        columns: list[str],
        *,
        small: bool,
    ) -> bool:
        """Stage desired - stored, with the same cancelling as the product's small way."""
        desired = None if desired is None else desired.plain_frame
        names, places = backtick_all(columns), (FILE_COLUMN, ROW_COLUMN)
        wanted = [] if desired is None else desired.select(*names).rows
        held = [] if stored is None else stored.select(*names, *places).rows
        inserts, deletes = cancel(wanted, [row[:-2] for row in held])
        if inserts:
            assert desired is not None
            staging.stage(desired.select(*names).like(wanted[i] for i in inserts))
        victims: dict[str, set[int]] = {}
        for i in deletes:
            path, number = held[i][-2:]
            victims.setdefault(path, set()).add(number)
        if victims:
            staging.delete_rows([(path, frozenset(at)) for path, at in victims.items()])
        return bool(inserts or victims)


def follow_changes(
    context: Any, query: object, state_plan: object, moves: object, span: tuple[int, int]
) -> RefreshOutcome:
    """A view's change: its query now, as what is stored is its query at the time before."""
    outputs = {context.item.id: (context.item, context.batch.version_read)}
    found = StoredSources(context.warehouse, outputs=outputs)
    queries: Any = context.warehouse.queries
    old, new = (queries.view_rows(context.view, found, time) for time in span)
    stored: Any = found.stored_rows(context.item.id)
    held = Counter(() if stored is None else (row[:-2] for row in stored.rows))
    assert held == old.bag(), f"{context.item.name} does not hold what it was at {span[0]}"
    queries.stage(context.staging, new, stored, old.columns, small=True)
    return RefreshOutcome(strategy=Strategy.INCREMENTAL)


def fill_state(*_: object, **__: object) -> Declined:
    """No groups are kept beside a view."""
    return Declined("TEXTS_FAILED")
