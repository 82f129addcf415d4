"""A run: several processes on one warehouse in memory, with faults, all drawn from one seed.

Each process is the engine as it is (:class:`ctsql.runtime.engine.Engine` with its sinks, its
timeline, its write handles and its catalog) on the store of :mod:`tests.simulation.memory_log`.
At every call to the store a process may be killed, be told an error, or have to wait while others
go on and while the environment acts. After a kill it starts anew with nothing but the store.

The model checks every commit and every deletion when it happens, every read, every outcome that
the write handle tells, that cached uppers never go back, and after every statement that no staged
file is left. At the end the faults stop, everything is brought up, and all contents are compared.
"""

import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item, ObjectKind
from ctsql.runtime import clock, timeline
from ctsql.runtime.commits import Commit
from ctsql.runtime.committing import Commits, Committed, Disturbed, Outcome
from ctsql.runtime.delta_catalog import FORMAT, FORMAT_PROPERTY, DeltaCatalog
from ctsql.runtime.engine import Engine
from ctsql.runtime.objects import Objects
from ctsql.runtime.sources import StoredSources
from ctsql.runtime.timeline import ARCHIVED, Timeline
from ctsql.runtime.write_handle import Output
from tests.simulation import world
from tests.simulation.environment import Environment
from tests.simulation.marks import MARKS
from tests.simulation.memory_log import MemoryGateway
from tests.simulation.memory_store import Fate, Folder, Killed, Sent, Store
from tests.simulation.model import CATALOG, TIMELINE, Model, require
from tests.simulation.scheduler import Scheduler

ARCHIVE_ROWS_MAX = 3
TRACE_MAX = 400
FALLIBLE = ("has", "update", "commit_at", "read", "stage", "delete", "begin")
EXPECTED = ("STORAGE_ERROR", "COMMIT_UNKNOWN", "TASK_FAILED", "VIEW_FAILED", "TASK_NOT_FAILED")


class MemoryEngine(Engine):
    """The engine on a warehouse in memory, opened by one process."""

    def __init__(self, store: Store, link: "Process") -> None:
        gateway: Any = MemoryGateway(store, link)
        self._memory = gateway
        super().__init__(gateway.session, "memory")

    def _open(self) -> None:
        """Open the warehouse, which is there already."""
        self.gateway = self._memory
        self.warehouse = self._given
        self.catalog_store = DeltaCatalog(self.gateway, CATALOG, self._given)
        self.timeline = Timeline(self.gateway, TIMELINE)
        self.objects = Objects(self.gateway, self.timeline)

    def outputs(self) -> Iterator[Output]:
        """Every write handle there is."""
        yield self.timeline._output
        yield self.catalog_store._output
        yield from self.objects._outputs.values()


