"""Runs the texts of a view's change plan, and stages the rows that they give.

Spark runs them. What the driver holds of that which they read is given to it as values.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, functions as F, types as T

from ctsql.catalog.names import backtick
from ctsql.catalog.reserved_columns import DIFF, KEY_
from ctsql.planner.ivm import ChangePlan, Naming, StatePlan, StepText, Text
from ctsql.planner.ivm.rules.context import StepRole
from ctsql.planner.ivm.sql.queries import StateSteps, key_steps, step_uses
from ctsql.planner.lowering import checked, stored_types, without_padding
from ctsql.runtime.delta.diff_writer import stage
from ctsql.runtime.delta.keyed_scan import StoredRows
from ctsql.runtime.delta.signed_diff_writer import Staged, stage_signed
from ctsql.runtime.rows.key_predicates import are_comparable
from ctsql.runtime.rows.local_rows import HeldRows, Rows, frame_of, has_none
from ctsql.runtime.rows.types import DIGITS_ADDED, adds_exactly
from ctsql.runtime.spark.temp_views import TemporaryNames
from ctsql.runtime.views.refresh_policy import Policy, Strategy
from ctsql.runtime.views.state_table import is_above
from ctsql.runtime.views.table_deltas import Relations, Unusable, held

if TYPE_CHECKING:
    from ctsql.runtime.views.refresh import Following


class ChangeTexts:
    """Runs the texts of a change plan and stages their rows."""

    def __init__(self, following: "Following", plan: ChangePlan, relations: Relations) -> None:
        self.following = following
        self.plan = plan
        self.relations = relations
        self.session = following.objects.gateway.session
        self.columns = [c.name for c in following.plan.columns]
        self.steps = relations.steps
        self.state_rows: Rows | None = None  # what the texts read as the view, or as its state
        self.naming = Naming(
            table=relations.name,
            step=lambda name: self._view(self.steps[name]),
            state=lambda _: self._state_view(),
            view=self._state_view,
        )

    def stage(self, changed: Sequence[str]) -> Strategy:
        """Stage by the cheapest way that the plan has."""
        with ExitStack() as stack:
            self.names = stack.enter_context(TemporaryNames())
            if self._with_state(changed, stack):
                return Strategy.STATE_TABLE
            if self._first_rows(changed, stack):
                return Strategy.FIRST_ROWS
            done = self._keyed(changed, stack)
            if done is not None:
                return done
            self._signed(changed, stack)
            return Strategy.INCREMENTAL

    # ---- what the texts read

    def _view(self, rows: Rows) -> str:
        """The temporary view for rows that a text reads."""
        known = self.names.known(rows)
        return known if known is not None else self.names.of(rows, without_padding(frame_of(rows)))

    def _state_view(self) -> str:
        assert self.state_rows is not None  # they are found before what reads them is run
        return self._view(self.state_rows)

    @property
    def _stored(self) -> StoredRows | None:
        """The view's rows; None for none."""
        following = self.following
        table = following.objects.table(following.item)
        version = following.batch.version_read
        return StoredRows(table, version) if table.files(version) else None

    # ---- running them

    def _rows(self, text: Text) -> DataFrame:
        """The rows of a text, which are not computed yet."""
        return self.session.sql(text.sql)

    def _run(
        self,
        steps: Sequence[StepText],
        last: Sequence[Text],
        stack: ExitStack,
        groups: Callable[[StepText], Rows] | None = None,
    ) -> None:
        """Compute the steps in order.

        Args:
            last: the texts that read them. groups: gives the rows of a step that reads stored
                groups.
        """
        texts = [*(step.rows for step in steps), *last]
        uses, awaited = step_uses(texts), key_steps(texts)
        for step in steps:
            if step.role is StepRole.STORED_GROUPS and groups is not None:
                self.steps[step.name] = groups(step)
                continue
            rows = self._rows(step.rows)
            if step.role is StepRole.GROUPS:
                rows = _typed(rows, self.following.state.table.schema)
            is_held = step.role in (StepRole.KEYS, StepRole.GROUPS) or step.name in awaited
            is_read_often = step.must_be_stored or uses[step.name] > 1
            self.steps[step.name] = held(rows, stack) if is_held or is_read_often else rows

    def _first_rows(self, changed: Sequence[str], stack: ExitStack) -> bool:
        texts = self.plan.first_rows(changed, self.naming)
        stored = self._stored if texts is not None else None
        if texts is None or stored is None:
            return False
        self.state_rows = rows = stored.all
        self._run(texts.steps, [texts.rows, texts.candidates], stack)
        (row,) = self.session.sql(texts.holds).collect()
        if not row["holds"]:
            raise Unusable("ROWS_MOVED_UP")
        self._compare(self._rows(texts.rows), rows)
        return True

    def _with_state(self, changed: Sequence[str], stack: ExitStack) -> bool:
        """The signed change of the view, from stored groups that the change is added to."""
        state, kept = self.following.state, self.following.kept
        if kept is None or not self.following.is_strict_arithmetic():
            return False
        stored = state.stored()
        if stored is None:
            return False
        is_whole = self.plan.reads_all_groups
        make = self.plan.chosen if is_whole else self.plan.signed
        texts = make(changed, self.naming, [kept.number])
        if texts is None:
            state.unchanged()
            return True
        steps = texts.states.get(kept.number)
        located: list[Rows] = []

        def before(step: StepText) -> Rows:
            """The stored groups that change, read once, with their places."""
            assert steps is not None  # this is one of them
            found = self._groups(stored, steps)
            located.append(found if isinstance(found, HeldRows) else held(found, stack))
            return _called(located[0], kept.columns, step.rows.names)

        self.state_rows = stored.all
        self._run(texts.steps, [texts.rows], stack, before)
        after = None
        if steps is not None:
            after = self.steps[steps.after]
            after = _called(after, after.schema.names, kept.columns)
            seen = after.local if isinstance(after, HeldRows) else after
            if is_above(seen, kept.bounded):
                state.refuse("STATE_ROUNDS")
                return False
        if is_whole:
            there = self._stored
            self._compare(self._rows(texts.rows), None if there is None else there.all)
        else:
            self._stage_signed(texts.rows)
        if after is None:
            state.unchanged()
        else:
            state.stage(_left(after, kept), located[0])
        return True

    def _groups(self, stored: StoredRows, steps: StateSteps) -> Rows:
        if steps.keys is None:
            return stored.all
        return self._with_keys(stored, steps.keys, steps.pairs)

    def _with_keys(self, stored: StoredRows, step: str, pairs: Sequence[tuple[str, str]]) -> Rows:
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

    def _keyed(self, changed: Sequence[str], stack: ExitStack) -> Strategy | None:
        add = self._adds()
        texts = self.plan.keyed(changed, self.naming, add=add)
        if texts is None:
            return None
        stored = self._stored
        if add:
            objects, item = self.following.objects, self.following.item
            self.state_rows = objects.contents(item, None) if stored is None else stored.all
        more = [] if texts.doubtful is None else [texts.doubtful]
        self._run(texts.steps, [texts.rows, *more], stack)
        if texts.doubtful is not None and self.following.kept is not None:
            self.following.state.rows_went = not has_none(self._rows(texts.doubtful))
        rows = self._rows(texts.rows)
        is_large = self.following.state.rows_went and self.relations.is_scanning
        if is_large and self.following.policy is Policy.AUTO:
            self._from_filled(stored, stack)
            return Strategy.STATE_TABLE
        before = None if stored is None else self._with_keys(stored, texts.keys, texts.pairs)
        self._compare(rows, before)
        return Strategy.AFFECTED_KEYS

    def _from_filled(self, stored: StoredRows | None, stack: ExitStack) -> None:
        """The difference to all rows of the view, from its state table, filled for this.

        All that the view reads is read once for both, where the groups are few.
        """
        state, kept = self.following.state, self.following.kept
        assert kept is not None  # else nothing says that rows went
        if state.is_refused or state.told is not None:
            raise Unusable("ROWS_WENT")
        text = self.plan.initial_state(kept.number, self.naming)
        self.state_rows = groups = held(self.session.sql(text), stack)
        self.following.build(kept, self.plan, frame_of(groups), self.relations.at)
        if not state.is_filled:
            raise Unusable("ROWS_WENT")
        rows = self._rows(self.plan.of_state(kept.number, self.naming))
        self._compare(rows, None if stored is None else stored.all)

    def _adds(self) -> bool:
        """Can the change be added to groups that the view holds, whatever the sums come to?

        A sum of two sums must keep all digits, and one that is too large must be an error.
        """
        if not self.plan.adds_groups or not self.following.is_strict_arithmetic():
            return False
        return all(adds_exactly(c.type, DIGITS_ADDED) for c in self.following.plan.columns)

    # ---- staging

    def _compare(self, wanted: DataFrame, stored: Rows | None) -> None:
        """Stage the difference of rows wanted and stored."""
        following, plan = self.following, self.following.plan
        wanted = checked(stored_types(wanted, plan), plan)
        staging = following.batch.at(following.time)
        stage(staging, wanted, stored, self.columns, small=True)

    def _signed(self, changed: Sequence[str], stack: ExitStack) -> None:
        if self.plan.inexact is not None:
            raise Unusable(self.plan.inexact.code)
        texts = self.plan.signed(changed, self.naming)
        if texts is None:
            return
        self._run(texts.steps, [texts.rows], stack)
        self._stage_signed(texts.rows)

    def _stage_signed(self, text: Text) -> None:
        following = self.following
        rows = stored_types(self._rows(text), following.plan, [DIFF])
        done = stage_signed(
            following.batch.at(following.time),
            rows,
            self._stored,
            self.columns,
            following.plan.not_null,
        )
        if done is Staged.ROWS_DIFFER:
            raise Unusable("ROWS_DIFFER")
        if done is Staged.REFUSED:  # the query itself says what is wrong
            raise Unusable("TEXTS_FAILED", "a column that is asserted to have no NULL has one")


def _typed(rows: DataFrame, schema: T.StructType) -> DataFrame:
    """The rows with their columns, in order, of a schema's types."""
    return rows.select(
        *(
            F.col(backtick(mine)).cast(field.dataType).alias(mine)
            for mine, field in zip(rows.columns, schema.fields, strict=True)
        )
    )


def _called(rows: Rows, names: Sequence[str], called: Sequence[str]) -> Rows:
    """Some columns under other names."""
    if isinstance(rows, HeldRows):
        return rows.select(names, called)
    pairs = zip(names, called, strict=True)
    return rows.select(*(F.col(backtick(n)).alias(c) for n, c in pairs))


def _left(groups: Rows, kept: StatePlan) -> Rows:
    """The groups that are not gone."""
    if not kept.key_columns:
        return groups
    count = kept.columns[kept.key_columns]
    if isinstance(groups, HeldRows):
        counts = groups.arrow.column(count).to_pylist()
        return groups.taken([i for i, n in enumerate(counts) if n != 0])
    return groups.where(F.col(count) != 0)
