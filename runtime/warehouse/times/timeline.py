"""The timeline: which version every source had at every T.

A Delta table whose commits bind new Ts. A commit's metadata lists its bindings, [[T, source id,
version], ...]. Domain metadata, which checkpoints keep, holds every source's newest bound version
and each view's newest refresh by hand ([T, view id, 0] in the bindings). It also holds the first T
of each definition of an altered task, and the newest cutovers (:mod:`ctsql.catalog.cutovers`) with
their T or as closed. So a process that has read T has read all that was bound up to T. Cutting the
log drops commit metadata, so bindings are also written as rows, a hundred commits at a time; other
mints have no data file and no Spark job.

[T-increases] Ts strictly increase, over restarts and over processes that mint at once (the upper of
    the table's write handle is the last T + 1).
[binding-fixed] a binding never changes once committed.
[one-source-per-T] at every T exactly one source moved, by exactly one commit that changes data,
    unless the commits of a transaction or of a tick share it. Commits that change none (OPTIMIZE)
    get no T; the next commit with data skips them.
[T-from-timestamp] T = max(the commit's in-commit timestamp, previous T + 1), in the order of
    in-commit timestamp, then name, then version (:mod:`.timestamp_assignment`).
[intent-first] a transaction over several tables is recorded here as an intent before its first
    commit; the commit that binds all of them removes it (:mod:`.multi_table_commit`).

If another process mints first, its bindings are read and the rest is tried again.
Source: our choice, after differential dataflow's definite collections and in-commit timestamps.
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ctsql.catalog.errors import CtsqlError, broken, error
from ctsql.runtime.log import clock, fault_points as faults
from ctsql.runtime.log.actions import Commit
from ctsql.runtime.log.write_handle import Committed, Output, OutputBatch
from ctsql.runtime.warehouse.stores.location import SYSTEM_TABLE
from ctsql.runtime.warehouse.times.replaced_tables import DAMAGED, NOT_THERE
from ctsql.runtime.warehouse.times.timestamp_assignment import (
    Binding as Binding,
    UnboundCommit as UnboundCommit,
    assign as assign,
    candidates_of,
)

if TYPE_CHECKING:
    from ctsql.runtime.delta.table import DeltaTable, Gateway

NamedTables = Mapping[str, tuple[str, "DeltaTable"]]  # the name and the table of each, by id

APP = "ctsql:timeline"
FRONTIER = "ctsql.frontier"
ARCHIVED = "ctsql.archived"
REQUESTS = "ctsql.refresh_requests"
ARCHIVE_EVERY_COMMITS = 100
CHECKPOINT_EVERY_COMMITS = 97
ARCHIVE_ROWS_MAX = 10_000
ARCHIVE_TRIES_MAX = 5
BINDINGS_KEPT_MAX = 200_000
"""The most bindings in memory, a hundred bytes each; beyond it all are dropped and read again."""
MINT_TRIES_MAX = 1_000
LOOKS_MAX = 3
UNKNOWN_KEPT = 16  # the most bound sources kept that this process has not loaded, the newest ones
TASKS = "ctsql.tasks"
INTENTS = "ctsql.transactions"
CUTOVERS = "ctsql.cutovers"
CUTOVERS_KEPT = 50
"""The most decisions kept; one is needed only until the catalog contains its changes."""
STUCK = "stuck"
"""Key in an intent: the fields of TRANSACTION_STUCK, if the transaction cannot end."""
SCHEMA = "t BIGINT, source STRING, version BIGINT"


@dataclass(frozen=True, slots=True)
class TaskState:
    """The definitions and the suspension of a task that the timeline has bound."""

    # (T, number): from T on (inclusive) that definition is in force; a later entry replaces earlier
    # ones.
    revisions: tuple[tuple[int, int], ...] = ()
    suspended: int | None = None  # the T at which it was suspended; None when it runs

    def revision_at(self, at: int) -> int:
        """The number of the definition in force at a time.

        >>> state = TaskState(((10, 1), (20, 2), (15, 3)))
        >>> [state.revision_at(t) for t in (9, 10, 14, 15, 25)]
        [0, 1, 1, 3, 3]
        """
        return next((n for start, n in reversed(self.revisions) if start <= at), 0)

    def spans(self, after: int, until: int) -> list[tuple[int, int, int]]:
        """(after, until], split where the definition changes: after, until and its number.

        >>> TaskState(((10, 1), (20, 2))).spans(5, 30)
        [(5, 9, 0), (9, 19, 1), (19, 30, 2)]
        >>> TaskState().spans(5, 30)
        [(5, 30, 0)]
        """
        cuts = sorted({start - 1 for start, _ in self.revisions if after < start - 1 < until})
        bounds = [after, *cuts, until]
        return [(a, b, self.revision_at(b)) for a, b in pairwise(bounds) if a < b]


class Timeline:
    """The warehouse's one timeline.

    Attributes:
        table: its Delta table. read_to: its newest version whose bindings were read, or -1.
        intents: transactions that are being committed, by id.
        damaged_sources: those whose logs could not be read when Ts were last bound.
        reload: returns the sources by the newest catalog.
        tasks: the bindings of each task; another mapping once they change.
    """

    def __init__(self, gateway: "Gateway", location: str) -> None:
        self._gateway = gateway
        self.location = location
        self.table = gateway.output_table(location)
        self._output = Output(self.table, APP)
        self.reload: Callable[[], NamedTables] | None = None
        self._forget()

    def _forget(self) -> None:
        self.read_to = -1
        self._read_from = 0  # oldest version taken in, inclusive
        self._known_from = 0  # from this T on (inclusive), every binding is taken in
        self._bindings: dict[str, list[Binding]] = {}
        self._frontier: dict[str, int] = {}
        self._requests: dict[str, int] = {}  # view -> its newest request
        self.tasks: dict[str, TaskState] = {}
        self._cutovers: dict[str, int | None] = {}  # the newest: T, or None for a closed one
        self.intents: dict[str, Any] = {}
        # By source: the newest version read so far, if no commit after the bound one changes data.
        self._no_data_above: dict[str, int] = {}
        self.damaged_sources: set[str] = set()
        self._archive_taken = False

    @staticmethod
    def create(gateway: "Gateway", location: str) -> None:
        """Create the table, unless another process has."""
        properties = {**SYSTEM_TABLE, "delta.checkpointInterval": str(CHECKPOINT_EVERY_COMMITS)}
        gateway.create_table(location, SCHEMA, properties)

    # ---- reading

    @property
    def now(self) -> int:
        """The newest T that this process has read."""
        return self._output.upper - 1

    def refresh(self) -> int:
        """Read what other processes bound; returns the newest T."""
        # One version for both: a newer frontier would hide commits from readers at the returned T.
        if self.read_to < 0:
            newest, domains = self.table.domains()
            while self._output.follow(newest) > newest:
                newest, domains = self.table.domains()
            self._take_in(domains)
            self.read_to, self._read_from = newest, newest + 1
            self._known_from = self.now + 1
            return self.now
        newest = self.table.version()
        self._output.follow(newest)
        is_cleaned_up = newest > self.read_to and not self.table.has(self.read_to + 1)
        is_full = sum(map(len, self._bindings.values())) > BINDINGS_KEPT_MAX
        if is_cleaned_up or is_full:
            self._forget()
            return self.refresh()
        for version in range(self.read_to + 1, newest + 1):
            commit = self.table.commit_at(version)
            for binding in _bindings_of(commit):
                self._bindings.setdefault(binding.source, []).append(binding)
            self._take_in(dict(commit.domains))
            self.read_to = version  # now, so no commit is applied twice
        return self.now

    def _take_in(self, domains: Mapping[str, str | None]) -> None:
        names = (FRONTIER, REQUESTS, INTENTS, TASKS, CUTOVERS)
        decisions = {name: json.loads(text) for name in names if (text := domains.get(name))}
        self._frontier = decisions.get(FRONTIER, self._frontier)
        self._requests = decisions.get(REQUESTS, self._requests)
        self.intents = decisions.get(INTENTS, self.intents)
        self._cutovers = decisions.get(CUTOVERS, self._cutovers)
        if TASKS in decisions:
            self.tasks = {
                task: TaskState(tuple((t, n) for t, n in raw["revisions"]), raw["suspended"])
                for task, raw in decisions[TASKS].items()
            }

    def _scan_back(self, source: str, until: int) -> None:
        """Read older bindings back to the one in force at ``until``.

        If the source has not moved since, its newest bound version is enough.
        """

        def is_known() -> bool:
            bindings = self._bindings.get(source)
            if bindings:
                return bindings[0].time <= until
            return source in self._frontier and self._known_from <= until + 1

        while not is_known() and self._load_older():
            pass

    def _load_older(self) -> bool:
        """Read the bindings of one older commit, or of the archive; False at the beginning."""
        if self._read_from <= 0 or self._archive_taken:
            return False
        if not self.table.has(self._read_from - 1):
            self._load_archived()
            return True
        commit = self.table.commit_at(self._read_from - 1)
        metadata = commit.metadata
        self._read_from -= 1  # after the read: a failed read is repeated
        if "bindings" in metadata or self._read_from == 0:
            self._known_from = int(metadata.get("lower", 0))
        self._put_before(_bindings_of(commit))
        return True

    def _put_before(self, bindings: Iterable[Binding]) -> None:
        """Add bindings that are older than all loaded ones, oldest first."""
        older: dict[str, list[Binding]] = {}
        for binding in bindings:
            older.setdefault(binding.source, []).append(binding)
        for source, group in older.items():
            self._bindings[source] = group + self._bindings.get(source, [])

    def _load_archived(self) -> None:
        """Load older bindings whose commits were cleaned up, some of the table's rows at a time.

        Whole Ts, newest first: from the oldest loaded one on every binding is loaded.
        """
        archive = self.table.frame(self.table.version())
        unknown = archive.where(f"t < {self._known_from}").orderBy("t", ascending=False)
        rows = unknown.limit(ARCHIVE_ROWS_MAX).collect()
        self._archive_taken = len(rows) < ARCHIVE_ROWS_MAX
        if not self._archive_taken:
            oldest = rows[-1]["t"]
            whole = [r for r in rows if r["t"] > oldest]
            rows = whole or archive.where(f"t = {oldest}").collect()
        self._known_from = 0 if self._archive_taken else rows[-1]["t"]
        self._put_before(Binding(r["t"], r["source"], r["version"]) for r in reversed(rows))

    def version_at(self, source: str, at: int) -> int | None:
        """The version a source had at a time; None before its first binding."""
        self._scan_back(source, at)
        bindings = self._bindings.get(source, [])
        index = bisect_right(bindings, at, key=lambda b: b.time)
        if index:
            return bindings[index - 1].version
        has_not_moved = not bindings and self._known_from <= at + 1
        return self._frontier.get(source) if has_not_moved else None

    def bindings_between(self, source: str, after: int, until: int) -> list[Binding]:
        """The bindings of a source with after < T <= until, oldest first."""
        self._scan_back(source, after)
        return _between(self._bindings.get(source, []), after, until)

    def requests(self, view: str, *, after: int, until: int) -> list[int]:
        """The times with after < T <= until at which a view was refreshed by hand."""
        newest = self._requests.get(view, -1)
        if newest <= after:
            return []
        while self._known_from > after + 1 and self._load_older():
            pass
        return [b.time for b in _between(self._bindings.get(view, []), after, until)]

    def task(self, task: str) -> TaskState:
        """The bound state of a task, as last read."""
        return self.tasks.get(task, TaskState())

    def suspended(self) -> list[str]:
        """The suspended tasks, as last read, dropped ones included."""
        return [task for task, state in self.tasks.items() if state.suspended is not None]

    # ---- minting

    def mint(
        self,
        sources: NamedTables,
        *,
        fresh: bool = False,
        request: str | None = None,
        tasks: Mapping[str, Callable[[TaskState, int], TaskState]] | None = None,
        cutover: str | None = None,
        tick_ms: int = 0,
    ) -> int:
        """Bind every new commit; returns the newest T.

        The commits of a transaction that is being committed wait, and so do later ones.

        Args:
            sources: source id to (name, table). All sources of the warehouse must be given, or an
                earlier commit of one left out would get a later T.
            fresh: make a new T, not before the clock's time, even when no source has moved.
            request, tasks, cutover: bound to that new T: the refresh of this view, the new states
                of these tasks, the definitions of this cutover.
            tick_ms: the length of the intervals whose commits share a T; 0 for none.

        Raises:
            DEFINITIONS_CHANGED: another process has closed the cutover; nothing is bound.
        """
        for _ in range(MINT_TRIES_MAX):
            self.refresh()
            to_come = {s for intent in self.intents.values() for s in intent["tables"]}
            if self.reload is not None and not to_come <= sources.keys():
                sources = self.reload()  # a source was created after the catalog was read
            candidates = _look_for_candidates(self, sources)
            if cutover in self._cutovers:
                raise error("DEFINITIONS_CHANGED")
            fresh = fresh or request is not None or bool(tasks) or cutover is not None
            waiting = {g: frozenset(i["tables"]) & sources.keys() for g, i in self.intents.items()}
            bindings = assign(candidates, self.now, waiting=waiting, tick_ms=tick_ms)
            if not bindings and self.now >= 0 and not fresh:
                return self.now
            batch = self._output.open(self._output.upper)
            if not isinstance(batch, OutputBatch):
                continue
            # The first T of a warehouse binds nothing: it is a time to create objects at.
            newest = bindings[-1].time if bindings else self.now
            if fresh or not bindings:
                newest = max(clock.now_ms(), newest + 1)
            self._move_frontier(batch, bindings, candidates, sources)
            if request is not None:
                bindings.append(Binding(newest, request, 0))
                batch.domains[REQUESTS] = json.dumps({**self._requests, request: newest})
            if tasks:
                new_states = {t: change(self.task(t), newest) for t, change in tasks.items()}
                states = {**self.tasks, **new_states}
                batch.domains[TASKS] = json.dumps({t: asdict(s) for t, s in states.items()})
            if cutover is not None:
                batch.domains[CUTOVERS] = _with_decision(self._cutovers, cutover, newest)
            metadata = {"bindings": [[b.time, b.source, b.version] for b in bindings]}
            outcome = self._output.compare_and_append(
                [batch], expected=batch.lower, new=newest + 1, metadata=metadata
            )
            if isinstance(outcome, Committed):
                faults.point("timeline_committed")
                self.refresh()
                if outcome.version % ARCHIVE_EVERY_COMMITS == 0:
                    self.archive()
                return newest
        raise _never_first()

    def _move_frontier(
        self,
        batch: OutputBatch,
        bindings: Sequence[Binding],
        candidates: Sequence[UnboundCommit],
        sources: Collection[str],
    ) -> None:
        """Record how far each source is bound, and remove the intents of bound transactions.

        Sources that this process has not loaded were dropped, or just created by another process.
        """
        newest = {**self._frontier, **{b.source: b.version for b in bindings}}
        others = [source for source in newest if source not in sources]
        dropped_sources = set(others[: max(len(others) - UNKNOWN_KEPT, 0)])
        frontier = {source: v for source, v in newest.items() if source not in dropped_sources}
        batch.domains[FRONTIER] = json.dumps(frontier)
        bound = {c.group for c in candidates if c.version <= frontier.get(c.source, -1)}
        if bound & self.intents.keys():
            intents = {group: i for group, i in self.intents.items() if group not in bound}
            batch.domains[INTENTS] = json.dumps(intents)

    def decided(self, cutover: str) -> int | None:
        """The T from which a cutover is in force; None if it is unbound or closed."""
        self.refresh()
        return self._cutovers.get(cutover)

    def close(self, cutover: str) -> int | None:
        """Close a cutover that is not in force; returns the T from which it is, if it is."""

        def decide() -> str | None:
            is_known = cutover in self._cutovers
            return None if is_known else _with_decision(self._cutovers, cutover, None)

        return None if self.record(CUTOVERS, decide) else self._cutovers[cutover]

    def record(self, domain: str, text: Callable[[], str | None]) -> bool:
        """Store a text in a domain at a new T; False if the function returns None.

        The function reads the timeline's state, and is called again if another process was first.
        It may raise. What it checked on the timeline still holds at the commit.
        """
        for _ in range(MINT_TRIES_MAX):
            self.refresh()
            batch = self._output.open(self._output.upper)
            if not isinstance(batch, OutputBatch):
                continue
            configuration = text()
            if configuration is None:
                return False
            batch.domains[domain] = configuration
            newest = max(clock.now_ms(), self.now + 1)
            outcome = self._output.compare_and_append(
                [batch], expected=batch.lower, new=newest + 1, metadata={"bindings": []}
            )
            if isinstance(outcome, Committed):
                self.refresh()
                return True
        raise _never_first()

    def unbound(self, source: str, name: str, table: "DeltaTable") -> list[UnboundCommit]:
        """The commits of a source that change data and have no T.

        The oldest commit left includes the changes of commits removed by a log cleanup. Raises
        STORED_DATA_INVALID if a commit cannot be read, or is missing before others.
        """
        bound = self._frontier.get(source)
        start = max(-1 if bound is None else bound, self._no_data_above.get(source, -1))
        try:
            if bound is None:
                version = table.version()
                time_ms = clock.commit_ms(table.commit_at(version).time_ms)
                return [UnboundCommit(time_ms, name, version, source)]
            table.check_same()
            first: int | None = start + 1
            if not table.has(start + 1):
                first = table.oldest_kept_after(start)
            if first is None:
                return []
            newest = table.version()
        except CtsqlError as problem:
            if problem.condition not in NOT_THERE:
                raise
            return []  # its readers get the error; other sources continue
        try:
            commits = [table.commit_at(v) for v in range(first, newest + 1)]
        except CtsqlError as problem:
            if problem.condition == "HISTORY_LOST":
                table.check_whole()  # else it was cleaned up while it was read
            raise
        reshaping = [c.version for c in commits if table.reshapes(c.version)]
        if first > start + 1:
            reshaping.append(first)
        candidates = candidates_of(source, name, commits, reshaping)
        if not candidates:
            self._no_data_above[source] = newest
        return [replace(c, time_ms=clock.commit_ms(c.time_ms)) for c in candidates]

    def bound(self, source: str) -> int | None:
        """The newest version of a source that has a T, as last read."""
        return self._frontier.get(source)

    @property
    def archived_to(self) -> int:
        """The version through which bindings are also stored as rows; -1 if none are."""
        return int(json.loads(self.table.domains()[1].get(ARCHIVED, "-1")))

    def archive(self) -> None:
        """Write the bindings of all commits as rows, so their log files may be removed.

        Nothing is written if another process has done so.
        """
        for _ in range(ARCHIVE_TRIES_MAX):
            self.refresh()
            if next(_unarchived(self.table, self.archived_to, self.read_to), None) is None:
                return
            # First: a later archive of another process makes this commit fail; no row is doubled.
            batch = self._output.open(self._output.upper)
            if not isinstance(batch, OutputBatch):
                continue
            version = batch.version_read
            rows = list(_unarchived(self.table, self.archived_to, version))
            if not rows:
                batch.discard()
                return
            batch.at(self._output.upper).stage(self._gateway.rows_of(rows, SCHEMA))
            batch.domains[ARCHIVED] = json.dumps(version)
            if isinstance(
                self._output.compare_and_append([batch], expected=batch.lower, new=None), Committed
            ):
                return
        # Other processes minted each time; the writer of the next hundredth commit adds these rows.
        self.refresh()

    def first_time(self, source: str) -> int | None:
        """The first T of a source; None if it has none yet."""
        self._scan_back(source, -1)
        bindings = self._bindings.get(source)
        return bindings[0].time if bindings else None


def _unarchived(
    table: "DeltaTable", archived_to: int, version: int
) -> Iterator[tuple[int, str, int]]:
    """The bindings of the commits archived_to + 1 .. version that still exist, as rows."""
    for v in range(archived_to + 1, version + 1):
        for b in _bindings_of(table.commit_at(v)) if table.has(v) else ():
            yield b.time, b.source, b.version


def _between(bindings: Sequence[Binding], after: int, until: int) -> list[Binding]:
    first, stop = (bisect_right(bindings, t, key=lambda b: b.time) for t in (after, until))
    return list(bindings[first:stop])


def check_not_stuck(timeline: Timeline, source: str) -> None:
    """Raise TRANSACTION_STUCK if a transaction that changes a source cannot end."""
    stuck = _stuck_transaction(timeline, source)
    if stuck is not None:
        raise error(
            "TRANSACTION_STUCK", table=stuck["table"], detail=stuck["detail"], hint=stuck["hint"]
        )


def is_stuck(timeline: Timeline, source: str) -> bool:
    """Whether a transaction that changes a source has not ended; the caller tries again."""
    return _stuck_transaction(timeline, source) is not None


def _stuck_transaction(timeline: Timeline, source: str) -> Mapping[str, str] | None:
    intents = timeline.intents.values()
    return next((i[STUCK] for i in intents if source in i["tables"] and STUCK in i), None)


def _look_for_candidates(timeline: Timeline, sources: NamedTables) -> list[UnboundCommit]:
    """The commits to bind.

    Sources are polled one after the other, so of two commits made meanwhile only the later one may
    be found, and would get the earlier T. Then they are polled again, a bounded number of times:
    clocks of other writers may be behind.
    """
    candidates: list[UnboundCommit] = []
    for _ in range(LOOKS_MAX):
        begun_ms = clock.now_ms()
        candidates = [
            c
            for source, (name, table) in sources.items()
            for c in _bindable(timeline, source, name, table)
        ]
        if all(c.time_ms < begun_ms for c in candidates):
            break
    return candidates


def _bindable(
    timeline: Timeline, source: str, name: str, table: "DeltaTable"
) -> list[UnboundCommit]:
    """The commits of a source to bind: none while its log is damaged.

    Its readers get an error (:func:`ctsql.runtime.warehouse.table_checks.check_tables`); other
    objects continue. The commits get Ts when the log is repaired.
    """
    try:
        candidates = timeline.unbound(source, name, table)
    except CtsqlError as problem:
        if problem.condition != DAMAGED:
            raise
        timeline.damaged_sources.add(source)
        return []
    timeline.damaged_sources.discard(source)
    return candidates


def _with_decision(decisions: Mapping[str, int | None], cutover: str, at: int | None) -> str:
    newest = [*decisions.items(), (cutover, at)][-CUTOVERS_KEPT:]
    return json.dumps(dict(newest))


def _bindings_of(commit: Commit) -> list[Binding]:
    return [Binding(int(t), str(s), int(v)) for t, s, v in commit.metadata.get("bindings", [])]


def _never_first() -> CtsqlError:
    detail = f"{MINT_TRIES_MAX} tries were lost."
    return broken("one process wins each race to bind times", detail)