@dataclass
class Process:
    """One process: its engine, its way to the store, and what it may be blamed for."""

    simulation: "Simulation"
    number: int
    lives: int = 0
    name: str = ""
    dead: bool = False
    calm: bool = True
    engine: MemoryEngine | None = None
    seen: dict[str, int] = field(default_factory=dict)
    fates: list[Fate] = field(default_factory=list)
    excused: set[str] = field(default_factory=set)
    doing: str = ""
    cleaned: int = 0

    # ---- the link to the store

    def step(self, call: str, where: str) -> None:
        """Before every call to the store."""
        simulation = self.simulation
        if self.dead:
            raise Killed
        if self.calm:
            return
        simulation.pause(self)
        simulation.note(self.name, self.doing, call, where)
        rng = simulation.rng
        if rng.random() < simulation.kills:
            self._die(call)
        if call in FALLIBLE and rng.random() < simulation.errors:
            if call == "delete":
                self.excused.add(self.name)
            simulation.note(self.name, "told an error")
            raise error("STORAGE_ERROR", message="the store failed", detail=call, hint="")

    def fate(self, *, rows: bool) -> Fate:
        """What becomes of a commit."""
        rng = self.simulation.rng
        fate = Fate.ANSWERED
        if not self.calm and rng.random() < self.simulation.lost:
            fates = [Fate.REFUSED, Fate.LOST]
            fate = rng.choice([*fates, Fate.LATE] if self.simulation.store.answers_late else fates)
        self.fates.append(fate)
        self.simulation.note(self.name, "commit", fate.name)
        return fate

    def noted(self, what: str, *, rows: bool | None = None) -> None:
        """Something rare happened; to a commit with or without rows."""
        if what == "ConcurrentTransaction":
            what = f"{what} {'with' if rows else 'without'} rows"
        self.simulation.mark(what)

    def _die(self, call: str) -> None:
        self.dead = True
        self.simulation.note(self.name, "killed at", call)
        if call == "answer":
            self.simulation.mark("killed between a commit and its answer")
        elif any(f.owners.get(u) == self.name for f, u in self.simulation.unnamed()):
            self.simulation.mark("killed between staging and commit")
        raise Killed

    # ---- its life

    def start(self) -> MemoryEngine:
        """Start anew with nothing but the store."""
        self.stop()
        self.lives += 1
        self.name = f"p{self.number}.{self.lives}"
        self.dead = False
        self.seen.clear()
        self.engine = None
        engine = MemoryEngine(self.simulation.store, self)
        self.engine = engine
        return engine

    def stop(self) -> None:
        """End, with or without files that wait."""
        if self.waiting():
            self.excused.add(self.name)
        self.engine = None

    def live(self, statements: int) -> None:
        """Run statements, whatever befalls it."""
        rng = self.simulation.rng
        engine: MemoryEngine | None = None
        for _ in range(statements):
            self.fates.clear()
            self.doing = "start"
            self.cleaned = self.simulation.cleaned
            try:
                if engine is None or rng.random() < 0.05:
                    engine = self.start()
                self.statement(engine)
            except Killed:
                self.excused.add(self.name)
                self.stop()
                engine = None
            except CtsqlError as problem:
                self._explained(problem)
            self.check()

    def statement(self, engine: MemoryEngine) -> None:
        """Run one statement."""
        rng = self.simulation.rng
        what: Callable[[MemoryEngine], None] = rng.choices(
            (self.tick, self.read, self.full, self.mend), (8, 4, 3, 2)
        )[0]
        self.doing = what.__name__
        what(engine)

    def tick(self, engine: MemoryEngine) -> None:
        """What ``ctsql run`` does: mint, then each object after what it reads."""
        until = engine.mint()
        failed: set[str] = set()
        for item in engine.catalog.closure(list(engine.catalog.items)):
            if failed & {r.object_id for r in item.reads}:
                failed.add(item.id)
                continue
            try:
                engine.advance_one(item, until)
            except CtsqlError as problem:
                failed.add(item.id)
                self._explained(problem)

    def read(self, engine: MemoryEngine) -> None:
        """A strict read of one object."""
        model = self.simulation.model
        since = model.newest_moves()
        engine.refresh_catalog()
        item = self._any(engine, lambda _: True)
        assert item is not None
        foreign = model.foreign.get(item.id)
        at = engine.read_time([item])
        rows: Any = StoredSources(engine.objects).contents(item.id, at)
        model.check_read(item.id, at, rows.bag(), since, foreign)

    def full(self, engine: MemoryEngine) -> None:
        """REFRESH MATERIALIZED VIEW ... FULL."""
        engine.refresh_catalog()
        view = self._any(engine, lambda i: i.kind is ObjectKind.MATERIALIZED_VIEW)
        if view is not None:
            engine.refresh_view(view, full=True)

    def mend(self, engine: MemoryEngine) -> None:
        """ALTER CONTINUAL TASK ... RETRY or SKIP."""
        engine.refresh_catalog()
        task = self._any(
            engine, lambda i: i.kind is ObjectKind.CONTINUAL_TASK and engine.failure(i) is not None
        )
        if task is None:
            return
        if self.simulation.rng.random() < 0.5:
            engine.retry_failed(task)
        else:
            engine.skip_failed(task)

    def _any(self, engine: MemoryEngine, wanted: Callable[[Item], bool]) -> Item | None:
        found = [i for i in engine.catalog if wanted(i)]
        return self.simulation.rng.choice(found) if found else None

    def _explained(self, problem: CtsqlError) -> None:
        """An error must be one that the faults or the data explain."""
        # Old commits may go while somebody looks back at them; the next look knows it.
        cleaned = problem.condition == "HISTORY_LOST" and self.cleaned != self.simulation.cleaned
        if cleaned:
            self.simulation.mark("old commits went while somebody looked at them")
            return
        require(problem.condition in EXPECTED, "an error nobody asked for", self.doing, problem)
        if problem.condition == "COMMIT_UNKNOWN":
            self.excused.add(self.name)
            self.simulation.mark("an outcome stayed unknown")
        if problem.condition == "TASK_FAILED":
            name, time = str(problem.given["name"]), int(str(problem.given["time"]))
            require(
                self.simulation.model._fails(name, time) or self._passed(name, time),
                "fails",
                problem,
            )
        if self.calm:
            require(problem.condition.endswith("FAILED"), "an error without a fault", problem)

    def _passed(self, name: str, time: int) -> bool:
        return time in self.simulation.model.skipped.get(name, ())

    # ---- what must hold of it

    def outcome(self, location: str, outcome: Outcome, before: int) -> None:
        """What the write handle says of a commit is so."""
        folder = self.simulation.store.folders[location]
        # One of an earlier write of this process, told as failed, may have arrived meanwhile.
        new = [(v, folder.sent[v]) for v in range(before, len(folder.sent))]
        own = [v for v, sent in new if sent.by == self.name and not sent.was_late]
        if isinstance(outcome, Committed):
            is_own = folder.sent[outcome.version].by == self.name
            is_only = own in ([], [outcome.version])
            require(is_own and is_only, "told a commit that is none", location, own, outcome)
            if self.fates[-1] is Fate.LOST:
                self.simulation.mark("a lost answer was resolved as committed")
        else:
            require(own == [], "told a loss of what is in", location, own, outcome)
            if isinstance(outcome, Disturbed):
                self.simulation.mark("disturbed by a commit without an upper")

    def uppers(self) -> None:
        """Cached uppers never go back and are never ahead of the log."""
        if self.engine is None:
            return
        for output in self.engine.outputs():
            known = self.seen.get(output.app, 0)
            upper = output.upper
            if upper == known:
                continue
            require(upper > known, "I1: a cached upper goes back", self.name, known, upper)
            newest = self.simulation.model.uppers.get(output.app, 0)
            require(
                upper <= newest, "a cached upper is ahead of the log", output.app, upper, newest
            )
            self.seen[output.app] = upper

    def waiting(self) -> set[str]:
        """Files kept until the log says whether the commit that may hold them is in."""
        outputs = () if self.engine is None else self.engine.outputs()
        return {file for o in outputs for commit in o._commits._unresolved for file in commit.files}

    def check(self) -> None:
        """After a statement: nothing staged is left unless something excuses it."""
        if self.name in self.excused:
            return
        waiting = self.waiting()
        for folder, path in self.simulation.unnamed():
            require(
                folder.owners.get(path) != self.name or path in waiting | self.simulation.untold,
                "I3: a staged file is left",
                folder.location,
                path,
                self.doing,
                self.fates,
            )


