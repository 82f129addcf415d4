"""Advances views on request (REFRESH, CREATE OR REPLACE), and prepares them for followers.

A followed object is advanced by its old definition before it changes: each T has the definition of
its time. A view without followers advances straight to the newest T. A task that is created on such
a view must see every commit from the T at which it begins:

    catalog: the views count as followed, until some T
    timeline: the T at which the task begins
    catalog: the task

[expected-at-every-T] a process that has read a T assigned after the first step has read a catalog
    with it. So it writes the views at that T and each earlier T after the beginning. Other Ts that
    older processes write are not later than the beginning.

If the task is never created, the views are written at every T for a day, which only costs time.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from ctsql.catalog.catalog import Catalog, still_there
from ctsql.catalog.dependencies import closure
from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item, MaterializedView, Task
from ctsql.runtime.engine import Engine
from ctsql.runtime.tasks.progress import check_not_suspended
from ctsql.runtime.views.sink import ViewSink
from ctsql.runtime.warehouse.replaced_views import is_closed_by_another, is_redefined
from ctsql.runtime.warehouse.table_checks import check_tables
from ctsql.runtime.warehouse.times.replaced_tables import LOST

FAILED = ("VIEW_FAILED", "TASK_FAILED")
MENDED = (*FAILED, *LOST)
"""Conditions of an object that another definition may correct."""


def refresh_view(engine: Engine, item: Item, *, full: bool, replaced: bool = False) -> None:
    """Advance a view to now, regardless of its schedule.

    Args:
        full: recompute it and compare.
        replaced: its definition is new: a finished schedule is no error, and rows of the new
            definition are stored before it returns.

    Raises:
        VIEW_FINISHED: the last refresh of its schedule has passed, or another process closed the
            view by the old definition. UNKNOWN_RELATION: it was dropped.
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
        # A process without the new definition may have written this T.
        if not replaced or not is_redefined(engine.warehouse, item):
            return
        until = engine.mint_fresh()


def advance_by_old_definition(engine: Engine, item: Item, mended: Collection[str] = MENDED) -> None:
    """Advance an object to now by its definition of now, which changes at a later T.

    ``mended``: the conditions of errors that do not matter.
    """
    try:
        engine.advance([item], engine.mint())
    except CtsqlError as problem:
        if problem.condition not in mended:
            raise


def end_if_followed(engine: Engine, item: Item) -> None:
    """Advance a task or a followed view by its current definition.

    Raises TASK_SUSPENDED: a later definition would run the waiting Ts.
    """
    is_view = isinstance(item, MaterializedView)
    if isinstance(item, Task) or (is_view and engine.relations.is_followed(item)):
        check_not_suspended(engine.warehouse, item)
        advance_by_old_definition(engine, item)


def check_not_finished(engine: Engine, item: Item) -> None:
    """Raise VIEW_FINISHED for a view after the last refresh of its schedule."""
    if engine.schedules.is_closed(item):
        raise error("VIEW_FINISHED", name=str(item.name))


EXPECTED_MS = 86_400_000


def expect_follower(engine: Engine, reads: Iterable[Item]) -> None:
    """Let views be written at every T for a future follower of ``reads`` [expected-at-every-T]."""
    views = [
        i.id
        for i in closure(engine.catalog, [r.id for r in reads])
        if isinstance(i, MaterializedView) and not engine.relations.is_followed(i)
    ]
    if not views:
        return
    until = engine.timeline.now + EXPECTED_MS

    def expect(current: Catalog) -> Catalog:
        there = [current.items[i] for i in views if i in current.items]
        return current.with_items(
            replace(i, following=replace(i.following, until=until))
            for i in there
            if isinstance(i, MaterializedView)
        )

    engine.change_catalog(expect)
