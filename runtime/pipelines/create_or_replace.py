"""CREATE OR REPLACE of a view, a task or a flow: a folder of one definition, applied.

Other than in a folder, a query in other words is another definition, whatever it means. The two
objects of CREATE FLOW are bound so, too.
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
    """Do what a statement says of an object that is there; returns the status line.

    None if there is no object of its name.

    Raises:
        OBJECT_EXISTS, WRONG_OBJECT_KIND: the name is taken. NOT_SUPPORTED: the object cannot become
            what the statement says. COLUMNS_IN_USE: an object reads a column that would be gone.
        RECURSIVE_DEFINITION: a new query reads what reads the view. And the errors of binding, and
            of the first rows (:func:`ctsql.runtime.statements.definitions.cutover.cut_over`).
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
    """Make the objects of a new flow with their first contents; the catalog gets them at once."""
    creation, (task, *others) = Creation(names), bound.items
    with creation.built(task, bound.plans[0], others, has_vectors=True) as items:
        names.bound_by = stored
        creation.register(*items)


def _replace(names: Namespace, bound: BoundObject, stored: Catalog) -> None:
    """Bring the definition into force, and the stored readers of a plain view to follow it."""
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
