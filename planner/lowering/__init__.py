"""Translates plans to lazy DataFrames; the only part of the planner that imports Spark."""

from ctsql.planner.lowering.constraints import (
    AS_JSON as AS_JSON,
    mark_broken as mark_broken,
    row_text as row_text,
    with_refused as with_refused,
)
from ctsql.planner.lowering.context import (
    EMPTY as EMPTY,
    Context as Context,
    Sources as Sources,
    temporary_view as temporary_view,
)
from ctsql.planner.lowering.merge import assigned_values as assigned_values
from ctsql.planner.lowering.output_state import (
    OutputState as OutputState,
    StatementView as StatementView,
    union_all as union_all,
)
from ctsql.planner.lowering.queries import (
    lower_query as lower_query,
    lower_relation as lower_relation,
)
from ctsql.planner.lowering.spark_types import (
    declare_as as declare_as,
    declared_type as declared_type,
    fields_of as fields_of,
    is_padded as is_padded,
    without_padding as without_padding,
)
from ctsql.planner.lowering.store_assignment import value_text as value_text
from ctsql.planner.lowering.transaction import (
    base as base,
    lower_inserts as lower_inserts,
    lower_statements as lower_statements,
    lower_transaction as lower_transaction,
    outputs_of as outputs_of,
    proposals as proposals,
)
from ctsql.planner.lowering.view import (
    cast_to_stored as cast_to_stored,
    check_contents as check_contents,
    lower_view as lower_view,
)
