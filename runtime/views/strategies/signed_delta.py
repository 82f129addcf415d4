"""The exact signed change of the view, from the changes of its tables."""

from ctsql.planner.ivm import ChangePlan
from ctsql.planner.ivm.explain import Telling
from ctsql.runtime.views.outcomes import Fallback, NotApplicable, Outcome, Staged
from ctsql.runtime.views.refresh_context import RefreshContext
from ctsql.runtime.views.refresh_policy import Strategy
from ctsql.runtime.views.view_diff import stage_delta

NAME = Strategy.INCREMENTAL


def headline(plan: ChangePlan, _told: Telling) -> str | None:
    """How EXPLAIN calls it, for a plan that has a signed change."""
    return "change of the view" if plan.inexact is None else None


def refresh(context: RefreshContext) -> Outcome:
    """Needs a former result that can be computed again."""
    if context.changes is None:
        return NotApplicable()
    plan, runner = context.changes.plan, context.changes.runner
    if plan.inexact is not None:
        return Fallback(plan.inexact.code)
    texts = plan.delta(context.changes.changed)
    if texts is None:
        return Staged(NAME)
    runner.run(texts.steps, [texts.rows])
    return stage_delta(context, runner.rows(texts.rows), NAME)
