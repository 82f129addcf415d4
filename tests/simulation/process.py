"""One process of a run: its engine, its way to the store, and what it may be blamed for."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from ctsql.catalog.dependencies import closure, outputs_of
from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item, ObjectKind
from ctsql.runtime.engine import Engine
from ctsql.runtime.log.write_handle import CommitOutcome, Committed, Disturbed, Entry, Output
from ctsql.runtime.statements.objects import refresh_view
from ctsql.runtime.statements.objects.failed_task import retry_failed, skip_failed
from ctsql.runtime.tasks.progress import failure_of
from ctsql.runtime.warehouse.advance_context import AdvanceContext
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.runtime.warehouse.stores.catalog_store import DeltaCatalog
from ctsql.runtime.warehouse.warehouse import Warehouse
from tests.simulation.memory_log import MemoryGateway
from tests.simulation.memory_store import Fate, Kill, Store
from tests.simulation.model import CATALOG, TIMELINE, require
from tests.simulation.model_engine import ModelEngine

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

FALLIBLE = ("has", "update", "commit_at", "read", "stage", "delete", "begin")
EXPECTED = ("STORAGE_ERROR", "COMMIT_UNKNOWN", "TASK_FAILED", "VIEW_FAILED", "TASK_NOT_FAILED")


class MemoryEngine(Engine):
    """The engine on a warehouse in memory, opened by one process."""

    def __init__(self, store: Store, link: "Process", queries: ModelEngine) -> None:
        gateway: Any = MemoryGateway(store, link)
        self._memory, model = gateway, cast("Any", queries)
        super().__init__(gateway.session, "memory", queries=model)

    def _open(self) -> None:
        """Open the warehouse, which is there already."""
        self.gateway = self._memory
        self.location = self._warehouse_path
        self.catalog_store = DeltaCatalog(self.gateway, CATALOG, self._warehouse_path)
        self._use(Warehouse.over(self.gateway, TIMELINE, self.queries))

    def outputs(self) -> Iterator[Output]:
        yield self.timeline._output
        yield self.catalog_store._output
        yield from self.relations._outputs.values()
        yield from self.relations.states.values()


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
    known_uppers: dict[str, int] = field(default_factory=dict)
    fates: list[Fate] = field(default_factory=list)
    excused_names: set[str] = field(default_factory=set)
    doing: str = ""
    clean_count: int = 0
    moves: list[tuple[str, Entry]] = field(default_factory=list)

    # ---- the link to the store

    def step(self, call: str, where: str) -> None:
        simulation = self.simulation
        if self.dead:
            raise Kill
        if self.calm:
            return
        simulation.pause(self)
        simulation.note(self.name, self.doing, call, where)
        rng = simulation.rng
        if rng.random() < simulation.kills:
            self._die(call)
        if call in FALLIBLE and rng.random() < simulation.errors:
            if call == "delete":
                self.excused_names.add(self.name)
            simulation.note(self.name, "told an error")
            raise error("STORAGE_ERROR", message="the store failed", detail=call, hint="")

    def fate(self, *, rows: bool) -> Fate:
        rng = self.simulation.rng
        fate = Fate.ANSWERED
        if not self.calm and rng.random() < self.simulation.loss_rate:
            fates = [Fate.REFUSED, Fate.LOST]
            fate = rng.choice([*fates, Fate.LATE] if self.simulation.store.answers_late else fates)
        self.fates.append(fate)
        self.simulation.note(self.name, "commit", fate.name)
        return fate

    def noted(self, what: str, *, rows: bool | None = None) -> None:
        if what == "ConcurrentTransaction":
            what = f"{what} {'with' if rows else 'without'} rows"
        self.simulation.mark(what)

    def _die(self, call: str) -> None:
        self.dead = True
        self.simulation.note(self.name, "killed at", call)
        if self.simulation.model.is_halfway(self.name):
            self.simulation.mark("killed between the commits of two outputs")
        if call == "answer":
            self.simulation.mark("killed between a commit and its answer")
        elif any(f.owners.get(u) == self.name for f, u in self.simulation.unnamed()):
            self.simulation.mark("killed between staging and commit")
        raise Kill

    # ---- its life

    def start(self) -> MemoryEngine:
        """Start anew with nothing but the store."""
        self.stop()
        self.lives += 1
        self.name = f"p{self.number}.{self.lives}"
        self.dead = False
        self.known_uppers.clear()
        self.engine = None
        engine = MemoryEngine(self.simulation.store, self, self.simulation.queries)
        self.engine = engine
        return engine

    def stop(self) -> None:
        """End, with or without files that wait."""
        if self.waiting():
            self.excused_names.add(self.name)
        self.engine = None

    def live(self, statements: int) -> None:
        """Run statements, whatever befalls it."""
        rng = self.simulation.rng
        engine: MemoryEngine | None = None
        for _ in range(statements):
            self.fates.clear()
            self.doing = "start"
            self.clean_count = self.simulation.clean_count
            try:
                if engine is None or rng.random() < 0.05:
                    engine = self.start()
                self.statement(engine)
            except Kill:
                self.excused_names.add(self.name)
                self.stop()
                engine = None
            except CtsqlError as problem:
                self._explained(problem)
            self.check()

    def statement(self, engine: MemoryEngine) -> None:
        rng = self.simulation.rng
        statements = [self.tick, self.read, self.past, self.full, self.mend]
        weights = [8, 4, 2, 3, 2]
        if any(i.outputs for i in engine.catalog_store.load()):
            statements.append(self.read_stored)
            weights.append(4)
        what: Callable[[MemoryEngine], None] = rng.choices(statements, weights)[0]
        self.doing = what.__name__
        what(engine)

    def tick(self, engine: MemoryEngine) -> None:
        """What ``ctsql run`` does: mint, then each object after what it reads."""
        until = engine.mint()
        failed: set[str] = set()
        outputs = {i.location for i in engine.catalog}  # a state table is none
        for item in closure(engine.catalog, list(engine.catalog.items)):
            if failed & {r.object_id for r in item.reads}:
                failed.add(item.id)
                continue
            reported: list[tuple[str, Entry]] = []
            self.moves.clear()
            try:
                engine.advance_one(item, until, context=_reporting(engine, reported))
            except CtsqlError as problem:
                failed.add(item.id)
                self._explained(problem)
            moved = [m for m in self.moves if m[0] in outputs]
            require(reported == moved, "commits are not reported", reported, moved)

    def read(self, engine: MemoryEngine) -> None:
        model = self.simulation.model
        since = model.newest_moves()
        engine.refresh_catalog()
        item = self._any(engine, lambda i: i.location is not None)
        assert item is not None
        foreign = model.foreign.get(item.id)
        at = engine.advance_to_read([item])
        rows: Any = StoredSources(engine.warehouse).contents(item.id, at)
        model.check_read(item.id, at, rows.bag(), since, foreign)

    def past(self, engine: MemoryEngine) -> None:
        """A read of a task's output AS OF a T at which it was complete."""
        engine.timeline.refresh()
        engine.refresh_catalog()
        item = self._any(engine, lambda i: i.kind is ObjectKind.CONTINUAL_TASK and not i.outputs)
        if item is None:
            return
        complete = min(engine.versions.stored_upper(item) - 1, engine.timeline.now)
        times = [t for t in self.simulation.model.times if item.created_at <= t <= complete]
        if not times:
            return
        at = self.simulation.rng.choice(times)
        try:
            rows: Any = StoredSources(engine.warehouse).contents(item.id, at)
        except CtsqlError as problem:
            if problem.condition != "HISTORY_LOST":
                raise
            return  # its log was cleaned up
        self.simulation.model.check_past(item.id, at, rows.bag())

    def read_stored(self, engine: MemoryEngine) -> None:
        """A read of what is stored of all outputs of a task, at one T, without waiting."""
        engine.refresh_catalog()
        task = self._any(engine, lambda i: bool(i.outputs))
        # A task is written before it exists; here it exists first.
        if task is None or engine.relations.output(task).fetch_recent_upper() <= task.created_at:
            return
        outputs = outputs_of(engine.catalog, task)
        at = engine.advance_to_read(outputs, strict=False)
        if at >= task.created_at:
            for item in outputs:
                rows: Any = StoredSources(engine.warehouse).contents(item.id, at)
                self.simulation.model.check_read(item.id, at, rows.bag(), {}, None)

    def full(self, engine: MemoryEngine) -> None:
        """REFRESH MATERIALIZED VIEW ... FULL."""
        engine.refresh_catalog()
        view = self._any(engine, lambda i: i.kind is ObjectKind.MATERIALIZED_VIEW)
        if view is not None:
            refresh_view.refresh_view(engine, view, full=True)

    def mend(self, engine: MemoryEngine) -> None:
        """ALTER CONTINUAL TASK ... RETRY or SKIP."""
        engine.refresh_catalog()
        task = self._any(
            engine,
            lambda i: (
                i.kind is ObjectKind.CONTINUAL_TASK and failure_of(engine.warehouse, i) is not None
            ),
        )
        if task is None:
            return
        if self.simulation.rng.random() < 0.5:
            retry_failed(engine, task)
        else:
            skip_failed(engine, task)

    def _any(self, engine: MemoryEngine, matches: Callable[[Item], bool]) -> Item | None:
        found = [i for i in engine.catalog if matches(i)]
        return self.simulation.rng.choice(found) if found else None

    def _explained(self, problem: CtsqlError) -> None:
        """An error must be one that the faults or the data explain."""
        # Old commits may go while somebody looks back at them; the next look knows it.
        cleaned = (
            problem.condition == "HISTORY_LOST" and self.clean_count != self.simulation.clean_count
        )
        if cleaned:
            self.simulation.mark("old commits went while somebody looked at them")
            return
        require(problem.condition in EXPECTED, "an error nobody asked for", self.doing, problem)
        if problem.condition == "COMMIT_UNKNOWN":
            self.excused_names.add(self.name)
            self.simulation.mark("an outcome stayed unknown")
        if problem.condition == "TASK_FAILED":
            name, time = str(problem.given["name"]), int(str(problem.given["time"]))
            require(
                self.simulation.model.fails(name, time) or self._passed(name, time),
                "fails",
                problem,
            )
        if problem.condition == "VIEW_FAILED":
            name, time = str(problem.given["name"]), int(str(problem.given["time"]))
            require(self.simulation.model.fails(name, time), "fails", problem)
        if self.calm:
            require(problem.condition.endswith("FAILED"), "an error without a fault", problem)

    def _passed(self, name: str, time: int) -> bool:
        return time in self.simulation.model.skipped_times.get(name, ())

    # ---- what must hold of it

    def outcome(self, location: str, outcome: CommitOutcome, before: int) -> None:
        """What the write handle says of a commit is so."""
        folder = self.simulation.store.folders[location]
        # One of an earlier write of this process, told as failed, may have arrived meanwhile.
        new = [(v, folder.sent_commits[v]) for v in range(before, len(folder.sent_commits))]
        own = [v for v, sent in new if sent.by == self.name and not sent.was_late]
        if isinstance(outcome, Committed):
            is_own = folder.sent_commits[outcome.version].by == self.name
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
        outputs = self.engine.outputs()
        # One of an object that had left the catalog is opened anew when that is there again.
        self.known_uppers = {output.app: self.known_uppers.get(output.app, 0) for output in outputs}
        for output in outputs:
            known = self.known_uppers[output.app]
            upper = output.upper
            if upper == known:
                continue
            require(
                upper > known, "[upper-monotone]: a cached upper goes back", self.name, known, upper
            )
            newest = self.simulation.model.uppers.get(output.app, 0)
            require(
                upper <= newest, "a cached upper is ahead of the log", output.app, upper, newest
            )
            self.known_uppers[output.app] = upper

    def waiting(self) -> set[str]:
        """Files kept until the log says whether the commit that may hold them is in."""
        outputs = () if self.engine is None else self.engine.outputs()
        return {
            file
            for o in outputs
            for commit in o.commits.unresolved_commits
            for file in commit.files
        }

    def check(self) -> None:
        """After a statement: nothing staged is left unless something excuses it."""
        if self.name in self.excused_names:
            return
        waiting = self.waiting()
        for folder, path in self.simulation.unnamed():
            require(
                folder.owners.get(path) != self.name
                or path in waiting | self.simulation.untold_files,
                "[one-owner-of-files]: a staged file is left",
                folder.location,
                path,
                self.doing,
                self.fates,
            )


def _reporting(engine: Engine, reported: list[tuple[str, Entry]]) -> AdvanceContext:
    """A caller that notes every commit, by the place of its table."""

    def committed(object_id: str, entry: Entry) -> None:
        table = engine.relations.table(engine.relations.item(object_id))
        reported.append((table.location, entry))

    return AdvanceContext(on_commit=committed)
