"""From frozen plan nodes to lazy DataFrames; the only part of the planner that knows Spark."""

from ctsql.planner.lowering.context import EMPTY, Context, Sources
from ctsql.planner.lowering.failures import Failures
from ctsql.planner.lowering.queries import lower_query, quoted, temporary_view
from ctsql.planner.lowering.transaction import Proposal, lower_transaction
from ctsql.planner.lowering.view import lower_view

__all__ = [
    "EMPTY",
    "Context",
    "Failures",
    "Proposal",
    "Sources",
    "lower_query",
    "lower_transaction",
    "lower_view",
    "quoted",
    "temporary_view",
]
