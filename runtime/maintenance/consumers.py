"""The oldest version of each table that its consumers need, by the logs and the timeline.

An output needs its inputs as of the T through which it is complete, and every later change. That T
may be after its last write; a failed task is complete through the T before. If some outputs of a
task hold a T that the task has not completed, their contents before that T are needed. A task with
COALESCE needs its inputs from the end of the last interval on. A view without followers that was
not written at its last refresh is computed from its sources as of that refresh.

Plain views pass needs on to what they read. A named reader needs its object from its position on.
The log is needed from the upper on: an output reads every later commit.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ctsql.catalog.dependencies import check_outlined, parts_of, stored_reads
from ctsql.catalog.errors import CtsqlError, suppress_conditions
from ctsql.catalog.items import Item, Maintained, MaterializedView, Table
from ctsql.runtime.delta.files import first_logged
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.engine import Engine
from ctsql.runtime.maintenance import retention
from ctsql.runtime.subscriptions.cursors import Readers, RetentionNeed
from ctsql.runtime.tasks.progress import complete_through
from ctsql.runtime.warehouse.table_checks import missing_table
from ctsql.runtime.warehouse.times.replaced_tables import LOST, UNREADABLE

READS = "reads"  # the consumer that stands for SELECT, now and AS OF the past


@dataclass(frozen=True, slots=True)
class Needs:
    """The needs of one table: of its rows, by consumer; of its log, for all."""

    rows: tuple[RetentionNeed, ...]
    log_floor: int


def needs(
    engine: Engine,
    *,
    keep_from: int,
    replaced_from: int | None = None,
    problems: dict[str, CtsqlError] | None = None,
) -> dict[str, Needs]:
    """The needs of every stored object whose table exists, by its id.

    Args:
        keep_from: reads AS OF this T and later keep working.
        replaced_from: files replaced by compactions since this instant are needed by running reads.
        problems: gets the errors of unreadable logs, by id; their tables have no needs. None to
            raise.

    Raises STORED_DATA_INVALID if a damaged entry of the catalog hides its needs.
    """
    catalog = engine.refresh_catalog()
    check_outlined(catalog)
    engine.timeline.refresh()
    items = [i for i in catalog if i.location is not None and not i.problem]
    rows: dict[str, list[RetentionNeed]] = {}
    logs: dict[str, list[int]] = {}
    for item in items:
        with noting_damaged(problems, item.id):
            if missing_table(engine.relations, [item]) is not None:
                continue
            rows[item.id], logs[item.id] = [], []
            rows[item.id].append(_need(engine, item, keep_from, READS, replaced_from))
            logs[item.id].append(_version_at(engine, item, keep_from))
            if item.is_output:
                logs[item.id].append(_last_write(engine, item))
    for item in (i for i in catalog if isinstance(i, Maintained) or i.problem):
        consumer = f'{item.kind.value} "{item.name}"'
        for read, through, log_time in reads_kept(engine, item, keep_from):
            if read.id not in rows:
                continue
            with noting_damaged(problems, read.id):
                rows[read.id].append(_need(engine, read, through, consumer))
                logs[read.id].append(_version_at(engine, read, log_time))
    for need in Readers(engine).retention_needs():
        item = engine.relations.item(need.object_id)
        if item.id not in rows:
            continue
        with noting_damaged(problems, item.id):
            rows[item.id].append(_need(engine, item, need.since, need.consumer))
            logs[item.id].append(_version_at(engine, item, need.since))
    left_out = problems or {}
    return {i: Needs(tuple(n), min(logs[i])) for i, n in rows.items() if i not in left_out}


@contextmanager
def noting_damaged(problems: dict[str, CtsqlError] | None, key: str) -> Iterator[None]:
    """Store the error of an unreadable log in ``problems``; raise it if that is None."""
    try:
        yield
    except CtsqlError as problem:
        if problems is None or problem.condition not in UNREADABLE:
            raise
        problems.setdefault(key, problem)


def reads_kept(engine: Engine, item: Item, keep_from: int) -> Iterator[tuple[Item, int, int]]:
    """The reads of an output: (stored object, T from which rows are needed, T for the log)."""
    warehouse = engine.warehouse
    if item.problem:
        yield from ((read, 0, 0) for read in stored_reads(engine.catalog, item))
        return
    try:
        if warehouse.schedules.is_closed(item):
            return
        through = complete_through(engine.warehouse, [item])
        log_time = min(max(warehouse.versions.stored_upper(item) - 1, item.created_at), through)
        if isinstance(item, MaterializedView):
            refresh_time, last_write = _shown_from(engine, item, keep_from)
            through, log_time = min(through, refresh_time), min(log_time, last_write)
        elif warehouse.schedules.schedule(item) is not None:
            # With COALESCE, changes since the last interval wait for the end of this one.
            through = min(through, warehouse.schedules.shown_at(item, through) or through)
    except CtsqlError as problem:
        if problem.condition not in LOST:
            raise
        through = log_time = 0  # its needs are unknown, so everything is kept
    for read in [*stored_reads(engine.catalog, item), *parts_of(engine.catalog, item)]:
        yield read, through, min(log_time, through)


def _shown_from(engine: Engine, item: Item, keep_from: int) -> tuple[int, int]:
    """The Ts needed to read a view AS OF keep_from: a refresh time, and that of its last write.

    Such reads may compute the view as of the refresh time, which is now if they compute nothing.
    """
    now = engine.timeline.now
    at = min(keep_from, now)
    entries = engine.relations.output(item).entries_around(since=at + 1)
    is_written = bool(entries) and entries[0].upper <= at + 1
    last_write = entries[0].upper - 1 if is_written else item.known_from
    shown_time = engine.schedules.shown_at(item, at)
    if shown_time is None or shown_time == at or (is_written and shown_time <= last_write):
        return now, last_write  # its sources are kept from keep_from on anyway
    return shown_time, last_write


def _need(
    engine: Engine, item: Item, at: int, consumer: str, replaced_from: int | None = None
) -> RetentionNeed:
    at, table = min(at, engine.timeline.now), engine.relations.table(item)
    version = _version_at(engine, item, at)
    # Later commits that change no row supersede its files.
    settled_version = engine.versions.settled(table, version)
    if replaced_from is not None:
        later = range(version + 1, settled_version + 1)
        young = (v for v in later if table.commit_at(v).time_ms >= replaced_from)
        settled_version = next(young, settled_version + 1) - 1
    return RetentionNeed(version=settled_version, since=at, consumer=consumer, object_id=item.id)


def _version_at(engine: Engine, item: Item, at: int) -> int:
    """The version of a table as of T; the oldest one if T is before it."""
    warehouse = engine.warehouse
    at = min(at, engine.timeline.now)
    version: int | None = None
    with suppress_conditions("HISTORY_LOST"):
        version = warehouse.versions.version_at(item, at)
    oldest = first_logged(warehouse.relations.table(item))
    if version is None and isinstance(item, Table):
        first = engine.timeline.first_time(item.id)
        version = None if first is None else warehouse.versions.version_at(item, first)
    return oldest if version is None else max(version, oldest)


def _last_write(engine: Engine, item: Item) -> int:
    """The version of the newest commit that moved an output's upper, else the log's oldest."""
    output = engine.relations.output(item)
    upper = output.fetch_recent_upper()
    entries = output.entries(since=upper)
    return entries[-1].version if entries else first_logged(engine.relations.table(item))


def system_floor(table: DeltaTable, *, before_ms: int) -> int:
    """The newest version at an instant, for a table that only ctsql reads."""
    versions = range(first_logged(table), table.version() + 1)
    return retention.newest_before(versions, before_ms, lambda v: table.commit_at(v).time_ms)
