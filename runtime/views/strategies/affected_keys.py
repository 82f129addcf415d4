"""The view's rows with an affected key are replaced; maybe by adding to the groups it holds."""

from ctsql.planner.ivm import ChangePlan
from ctsql.planner.ivm.explain import Telling
from ctsql.runtime.delta.keyed_scan import StoredRows
from ctsql.runtime.rows.row_set import SparkRows
from ctsql.runtime.rows.types import DIGITS_ADDED, adds_exactly
from ctsql.runtime.views.outcomes import Fallback, NotApplicable, Outcome, Staged
from ctsql.runtime.views.refresh_context import FollowedChanges, RefreshContext
from ctsql.runtime.views.refresh_policy import Policy, Strategy
from ctsql.runtime.views.state_table import groups_max
from ctsql.runtime.views.view_diff import stage_difference

NAME = Strategy.AFFECTED_KEYS


def headline(plan: ChangePlan, told: Telling) -> str | None:
    """How EXPLAIN calls it, for a view that shows the keys of its topmost operator."""
    if plan.adds_groups:
        added = "change of the view, added to the groups it holds where these are certain"
        if plan.kept_state is None:
            return added
        return f"{added}, and from a state table beside it once rows have gone"
    if plan.inexact is None:
        return None
    return f"change of the view by the stored rows of its keys ({told(plan.inexact)})"


def refresh(context: RefreshContext) -> Outcome:
    """Needs a topmost operator with a key that the view shows."""
    changes = context.changes
    if changes is None:
        return NotApplicable()
    add = _adds(context, changes.plan)
    runner = changes.runner
    texts = changes.plan.rows_by_key(changes.changed, add=add)
    if texts is None:
        return NotApplicable()
    stored = context.stored
    if add:
        contents = context.warehouse.versions.contents
        runner.state_rows = (
            SparkRows(contents(context.item, None)) if stored is None else stored.all
        )
    wanted = texts.rows
    certain, later = texts.certain, texts.steps
    if certain is not None:
        number = 1 + [step.name for step in texts.steps].index(certain.step)
        first, later = texts.steps[:number], texts.steps[number:]
        runner.run(first, [*(step.rows for step in later), texts.rows])
        rows_went = not runner.steps[certain.step].where_nonzero(certain.flag).is_empty
        if not rows_went:
            wanted, later = certain.rows, ()
        if changes.kept is not None:
            context.state.rows_went = rows_went
    runner.run(later, [wanted])
    rows = runner.rows(wanted)
    is_large = context.state.rows_went and runner.relations.is_scanning
    if is_large and context.policy is Policy.AUTO:
        return _from_filled(context, changes, stored)
    before = None if stored is None else stored.with_keys(runner.steps[texts.keys], texts.pairs)
    stage_difference(context, rows, before)
    return Staged(NAME)


def _from_filled(
    context: RefreshContext, changes: FollowedChanges, stored: StoredRows | None
) -> Outcome:
    """The difference to all rows of the view, from its state table, filled for this.

    All that the view reads is read once for both, where the groups are few.
    """
    state, kept, plan, runner = context.state, changes.kept, changes.plan, changes.runner
    assert kept is not None  # else nothing says that rows went
    if state.is_refused or state.told is not None:
        return Fallback("ROWS_WENT")
    runner.state_rows = groups = runner.keep(runner.rows(plan.initial_state(kept.number)))
    state.build(kept, groups.frame, changes.at, groups_max(plan))
    if not state.is_filled:
        return Fallback("ROWS_WENT")
    rows = runner.rows(plan.of_state(kept.number))
    stage_difference(context, rows, None if stored is None else stored.all)
    return Staged(Strategy.STATE_TABLE)


def _adds(context: RefreshContext, plan: ChangePlan) -> bool:
    """Can the change be added to groups that the view holds, whatever the sums come to?

    A sum of two sums must keep all digits, and one that is too large must be an error.
    """
    if not plan.adds_groups or not context.is_strict_arithmetic():
        return False
    return all(adds_exactly(c.type, DIGITS_ADDED) for c in context.view.columns)
