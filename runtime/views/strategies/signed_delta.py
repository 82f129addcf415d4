"""The exact signed change of the view, from the changes of its tables, and of what leaves it."""

from ctsql.catalog.reserved_columns import DIFF
from ctsql.planner.ivm import ChangePlan
from ctsql.planner.ivm.explain import Telling
from ctsql.planner.lowering import cast_to_stored
from ctsql.runtime.views.outcomes import Fallback, NotApplicable, Outcome, StagedDiff
from ctsql.runtime.views.refresh_context import RefreshContext
from ctsql.runtime.views.refresh_policy import Strategy
from ctsql.runtime.views.view_diff import stage_delta

NAME = Strategy.INCREMENTAL


def headline(plan: ChangePlan, _sentence_of: Telling) -> str | None:
    """How EXPLAIN calls it, for a plan that has a signed change."""
    return "change of the view" if plan.inexact is None else None


def refresh(context: RefreshContext) -> Outcome:
    """Needs a former result that can be computed again."""
    if context.changes is None:
        return NotApplicable()
    plan, runner = context.changes.plan, context.changes.runner
    if plan.inexact is not None:
        return Fallback(plan.inexact.code)
    texts = plan.delta(context.changes.changed_tables, large=context.changes.large)
    leaving = context.changes.leaving
    if texts is None:
        if leaving is None:
            return StagedDiff(NAME)
        leaving.stage(context.staging)
        return StagedDiff(Strategy.LEAVING, leaving.due())
    runner.run(texts.steps, [texts.rows])
    rows = runner.rows(texts.rows)
    if leaving is not None or runner.relations.has_many:
        rows = runner.keep(rows)
    if leaving is None:
        return stage_delta(context, rows, NAME)
    outcome = stage_delta(context, rows, NAME)
    if isinstance(outcome, Fallback):
        return outcome
    leaving.stage(context.staging)  # other rows than those of the change, which pass now
    return StagedDiff(NAME, leaving.due(cast_to_stored(rows.plain_frame, context.view, [DIFF])))
