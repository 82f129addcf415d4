"""Runs a body up to n times at one T, until nothing changes.

After each pass what was proposed and what was taken away is computed and kept, so that the next
pass builds on rows and not on a plan that grows. Nothing changes when, as multisets,

    (inserts - victims) after the pass = (inserts - victims) before it

of each output, which is compared by Spark in one job. A body that goes on changing its outputs, in
a circle or without an end, is cut off by the limit: FIXPOINT then fails, a number of iterations is
enough.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.errors import error
from ctsql.catalog.names import backtick_all
from ctsql.catalog.reserved_columns import DIFF, FILE_COLUMN, ROW_COLUMN
from ctsql.planner.lowering import (
    Context,
    OutputState,
    Proposal,
    base,
    lower_statements,
    lower_transaction,
    mark_broken,
    union_all,
)
from ctsql.planner.nodes import Transaction
from ctsql.runtime.rows.multiset import consolidate
from ctsql.runtime.spark.checkpoint import computed


def propose(
    transaction: Transaction, context: Context, columns: Mapping[str, list[str]]
) -> dict[str, Proposal]:
    """What the body proposes at ``context.at``, for each output that it writes.

    Args:
        columns: of each output, by its id. Where it has constraints its inserts also have the
            column ``BROKEN``.

    Raises:
        STEP_LIMIT_REACHED: with FIXPOINT, something still changes after the last pass.
        DATA_ERROR: a row cannot be computed. It is raised here or when the rows are staged;
            a body that runs more than once raises it here.
    """
    if transaction.iterations == 1:
        return lower_transaction(transaction, context)
    outputs = _run_passes(transaction, context, columns)
    return {
        o: Proposal(mark_broken(transaction.constraints_of(o), s.inserts, context), s.victims)
        for o, s in outputs.items()
    }


def _run_passes(
    transaction: Transaction, context: Context, columns: Mapping[str, list[str]]
) -> Mapping[str, OutputState]:
    """What the outputs hold behind the last pass that changes something."""
    base_states = base(transaction, context)
    outputs: Mapping[str, OutputState] = base_states
    for _ in range(transaction.iterations):
        after = lower_statements(transaction, context, outputs, keep=True)
        states_by_output = {
            o: OutputState(None, _compute(s.inserts), _compute(s.victims)) for o, s in after.items()
        }
        if not any(_differ(outputs[o], states_by_output[o], columns[o]) for o in states_by_output):
            return outputs
        outputs = {
            o: OutputState(
                _without_victims(base_states[o].stored_rows, s.victims), s.inserts, s.victims
            )
            for o, s in states_by_output.items()
        }
    if transaction.fixpoint:
        raise error("STEP_LIMIT_REACHED", limit=transaction.iterations)
    return outputs


def _compute(frame: DataFrame | None) -> DataFrame | None:
    return None if frame is None else computed(frame)


def _without_victims(stored_rows: DataFrame | None, victims: DataFrame | None) -> DataFrame | None:
    if stored_rows is None or victims is None:
        return stored_rows
    places = victims.select(FILE_COLUMN, ROW_COLUMN)
    return stored_rows.join(places, on=[FILE_COLUMN, ROW_COLUMN], how="left_anti").select(
        *backtick_all(stored_rows.columns)
    )


def _differ(before: OutputState, after: OutputState, columns: list[str]) -> bool:
    """Does the output hold other rows after a pass?"""
    names = backtick_all(columns)

    def signed(frame: DataFrame | None, diff: int) -> DataFrame | None:
        if frame is None:
            return None
        return frame.select(*names, F.lit(diff).alias(DIFF))

    rows = union_all(
        signed(after.inserts, 1),
        signed(after.victims, -1),
        signed(before.inserts, -1),
        signed(before.victims, 1),
    )
    return rows is not None and not consolidate(rows, columns).isEmpty()
