"""The texts of a flow: the task and the view that CREATE FLOW makes."""

from ctsql.planner.binding.binder import qualify
from ctsql.planner.syntax import ast as st, parse_as
from ctsql.planner.syntax.statements.auto_cdc import FlowTexts, compile_flow
from ctsql.runtime.statements.objects.name_resolution import Namespace


def compile_texts(names: Namespace, statement: st.CreateFlow) -> FlowTexts:
    """The statements of a flow for the current columns of its source.

    Raises:
        UNKNOWN_RELATION, UNKNOWN_COLUMN, and other errors of binding its expressions.
    """
    binder = names.binder()
    source = binder.resolve(statement.source)
    # Spark analyses it as a query, to find the type for the task's column list.
    text = f"SELECT {statement.sequence.text} FROM {statement.source.span.text}"
    query = parse_as(st.Select, text, "SEQUENCE BY")
    sequence_type = (binder.query(query.query).columns or ())[0].type
    columns = names.columns_now(source)
    name = qualify(statement.name, names.search_schema)
    return compile_flow(statement, columns, sequence_type, name.qualified())
