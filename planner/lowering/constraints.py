"""Lowering of constraints: a number on every proposed row says which of them it breaks.

Bit i of the column ``BROKEN`` is set for the i-th constraint of the output, in the order of their
definition. Spark evaluates every condition, in one projection over the rows that the body leaves
proposed at its end; rows that an earlier statement proposed and a later one took away again are not
looked at.
"""

from pyspark.sql import DataFrame

from ctsql.catalog.names import backtick
from ctsql.catalog.reserved_columns import BROKEN, PROPOSED
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.output_state import OutputState, View
from ctsql.planner.nodes import Constraint, Query, Transaction


def mark_broken(
    node: Transaction, object_id: str, rows: DataFrame | None, context: Context
) -> DataFrame | None:
    """The rows proposed for an output with ``BROKEN``; as they are where nothing is asked of them.

    Raises (when computed):
        DATA_ERROR: a condition cannot be evaluated for a row; with its place.
    """
    constraints = node.constraints_of(object_id)
    if rows is None or not constraints:
        return rows
    pieces: list[str | Query] = ["SELECT *, 0L"]
    for bit, constraint in enumerate(constraints):
        pieces += [" + IF(", *_kept(constraint), f", 0L, {1 << bit}L)"]
    pieces.append(f" AS {BROKEN} FROM {{rows}} AS {PROPOSED}")
    return View(OutputState(None), context).run(pieces, {"rows": rows})


def _kept(constraint: Constraint) -> list[str | Query]:
    """The condition that a row keeps a constraint; never NULL."""
    if constraint.predicate is not None:
        return ["(", constraint.predicate, ") IS NOT FALSE"]
    return [" AND ".join(f"{backtick(name)} IS NOT NULL" for name in constraint.not_null)]
