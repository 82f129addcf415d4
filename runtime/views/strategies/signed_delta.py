"""The exact signed change of the view, from the changes of its tables and its leaving rows."""

from functools import partial

from ctsql.catalog.errors import Declined
from ctsql.catalog.reserved_columns import DIFF
from ctsql.planner.ivm import ChangePlan
from ctsql.planner.ivm.explain import ReasonPrinter
from ctsql.planner.lowering.view import cast_to_stored
from ctsql.runtime.views.outcomes import StagedDiff, Way, WayOutcome
from ctsql.runtime.views.refresh_context import FollowedChanges, RefreshContext
from ctsql.runtime.views.refresh_policy import Strategy
from ctsql.runtime.views.view_diff import stage_delta

NAME = Strategy.INCREMENTAL


def headline(plan: ChangePlan, _sentence_of: ReasonPrinter) -> str | None:
    """The text of EXPLAIN, for a plan with a signed change."""
    return "change of the view" if plan.inexact is None else None


def way(context: RefreshContext, changes: FollowedChanges) -> Way:
    """Always applies; its way is declined if an earlier result cannot be computed again."""
    return partial(_refresh, context, changes)


def _refresh(context: RefreshContext, changes: FollowedChanges) -> WayOutcome:
    plan, runner, leaving = changes.plan, changes.runner, changes.leaving
    if plan.inexact is not None:
        return plan.inexact
    texts = plan.delta(changes.changed_tables, large=changes.large)
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
    if isinstance(outcome, Declined):
        return outcome
    leaving.stage(context.staging)  # these differ from the rows of the change, which pass now
    return StagedDiff(NAME, leaving.due(cast_to_stored(rows.plain_frame, context.view, [DIFF])))
