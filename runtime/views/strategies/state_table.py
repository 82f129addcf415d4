"""The signed change of the view, from stored groups to which the change is added."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile
from typing import TypeVar

from ctsql.catalog.errors import Declined
from ctsql.planner.ivm import ChangePlan, ChangeTexts, StatePlan, StepText, Text
from ctsql.planner.ivm.explain import ReasonPrinter
from ctsql.planner.ivm.sql.queries import StateSteps
from ctsql.runtime.delta.keyed_scan import StoredRows
from ctsql.runtime.rows.row_set import RowSet
from ctsql.runtime.views.outcomes import Way, WayOutcome
from ctsql.runtime.views.plan_runner import PlanRunner, is_true
from ctsql.runtime.views.refresh_context import FollowedChanges, RefreshContext
from ctsql.runtime.views.refresh_policy import Strategy
from ctsql.runtime.views.state_table import groups_max, is_above
from ctsql.runtime.views.strategies.first_rows import are_grouped_rightly
from ctsql.runtime.views.view_diff import signed_form, stage_rows, stage_signed_rows, stored_form

NAME = Strategy.STATE_TABLE
NOT_EXACT = Declined("STATE_ROUNDS")
"""The groups are not stored any more; the changes may be followed without them."""
OTHERS_FIRST = Declined("other rows may be the first ones now")

Made = TypeVar("Made")


def headline(plan: ChangePlan, _sentence_of: ReasonPrinter) -> str | None:
    """The text of EXPLAIN, for a plan with a state table."""
    return None if plan.kept_state is None else "change of the view, from its state table"


def way(context: RefreshContext, changes: FollowedChanges) -> Way:
    """Needs a view with a state table; one that does not hold the last write's groups is filled."""
    state_plan = changes.state_plan
    if state_plan is None or context.state.is_refused or not context.is_strict_arithmetic():
        return Declined("no state table is kept")
    stored_groups = context.state.stored_groups()
    if stored_groups is None:
        return partial(_fill, context, changes, state_plan)
    return _Following(context, changes, state_plan, stored_groups).refresh


def _fill(context: RefreshContext, changes: FollowedChanges, state_plan: StatePlan) -> WayOutcome:
    is_filled = fill_and_stage(context, changes.runner, changes.plan, state_plan, changes.at)
    return NAME if is_filled else NOT_EXACT


def fill_and_stage(
    context: RefreshContext, runner: PlanRunner, plan: ChangePlan, state_plan: StatePlan, at: int
) -> bool:
    """Fill the state table from all rows, and stage the view's difference, from the same groups.

    The view's tables are read once for both. If the state table is refused, nothing is staged for
    the view, and the result is False.
    """
    groups = runner.keep(runner.rows(plan.initial_state(state_plan.number)), many=True)
    runner.state_rows = groups
    context.state.build(state_plan, groups, at, groups_max(plan))
    if not context.state.is_filled:
        return False
    desired = stored_form(context.view, runner.rows(plan.of_state(state_plan.number)))
    stored_rows = context.stored_rows.all if context.stored_rows.count != 0 else None
    stage = context.warehouse.queries.stage
    stage(context.staging, desired, stored_rows, context.columns, small=groups.is_local)
    return True


