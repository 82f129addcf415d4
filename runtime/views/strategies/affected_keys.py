"""Replaces the view's rows with an affected key, or adds the change to its stored groups."""

from functools import partial

from ctsql.catalog.errors import Declined
from ctsql.catalog.schemas import plain_type
from ctsql.planner.ivm import ChangePlan
from ctsql.planner.ivm.explain import ReasonPrinter
from ctsql.planner.ivm.sql.queries import CertainTexts, KeyedTexts
from ctsql.runtime.delta.keyed_scan import StoredRows
from ctsql.runtime.rows.row_set import RowSet
from ctsql.runtime.rows.types import DIGITS_ADDED, adds_exactly
from ctsql.runtime.views.outcomes import StagedDiff, Way, WayOutcome
from ctsql.runtime.views.plan_runner import PlanRunner
from ctsql.runtime.views.refresh_context import FollowedChanges, RefreshContext
from ctsql.runtime.views.refresh_policy import Policy, Strategy
from ctsql.runtime.views.strategies.state_table import fill_and_stage
from ctsql.runtime.views.view_diff import stage_difference, stage_rows, stored_form

NAME = Strategy.AFFECTED_KEYS
KEYS_COUNTED_MIN = 2_000
"""In views with fewer rows, the number of affected keys is not considered."""


def headline(plan: ChangePlan, sentence_of: ReasonPrinter) -> str | None:
    """The text of EXPLAIN, for a view that shows the keys of its topmost operator."""
    if plan.adds_groups:
        sentence = "change of the view, added to the stored groups if these are certain"
        if plan.kept_state is None:
            return sentence
        return f"{sentence}, and from its state table after rows were deleted"
    if plan.inexact is None:
        return None
    return f"change of the view by the stored rows of its keys ({sentence_of(plan.inexact)})"


def way(context: RefreshContext, changes: FollowedChanges) -> Way:
    """Needs a topmost operator with a key that the view shows."""
    add = _adds(context, changes.plan)
    types = {c.name: plain_type(c.type) for c in context.view.columns}
    texts = changes.plan.rows_by_key(
        changes.changed_tables, add=add, types=types, large=changes.large
    )
    if texts is None:
        return Declined("the view shows no key")
    if texts.certain is not None:
        return partial(_add_to_groups, context, changes, texts, texts.certain)
    return partial(_replace, context, changes.runner, texts)


def _replace(context: RefreshContext, runner: PlanRunner, texts: KeyedTexts) -> WayOutcome:
    runner.run(texts.steps, [texts.rows])
    if context.policy is Policy.AUTO and _are_most(context.stored_rows, runner.steps[texts.keys]):
        return Declined("MOST_KEYS")
    stage_difference(context, runner.rows(texts.rows), _affected_rows(context, runner, texts))
    return StagedDiff(NAME)


def _are_most(stored_rows: StoredRows, keys: RowSet) -> bool:
    """Whether most rows of a view have one of the keys."""
    count = stored_rows.count
    if count is None or count < KEYS_COUNTED_MIN:
        return False
    local_keys = keys.local
    key_count = keys.frame.count() if isinstance(local_keys, Declined) else local_keys.row_count
    return key_count > count // 2


def _affected_rows(context: RefreshContext, runner: PlanRunner, texts: KeyedTexts) -> RowSet:
    """The stored rows with an affected key."""
    return context.stored_rows.with_keys(runner.steps[texts.keys], texts.pairs)


def _add_to_groups(
    context: RefreshContext, changes: FollowedChanges, texts: KeyedTexts, certain: CertainTexts
) -> WayOutcome:
    """Compute the affected groups, and their new contents if all are certain, in one job."""
    runner, stored_rows, steps = changes.runner, context.stored_rows, texts.steps
    number = [step.name for step in steps].index(certain.step)
    first, touched_step, later = steps[:number], steps[number], steps[number + 1 :]
    rest = [*(step.rows for step in later), texts.rows]
    runner.run(first, [touched_step.rows, *rest])
    before = None
    if stored_rows.is_near:
        runner.state_rows = stored_rows.all
    else:
        keys = runner.keep_step(certain.keys)
        runner.state_rows = before = stored_rows.with_keys(keys, certain.pairs)
    (desired,) = runner.run_together(
        [touched_step],
        [certain.rows],
        lambda: [stored_form(context.view, runner.rows(certain.rows))],
        later=rest,
    )
    if not runner.steps[touched_step.name].where_nonzero(certain.flag).is_empty:
        if changes.state_plan is not None and not context.state.is_refused:
            context.state.rows_went = True
            runner.see_through()  # filling a state takes less than recomputing and filling one
            if fill_and_stage(context, runner, changes.plan, changes.state_plan, changes.at):
                return StagedDiff(Strategy.STATE_TABLE)
        runner.run(later, [texts.rows])
        desired = stored_form(context.view, runner.rows(texts.rows))
    stage_rows(context, desired, before or _affected_rows(context, runner, texts))
    return StagedDiff(NAME)


def _adds(context: RefreshContext, plan: ChangePlan) -> bool:
    """Whether the change can be added to stored groups, for all values of the sums.

    A sum of two sums must keep all digits, and one that is too large must be an error.
    """
    if not plan.adds_groups or not context.is_strict_arithmetic():
        return False
    types = {c.name: c.type for c in context.view.columns}
    return all(adds_exactly(types[name], DIGITS_ADDED) for name in plan.sums_shown)
