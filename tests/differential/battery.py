"""Runs the battery: makes the views of a world, lets rows arrive, and compares."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ctsql.catalog.errors import CtsqlError, StatementError
from ctsql.runtime.views.refresh_policy import Strategy
from tests.differential.battery_tables import World
from tests.differential.cells import Cell
from tests.differential.compare import Pair, compare
from tests.differential.expected import no_plan
from tests.differential.followers import Follower
from tests.differential.model import Model, ModelTask
from tests.helpers.view_reports import said

_CREATE = "CREATE MATERIALIZED VIEW {} WITH (REFRESH POLICY = {}) AS {}"
_WHOLE = """CREATE MATERIALIZED VIEW IF NOT EXISTS whole
    WITH (REFRESH POLICY = strict) AS SELECT * FROM t"""

Tell = Callable[[str], None]


@dataclass
class Report:
    """What a run of the battery found.

    Attributes:
        comparison_count: comparisons of a view or a task with what it must be, each for one type.
        wrong: what differs. strategies: how refreshes were done, and why views were recomputed.
    """

    comparison_count: int = 0
    wrong: list[str] = field(default_factory=list)
    strategies: Counter[str] = field(default_factory=Counter)


class Battery:
    """One world with its views.

    Args:
        every: compare after so many rounds; refreshed they are after each.
        tasks: beside the views. readers: so many views and tasks, and ``t``, have a reader.
        checks: so many views are checked by VERIFY at the end.
    """

    def __init__(
        self,
        world: World,
        cells: Sequence[Cell],
        tell: Tell,
        every: int = 1,
        tasks: Sequence[ModelTask] = (),
        readers: int = 0,
        checks: int = 0,
    ) -> None:
        self.world = world
        self.tell = tell
        self.every = every
        self.report = Report()
        self._queries: dict[str, str] = {}
        world.show()
        self.cells = [cell for cell in cells if self._made(cell)]
        tell(f"{len(self.cells)} views")
        self.model = Model(world, [])
        self.model.tasks = [task for task in tasks if self._made_task(task)]
        self.model.step()
        tell(f"{len(self.model.tasks)} tasks")
        names = [cell.view for cell in self.cells] + [task.task for task in self.model.tasks]
        names = ["t", *names[:: max(len(names) // readers, 1)]][: readers + 1] if readers else []
        self.followers = [Follower(world, name) for name in names]
        self.checks = checks

    def _made(self, cell: Cell) -> bool:
        """Create its view; a query without a change plan is declined by ``strict``."""
        plain, con = self.world.plain, self.world.con
        below = "whole" if cell.way.is_chained else "t"
        expected = no_plan(cell.kinds[0], cell.way, is_alone=len(cell.kinds) == 1)
        try:
            if cell.way.is_chained:
                con.execute(_WHOLE)
            told = None
            try:
                con.execute(_CREATE.format(cell.view, "strict", cell.query(plain, below)))
            except StatementError as problem:
                if problem.condition != "INVALID_OPTION":
                    raise
                told = str(problem.detail)
                con.execute(_CREATE.format(cell.view, "incremental", cell.query(plain, below)))
        except CtsqlError as problem:
            self._wrong(f"{cell.name}: CREATE gives {problem}")
            return False
        if (told is None) != (expected is None) or (expected or "") not in (told or ""):
            self._wrong(f"{cell.name}: strict says {told}, not {expected}")
        self._queries[cell.view] = cell.query(plain)
        return True

    def _made_task(self, task: ModelTask) -> bool:
        try:
            self.model.create(task)
        except CtsqlError as problem:
            self._wrong(f"{task.name}: CREATE gives {problem}")
            return False
        return True

    def _wrong(self, what: str) -> None:
        self.report.wrong.append(what)
        self.tell(f"WRONG {what}")

    def play(self) -> Report:
        """All rounds of the world's home."""
        arrivals = self.world.home.arrivals
        self.compare("creation")
        self.follow("creation")
        for number, arrival in enumerate(arrivals, 1):
            begun = time.monotonic()
            arrival.arrive(self.world)
            arrived = time.monotonic()
            told = f"round {number}, {arrival.name}"
            self.refresh(told)
            refreshed = time.monotonic()
            if self.model.tasks:
                self.world.show()
                self.model.step()
            if number % self.every == 0 or number == len(arrivals):
                self.compare(told)
                self.follow(told)
            self.tell(
                f"{told}: {arrived - begun:.1f} s, refreshed in {refreshed - arrived:.1f} s, "
                f"compared in {time.monotonic() - refreshed:.1f} s"
            )
        for cell in self.cells[: self.checks]:
            shown = self.world.con.execute(f"VERIFY {cell.view}").fetchall()
            self.report.comparison_count += 1
            if shown:
                self._wrong(f"{cell.name}: VERIFY shows {shown[:3]}")
        return self.report

    def follow(self, label: str) -> None:
        """Let the readers take what there is, and compare what they were told."""
        for follower in self.followers:
            try:
                follower.take()
            except CtsqlError as problem:
                self._wrong(f"SUBSCRIBE TO {follower.name}, after {label}: {problem}")
                continue
            self.report.comparison_count += 1
            difference = follower.difference()
            if difference:
                self._wrong(f"SUBSCRIBE TO {follower.name}, after {label}: {difference}")

    def refresh(self, label: str) -> None:
        """Bring all up to date; a change that was followed wrongly is not to be hidden."""
        try:
            self.world.con.run(once=True)
        except CtsqlError as problem:
            self._wrong(f"after {label}: {problem}")
        for cell in self.cells:
            done = said(self.world.con, cell.view)
            way = str(done.get("strategy"))
            if way == Strategy.RECOMPUTE.value:
                way += f": {done['why']}"
                if done["why"] in ("ROWS_DIFFER", "TEXTS_FAILED"):
                    self._wrong(f"{cell.name}, after {label}: {done['why']} {done.get('detail')}")
            self.report.strategies[way] += 1

    def compare(self, label: str) -> None:
        """Compare each view with its query."""
        self.world.show()
        pairs = [
            Pair(cell.name, self._queries[cell.view], self.world.path(cell.view), cell.way.zeros)
            for cell in self.cells
        ]
        pairs += self.model.pairs()
        for one in compare(self.world.plain, pairs):
            self._wrong(f"{one.name}, after {label}: {one.what}")
        self.world.plain.catalog.clearCache()
        self.report.comparison_count += sum(len(cell.kinds) for cell in self.cells)
        self.report.comparison_count += len(self.model.tasks)
