"""Shows why a task failed, and continues it: RETRY runs the T again, SKIP leaves it out."""

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.catalog import still_there
from ctsql.catalog.dependencies import closure
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item
from ctsql.catalog.names import backtick_all
from ctsql.catalog.reserved_columns import DIFF
from ctsql.runtime.engine import Engine, run_task
from ctsql.runtime.log.failures import Failure
from ctsql.runtime.log.write_handle import disturbance_error
from ctsql.runtime.subscriptions.changes import Changes
from ctsql.runtime.tasks.failed_times import DISTURBED_TRIES_MAX
from ctsql.runtime.tasks.progress import check_not_suspended
from ctsql.runtime.tasks.runs import SNAPSHOT, due_runs
from ctsql.runtime.tasks.sink import OutdatedDefinition, TaskSink
from ctsql.runtime.warehouse.table_checks import check_tables

ROWS_SHOWN = 3
ROW_CHARS_SHOWN = 200


def retry_failed(engine: Engine, item: Item) -> None:
    """Run a task again from the T at which it failed.

    Raises UNKNOWN_RELATION if another process has dropped it.
    """
    until = engine.mint()
    still_there(engine.catalog, item, "while it was to be run again")
    item = engine.relations.item(item.id)  # its inputs may have been dropped since
    check_not_suspended(engine.warehouse, item)
    engine.advance([engine.relations.item(r.object_id) for r in item.reads], until)
    run_task(engine, item, until, retry=True)


def skip_failed(engine: Engine, item: Item) -> int:
    """Leave out the T at which a task failed, or whose history is lost; returns it."""
    check_tables(engine.relations, closure(engine.catalog, [item.id]))
    try:
        return TaskSink(engine.warehouse, item).failures.skip()
    except CtsqlError as problem:
        if problem.condition != "TASK_NOT_FAILED":
            raise
        failure = lost_history(engine, item)
        if failure is None:
            raise
    return TaskSink(engine.warehouse, item).failures.skip(failure)


def lost_history(engine: Engine, item: Item) -> Failure | None:
    """The failure that history of a task's next T is lost, which no log records; None otherwise.

    The task first runs every T before it.
    """
    until = engine.mint()
    check_not_suspended(engine.warehouse, item)
    engine.advance([engine.relations.item(r.object_id) for r in item.reads], until)
    failure: Failure | None = None
    for _ in range(DISTURBED_TRIES_MAX):
        sink = TaskSink(engine.warehouse, item)
        try:
            sink.advance(until)
        except OutdatedDefinition:
            engine.timeline.refresh()
            item = still_there(engine.refresh_catalog(), item, "while it was to be run")
        except CtsqlError as problem:
            if sink.lost_at is None:
                raise
            failure = Failure.of(sink.lost_at, problem, item)
            until = min(until, failure.time) - 1
        else:
            return failure
    raise disturbance_error(f"{DISTURBED_TRIES_MAX} tries to find what {item.name} has lost")


def show_rows(engine: Engine, problem: CtsqlError) -> None:
    """Add to a TASK_FAILED the first rows that the task's inputs inserted at that T, as JSON.

    Unreadable rows are left out: the error is about the task.
    """
    time, name = int(str(problem.given["time"])), str(problem.given["name"])
    item = next((i for i in engine.catalog if str(i.name) == name), None)
    if item is None:
        return
    warehouse = engine.warehouse
    for run in due_runs(warehouse, item, after=time - 1, until=time):
        for object_id, version_change in run.version_changes:
            if version_change.version == SNAPSHOT:
                continue  # the whole input
            source = engine.relations.item(object_id)
            try:
                rows = _inserted_as_json(Changes(warehouse, source).at(time))
            except CtsqlError:
                continue
            if rows:
                more = ", ..." if len(rows) > ROWS_SHOWN else ""
                text = f'Rows of "{source.name}" at that T: {", ".join(rows[:ROWS_SHOWN])}{more}'
                problem.detail = f"{problem.detail}\n{text}"


def _inserted_as_json(changes: DataFrame) -> list[str]:
    inserts = changes.where(F.col(DIFF) > 0)
    names = backtick_all(c for c in changes.columns if c != DIFF)
    text = F.to_json(F.struct(*names), {"ignoreNullFields": "false"})
    texts = [row[0] for row in inserts.limit(ROWS_SHOWN + 1).select(text).collect()]
    return [t if len(t) <= ROW_CHARS_SHOWN else f"{t[:ROW_CHARS_SHOWN]}..." for t in texts]
