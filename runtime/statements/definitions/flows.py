"""The texts of a flow: the task and the view that CREATE FLOW makes."""

from ctsql.catalog.errors import CtsqlError, not_supported
from ctsql.catalog.names import Name
from ctsql.planner.binding.binder import qualify
from ctsql.planner.syntax import ast as st, parse_as
from ctsql.planner.syntax.statements.auto_cdc import FlowTexts, compile_flow
from ctsql.runtime.statements.objects.name_resolution import Namespace


def other_target(statement: st.CreateFlow, target: Name) -> CtsqlError:
    """NOT_SUPPORTED for a flow that writes another target; the caller raises it."""
    what = "another target for an existing flow"
    why = f'It writes "{target}".'
    hint = (
        f"Type: ALTER MATERIALIZED VIEW {target} RENAME TO ..., or make a flow under another name."
    )
    return not_supported(statement.target.span, what, why=why, hint=hint)


def clauses_of(statement: st.CreateFlow) -> str:
    """The text of a statement after the name of the flow."""
    span = statement.span
    return span.source.text[statement.name.span.stop : span.stop].strip()


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


def read_flow_texts(texts: FlowTexts) -> tuple[st.CreateContinualTask, st.CreateMaterializedView]:
    """The statements of a flow's task and of its view."""
    task = parse_as(st.CreateContinualTask, texts.task, "the task of the flow")
    return task, parse_as(st.CreateMaterializedView, texts.view, "the target of the flow")
