"""How far every task and view is, and what is wrong with it; nothing is written or computed.

Lag is told against the commits of the sources that concern an output: for a task those that may
insert into its input, for a view those of everything it reads, also through other outputs. Of
these, the pending ones are those after the T through which the output is complete.

    lag in versions = number of pending commits
    lag in time     = T of the newest pending commit - T through which the output is complete

A commit that has no T yet counts with the T it would get now. An output that waits because
something it reads has failed is behind, and carries the error of what failed, by its name.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from ctsql.catalog.items import Item, ObjectKind
from ctsql.planner.nodes import TaskWrite
from ctsql.runtime.commits import Change, classify
from ctsql.runtime.engine import Engine
from ctsql.runtime.objects import due_changes
from ctsql.runtime.sinks.failure import Failure

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
    """What an output is at."""

    UP_TO_DATE = "up to date"
    BEHIND = "behind"
    FAILED = "failed"
    SUSPENDED = "suspended"


@dataclass(frozen=True, slots=True)
class Lag:
    """How far an output is behind its sources."""

    milliseconds: int
    versions: int

    @staticmethod
    def of(pending: Iterable[int], through: int) -> "Lag":
        """The lag of an output that is complete through a T.

        >>> Lag.of([12, 15], through=11), Lag.of([], through=11)
        (Lag(milliseconds=4, versions=2), Lag(milliseconds=0, versions=0))

        Args:
            pending: the Ts of the commits that it has not taken in.
        """
        times = list(pending)
        return Lag(max(max(times, default=through) - through, 0), len(times))


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """One output. ``failure`` is its own; ``origin`` is whose failure it waits for."""

    item: Item
    upper: int
    lag: Lag
    suspended: bool = False
    failure: Failure | None = None
    origin: tuple[Item, Failure] | None = None

    @property
    def state(self) -> State:
        """Suspended, or failed if it stands still by itself, else behind or up to date."""
        if self.suspended:
            return State.SUSPENDED
        if self.failure is not None:
            return State.FAILED
        return State.BEHIND if self.lag.versions else State.UP_TO_DATE

    @property
    def last_error(self) -> tuple[str, int, str] | None:
        """Condition, T and message of what holds it up."""
        if self.failure is not None:
            return _condition(self.item), self.failure.time, self.failure.reason
        if self.origin is not None and self.state is State.BEHIND:
            item, failure = self.origin
            text = f'{item.kind.value} "{item.name}" failed: {failure.reason}'
            return _condition(item), failure.time, text
        return None

    def row(self) -> tuple[object, ...]:
        """The values of :data:`COLUMNS`."""
        name = self.item.name
        return (
            self.item.kind.value,
            name.schema,
            name.name,
            self.state.value,
            self.upper,
            self.lag.milliseconds,
            self.lag.versions,
            *(self.last_error or (None, None, None)),
        )


def _condition(item: Item) -> str:
    return "TASK_FAILED" if item.kind is ObjectKind.CONTINUAL_TASK else "VIEW_FAILED"


def status(engine: Engine) -> list[Status]:
    """The status of every task and view, in order of name."""
    catalog = engine.refresh_catalog()
    engine.timeline.refresh()
    outputs = [i for i in catalog if i.is_output]
    return [status_of(engine, i) for i in sorted(outputs, key=lambda i: i.name.key)]


def status_of(engine: Engine, item: Item) -> Status:
    """The status of one output, as of the catalog and the timeline last looked at."""
    through = engine.complete_through([item])
    below = [i for i in engine.catalog.closure([item.id]) if i.id != item.id]
    failed = ((i, f) for i in below if (f := engine.failure(i)) is not None)
    return Status(
        item=item,
        upper=engine.objects.stored_upper(item),
        lag=Lag.of(_pending(engine, item, through), through),
        suspended=engine.objects.is_suspended(item),
        failure=engine.failure(item),
        origin=next(failed, None),
    )


def _pending(engine: Engine, item: Item, through: int) -> Iterator[int]:
    """The Ts of the commits that concern an output and that it has not taken in."""
    objects, timeline = engine.objects, engine.timeline
    plan = objects.bound(item).plan
    inputs = due_changes(plan) if isinstance(plan, TaskWrite) else {}
    for source in _sources(engine, item):
        kinds = inputs.get(source.id, frozenset(Change))
        for movement in objects.movements(source, after=through, until=timeline.now):
            if objects.change_of(source, movement) in kinds:
                yield movement.time
        table = objects.table(source)
        for commit in timeline.unbound(source.id, source.name.qualified(), table):
            if classify(table.commit_at(commit.version)) in kinds:
                yield max(commit.time_ms, timeline.now + 1)


def _sources(engine: Engine, item: Item) -> list[Item]:
    """The tables whose commits an output follows, each once."""
    found: dict[str, Item] = {}
    for read in engine.objects.followed(item):
        if read.kind is ObjectKind.TABLE:
            found[read.id] = read
        else:
            found.update((i.id, i) for i in _sources(engine, read))
    return list(found.values())
