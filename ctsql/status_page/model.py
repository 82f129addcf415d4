"""The values that the status page shows. Pure; times are aware datetimes, Ts are milliseconds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ctsql.runtime.monitoring.failures import FailureRow
from ctsql.runtime.monitoring.objects import REFERENCE, DependencyRow, LagRow, ObjectRow, StorageRow
from ctsql.runtime.monitoring.refreshes import Refresh
from ctsql.runtime.monitoring.status import WORST_FIRST, State

STORED = "stored"  # the state of a table: it is not computed, so it cannot be behind
_WORST_FIRST = (*(state.value for state in WORST_FIRST), STORED)
PROBLEMS = (State.FAILED.value, State.UNREADABLE.value)  # the states that need action


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """The error that stops an object; ``since``: None if unrecorded; ``line`` counts from 1."""

    condition: str
    message: str
    t: int | None
    since: datetime | None = None
    detail: str | None = None
    line: int | None = None
    column: int | None = None
    what_to_do: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastChange:
    """The newest commits of an object."""

    version: int  # of its Delta table
    at: datetime | None  # the instant of the last commit that changed rows; None if unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """One object of the graph."""

    id: str
    name: str
    kind: str
    state: str
    comment: str | None = None
    lag_seconds: float = 0.0
    lag_commits: int = 0
    upper: int | None = None
    complete_through: int | None = None
    change: LastChange | None = None
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Arrow:
    """``reader`` reads ``read``, by object id; role as in system.dependencies."""

    read: str
    reader: str
    role: str


@dataclass(frozen=True, slots=True)
class Overview:
    """All objects, the worst state first, and the newest T of the warehouse."""

    objects: tuple[GraphNode, ...]
    arrows: tuple[Arrow, ...]
    now_t: int
    # changes if other pages have to change: a definition, or a named reader's position
    besides: tuple[int, ...] = ()

    def of(self, object_id: str) -> GraphNode | None:
        """The object with an id."""
        return next((o for o in self.objects if o.id == object_id), None)

    def reads(self) -> dict[str, str]:
        """The names of what each object reads, by its id; references in parentheses."""
        names = {o.id: o.name for o in self.objects}
        roles: dict[str, list[str]] = {o.id: [] for o in self.objects}
        for arrow in self.arrows:
            if arrow.read in names and arrow.reader in names:
                name = names[arrow.read]
                roles[arrow.reader].append(f"({name})" if arrow.role == REFERENCE else name)
        return {reader: ", ".join(texts) for reader, texts in roles.items()}

    @property
    def counts(self) -> dict[str, int]:
        """The number of tasks and views in each state, the worst first."""
        states = [o.state for o in self.objects if o.state != STORED]
        return {s: states.count(s) for s in _WORST_FIRST if s in states}

    @property
    def problems(self) -> tuple[GraphNode, ...]:
        """The objects that need action."""
        return tuple(o for o in self.objects if o.state in PROBLEMS)


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader of an object, and the T from which it still needs the object."""

    name: str
    kind: str
    role: str
    needs_from: int | None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class QuarantineRows:
    """The number of rows in an object's quarantine; None if it is unknown."""

    name: str
    rows: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """The page of one object.

    Attributes:
        definition: as typed. plan: None for a table. refreshes, failures: the newest first.
        storage: None if its log alone does not list the files. quarantine: None for none.
    """

    node: GraphNode
    row: ObjectRow
    definition: str
    plan: str | None
    refreshes: tuple[Refresh, ...]
    failures: tuple[FailureRow, ...]
    reads: tuple[Reader, ...]
    readers: tuple[Reader, ...]
    storage: tuple[StorageRow, ...] | None
    quarantine: QuarantineRows | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPage:
    """The page of the warehouse: the newest refreshes, and failures since the first of them."""

    refreshes: tuple[Refresh, ...]
    failures: tuple[FailureRow, ...]


def overview(
    rows: Sequence[ObjectRow],
    lags: Iterable[LagRow],
    dependencies: Iterable[DependencyRow],
    open_failures: Iterable[FailureRow],
    changes: Mapping[str, LastChange],
    now_t: int,
    besides: tuple[int, ...] = (),
) -> Overview:
    """The graph, from rows of system tables; ``changes`` by object id."""
    ids = {row.object: row.object_id for row in rows}
    lag_of = {lag.object: lag for lag in lags}
    failure_of = {failure.object: failure for failure in open_failures}
    objects = [
        _shown_object(
            row, lag_of.get(row.object), failure_of.get(row.object), changes.get(row.object_id)
        )
        for row in rows
    ]
    places = {state: n for n, state in enumerate(_WORST_FIRST)}
    objects.sort(key=lambda o: (places[o.state], -o.lag_seconds, o.name))
    arrows = {
        Arrow(ids[d.reads], ids[d.object], d.role)
        for d in dependencies
        if d.reads in ids and d.object in ids
    }
    sorted_arrows = sorted(arrows, key=lambda a: (a.read, a.reader, a.role))
    return Overview(tuple(objects), tuple(sorted_arrows), now_t, besides)


def _shown_object(
    row: ObjectRow, lag: LagRow | None, failure: FailureRow | None, change: LastChange | None
) -> GraphNode:
    return GraphNode(
        id=row.object_id,
        name=row.object,
        kind=row.kind,
        state=STORED if lag is None else lag.state,
        comment=row.comment,
        lag_seconds=0.0 if lag is None else lag.lag_seconds,
        lag_commits=0 if lag is None else lag.lag_versions,
        upper=None if lag is None else lag.upper,
        complete_through=None if lag is None else lag.complete_through,
        change=change,
        problem=None if lag is None else _problem(lag, failure),
    )


def _problem(lag: LagRow, failure: FailureRow | None) -> Problem | None:
    if lag.error_condition is None:
        return None
    if failure is None:
        return Problem(
            condition=lag.error_condition, message=lag.error_message or "", t=lag.error_t
        )
    return Problem(
        condition=failure.condition,
        message=failure.message,
        t=failure.t,
        since=failure.at,
        detail=failure.detail,
        line=failure.line,
        column=failure.column,
        what_to_do=failure.what_to_do,
    )
