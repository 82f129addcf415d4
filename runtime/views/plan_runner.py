"""Runs the queries of a view's change plan in order, and keeps their rows."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from pyspark.sql import types as T

from ctsql.catalog.errors import Declined
from ctsql.planner.ivm import (
    Input,
    PickedColumns,
    PrintedQuery,
    StateUse,
    StepText,
    StepUse,
    TableUse,
    Text,
)
from ctsql.planner.ivm.rules.context import StepRole
from ctsql.planner.ivm.sql.queries import has_subqueries, key_steps, step_uses, steps_read
from ctsql.runtime.rows.collect import DRIVER_ROWS_MAX
from ctsql.runtime.rows.multiset import distinct_of
from ctsql.runtime.rows.prepared_rows import rows_read, together
from ctsql.runtime.rows.row_set import LocalRows, RowSet
from ctsql.runtime.spark.temp_views import TemporaryNames
from ctsql.runtime.views.table_deltas import ChangeRelations
from ctsql.runtime.views.time_limit import TimeLimit


class PlanRunner:
    """Runs the queries of a change plan, and keeps the rows of their steps.

    Args:
        limit: checked before each query is planned and computed; None for none.

    Attributes:
        relations: the tables that queries read. steps: the rows of finished steps.
        state_rows: the rows read as the view, or as its state.
    """

    def __init__(
        self,
        relations: ChangeRelations,
        stack: ExitStack,
        limit: TimeLimit | None = None,
    ) -> None:
        self.relations = relations
        self.steps = relations.steps
        self.state_rows: RowSet | None = None
        self._engine = relations.warehouse.queries
        self._names = stack.enter_context(TemporaryNames())
        self._stack = stack
        self._limit = limit

    def rows(self, query: PrintedQuery) -> RowSet:
        """The rows of a query, which are not computed yet."""
        self._check()
        selection = query.picked_columns if isinstance(query, Text) else None
        if selection is not None and not isinstance(rows := self._pick(selection), Declined):
            return rows
        inputs = {use: self._input(use) for use in query.inputs}
        return self._engine.run(query, inputs, self._names)

    def _check(self) -> None:
        if self._limit is not None:
            self._limit.check()

    def _pick(self, selection: PickedColumns) -> LocalRows | Declined:
        """Columns of driver-local rows; distinct if the driver can compare them."""
        parts = []
        for use, columns in selection.columns:
            rows = self._input(use).local
            if isinstance(rows, Declined):
                return rows
            parts.append(rows.select(columns, selection.names))
        return distinct_of(parts) if selection.is_distinct else _plain(parts[0])

    def _input(self, use: Input) -> RowSet:
        match use:
            case TableUse():
                return self.relations.rows(use)
            case StepUse(name):
                return self.steps[name]
            case StateUse():
                assert self.state_rows is not None  # they are found before their readers run
                return self.state_rows

    def keep(self, rows: RowSet, *, many: bool = False) -> RowSet:
        """Rows that are computed once, now if they are few; ``many``: more are expected."""
        self._check()
        return rows.keep(self._stack, many=many or self.relations.has_many)

    def run(
        self,
        steps: Sequence[StepText],
        last: Sequence[Text],
        groups: Callable[[StepText], RowSet] | None = None,
        group_types: T.StructType | None = None,
    ) -> None:
        """Compute the steps in order.

        Args:
            last: the queries that read them. groups: returns the rows of a step that reads stored
                groups. group_types: the columns of the groups after it.
        """
        texts = [*(step.rows for step in steps), *last]
        uses, key_names = step_uses(texts), key_steps(texts)
        waiting: list[StepText] = []
        for step in steps:
            if step.role is StepRole.STORED_GROUPS and groups is not None:
                self._keep_all(waiting)
                self.steps[step.name] = groups(step)
                continue
            if steps_read(step.rows) & {one.name for one in waiting}:
                self._keep_all(waiting)
            rows = self.steps[step.name] = self._of_step(step, group_types)
            is_held = step.role in (StepRole.KEYS, StepRole.GROUPS) or step.name in key_names
            is_read_often = step.must_be_stored or (
                uses[step.name] > 1 and not _is_cheap(step, rows)
            )
            if is_held or is_read_often:
                waiting.append(step)
        self._keep_all(waiting)

    def _keep_all(self, waiting: list[StepText]) -> None:
        """Compute steps that do not read one another; those with few rows in one job."""
        names = [step.name for step in waiting if not has_subqueries(step.rows)]
        few = [n for n in names if self.steps[n].is_of_few and not self.steps[n].is_local]
        rows = [self.steps[name] for name in few]
        if len(few) > 1 and rows_read(rows) <= DRIVER_ROWS_MAX:
            row_sets = together(rows)
            if not isinstance(row_sets, Declined):
                self.steps.update(zip(few, row_sets, strict=True))
        for step in waiting:
            self.steps[step.name] = self.keep(self.steps[step.name])
        waiting.clear()

    def _of_step(self, step: StepText, group_types: T.StructType | None) -> RowSet:
        rows = self.rows(step.rows)
        if step.role is StepRole.GROUPS:
            assert group_types is not None  # the plan has a state table
            rows = rows.cast(group_types)
        return rows

    def run_together(
        self,
        steps: Sequence[StepText],
        last: Sequence[Text],
        results: Callable[[], Sequence[RowSet]],
        group_types: T.StructType | None = None,
    ) -> Sequence[RowSet]:
        """Compute the last steps and their results, in one job if all rows are few.

        Queries with subqueries are excluded: Spark may be unable to plan a step that is only a text
        there.

        Args:
            last, group_types: as for :meth:`run`. results: computed from them.
        """
        are_keys = any(step.role is StepRole.KEYS for step in steps)  # a table is read by them
        if not are_keys and not any(map(has_subqueries, [*(s.rows for s in steps), *last])):
            for step in steps:
                self.steps[step.name] = self._of_step(step, group_types)
            held = [s.name for s in steps if s.role is StepRole.GROUPS]
            if all(self._input(use).is_of_few for text in last for use in text.inputs):
                row_sets = together([*(self.steps[name] for name in held), *results()])
                if not isinstance(row_sets, Declined):
                    self.steps.update(zip(held, row_sets, strict=False))
                    return row_sets[len(held) :]
        self.run(steps, last, group_types=group_types)
        return results()


def is_true(row: RowSet) -> bool:
    """The value of a test, which has one row."""
    local_rows = row.collect()
    if isinstance(local_rows, Declined):
        ((value,),) = row.frame.collect()
    else:
        (value,) = local_rows.arrow.column(0).to_pylist()
    return bool(value)


def _plain(rows: LocalRows) -> LocalRows:
    """Rows with CHAR and VARCHAR columns as plain texts, like computed columns."""
    fields = [T.StructField(f.name, f.dataType) for f in rows.schema]
    return rows.with_rows(T.StructType(fields), rows.arrow)


def _is_cheap(step: StepText, rows: RowSet) -> bool:
    """Whether computing a step again takes less than a job: a projection of one small change."""
    return step.role is StepRole.CHANGE and rows.is_of_few and len(step.rows.inputs) == 1
