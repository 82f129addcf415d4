"""The signed change of the view, from groups stored beside it that the change is added to."""

from ctsql.planner.ivm import ChangePlan, StateNeed, StatePlan, StepText
from ctsql.planner.ivm.explain import Telling
from ctsql.planner.ivm.sql.queries import StateSteps
from ctsql.runtime.delta.keyed_scan import StoredRows
from ctsql.runtime.rows.row_set import RowSet
from ctsql.runtime.views.outcomes import Fallback, NotApplicable, Outcome, Staged
from ctsql.runtime.views.plan_runner import PlanRunner
from ctsql.runtime.views.refresh_context import RefreshContext
from ctsql.runtime.views.refresh_policy import Strategy
from ctsql.runtime.views.state_table import is_above
from ctsql.runtime.views.view_diff import stage_delta, stage_difference

NAME = Strategy.STATE_TABLE


def headline(plan: ChangePlan, _told: Telling) -> str | None:
    """How EXPLAIN calls it, for a plan that always keeps a state table."""
    kept = plan.kept_state
    if kept is None or kept[1] is not StateNeed.ALWAYS:
        return None
    return "change of the view, from the state table beside it"


def refresh(context: RefreshContext) -> Outcome:
    """Needs a state table that holds the groups as of the view's last write."""
    changes, state = context.changes, context.state
    if changes is None or changes.kept is None or not context.is_strict_arithmetic():
        return NotApplicable()
    plan, runner, kept = changes.plan, changes.runner, changes.kept
    stored = state.stored()
    if stored is None:
        return NotApplicable()
    is_whole = plan.reads_all_groups
    make = plan.rows_from_groups if is_whole else plan.delta
    texts = make(changes.changed, [kept.number])
    if texts is None:
        state.unchanged()
        return Staged(NAME)
    steps = texts.states.get(kept.number)
    located: list[RowSet] = []

    def before(step: StepText) -> RowSet:
        """The stored groups that change, read once, with their places."""
        assert steps is not None  # this is one of them
        located.append(runner.keep(_groups(runner, stored, steps)))
        return located[0].select(kept.columns, step.rows.names)

    runner.state_rows = stored.all
    runner.run(texts.steps, [texts.rows], before, state.table.schema)
    after = None
    if steps is not None:
        after = runner.steps[steps.after]
        after = after.select(after.schema.names, kept.columns)
        if is_above(after.plain_frame, kept.bounded):
            state.refuse("STATE_ROUNDS")
            return NotApplicable()
    if is_whole:
        there = context.stored
        stage_difference(context, runner.rows(texts.rows), None if there is None else there.all)
    else:
        done = stage_delta(context, runner.rows(texts.rows), NAME)
        if isinstance(done, Fallback):
            return done
    if after is None:
        state.unchanged()
    else:
        state.stage(_left(after, kept), located[0])
    return Staged(NAME)


def _groups(runner: PlanRunner, stored: StoredRows, steps: StateSteps) -> RowSet:
    if steps.keys is None:
        return stored.all
    return stored.with_keys(runner.steps[steps.keys], steps.pairs)


def _left(groups: RowSet, kept: StatePlan) -> RowSet:
    return groups.where_nonzero(kept.columns[kept.key_columns]) if kept.key_columns else groups
