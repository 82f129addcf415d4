"""The signed change of the view, from groups stored beside it that the change is added to."""

from collections.abc import Sequence

from pyspark.sql import functions as F

from ctsql.catalog.names import backtick
from ctsql.planner.ivm import ChangePlan, StateNeed, StatePlan, StepText
from ctsql.planner.ivm.explain import Telling
from ctsql.planner.ivm.sql.queries import StateSteps
from ctsql.runtime.delta.keyed_scan import StoredRows
from ctsql.runtime.rows.local_rows import HeldRows, Rows
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
    make = plan.chosen if is_whole else plan.signed
    texts = make(changes.changed, runner.naming, [kept.number])
    if texts is None:
        state.unchanged()
        return Staged(NAME)
    steps = texts.states.get(kept.number)
    located: list[Rows] = []

    def before(step: StepText) -> Rows:
        """The stored groups that change, read once, with their places."""
        assert steps is not None  # this is one of them
        found = _groups(runner, stored, steps)
        located.append(found if isinstance(found, HeldRows) else runner.held(found))
        return _called(located[0], kept.columns, step.rows.names)

    runner.state_rows = stored.all
    runner.run(texts.steps, [texts.rows], before, state.table.schema)
    after = None
    if steps is not None:
        after = runner.steps[steps.after]
        after = _called(after, after.schema.names, kept.columns)
        seen = after.local if isinstance(after, HeldRows) else after
        if is_above(seen, kept.bounded):
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


def _groups(runner: PlanRunner, stored: StoredRows, steps: StateSteps) -> Rows:
    if steps.keys is None:
        return stored.all
    return runner.having(stored, steps.keys, steps.pairs)


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
