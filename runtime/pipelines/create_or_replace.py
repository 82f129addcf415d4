"""CREATE OR REPLACE of a view, a task or a flow: applies a folder of one definition.

Unlike in a folder, another text is another definition, even if it gives the same rows. CREATE FLOW
binds its task and its view in the same way.
"""

from dataclasses import replace
from functools import partial

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import all_readers
from ctsql.catalog.items import Item, MaterializedView, View
from ctsql.planner.binding.task import bind_stored
from ctsql.planner.folder import FileDefinition, define
from ctsql.planner.syntax import ast as st
from ctsql.runtime.pipelines.applying import redefinition_of
from ctsql.runtime.pipelines.binding import BoundObject, FolderBinder
from ctsql.runtime.statements.definitions.create import Creation, check_replaced
from ctsql.runtime.statements.definitions.cutover import cut_over
from ctsql.runtime.statements.objects.name_resolution import Namespace, check_free
from ctsql.runtime.views.change_plans import check_followed


def create_or_replace(
    names: Namespace, statement: st.CreateView | st.CreateMaterializedView | st.CreateContinualTask
) -> str | None:
    """Run CREATE for a name that is taken; returns the status line, or None for a free name.

    Raises:
        OBJECT_EXISTS, WRONG_OBJECT_KIND: the object may not be replaced. NOT_SUPPORTED: it cannot
            get this definition. COLUMNS_IN_USE: an object reads a column that would be dropped.
        RECURSIVE_DEFINITION: the new query reads a view that reads this one. And the errors of
            binding and of :func:`ctsql.runtime.statements.definitions.cutover.cut_over`.
    """
    definition = define(statement, names.search_schema)
    binder = FolderBinder(names.engine, by_meaning=False)
    old = binder.stored_catalog.find(definition.name)
    return None if old is None else _change(names, binder, definition, old)


def create_flow(names: Namespace, statement: st.CreateFlow) -> str:
    """CREATE [OR REPLACE] FLOW; raises as :func:`create_or_replace` does."""
    definition = define(statement, names.search_schema)
    binder = FolderBinder(names.engine, by_meaning=False)
    old = binder.stored_catalog.find(definition.name)
    if old is not None:
        return _change(names, binder, definition, old)
    creation, bound = Creation(names), binder.bind(definition)
    task, *others = bound.items
    # The catalog gets both objects at once.
    with creation.built(task, bound.plans[0], others, has_vectors=True) as items:
        names.bound_by = binder.stored_catalog
        creation.register(*items)
    return "CREATE FLOW"


def _change(names: Namespace, binder: FolderBinder, definition: FileDefinition, old: Item) -> str:
    """Run CREATE for a stored object; returns the status line."""
    statement, done = definition.statement, f"CREATE {definition.keyword}"
    stored = binder.stored_catalog
    if not statement.or_replace:
        is_flow = isinstance(statement, st.CreateFlow)
        is_such = old.kind is definition.kind and (bool(old.flow) or not is_flow)
        if not (statement.if_not_exists and is_such):
            check_free(stored, definition.name, definition.span, quiet=statement.if_not_exists)
        other = ", otherwise defined" if binder.parts(definition, old) else ""
        return f"{done} (exists already{other})"
    bound = binder.bind(definition)
    if not bound.parts:
        return f"{done} (unchanged)"
    _replace(names, bound, stored)
    return f"{done} (replaced)"


def _replace(names: Namespace, bound: BoundObject, stored: Catalog) -> None:
    """Bring the new definition of a stored object into force."""
    engine, span = names.engine, bound.definition.span
    before = [(stored.items[i.id], i) for i in bound.items if i.id in stored.items]
    then = stored.with_items(bound.items)
    for old, _ in before:
        if isinstance(old, View):
            for reader in all_readers(stored, old.id):
                if isinstance(reader, MaterializedView):
                    check_followed(engine.warehouse, bind_stored(reader, then).view)
    lost = bound.lost_quarantine
    drop = () if lost is None else (stored.items[lost],)
    change = replace(
        redefinition_of(bound, stored),
        drop=drop,
        check=partial(check_replaced, engine, before, span),
    )
    cut_over(engine, change)
