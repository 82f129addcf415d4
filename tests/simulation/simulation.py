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
from typing import Any, TypeVar
from unittest import mock

from ctsql.runtime.log import clock
from ctsql.runtime.log.actions import Commit
from ctsql.runtime.log.uppers import Entry
from ctsql.runtime.log.write_handle import CommitOutcome, Commits, Committed
from ctsql.runtime.views import refresh
from ctsql.runtime.warehouse.stores.catalog_store import FORMAT, FORMAT_PROPERTY
from ctsql.runtime.warehouse.times import timeline
from ctsql.runtime.warehouse.times.timeline import ARCHIVED
from tests.simulation import definitions as world
from tests.simulation.environment import Environment
from tests.simulation.marks import MARKS
from tests.simulation.memory_store import Folder, SentCommit, Store
from tests.simulation.model import CATALOG, TIMELINE, Model, require
from tests.simulation.model_engine import ModelEngine
from tests.simulation.process import Process
from tests.simulation.scheduler import Scheduler

ARCHIVE_ROWS_MAX = 3
TRACE_MAX = 400
SEVERAL_EVERY = 5
"""One seed of so many also has tasks with several outputs."""


class Simulation:
    """One run; :meth:`run` raises what is wrong with it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = rng = random.Random(seed)
        self.store = Store()
        self.marks: set[str] = set()
        self.queries = ModelEngine()
        self.model = Model(self.store)
        self.model.marks = self.marks
        self.store.on_commit = self._committed
        self.store.on_delete = self.model.on_delete
        self.environment = Environment(self.store, rng, self.mark)
        self.store.answers_late = rng.random() < 0.5
        # First how much of everything, then what and when: so that some runs have one kind only.
        self.kills = rng.choice((0.0, 0.002, 0.01))
        self.errors = rng.choice((0.0, 0.0, 0.002, 0.01))
        self.loss_rate = rng.choice((0.0, 0.05, 0.3))
        self.acts = rng.choice((0.02, 0.05, 0.15))
        self.acts_left = rng.randint(10, 60)
        self.archive_every = rng.choice((3, 10, 100))
        self.scheduler = Scheduler(rng, rng.choice((0.05, 0.2, 0.5)))
        self.processes = [Process(self, n) for n in range(rng.choice((1, 2, 2, 3)))]
        self.statements = rng.randint(4, 12)
        self.steps = 0
        self.untold_files: set[str] = set()
        self.trace: deque[str] = deque(maxlen=TRACE_MAX)

    @property
    def clean_count(self) -> int:
        """How often a log was cleaned up."""
        return self.environment.clean_count

    def note(self, *what: object) -> None:
        """Keep what happened, for whoever looks into a failure."""
        self.trace.append(" ".join(map(str, what)))

    def mark(self, what: str) -> None:
        """Note that a rare branch was taken."""
        if what not in MARKS:
            raise KeyError(f"{what!r} is not in the table of marks")
        self.marks.add(what)

    def _committed(self, folder: Folder, commit: Commit, attempt: SentCommit) -> None:
        upper = dict(commit.transactions)
        self.note(attempt.by, "committed", folder.location, commit.version, *upper.values())
        self.model.on_commit(folder, commit, attempt)

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
        with self.patched():
            self.set_up()
            for process in self.processes:
                process.calm = False
                self.scheduler.add(f"p{process.number}", lambda p=process: p.live(self.statements))  # type: ignore[misc]
            self.scheduler.run()
            self._finish()
        unknown = self.marks - set(MARKS)
        require(not unknown, "marks that are not in their table", unknown)

    def set_up(self) -> None:
        store, model, environment = self.store, self.model, self.environment
        store.make(TIMELINE)
        store.make(CATALOG, **{FORMAT_PROPERTY: str(FORMAT)})
        for source in world.SOURCES:
            store.make(source)
        process = Process(self, 99)
        engine = process.start()
        names = world.chosen(self.rng)
        if self.seed % SEVERAL_EVERY == SEVERAL_EVERY - 1:
            names += world.chosen_of_several(self.rng)
        for name in names:
            if isinstance(world.DEFINED.get(name), world.Part):
                continue  # made with its task
            for _ in range(self.rng.randint(0, 3)):
                environment.insert()
            created = 0 if name in world.SOURCES else engine.mint()
            items = [world.item(name, created)]
            items += [world.item(output, created) for output in items[0].outputs]
            for item in items:
                if item.is_output and item.location is not None:
                    store.make(item.id)
                    model.created_at[item.id] = created
            engine.catalog_store.change(lambda c, i=items: c.with_items(i))  # type: ignore[misc]
        environment.outputs = list(model.created_at)
        environment.unread_views = [
            n
            for n in model.created_at
            if isinstance(world.DEFINED[n], world.View)
            and not any(n in world.reads_of(o) for o in model.created_at)
        ]
        environment.passed_version = self._passed
        environment.on_clean = self._cleaned_up

    def _passed(self, location: str) -> int:
        """The version of a log below which no process needs it."""
        passed = self.store.folders[location].newest
        if location == TIMELINE:
            folder = self.store.folders[TIMELINE]
            archived = [dict(c.domains).get(ARCHIVED) for c in folder.commits]
            passed = max((int(a) + 1 for a in archived if a is not None), default=0)
        for process in self.processes:
            if process.engine is not None:
                for output in process.engine.outputs():
                    newest_read = output.uppers.newest_read
                    if output.table.location == location and newest_read >= 0:
                        passed = min(passed, newest_read)
                if location == TIMELINE:
                    passed = min(passed, max(process.engine.timeline.read_to, 0))
        return passed

    def _cleaned_up(self, location: str, before: int) -> None:
        """Where the log is gone that would tell of a lost answer, the files may have to stay."""
        for process in self.processes:
            for output in process.engine.outputs() if process.engine is not None else ():
                for commit in output.commits.unresolved_commits:
                    if output.table.location == location and commit.version_read + 1 < before:
                        self.untold_files |= commit.files

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
        for name in model.created_at:
            model.check_complete(name)
        excused = {name for p in self.processes for name in p.excused_names}
        for folder, path in self.unnamed():
            owner = folder.owners[path]
            require(
                owner in excused or path in self.untold_files,
                "[one-owner-of-files]: a file that nobody answers for",
                folder.location,
                path,
                owner,
            )

    def _now_ms(self) -> int:
        return self.store.clock_ms

    @contextmanager
    def patched(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(clock, "now_ms", self._now_ms))
            stack.enter_context(
                mock.patch.object(timeline, "ARCHIVE_EVERY_COMMITS", self.archive_every)
            )
            stack.enter_context(mock.patch.object(timeline, "ARCHIVE_ROWS_MAX", ARCHIVE_ROWS_MAX))
            stack.enter_context(mock.patch.object(Commits, "attempt", _watched(Commits.attempt)))
            follow, fill = self.queries.follow, self.queries.fill
            stack.enter_context(
                mock.patch.multiple(refresh, follow_changes=follow, fill_state=fill)
            )
            yield


def _watched(commit: Callable[..., CommitOutcome]) -> Callable[..., CommitOutcome]:
    """The write handle's commit, its outcome checked."""

    def watched(
        commits: Commits, txn: Any, batches: Any, expected: int, new: int | None, metadata: Any
    ) -> CommitOutcome:
        table: Any = commits.table
        before = len(table.folder.sent_commits)
        outcome = commit(commits, txn, batches, expected, new, metadata)
        table.gateway.link.outcome(table.location, outcome, before)
        if isinstance(outcome, Committed) and new is not None:
            table.gateway.link.moves.append((table.location, Entry(new, outcome.version)))
        return outcome

    return watched


S = TypeVar("S", bound=Simulation)


def replay(seed: int) -> set[str]:
    """Run a seed; gives the marks it hit, and raises what is wrong with the seed in the text."""
    return ran(Simulation(seed)).marks


def ran(simulation: S) -> S:
    """Run a simulation; raises what is wrong, with its last steps and its seed in the text."""
    try:
        simulation.run()
    except Exception as problem:
        problem.add_note("\n".join(["The last steps:", *simulation.trace]))
        problem.add_note(f"replay with {type(simulation).__name__}({simulation.seed}).run()")
        raise
    return simulation
