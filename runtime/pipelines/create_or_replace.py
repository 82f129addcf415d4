"""CREATE OR REPLACE of a view, a task or a flow: applies a folder of one definition.

Unlike in a folder, another text is another definition, even if it gives the same rows. CREATE FLOW
binds its task and its view in the same way.
"""

from dataclasses import replace

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import all_readers, check_no_cycle
from ctsql.catalog.items import MaterializedView, View
from ctsql.planner.binding.task import bind_stored
from ctsql.planner.folder import FileDefinition, define
from ctsql.planner.syntax import ast as st
from ctsql.runtime.pipelines.applying import redefinition_of
from ctsql.runtime.pipelines.binding import BoundObject, FolderBinder
from ctsql.runtime.statements.definitions.create import Creation, check_columns_unread
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
    is_there = names.engine.refresh_catalog().find(definition.name) is not None
    return _put_in_force(names, definition) if is_there else None


def create_flow(names: Namespace, statement: st.CreateFlow) -> str:
    """CREATE [OR REPLACE] FLOW; raises as :func:`create_or_replace` does."""
    return _put_in_force(names, define(statement, names.search_schema))


def _put_in_force(names: Namespace, definition: FileDefinition) -> str:
    statement, done = definition.statement, f"CREATE {definition.keyword}"
    is_flow = isinstance(statement, st.CreateFlow)
    binder = FolderBinder(names.engine, by_meaning=False)
    stored = binder.stored_catalog
    old = stored.find(definition.name)
    if old is not None and not statement.or_replace:
        is_such = old.kind is definition.kind and (bool(old.flow) or not is_flow)
        if not (statement.if_not_exists and is_such):
            check_free(stored, definition.name, definition.span, quiet=statement.if_not_exists)
        other = ", otherwise defined" if binder.parts(definition, old) else ""
        return f"{done} (exists already{other})"
    bound = binder.bind(definition)
    if old is None:
        _create(names, bound, stored)
        return done
    if not bound.parts:
        return f"{done} (unchanged)"
    _replace(names, bound, stored)
    return f"{done} (replaced)"


def _create(names: Namespace, bound: BoundObject, stored: Catalog) -> None:
    """Create a flow's task and view with their first rows, in one commit of the catalog."""
    creation, (task, *others) = Creation(names), bound.items
    with creation.built(task, bound.plans[0], others, has_vectors=True) as items:
        names.bound_by = stored
        creation.register(*items)


def _replace(names: Namespace, bound: BoundObject, stored: Catalog) -> None:
    """Bring the new definition of a stored object into force."""
    engine, span = names.engine, bound.definition.span
    before = [(stored.items[i.id], i) for i in bound.items if i.id in stored.items]

    def check(current: Catalog) -> None:
        for old, item in before:
            if isinstance(item, View | MaterializedView):
                check_no_cycle(current, old, item.reads, span)
            check_columns_unread(engine, current, old, item, span)

    then = stored.with_items(bound.items)
    for old, _ in before:
        if isinstance(old, View):
            for reader in all_readers(stored, old.id):
                if isinstance(reader, MaterializedView):
                    check_followed(engine.warehouse, bind_stored(reader, then).view)
    lost = bound.lost_quarantine
    drop = () if lost is None else (stored.items[lost],)
    change = replace(redefinition_of(bound, stored), drop=drop, check=check)
    cut_over(engine, change)
