"""The exact signed change of the view, from the changes of its tables."""

from functools import partial

from ctsql.planner.ivm import ChangePlan
from ctsql.planner.ivm.explain import ReasonPrinter
from ctsql.runtime.views.outcomes import Way, WayOutcome
from ctsql.runtime.views.refresh_context import FollowedChanges, RefreshContext
from ctsql.runtime.views.refresh_policy import Strategy
from ctsql.runtime.views.view_diff import signed_form, stage_signed_rows

NAME = Strategy.INCREMENTAL


def headline(plan: ChangePlan, _sentence_of: ReasonPrinter) -> str | None:
    """The text of EXPLAIN, for a plan with a signed change."""
    return "change of the view" if plan.inexact is None else None


def way(context: RefreshContext, changes: FollowedChanges) -> Way:
    """Always applies; its way is declined if an earlier result cannot be computed again."""
    return partial(_refresh, context, changes)


def _refresh(context: RefreshContext, changes: FollowedChanges) -> WayOutcome:
    plan, runner = changes.plan, changes.runner
    if plan.inexact is not None:
        return plan.inexact
    texts = plan.delta(changes.changed_tables, large=changes.large)
    if texts is None:
        return NAME
    runner.run(texts.steps, [texts.rows])
    rows = runner.rows(texts.rows)
    if runner.relations.has_many:
        rows = runner.keep(rows)
    return stage_signed_rows(context, signed_form(context.view, rows), NAME)
