"""Advances a view to now on request: REFRESH, and CREATE OR REPLACE.

What a task or a subscription follows has the changes of before in it when its definition changes:
each T is of the definition that was there then, whether or not somebody has looked.
"""

from collections.abc import Iterable

from ctsql.catalog.catalog import still_there
from ctsql.catalog.dependencies import closure
from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item, MaterializedView, Task
from ctsql.runtime.engine import Engine
from ctsql.runtime.tasks.progress import check_not_suspended
from ctsql.runtime.views.sink import ViewSink
from ctsql.runtime.warehouse.replaced_views import is_closed_by_another, is_redefined
from ctsql.runtime.warehouse.table_checks import check_tables
from ctsql.runtime.warehouse.times.replaced_tables import LOST

MENDED = ("VIEW_FAILED", "TASK_FAILED", *LOST)
"""Conditions of an object that another definition may be the way out of."""


def refresh_view(engine: Engine, item: Item, *, full: bool, replaced: bool = False) -> None:
    """Advance a view to now, whatever its schedule.

    Args:
        full: recompute it and compare.
        replaced: whether its definition is new. Then a finished schedule is no error, and it
            returns only after contents of the new definition are stored.

    Raises:
        VIEW_FINISHED: the last refresh of its schedule has passed; of one that is replaced another
            process has found that by the definition of before. UNKNOWN_RELATION: it was dropped.
    """
    until = engine.mint()
    item = still_there(engine.catalog, item)
    check_not_suspended(engine.warehouse, item)
    if engine.schedules.schedule(item) is not None:
        if not replaced:
            engine.advance([item], until)
            check_not_finished(engine, item)
        until = engine.mint_fresh(request=item)
    else:
        until = engine.mint_for([item])  # time may have changed it since
    if full and engine.relations.output(item).fetch_recent_upper() > until:
        until = engine.mint_fresh()
    while True:
        item = still_there(engine.catalog, item)
        check_tables(engine.relations, closure(engine.catalog, [item.id]))
        engine.advance([engine.relations.item(r.object_id) for r in item.reads], until)
        ViewSink(engine.warehouse, item).advance(until, full=full)
        if replaced and is_closed_by_another(engine.warehouse, item):
            raise error("VIEW_FINISHED", name=str(item.name))
        # A process that did not know the new definition may have written this T.
        if not replaced or not is_redefined(engine.warehouse, item):
            return
        until = engine.mint_fresh()


def write_new(engine: Engine, view_ids: Iterable[str]) -> None:
    """Write what differs in views that have another definition, unless they are gone by now."""
    for object_id in view_ids:
        refresh_view(engine, engine.relations.item(object_id), full=True, replaced=True)


def advance_by_old_definition(engine: Engine, item: Item, until: int | None = None) -> None:
    """Advance an object to now by its definition of now, which changes at a later T.

    Args:
        until: a T to advance it to instead.
    """
    try:
        engine.advance([item], engine.mint() if until is None else until)
    except CtsqlError as problem:
        if problem.condition not in MENDED:
            raise


def end_if_followed(engine: Engine, item: Item) -> None:
    """The same, of a task, and of a followed view.

    Raises:
        TASK_SUSPENDED: Ts that wait would be run by what comes after, once that is resumed.
    """
    is_view = isinstance(item, MaterializedView)
    if isinstance(item, Task) or (is_view and engine.relations.is_followed(item)):
        check_not_suspended(engine.warehouse, item)
        advance_by_old_definition(engine, item)


def check_not_finished(engine: Engine, item: Item) -> None:
    """Raise VIEW_FINISHED for a view after the last refresh of its schedule."""
    if engine.schedules.is_closed(item):
        raise error("VIEW_FINISHED", name=str(item.name))
