"""Runs a body up to n times at one T, until nothing changes.

After each pass what was proposed and what was taken away is computed and kept, so that the next
pass builds on rows and not on a plan that grows. Nothing changes when, as multisets,

    (inserts - victims) after the pass = (inserts - victims) before it

which is compared by Spark in one job. A body that goes on changing its output, in a circle or
without an end, is cut off by the limit: FIXPOINT then fails, a number of iterations is enough.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctsql.catalog.errors import error
from ctsql.planner.lowering import (
    Context,
    Held,
    Proposal,
    base,
    lower_statements,
    lower_transaction,
    together,
)
from ctsql.planner.nodes import Transaction
from ctsql.runtime.delta_log import FILE_COLUMN, ROW_COLUMN
from ctsql.runtime.sinks.correction import COPIES, column_name, net


def propose(transaction: Transaction, context: Context, columns: list[str]) -> Proposal:
    """What a body proposes at ``context.at``.

    Raises:
        STEP_LIMIT_REACHED: it should run until nothing changes, and something always does.
    """
    if transaction.iterations == 1:
        return lower_transaction(transaction, context)
    stored = base(transaction, context)
    held = Held(stored)
    for _ in range(transaction.iterations):
        after = lower_statements(transaction, context, held, keep=True)
        made = Held(None, _computed(after.inserts), _computed(after.victims))
        if not _differ(held, made, columns):
            break
        held = Held(_left(stored, made.victims), made.inserts, made.victims)
    else:
        if transaction.fixpoint:
            raise error("STEP_LIMIT_REACHED", limit=transaction.iterations)
    return Proposal(held.inserts, held.victims)


def _computed(frame: DataFrame | None) -> DataFrame | None:
    return None if frame is None else frame.localCheckpoint(eager=True)


def _left(stored: DataFrame | None, victims: DataFrame | None) -> DataFrame | None:
    """The stored rows without the victims."""
    if stored is None or victims is None:
        return stored
    places = victims.select(FILE_COLUMN, ROW_COLUMN)
    return stored.join(places, on=[FILE_COLUMN, ROW_COLUMN], how="left_anti").select(
        *(column_name(c) for c in stored.columns)
    )


def _differ(before: Held, after: Held, columns: list[str]) -> bool:
    """Does the output hold other rows after a pass?"""
    names = [column_name(c) for c in columns]

    def weighted(frame: DataFrame | None, copies: int) -> DataFrame | None:
        if frame is None:
            return None
        return frame.select(*names, F.lit(copies).alias(COPIES))

    rows = together(
        weighted(after.inserts, 1),
        weighted(after.victims, -1),
        weighted(before.inserts, -1),
        weighted(before.victims, 1),
    )
    return rows is not None and not net(rows, columns).isEmpty()