class _Following:
    """One refresh by a state table: the changed groups, before and after."""

    def __init__(
        self,
        context: RefreshContext,
        changes: FollowedChanges,
        state_plan: StatePlan,
        stored_groups: StoredRows,
    ) -> None:
        self.context, self.changes, self.runner = context, changes, changes.runner
        self.state_plan, self.stored_groups = state_plan, stored_groups
        self._finished_steps: tuple[StepText, ...] = ()
        self._located_groups: RowSet | None = None

    def refresh(self) -> WayOutcome:
        """Choose by what the plan needs of the groups."""
        plan = self.changes.plan
        if plan.is_limited and not plan.compares_groups and not self.stored_groups.is_near:
            outcome = self.first_rows()
            if outcome != OTHERS_FIRST:
                return outcome
        return self.all_rows() if plan.reads_all_groups else self.change()

    def first_rows(self) -> WayOutcome:
        """Use the view's stored rows and the changed groups."""
        view, context = self.context.stored_rows, self.context
        texts = self._texts(self.changes.plan.first_rows)
        if texts is None or not view.is_near or not are_grouped_rightly(context):
            return OTHERS_FIRST
        self.runner.state_rows = rows = view.all

        def results() -> Sequence[RowSet]:
            desired = stored_form(context.view, self.runner.rows(texts.rows))
            return desired, self.runner.rows(texts.holds)

        desired, holds = self._run(texts, [texts.rows, texts.holds.candidates], results)
        if self._is_refused(texts):
            return NOT_EXACT
        if not is_true(holds):
            return OTHERS_FIRST
        stage_rows(context, desired, rows)
        self._stage(texts)
        return NAME

    def all_rows(self) -> WayOutcome:
        """Use all groups, compared with all rows of the view."""
        context = self.context
        texts = self._texts(self.changes.plan.rows_from_groups)
        if texts is None:
            return self._leave_unchanged()
        self.runner.state_rows = self.stored_groups.all
        (desired,) = self._run(
            texts,
            [texts.rows],
            lambda: [stored_form(context.view, self.runner.rows(texts.rows))],
        )
        if self._is_refused(texts):
            return NOT_EXACT
        stage_rows(context, desired, context.stored_rows.all)
        self._stage(texts)
        return NAME

    def change(self) -> WayOutcome:
        """Use the signed change of the groups."""
        texts = self._texts(self.changes.plan.delta)
        if texts is None:
            return self._leave_unchanged()
        (signed_rows,) = self._run(
            texts,
            [texts.rows],
            lambda: [signed_form(self.context.view, self.runner.rows(texts.rows))],
        )
        if self._is_refused(texts):
            return NOT_EXACT
        if self.runner.relations.has_many:
            signed_rows = self.runner.keep(signed_rows)
        outcome = stage_signed_rows(self.context, signed_rows, NAME)
        if isinstance(outcome, Strategy):
            self._stage(texts)
        return outcome

    def _texts(self, make: Callable[..., Made]) -> Made:
        changes = self.changes
        return make(changes.changed_tables, [self.state_plan.number], large=changes.large)

    def _leave_unchanged(self) -> Strategy:
        self.context.state.leave_unchanged()
        return NAME

    def _run(
        self,
        texts: ChangeTexts,
        last: Sequence[Text],
        results: Callable[[], Sequence[RowSet]],
    ) -> Sequence[RowSet]:
        """Compute the remaining steps, and the results."""
        runner, types = self.runner, self.context.state.table.schema
        pairs = zip(texts.steps, self._finished_steps, strict=False)
        count = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        steps = texts.steps[count:]
        groups = texts.states.get(self.state_plan.number)
        names = [step.name for step in steps]
        is_last = groups is not None and groups.after in names
        at = names.index(groups.after) if groups is not None and is_last else len(steps)
        first, rest = steps[:at], steps[at:]
        runner.run(first, [*(step.rows for step in rest), *last], self._before(groups), types)
        row_sets = runner.run_together(rest, last, results, types)
        self._finished_steps = texts.steps
        return row_sets

    def _before(self, steps: StateSteps | None) -> Callable[[StepText], RowSet]:
        def before(step: StepText) -> RowSet:
            """The stored groups that change, with their places; read once."""
            assert steps is not None  # this is one of them
            self._located_groups = groups = self.runner.keep(
                _groups(self.runner, self.stored_groups, steps)
            )
            return groups.select(self.state_plan.columns, step.rows.names)

        return before

    def _after(self, texts: ChangeTexts) -> RowSet | None:
        """The new contents of the changed groups; None if none change."""
        steps = texts.states.get(self.state_plan.number)
        if steps is None:
            return None
        after = self.runner.steps[steps.after]
        return after.select(after.schema.names, self.state_plan.columns)

    def _is_refused(self, texts: ChangeTexts) -> bool:
        """Whether the averages are no longer exact; then the state table is refused."""
        after = self._after(texts) if self.state_plan.bounded_columns else None
        if after is None or not is_above(after.plain_frame, self.state_plan.bounded_columns):
            return False
        self.context.state.refuse("STATE_ROUNDS")
        return True

    def _stage(self, texts: ChangeTexts) -> None:
        after, state = self._after(texts), self.context.state
        if after is None or self._located_groups is None:
            state.leave_unchanged()
        else:
            state.stage(_groups_left(after, self.state_plan), self._located_groups)


def _groups(runner: PlanRunner, stored_groups: StoredRows, steps: StateSteps) -> RowSet:
    if steps.keys is None:
        return stored_groups.all
    return stored_groups.with_keys(runner.steps[steps.keys], steps.pairs)


def _groups_left(groups: RowSet, state_plan: StatePlan) -> RowSet:
    if not state_plan.key_columns:
        return groups
    return groups.where_nonzero(state_plan.columns[state_plan.key_columns])
