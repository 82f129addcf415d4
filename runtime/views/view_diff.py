"""Stages the difference of what a view should hold and what it holds."""

from ctsql.catalog.reserved_columns import DIFF
from ctsql.planner.lowering import cast_to_stored, check_not_null
from ctsql.runtime.delta.diff_writer import Staged as Signed, stage_signed
from ctsql.runtime.rows.row_set import RowSet
from ctsql.runtime.views.outcomes import Fallback, Staged
from ctsql.runtime.views.refresh_context import RefreshContext
from ctsql.runtime.views.refresh_policy import Strategy


def stage_difference(context: RefreshContext, wanted: RowSet, stored: RowSet | None) -> None:
    """Stage the difference of rows wanted and stored."""
    desired = check_not_null(cast_to_stored(wanted.frame, context.view), context.view)
    context.warehouse.queries.stage(context.staging, desired, stored, context.columns, small=True)


def stage_delta(context: RefreshContext, signed: RowSet, strategy: Strategy) -> Staged | Fallback:
    """Stage the signed change of the view, found by a strategy."""
    rows = cast_to_stored(signed.frame, context.view, [DIFF])
    not_null = context.view.not_null
    done = stage_signed(context.staging, rows, context.stored, context.columns, not_null)
    match done:
        case Signed.ROWS_DIFFER:
            return Fallback("ROWS_DIFFER")
        case Signed.REFUSED:  # the query itself says what is wrong
            detail = "a column that is asserted to have no NULL has one"
            return Fallback("TEXTS_FAILED", detail)
        case _:
            return Staged(strategy)
