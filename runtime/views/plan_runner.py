"""Runs the texts of a view's change plan.

Spark runs them. What the driver holds of that which they read is given to it as values.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from pyspark.sql import DataFrame, SparkSession, functions as F, types as T

from ctsql.catalog.names import backtick
from ctsql.catalog.reserved_columns import KEY_
from ctsql.planner.ivm import Naming, StepText, Text
from ctsql.planner.ivm.rules.context import StepRole
from ctsql.planner.ivm.sql.queries import key_steps, step_uses
from ctsql.planner.lowering import without_padding
from ctsql.runtime.delta.keyed_scan import StoredRows
from ctsql.runtime.rows.key_predicates import are_comparable
from ctsql.runtime.rows.local_rows import HeldRows, Rows, frame_of
from ctsql.runtime.spark.temp_views import TemporaryNames
from ctsql.runtime.views.table_deltas import Relations, held


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
        self.state_rows: Rows | None = None
        self._stack = stack
        self._names = stack.enter_context(TemporaryNames())
        self.naming = Naming(
            table=relations.name,
            step=lambda name: self._view(self.steps[name]),
            state=lambda _: self._state_view(),
            view=self._state_view,
        )

    def _view(self, rows: Rows) -> str:
        """The temporary view for rows that a text reads."""
        known = self._names.known(rows)
        if known is not None:
            return known
        return self._names.of(rows, without_padding(frame_of(rows)))

    def _state_view(self) -> str:
        assert self.state_rows is not None  # they are found before what reads them is run
        return self._view(self.state_rows)

    def rows(self, text: Text) -> DataFrame:
        """The rows of a text, which are not computed yet."""
        return self.session.sql(text.sql)

    def held(self, rows: DataFrame) -> Rows:
        """Rows computed now if they are few, else once when they are first read."""
        return held(rows, self._stack)

    def run(
        self,
        steps: Sequence[StepText],
        last: Sequence[Text],
        groups: Callable[[StepText], Rows] | None = None,
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
            rows = self.rows(step.rows)
            if step.role is StepRole.GROUPS:
                assert group_types is not None  # there is a state table then
                rows = _typed(rows, group_types)
            is_held = step.role in (StepRole.KEYS, StepRole.GROUPS) or step.name in awaited
            is_read_often = step.must_be_stored or uses[step.name] > 1
            self.steps[step.name] = self.held(rows) if is_held or is_read_often else rows

    def having(self, stored: StoredRows, step: str, pairs: Sequence[tuple[str, str]]) -> Rows:
        """Stored rows with one of a step's keys, NULL equal to NULL.

        Args:
            pairs: a column of the stored rows, and the step's.
        """
        wanted = self.steps[step]
        local = wanted if isinstance(wanted, HeldRows) else None
        found = stored.having(local, pairs)
        if isinstance(found, HeldRows) and are_comparable(found.schema, wanted.schema, pairs):
            return found
        named = [(backtick(mine), F.col(backtick(key))) for mine, key in pairs]
        keys = frame_of(wanted).select(
            *(key.alias(f"{KEY_}{i}") for i, (_, key) in enumerate(named))
        )
        equal = F.lit(True)
        for i, (mine, _) in enumerate(named):
            equal = equal & F.col(mine).eqNullSafe(F.col(f"{KEY_}{i}"))
        return frame_of(found).join(keys, equal, "left_semi")


def _typed(rows: DataFrame, schema: T.StructType) -> DataFrame:
    """The rows with their columns, in order, of a schema's types."""
    return rows.select(
        *(
            F.col(backtick(mine)).cast(field.dataType).alias(mine)
            for mine, field in zip(rows.columns, schema.fields, strict=True)
        )
    )
