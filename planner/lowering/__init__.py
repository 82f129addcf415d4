"""From frozen plan nodes to lazy DataFrames; the only part of the planner that knows Spark."""

from ctsql.planner.lowering.char_types import (
    declared_as,
    declared_type,
    fields_of,
    is_padded,
    without_padding,
)
from ctsql.planner.lowering.context import EMPTY, Context, Found, Sources
from ctsql.planner.lowering.merge import assigned
from ctsql.planner.lowering.output_state import OutputState, View, union_all
from ctsql.planner.lowering.queries import lower_query, temporary_view
from ctsql.planner.lowering.store_assignment import value_text
from ctsql.planner.lowering.transaction import (
    Proposal,
    base,
    lower_inserts,
    lower_statements,
    lower_transaction,
)
from ctsql.planner.lowering.view import checked, lower_view, stored_types

__all__ = [
    "EMPTY",
    "Context",
    "Found",
    "OutputState",
    "Proposal",
    "Sources",
    "View",
    "assigned",
    "base",
    "checked",
    "declared_as",
    "declared_type",
    "fields_of",
    "is_padded",
    "lower_inserts",
    "lower_query",
    "lower_statements",
    "lower_transaction",
    "lower_view",
    "stored_types",
    "temporary_view",
    "union_all",
    "value_text",
    "without_padding",
]
