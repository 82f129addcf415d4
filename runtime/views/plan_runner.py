"""Runs the texts of a view's change plan.

Spark runs them. What the driver holds of that which they read is given to it as values.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from pyspark.sql import DataFrame, SparkSession, types as T

from ctsql.planner.ivm import Naming, StepText, Text
from ctsql.planner.ivm.rules.context import StepRole
from ctsql.planner.ivm.sql.queries import key_steps, step_uses
from ctsql.planner.lowering import without_padding
from ctsql.runtime.rows.row_set import RowSet, SparkRows
from ctsql.runtime.spark.temp_views import TemporaryNames
from ctsql.runtime.views.table_deltas import Relations


class PlanRunner:
    """Runs texts, and keeps the rows of their steps.

    Attributes:
        relations: what the texts read. steps: the rows of those that are done.
        state_rows: what the texts read as the view, or as its state.
    """

    def __init__(self, session: SparkSession, relations: Relations, stack: ExitStack) -> None:
        """Rows that are kept, and their names, go with the stack."""
        self.session = session
        self.relations = relations
        self.steps = relations.steps
        self.state_rows: RowSet | None = None
        self._stack = stack
        self._names = stack.enter_context(TemporaryNames())
        self.naming = Naming(
            table=relations.name,
            step=lambda name: self._view(self.steps[name]),
            state=lambda _: self._state_view(),
            view=self._state_view,
        )

    def _view(self, rows: RowSet) -> str:
        """The temporary view for rows that a text reads."""
        known = self._names.known(rows)
        if known is not None:
            return known
        return self._names.of(rows, without_padding(rows.frame))

    def _state_view(self) -> str:
        assert self.state_rows is not None  # they are found before what reads them is run
        return self._view(self.state_rows)

    def rows(self, text: Text) -> DataFrame:
        """The rows of a text, which are not computed yet."""
        return self.session.sql(text.sql)

    def kept(self, rows: RowSet) -> RowSet:
        """Rows computed now if they are few, else once when they are first read."""
        return rows.kept(self._stack)

    def run(
        self,
        steps: Sequence[StepText],
        last: Sequence[Text],
        groups: Callable[[StepText], RowSet] | None = None,
        group_types: T.StructType | None = None,
    ) -> None:
        """Compute the steps in order.

        Args:
            last: the texts that read them. groups: gives the rows of a step that reads stored
                groups. group_types: the columns of what these become.
        """
        texts = [*(step.rows for step in steps), *last]
        uses, awaited = step_uses(texts), key_steps(texts)
        for step in steps:
            if step.role is StepRole.STORED_GROUPS and groups is not None:
                self.steps[step.name] = groups(step)
                continue
            rows: RowSet = SparkRows(self.rows(step.rows))
            if step.role is StepRole.GROUPS:
                assert group_types is not None  # there is a state table then
                rows = rows.cast(group_types)
            is_held = step.role in (StepRole.KEYS, StepRole.GROUPS) or step.name in awaited
            is_read_often = step.must_be_stored or uses[step.name] > 1
            self.steps[step.name] = self.kept(rows) if is_held or is_read_often else rows
