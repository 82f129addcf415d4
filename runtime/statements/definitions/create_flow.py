"""CREATE FLOW: creates the flow's task, then the view over it. OR REPLACE is one cutover of both.

If the view fails, the task is dropped. A kill in between leaves the task, and CREATE FLOW IF NOT
EXISTS then creates the view.
"""

from dataclasses import replace

from ctsql.catalog.dependencies import flow_targets
from ctsql.catalog.errors import CtsqlError, not_supported
from ctsql.catalog.items import Item, ObjectKind, Task, made_by_flow
from ctsql.catalog.names import Name
from ctsql.planner.binding.binder import qualify
from ctsql.planner.syntax import ast as st, parse_as
from ctsql.planner.syntax.statements.auto_cdc import FlowTexts, compile_flow
from ctsql.planner.syntax.tokens.tokenizer import say_the_same
from ctsql.runtime.statements.definitions.alter import Alteration
from ctsql.runtime.statements.definitions.alter_task import TaskAlteration
from ctsql.runtime.statements.definitions.create import Creation
from ctsql.runtime.statements.definitions.cutover import Redefinition, cut_over
from ctsql.runtime.statements.objects.name_resolution import Namespace


def create_flow(names: Namespace, statement: st.CreateFlow) -> str:
    """Create or replace a flow's two objects; returns the status line.

    Raises:
        WRONG_OBJECT_KIND: a task of that name is not a flow.
        NOT_SUPPORTED: OR REPLACE with another target, or other columns of the task.
    """
    catalog = names.engine.refresh_catalog()
    old = catalog.find(qualify(statement.name, names.search_schema))
    if old is not None and statement.or_replace:
        return _replace(names, statement, old)
    quiet = statement.if_not_exists
    task_name = names.free(statement.name, ObjectKind.CONTINUAL_TASK, quiet=quiet)
    view_name = names.free(statement.target, ObjectKind.MATERIALIZED_VIEW, quiet=quiet)
    if task_name is None and view_name is None:
        assert old is not None  # it has the name
        same = not old.flow or say_the_same(old.flow, clauses_of(statement))
        return f"CREATE FLOW (exists already{'' if same else ', otherwise defined'})"
    task, view = read_flow_texts(compile_texts(names, statement))
    creation = Creation(names, clauses_of(statement))
    creation.create_task(task)
    try:
        creation.create_materialized_view(view)
    except BaseException:
        if task_name is not None:
            drop = st.DropObject(
                span=statement.span,
                kind=ObjectKind.CONTINUAL_TASK,
                target=statement.name,
                purge=True,
            )
            Alteration(names).drop(drop)
        raise
    return "CREATE FLOW"


def _replace(names: Namespace, statement: st.CreateFlow, task: Item) -> str:
    """Apply new clauses from the next T on; do nothing if they are unchanged."""
    if not isinstance(task, Task) or not task.flow:
        hint = f"Drop it first: DROP {task.kind.keyword} {task.name}"
        raise task.wrong_kind("flow", hint, statement.name.span)
    catalog = names.engine.catalog
    target = qualify(statement.target, names.search_schema)
    views = flow_targets(catalog, task)
    if views and views[0].name != target:
        raise other_target(statement, views[0].name)
    if views and say_the_same(views[0].flow, clauses_of(statement)):
        return "CREATE FLOW (unchanged)"
    new_task, view = read_flow_texts(compile_texts(names, statement))
    creation = Creation(names, clauses_of(statement))
    if not views:  # a killed process has created the task only
        creation.create_materialized_view(view)
        views = flow_targets(names.engine.catalog, task)
    change = TaskAlteration(names).replacing(new_task)
    if change is None:
        change = Redefinition(bound_on=names.engine.catalog, changes=((task, task),))
    (before, after), *others = change.changes
    after = made_by_flow(after, clauses_of(statement))
    change = replace(change, changes=((before, after), *others))
    cut_over(names.engine, change, creation.replacing(views[0], view))
    return "CREATE FLOW (replaced)"


def other_target(statement: st.CreateFlow, target: Name) -> CtsqlError:
    """NOT_SUPPORTED for a flow that writes another target; the caller raises it."""
    what = "another target for an existing flow"
    why = f'It writes "{target}".'
    hint = f"Type: ALTER MATERIALIZED VIEW {target} RENAME TO ..., or create another flow."
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
