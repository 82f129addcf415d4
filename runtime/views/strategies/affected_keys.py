"""Replaces the view's rows with an affected key."""

from functools import partial

from ctsql.catalog.errors import Declined
from ctsql.planner.ivm import ChangePlan
from ctsql.planner.ivm.explain import ReasonPrinter
from ctsql.planner.ivm.sql.queries import KeyedTexts
from ctsql.runtime.delta.keyed_scan import StoredRows
from ctsql.runtime.rows.row_set import RowSet
from ctsql.runtime.views.outcomes import Way, WayOutcome
from ctsql.runtime.views.plan_runner import PlanRunner
from ctsql.runtime.views.refresh_context import FollowedChanges, RefreshContext
from ctsql.runtime.views.refresh_policy import Policy, Strategy
from ctsql.runtime.views.view_diff import stage_rows, stored_form

NAME = Strategy.AFFECTED_KEYS
KEYS_COUNTED_MIN = 2_000
"""In views with fewer rows, the number of affected keys is not considered."""


def headline(plan: ChangePlan, sentence_of: ReasonPrinter) -> str | None:
    """The text of EXPLAIN, for a view that shows the keys of its topmost operator."""
    if plan.inexact is None:
        return None
    return f"change of the view by the stored rows of its keys ({sentence_of(plan.inexact)})"


def way(context: RefreshContext, changes: FollowedChanges) -> Way:
    """Needs a topmost operator with a key that the view shows."""
    texts = changes.plan.rows_by_key(changes.changed_tables, large=changes.large)
    if texts is None:
        return Declined("the view shows no key")
    return partial(_replace, context, changes.runner, texts)


def _replace(context: RefreshContext, runner: PlanRunner, texts: KeyedTexts) -> WayOutcome:
    runner.run(texts.steps, [texts.rows])
    if context.policy is Policy.AUTO and _are_most(context.stored_rows, runner.steps[texts.keys]):
        return Declined("MOST_KEYS")
    stored_rows = context.stored_rows.with_keys(runner.steps[texts.keys], texts.pairs)
    stage_rows(context, stored_form(context.view, runner.rows(texts.rows)), stored_rows)
    return NAME


def _are_most(stored_rows: StoredRows, keys: RowSet) -> bool:
    """Whether most rows of a view have one of the keys."""
    count = stored_rows.count
    if count is None or count < KEYS_COUNTED_MIN:
        return False
    return keys.row_count > count // 2
