"""Continues a task that has failed: RETRY runs the T again, SKIP leaves it out."""

from ctsql.catalog.items import Item
from ctsql.runtime.engine import Engine
from ctsql.runtime.tasks.progress import check_not_suspended
from ctsql.runtime.tasks.sink import TaskSink
from ctsql.runtime.warehouse.table_checks import check_tables


def retry_failed(engine: Engine, item: Item) -> None:
    """Run a task again from the T at which it failed."""
    until = engine.mint()
    check_not_suspended(engine.warehouse, item)
    engine.advance([engine.relations.item(r.object_id) for r in item.reads], until)
    TaskSink(engine.warehouse, item).advance(until, retry=True)


def skip_failed(engine: Engine, item: Item) -> int:
    """Leave out the T at which a task failed; returns it."""
    check_tables(engine.relations, engine.catalog.closure([item.id]))
    return TaskSink(engine.warehouse, item).skip()
