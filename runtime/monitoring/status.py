"""The status of every task and view, from logs alone, and the pulse of a service.

Lag counts the relevant commits of the sources: for a task those that may insert into its input, for
a view those of everything it reads, also through other outputs. Commits after the T through which
the output is complete are pending.

    lag in versions = number of pending commits
    lag in time     = time since the first of them was due

A commit is due at its T, for a view with refresh times at the next of these; one without a T counts
with the T it would get now. After its last refresh time a view is finished. An output that waits
for a failed one is behind, and shows that error. An output that depends on an unreadable object has
no other status.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from ctsql.catalog.dependencies import closure
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item, Maintained, Table
from ctsql.catalog.times import CLOSED
from ctsql.planner.nodes import TaskWrite
from ctsql.runtime.log import clock
from ctsql.runtime.log.actions import RowChange
from ctsql.runtime.log.failures import Failure
from ctsql.runtime.log.table_changes import VersionChange, due_changes, input_columns
from ctsql.runtime.log_reader import LogReader
from ctsql.runtime.tasks.progress import complete_through, failure_of
from ctsql.runtime.warehouse.table_checks import missing_table
from ctsql.runtime.warehouse.times.replaced_tables import UNREADABLE

COLUMNS = (
    ("kind", "string"),
    ("schema", "string"),
    ("name", "string"),
    ("state", "string"),
    ("upper", "bigint"),
    ("lag_ms", "bigint"),
    ("lag_versions", "bigint"),
    ("error_condition", "string"),
    ("error_t", "bigint"),
    ("error_message", "string"),
)


class State(Enum):
    """The state of an output."""

    UP_TO_DATE = "up to date"
    BEHIND = "behind"
    FAILED = "failed"
    SUSPENDED = "suspended"
    FINISHED = "finished"
    UNREADABLE = "unreadable"


WORST_FIRST = (
    State.FAILED,
    State.UNREADABLE,
    State.BEHIND,
    State.SUSPENDED,
    State.UP_TO_DATE,
    State.FINISHED,
)


@dataclass(frozen=True, slots=True)
class Lag:
    """How far an output is behind its sources."""

    milliseconds: int
    versions: int

    @staticmethod
    def of(dues: Collection[int], now: int) -> "Lag":
        """The lag at a T of an output whose pending commits were due at these Ts.

        >>> Lag.of([12, 15], now=16), Lag.of([], now=16)
        (Lag(milliseconds=4, versions=2), Lag(milliseconds=0, versions=0))
        """
        return Lag(max(now - min(dues, default=now), 0), len(dues))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputStatus:
    """The status of one output."""

    item: Item
    upper: int = 0
    lag: Lag = Lag(0, 0)
    suspended: bool = False
    failure: Failure | None = None  # its own
    origin: tuple[Item, Failure] | None = None  # the object and the failure that it waits for
    problem: CtsqlError | None = None  # the error that hides its status; its upper is then 0

    @property
    def state(self) -> State:
        """Unreadable, suspended, finished or failed; otherwise behind or up to date."""
        if self.problem is not None:
            return State.UNREADABLE
        if self.suspended:
            return State.SUSPENDED
        if self.upper == CLOSED:
            return State.FINISHED
        if self.failure is not None:
            return State.FAILED
        return State.BEHIND if self.lag.versions else State.UP_TO_DATE

    @property
    def last_error(self) -> tuple[str, int | None, str] | None:
        """Condition, T (if any) and message of the error that stops it."""
        if self.problem is not None:
            return self.problem.condition, None, self.problem.message
        if self.failure is not None:
            return self.failure.condition, self.failure.time, self.failure.reason
        if self.origin is not None and self.state is State.BEHIND:
            item, failure = self.origin
            text = f'{item.kind.value} "{item.name}" failed: {failure.reason}'
            return failure.condition, failure.time, text
        return None

    def row(self) -> tuple[object, ...]:
        """The values of :data:`COLUMNS`."""
        name = self.item.name
        return (
            self.item.kind.value,
            name.schema,
            name.name,
            self.state.value,
            None if self.upper in (0, CLOSED) else self.upper,
            self.lag.milliseconds,
            self.lag.versions,
            *(self.last_error or (None, None, None)),
        )


def status(engine: LogReader) -> list[OutputStatus]:
    """The status of every task and view, in order of name."""
    with engine.as_stored():
        catalog = engine.refresh_catalog()
        engine.timeline.refresh()
        outputs = [i for i in catalog if isinstance(i, Maintained) or i.problem]
        return [status_of(engine, i) for i in sorted(outputs, key=lambda i: i.name.key)]


def status_of(engine: LogReader, item: Item) -> OutputStatus:
    """The status of one output, by the cached catalog and timeline."""
    try:
        item.check()
        return _status_of(engine, item)
    except CtsqlError as problem:
        if problem.condition not in UNREADABLE:
            raise
        return OutputStatus(item=item, problem=problem)


def _status_of(engine: LogReader, item: Item) -> OutputStatus:
    missing = missing_table(engine.relations, closure(engine.catalog, [item.id]))
    if missing is not None:
        return OutputStatus(item=item, problem=missing)
    through = complete_through(engine.warehouse, [item])
    upper = engine.versions.stored_upper(item)
    below = [i for i in closure(engine.catalog, [item.id]) if i.id != item.id]
    failures = ((i, f) for i in below if (f := failure_of(engine.warehouse, i)) is not None)
    return OutputStatus(
        item=item,
        upper=upper,
        lag=Lag(0, 0) if upper == CLOSED else find_lag(engine, item, through),
        suspended=engine.relations.is_suspended(item),
        failure=failure_of(engine.warehouse, item),
        origin=next(failures, None),
    )


def find_lag(engine: LogReader, item: Item, through: int) -> Lag:
    """The lag of an output that is complete through a T."""
    now = max(engine.timeline.now, clock.now_ms())
    dues: dict[tuple[str, int], int] = {}
    for source, time, due in _commits(engine, item, through, {}):
        if due > through and (due == time or due <= now):
            dues[source, time] = min(due, dues.get((source, time), due))
    return Lag.of(dues.values(), now)


_Known = dict[tuple[str, int], frozenset[tuple[str, int, int]]]


def _commits(
    engine: LogReader, item: Item, since: int, memo: _Known
) -> frozenset[tuple[str, int, int]]:
    """The commits after a T of the inputs of an output: source, T, and the T when they are due.

    A commit is due at its T, or at the next refresh time of a view in between. ``memo``: known
    results; paths that meet again are followed once.
    """
    key = (item.id, since)
    if key not in memo:
        memo[key] = frozenset(_find_commits(engine, item, since, memo))
    return memo[key]


def _find_commits(
    engine: LogReader, item: Item, since: int, memo: _Known
) -> Iterator[tuple[str, int, int]]:
    warehouse = engine.warehouse
    schedule = warehouse.schedules.schedule(item)
    if schedule is not None:
        shown_at = warehouse.schedules.shown_at(item, since)
        since = item.created_at - 1 if shown_at is None else shown_at
    plan = warehouse.relations.bound(item).plan
    due_kinds = due_changes(plan) if isinstance(plan, TaskWrite) else {}
    for read in warehouse.relations.followed(item):
        if isinstance(read, Table):
            kinds = due_kinds.get(read.id, frozenset(RowChange))
            columns = input_columns(plan, read.id) if isinstance(plan, TaskWrite) else None
            times = follow_times(engine, read, since, kinds, columns)
            commits: Iterable[tuple[str, int, int]] = ((read.id, t, t) for t in times)
        else:
            commits = _commits(engine, read, since, memo)
        for source, time, due in commits:
            if schedule is not None:
                due = warehouse.schedules.next_refresh(item, schedule, due)
            yield source, time, due


def follow_times(
    engine: LogReader,
    source: Item,
    since: int,
    kinds: frozenset[RowChange],
    columns: Collection[str] | None,
) -> Iterator[int]:
    """The Ts of a source's commits after a T; for commits without one, the T they would get.

    ``kinds`` of changes, and ``columns`` read, that count; None for all columns.
    """
    warehouse, timeline = engine.warehouse, engine.timeline
    for version_change in warehouse.versions.version_changes(
        source, after=since, until=timeline.now
    ):
        if warehouse.versions.change_of(source, version_change, columns) in kinds:
            yield version_change.time
    table = warehouse.relations.table(source)
    time = timeline.now
    for commit in timeline.unbound(source.id, source.name.qualified(), table):
        time = max(commit.time_ms, time + 1)
        version_change = VersionChange(0, commit.version - 1, commit.version)
        if warehouse.versions.change_of(source, version_change, columns) in kinds:
            yield time


@dataclass(slots=True)
class Pulse:
    """The state of one service, for readers in other threads; seconds of a monotonic clock."""

    looks: int = 0  # polls of the logs
    ticks: int = 0  # polls that found work
    tick_seconds: float = 0.0  # of all ticks
    looked_at: float | None = None  # the end of the last poll
    ticking_since: float | None = None  # the begin of the running tick; None between ticks
    queue: int = 0  # the outputs that the tick has yet to advance, running ones included
