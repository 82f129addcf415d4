"""ORDER BY ... LIMIT, from the stored rows and the change."""

from functools import partial

from ctsql.catalog.errors import Declined
from ctsql.planner.ivm import ChangePlan, TopTexts
from ctsql.planner.ivm.explain import ReasonPrinter
from ctsql.runtime.rows.types import is_comparable
from ctsql.runtime.views.outcomes import Way, WayOutcome
from ctsql.runtime.views.plan_runner import PlanRunner, is_true
from ctsql.runtime.views.refresh_context import FollowedChanges, RefreshContext
from ctsql.runtime.views.refresh_policy import Strategy
from ctsql.runtime.views.view_diff import stage_rows, stored_form

NAME = Strategy.FIRST_ROWS


def headline(plan: ChangePlan, sentence_of: ReasonPrinter) -> str | None:
    """The text of EXPLAIN, for a view with ORDER BY ... LIMIT."""
    if plan.inexact is None or not plan.is_limited:
        return None
    return f"change of the view by the first rows ({sentence_of(plan.inexact)})"


def are_grouped_rightly(context: RefreshContext) -> bool:
    """Whether Spark groups rows of the view correctly; maps it may not (``MapSort``, Spark 4.2)."""
    schema = context.warehouse.relations.table(context.item).schema_at(context.batch.version_read)
    return all(is_comparable(schema[name].dataType) for name in context.columns)


def way(context: RefreshContext, changes: FollowedChanges) -> Way:
    """Needs a view of first rows, to which no row moves up that is not stored."""
    texts = changes.plan.first_rows(changes.changed_tables, large=changes.large)
    if texts is None:
        return Declined("there are no first rows of others")
    return partial(_refresh, context, changes.runner, texts)


def _refresh(context: RefreshContext, runner: PlanRunner, texts: TopTexts) -> WayOutcome:
    if not are_grouped_rightly(context):
        return Declined("CANNOT_COMPARE")
    runner.state_rows = rows = context.stored_rows.all
    *first, candidates = texts.steps
    last = [texts.rows, texts.holds.candidates]
    runner.run(first, [candidates.rows, *last])
    desired, holds = runner.run_together(
        [candidates],
        last,
        lambda: [stored_form(context.view, runner.rows(texts.rows)), runner.rows(texts.holds)],
    )
    if not is_true(holds):
        return Declined("ROWS_MOVED_UP")
    stage_rows(context, desired, rows)
    return NAME