class Simulation:
    """One run; :meth:`run` raises what is wrong with it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = rng = random.Random(seed)
        self.store = Store()
        self.marks: set[str] = set()
        self.model = Model(self.store)
        self.model.marks = self.marks
        self.store.on_commit = self._committed
        self.store.on_delete = self.model.on_delete
        self.environment = Environment(self.store, rng, self.mark)
        self.store.answers_late = rng.random() < 0.5
        # First how much of everything, then what and when: so that some runs have one kind only.
        self.kills = rng.choice((0.0, 0.002, 0.01))
        self.errors = rng.choice((0.0, 0.0, 0.002, 0.01))
        self.lost = rng.choice((0.0, 0.05, 0.3))
        self.acts = rng.choice((0.02, 0.05, 0.15))
        self.acts_left = rng.randint(10, 60)
        self.archive_every = rng.choice((3, 10, 100))
        self.scheduler = Scheduler(rng, rng.choice((0.05, 0.2, 0.5)))
        self.processes = [Process(self, n) for n in range(rng.choice((1, 2, 2, 3)))]
        self.statements = rng.randint(4, 12)
        self.steps = 0
        self.untold: set[str] = set()
        self.trace: deque[str] = deque(maxlen=TRACE_MAX)

    @property
    def cleaned(self) -> int:
        """How often a log was cleaned up."""
        return self.environment.cleaned

    def note(self, *what: object) -> None:
        """Keep what happened, for whoever looks into a failure."""
        self.trace.append(" ".join(map(str, what)))

    def mark(self, what: str) -> None:
        """Note that a rare branch was taken."""
        if what not in MARKS:
            raise KeyError(f"{what!r} is not in the table of marks")
        self.marks.add(what)

    def _committed(self, folder: Folder, commit: Commit, sent: Sent) -> None:
        upper = dict(commit.transactions)
        self.note(sent.by, "committed", folder.location, commit.version, *upper.values())
        self.model.on_commit(folder, commit, sent)

    def unnamed(self) -> Iterator[tuple[Any, str]]:
        """Files that no commit names."""
        for folder in self.store.folders.values():
            for path in folder.unnamed():
                yield folder, path

    def pause(self, process: Process) -> None:
        """Between two calls of a process: the environment acts, other processes run."""
        self.steps += 1
        process.uppers()
        if self.rng.random() < self.acts and self.acts_left:
            self.acts_left -= 1  # or the sources might grow faster than anybody can follow
            self.environment.act()
        self.scheduler.pause(f"p{process.number}")

    def run(self) -> None:
        """Set up, run with faults, stop the faults, compare."""
        with self._patched():
            self._set_up()
            for process in self.processes:
                process.calm = False
                self.scheduler.add(f"p{process.number}", lambda p=process: p.live(self.statements))  # type: ignore[misc]
            self.scheduler.run()
            self._finish()
        unknown = self.marks - set(MARKS)
        require(not unknown, "marks that are not in their table", unknown)

    def _set_up(self) -> None:
        store, model, environment = self.store, self.model, self.environment
        store.make(TIMELINE)
        store.make(CATALOG, **{FORMAT_PROPERTY: str(FORMAT)})
        for source in world.SOURCES:
            store.make(source)
        process = Process(self, 99)
        engine = process.start()
        for name in world.chosen(self.rng):
            for _ in range(self.rng.randint(0, 3)):
                environment.insert()
            created = 0
            if name not in world.SOURCES:
                store.make(name)
                created = model.created[name] = engine.mint()
            item = world.item(name, created)
            engine.catalog_store.change(lambda c, i=item: c.with_item(i))  # type: ignore[misc]
        environment.outputs = list(model.created)
        environment.unfollowed_views = [
            n
            for n in model.created
            if isinstance(world.DEFINED[n], world.View) and not model.is_followed(n)
        ]
        environment.passed = self._passed
        environment.on_clean = self._cleaned_up

    def _passed(self, location: str) -> int:
        """The version of a log below which no process needs it."""
        passed = self.store.folders[location].newest
        if location == TIMELINE:
            folder = self.store.folders[TIMELINE]
            archived = [dict(c.domains).get(ARCHIVED) for c in folder.parsed]
            passed = max((int(a) + 1 for a in archived if a is not None), default=0)
        for process in self.processes:
            if process.engine is not None:
                for output in process.engine.outputs():
                    looked_to = output.uppers._looked_to
                    if output.table.location == location and looked_to is not None:
                        passed = min(passed, looked_to)
                if location == TIMELINE:
                    passed = min(passed, max(process.engine.timeline.read_to, 0))
        return passed

    def _cleaned_up(self, location: str, before: int) -> None:
        """Where the log is gone that would tell of a lost answer, the files may have to stay."""
        for process in self.processes:
            for output in process.engine.outputs() if process.engine is not None else ():
                for commit in output._commits._unresolved:
                    if output.table.location == location and commit.version_read + 1 < before:
                        self.untold |= commit.files
                        self.mark("the log that would tell of a lost answer went")

    def _finish(self) -> None:
        environment, model = self.environment, self.model
        for process in self.processes:
            process.stop()
        while any(f.late for f in self.store.folders.values()):
            environment.arrive()
        last = Process(self, 98)
        engine = last.start()
        engine.mint()
        engine.mint_fresh()
        last.tick(engine)
        for name in model.created:
            model.check_complete(name)
        excused = {name for p in self.processes for name in p.excused}
        for folder, path in self.unnamed():
            owner = folder.owners[path]
            require(
                owner in excused or path in self.untold,
                "I3: a file that nobody answers for",
                folder.location,
                path,
                owner,
            )

    def _now_ms(self) -> int:
        return self.store.clock_ms

    @contextmanager
    def _patched(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(world.without_spark())
            stack.enter_context(mock.patch.object(clock, "now_ms", self._now_ms))
            stack.enter_context(
                mock.patch.object(timeline, "ARCHIVE_EVERY_COMMITS", self.archive_every)
            )
            stack.enter_context(mock.patch.object(timeline, "ARCHIVE_ROWS_MAX", ARCHIVE_ROWS_MAX))
            stack.enter_context(mock.patch.object(Commits, "commit", _watched(Commits.commit)))
            yield


def _watched(commit: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """The write handle's commit, its outcome checked."""

    def watched(commits: Commits, *given: Any) -> Outcome:
        table: Any = commits.table
        before = len(table.folder.sent)
        outcome = commit(commits, *given)
        table.gateway.link.outcome(table.location, outcome, before)
        return outcome

    return watched


def replay(seed: int) -> set[str]:
    """Run a seed; gives the marks it hit, and raises what is wrong with the seed in the text."""
    simulation = Simulation(seed)
    try:
        simulation.run()
    except Exception as problem:
        problem.add_note("\n".join(["The last steps:", *simulation.trace]))
        problem.add_note(f"seed {seed}: replay with tests.simulation.simulation.replay({seed})")
        raise
    return simulation.marks
