"""Waiting runs of a task, computed in one Spark job and written in one commit.

Where the planner says that a body takes the inserted rows one by one
(:mod:`ctsql.planner.row_local`), the rows of all the Ts that wait go through it at once, each with
its T, and what comes out is written with a file for each T that has rows. The commit tells the Ts
(:mod:`ctsql.runtime.log.table_changes`), so who reads the output, as of any of them, or follows it
cannot tell the difference.

[plain-inserts-in-order] only Ts at which the input did nothing but insert, of one definition, in
    their order, without one left out between the first and the last.
[fault-at-its-own-T] where the body cannot be computed over all of them, or a row breaks a
    constraint, nothing is kept, and fewer are tried, at last each by itself: the T at fault fails
    as it would have, and rows that break a constraint are counted at their own T. That is the
    sink's to do.
"""

from collections.abc import Sequence
from contextlib import ExitStack

from pyspark.sql import functions as F

from ctsql.catalog.declined import Declined
from ctsql.catalog.items import Item
from ctsql.catalog.reserved_columns import BROKEN, TIME
from ctsql.planner.lowering import Context, lower_inserts
from ctsql.planner.nodes import TaskWrite
from ctsql.planner.row_local import carry_time, carry_time_below, is_row_local
from ctsql.runtime.delta.change_feed import numbered_rows
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.log.actions import Change
from ctsql.runtime.log.staging import Staging
from ctsql.runtime.log.table_changes import Movement, input_columns
from ctsql.runtime.rows.collect import collect_bounded, unadaptive
from ctsql.runtime.rows.row_set import persisted
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.tasks.constraints import check_none_broken
from ctsql.runtime.tasks.runs import SNAPSHOT, Run
from ctsql.runtime.tasks.seen_rows import RowsOfSource, lower_seen
from ctsql.runtime.warehouse.warehouse import Warehouse

RUNS_MIN = 2
RUNS_MAX = 256
"""A commit holds a file for each, and Spark runs a task for each."""


def may_run_together(warehouse: Warehouse, item: Item, waiting: Sequence[Run]) -> list[Run]:
    """The first of some waiting runs that may be computed together [plain-inserts-in-order].

    Args:
        waiting: in the order of their Ts, none left out; at least one.
    """
    plan = warehouse.relations.in_force(item, waiting[0].time)[1]
    if warehouse.gateway.read_only or not is_row_local(plan):
        return []
    runs: list[Run] = []
    for run in waiting[:RUNS_MAX]:
        if run.revision != waiting[0].revision or not _only_inserts(warehouse, plan, run):
            break
        runs.append(run)
    return runs


def _only_inserts(warehouse: Warehouse, plan: TaskWrite, run: Run) -> bool:
    if len(run.movements) != 1:
        return False
    ((object_id, movement),) = run.movements
    is_snapshot = movement.version == SNAPSHOT
    if is_snapshot:
        return False
    columns = input_columns(plan, object_id)
    return (
        warehouse.versions.change_of(warehouse.relations.item(object_id), movement, columns)
        is Change.APPEND
    )


def stage_batched_runs(
    plan: TaskWrite, table: DeltaTable, movements: Sequence[tuple[int, Movement]], staging: Staging
) -> list[int] | None:
    """Compute and stage what a task proposes at each of several Ts; gives those that have rows.

    None when the rows of the Ts cannot be told apart, and nothing was done.

    Args:
        table: its input. movements: each T, and how the input moved then.
    """
    rows = numbered_rows(table, [movement for _, movement in movements], TIME)
    if isinstance(rows, Declined):
        return None
    times = F.array(*(F.lit(time) for time, _ in movements))
    rows = rows.withColumn(TIME, F.element_at(times, F.col(TIME) + 1))
    session = table.gateway.session
    with ExitStack() as stack:
        stack.enter_context(translate_spark_errors())
        stack.enter_context(unadaptive(session))
        for view in plan.input_views:
            rows = lower_seen(carry_time_below(view), rows, movements[0][0])
        context = Context(session, RowsOfSource(session, rows), movements[0][0], clock_at=TIME)
        inserts = lower_inserts(carry_time(plan.transaction), context, TIME)
        local_rows = collect_bounded(inserts)
        rows_once = (
            stack.enter_context(persisted(inserts))
            if isinstance(local_rows, Declined)
            else local_rows
        )
        if plan.transaction.constraints:
            check_none_broken(rows_once)
            rows_once = rows_once.drop(BROKEN)
        time_rows = rows_once.select(TIME)
        if isinstance(local_rows, Declined):
            time_rows = time_rows.distinct()
        times_with_rows = sorted({row[0] for row in time_rows.collect()})
        if not times_with_rows:
            return []
        # Spark writes a file for its first partition even where that has no row.
        place = F.array_position(F.array(*map(F.lit, times_with_rows)), F.col(TIME)) - 1
        partitions = rows_once.repartitionById(len(times_with_rows), place.cast("int")).drop(TIME)
        return staging.stage_shared(partitions, times_with_rows)
