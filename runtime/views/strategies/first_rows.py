"""ORDER BY .. LIMIT, from the rows that the view holds and the change."""

from ctsql.planner.ivm import ChangePlan
from ctsql.planner.ivm.explain import Telling
from ctsql.runtime.views.outcomes import Fallback, NotApplicable, Outcome, Staged
from ctsql.runtime.views.refresh_context import RefreshContext
from ctsql.runtime.views.refresh_policy import Strategy
from ctsql.runtime.views.view_diff import stage_difference

NAME = Strategy.FIRST_ROWS


def headline(plan: ChangePlan, told: Telling) -> str | None:
    """How EXPLAIN calls it, for a view that holds the first rows of others."""
    if plan.inexact is None or not plan.is_limited:
        return None
    return f"change of the view by the first rows ({told(plan.inexact)})"


def refresh(context: RefreshContext) -> Outcome:
    """Needs rows that are stored, and none that have moved up among them."""
    if context.changes is None:
        return NotApplicable()
    runner = context.changes.runner
    texts = context.changes.plan.first_rows(context.changes.changed)
    stored = context.stored if texts is not None else None
    if texts is None or stored is None:
        return NotApplicable()
    runner.state_rows = rows = stored.all
    runner.run(texts.steps, [texts.rows, texts.holds.candidates])
    (row,) = runner.rows(texts.holds).plain_frame.collect()
    if not row["holds"]:
        return Fallback("ROWS_MOVED_UP")
    stage_difference(context, runner.rows(texts.rows), rows)
    return Staged(NAME)
