"""CREATE FLOW: creates the task and the view that it is compiled to.

Order: the task, then the view over it. If the view fails, the task is dropped; a process that is
killed in between leaves the task, and CREATE FLOW IF NOT EXISTS then creates the view.
"""

from ctsql.catalog.items import ObjectKind
from ctsql.catalog.spans import Source
from ctsql.planner.binding import qualify
from ctsql.planner.desugar.auto_cdc import FlowTexts, compile_flow
from ctsql.planner.syntax import ast as st, parse
from ctsql.runtime.statements.alter import Alteration
from ctsql.runtime.statements.create import Creation
from ctsql.runtime.statements.name_resolution import Namespace


def create_flow(names: Namespace, statement: st.CreateFlow) -> str:
    """Create a flow's two objects; returns the status line."""
    quiet = statement.if_not_exists
    task_name = names.free(statement.name, ObjectKind.CONTINUAL_TASK, quiet=quiet)
    view_name = names.free(statement.target, ObjectKind.MATERIALIZED_VIEW, quiet=quiet)
    if task_name is None and view_name is None:
        return "CREATE FLOW (exists already)"
    texts = compile_texts(names, statement)
    task, view = _read(texts)
    creation = Creation(names)
    creation.create_task(task)
    try:
        creation.create_materialized_view(view)
    except BaseException:
        if task_name is not None:
            dropped = st.DropObject(
                span=statement.span, kind=ObjectKind.CONTINUAL_TASK, target=statement.name
            )
            Alteration(names).drop(dropped)
        raise
    return "CREATE FLOW"


def compile_texts(names: Namespace, statement: st.CreateFlow) -> FlowTexts:
    """The statements of a flow for the current columns of its source.

    Raises:
        UNKNOWN_RELATION, UNKNOWN_COLUMN, and other errors of binding its expressions.
    """
    binder = names.binder()
    source = binder.resolve(statement.source)
    # Spark analyses it as a query, to find the type for the task's column list.
    text = f"SELECT {statement.sequence.text} FROM {statement.source.span.text}"
    query = parse(Source(text, "SEQUENCE BY").whole())
    assert isinstance(query, st.Select)  # it begins with SELECT
    (sequence,) = binder.query(query.query).columns or ()
    columns = names.engine.relations.columns_now(source)
    name = qualify(statement.name, names.search_schema)
    return compile_flow(statement, columns, sequence.type, name.qualified())


def _read(texts: FlowTexts) -> tuple[st.CreateContinualTask, st.CreateMaterializedView]:
    task = parse(Source(texts.task, "the task of the flow").whole())
    view = parse(Source(texts.view, "the target of the flow").whole())
    assert isinstance(task, st.CreateContinualTask)  # that is what is compiled
    assert isinstance(view, st.CreateMaterializedView)
    return task, view
