"""Runs in which processes replay one task while others bring it up, with kills at every call.

What the task holds at T follows from the swaps that the timeline has decided: before one it is what
the body from before it made, from it on what the task held before the first T that was run again,
and what the new body makes of every T since. Each commit of the task is compared with that, so also
the one of the swap, and none comes between.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from typing import Any
from unittest import mock

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.cutovers import Cutover, cutover_of
from ctsql.catalog.dependencies import outputs_of, parts_of, replacement_of
from ctsql.catalog.errors import CtsqlError, Declined
from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.spans import Source
from ctsql.planner.nodes import Insert, TaskWrite, Transaction
from ctsql.runtime.delta.change_feed import added_rows
from ctsql.runtime.log.actions import Commit
from ctsql.runtime.log.table_changes import tag
from ctsql.runtime.statements.definitions.cutover import (
    Redefinition,
    advance_to_now,
    cut_over,
    forget_definitions,
    settle,
)
from ctsql.runtime.statements.definitions.first_rows import copy_of, fill
from ctsql.runtime.statements.definitions.task_replacement import (
    advance_replacement,
    outputs_among,
    with_rows_of,
)
from ctsql.runtime.statements.definitions.view_replacement import check_alone
from ctsql.runtime.tasks import proposals, sink
from ctsql.runtime.tasks.constraints import CheckedRows
from ctsql.runtime.tasks.progress import failure_of
from ctsql.runtime.warehouse.query_engine import OutputProposal
from ctsql.runtime.warehouse.stores.catalog_store import CUTOVER
from ctsql.runtime.warehouse.times.timeline import CUTOVERS
from tests.helpers.items import changed
from tests.simulation import definitions as world
from tests.simulation.memory_log import Rows
from tests.simulation.memory_store import Bag, Folder, SentCommit
from tests.simulation.model import CATALOG, TIMELINE, Model, require
from tests.simulation.model_engine import ModelEngine, failed, proposal_of
from tests.simulation.process import EXPECTED, MemoryEngine, Process
from tests.simulation.simulation import Simulation

TASK, SOURCE = "swapped", "s0"
LOST = ("ALTERED_MEANWHILE", "REPLACEMENT_EXISTS", "DEFINITIONS_CHANGED", "UNKNOWN_RELATION")
"""What the second one of two who replay at once is told."""


class Shape(Enum):
    """What the task writes: all rows itself, or those of even keys into one of two places."""

    ALONE = ("",)
    OUTPUTS = ("_even", "_odd")
    QUARANTINE = ("", "_away")

    def places(self, task: str) -> list[str]:
        """The ids of what holds the rows of a task."""
        return [task + end for end in self.value]


def body_text(name: str, added: int, shape: Shape) -> str:
    source, columns = f"SELECT k, v + {added} FROM {SOURCE}", "(k INT, v INT)"
    if shape is Shape.OUTPUTS:
        even, odd = shape.places(name)
        head = f"OUTPUTS ({even} {columns}, {odd} {columns})"
        body = f"INSERT INTO {even} {source}; INSERT INTO {odd} {source}"
    else:
        rule = ", CONSTRAINT even CHECK (k % 2 = 0) ON VIOLATION QUARANTINE"
        head = f"(k INT, v INT{rule if shape is Shape.QUARANTINE else ''})"
        body = f"INSERT INTO {name} {source}"
    made = f"CREATE CONTINUAL TASK {name} {head} ON INPUT {SOURCE}"
    return f"{made} WITH (SNAPSHOT = false) AS ({body})"


def _items(
    name: str, added: int, created_at: int, shape: Shape, replaces: str | None = None
) -> list[Item]:
    """The task, then its outputs or its quarantine."""
    kind, text = ObjectKind.CONTINUAL_TASK, body_text(name, added, shape)
    task = world.entry(name, kind, text, [SOURCE], created_at, replaces=replaces)
    others = [
        world.entry(place, ObjectKind.TASK_OUTPUT, "", [name], created_at)
        for place in shape.places(name)
        if place != name
    ]
    ids = tuple(o.id for o in others)
    if shape is Shape.OUTPUTS:
        task = changed(task, location=None, table_id=None, columns=(), outputs=ids)
    elif shape is Shape.QUARANTINE:
        task = replace(task, quarantine=ids[0])
    return [task, *others]


def redefined(engine: MemoryEngine, task: Item, text: str) -> Redefinition:
    """The task by another text, which reads what the one before it reads."""
    read = task.definition.reads
    later = replace(task, definition=task.definition.followed_by(text, read))
    span = Source("", "swap").whole()
    return Redefinition(bound_on=engine.catalog, changes=((task, later),), span=span)


def shifted(rows: Bag, added: int) -> Bag:
    return Counter({(k, v + added): n for (k, v), n in rows.items()})


def rows_at_place(rows: Bag, place: int, shape: Shape) -> Bag:
    """The rows that belong into one of the places."""
    if shape is Shape.ALONE:
        return rows
    return Counter({row: n for row, n in rows.items() if row[0] % 2 == place})


def _sorted(constraints: Any, proposed: Any, columns: Any, **_: Any) -> CheckedRows:
    """What the constraint makes of the rows of the quarantined shape, in the place of Spark."""
    if proposed is None or not constraints:
        return CheckedRows(proposed)
    rows = proposed.bag()
    kept, away = (rows_at_place(rows, place, Shape.QUARANTINE) for place in (0, 1))
    return CheckedRows(Rows(kept.elements()), {}, Rows(away.elements()) if away else None)  # type: ignore[arg-type]


class _Model(Model):
    """One that knows that the task may fail: its first body does, wherever it meets a bad row."""

    def fails(self, name: str, at: int) -> bool:
        return name == TASK or super().fails(name, at)


class Swapping(Simulation):
    """One such run, with a task of one shape.

    Attributes:
        cutovers: by name what one is: the T that is complete before it, and what the body adds.
        begins: the first of these by the second.
        swaps: (T, ...the same) of those that are decided, in order. written_count: how many were.
        stood_count: how often the task had failed.
        applied_count: how often a registered one was applied.
    """

    def __init__(self, seed: int, shape: Shape = Shape.ALONE) -> None:
        super().__init__(seed)
        self.shape, self.places = shape, shape.places(TASK)
        self.queries = SwappingEngine()
        self.model = _Model(self.store, marks=self.marks)
        self.store.on_delete = self.model.on_delete
        self.processes = [Swapper(self, p.number) for p in self.processes]
        self.cutovers: dict[str, tuple[int, int]] = {}
        self.begins: dict[int, int] = {}
        self.swaps: list[tuple[int, int, int]] = []
        self.seen_names: set[str] = set()
        self.made_count = self.written_count = self.loss_count = 0
        self.stood_count = self.applied_count = 0
        self.created_at = 0

    @contextmanager
    def patched(self) -> Iterator[None]:
        # Types are compared by Spark; here all tables have the same ones.
        with (
            super().patched(),
            mock.patch.object(sink, "begins_with", return_value=True),
            mock.patch.object(proposals, "check_rows", _sorted),
            mock.patch.object(proposals, "quarantine_rows", lambda _, rows, *_more: rows),
        ):
            yield

    def set_up(self) -> None:
        super().set_up()
        for place in self.places:
            self.store.make(place)
        engine = Process(self, 97).start()
        self.created_at = engine.mint()
        made = _items(TASK, 0, self.created_at, self.shape)
        engine.catalog_store.change(lambda c: c.with_items(made))

    def _committed(self, folder: Folder, commit: Commit, attempt: SentCommit) -> None:
        super()._committed(folder, commit, attempt)
        if folder.location == TIMELINE:
            decided = json.loads(dict(commit.domains).get(CUTOVERS) or "{}")
            for name, at in decided.items():
                if at is not None and name in self.cutovers and name not in self.seen_names:
                    self.seen_names.add(name)
                    self.swaps.append((at, *self.cutovers[name]))
        if folder.location == CATALOG:
            for domain, text in commit.domains:
                if domain.startswith(CUTOVER) and text is not None:
                    self._note_swap(cutover_of([(domain.removeprefix(CUTOVER), text)]))
        upper = dict(commit.transactions).get(f"ctsql:{folder.location}")
        if folder.location in self.places and upper is not None:
            place = self.places.index(folder.location)
            self._written_at(upper - 1, place, folder.contents(commit.version))
            for other, name in enumerate(self.places[1:] if place == 0 else (), 1):
                self._written_at(upper - 1, other, self.model._held_at(name, upper - 1))
            self.written_count += place == 0 and any(at == upper - 1 for at, *_ in self.swaps)

    def _note_swap(self, cutover: Cutover) -> None:
        for task in (i for i in cutover.items if i.id == TASK):
            if any(made.copies_rows for made in task.revisions):
                (added,) = map(int, set(re.findall(r"v \+ (\d+)", task.definition.text)))
                self.cutovers[cutover.id] = (self.begins[added], added)

    def _written_at(self, at: int, place: int, rows: Bag) -> None:
        wanted = self.contents(at, place)
        gone, come = wanted - rows, rows - wanted
        require(rows == wanted, "other contents than at T", at, place, gone, come, self.swaps)

    def unnamed(self) -> Iterator[tuple[Any, str]]:
        """Those of replacements go with the folder, in which nobody else writes."""
        return ((f, path) for f, path in super().unnamed() if not f.location.startswith("beside"))

    def contents(self, at: int, place: int) -> Bag:
        """What the task holds at T in one of its places."""
        known = [s for s in self.swaps if s[0] <= at]
        if not known:
            return rows_at_place(self._made(self.created_at, at, 0), place, self.shape)
        _, since, added = known[-1]
        made = rows_at_place(self._made(since, at, added), place, self.shape)
        return self.contents(since, place) + made

    def _made(self, after: int, until: int, added: int) -> Bag:
        """What a body makes of what comes in at after < T <= until."""
        found: Bag = Counter()
        before = self.model.contents(SOURCE, after)
        for time, _ in self.model.bindings.get(SOURCE, []):
            if after < time <= until:
                now = self.model.contents(SOURCE, time)
                if body_fails(now - before, added):
                    break  # there it stands until it is replayed
                found += shifted(now - before, added)
                before = now
        return found

    def _finish(self) -> None:
        super()._finish()
        last = Swapper(self, 96)
        engine = last.start()
        engine.mint()
        last.tick(engine)
        if self.swaps:
            settle(engine, engine.relations.item(TASK))
        for place, name in enumerate(self.places):
            held = self.store.folders[name].contents(self.store.folders[name].newest)
            require(held == self.contents(self.model.now, place), "not caught up", self.swaps)
        forget_definitions(engine, engine.relations.item(TASK))
        read = {r.object_id for r in engine.refresh_catalog().items[TASK].reads}
        require(read <= {SOURCE}, "a replacement is left that was applied", read)
        left = [i for i in engine.catalog if i.replaces is not None]
        require(len(left) <= 1, "two replacements", left)
        require(not engine.catalog.items[TASK].earlier, "definitions are left")


class SwappingEngine(ModelEngine):
    """One that knows the definitions of the task, those that copy among them."""

    def propose(
        self, body: Transaction, sources: Any, at: int, columns: object
    ) -> dict[str, OutputProposal]:
        """What a body makes, by its text."""
        name = next(iter(sources.outputs))
        if name in world.DEFINED:
            return dict(super().propose(body, sources, at, columns))
        made, change = {}, sources.inputs[SOURCE]
        few = None if change.few is None else change.few.plain_frame
        new = (few or change.added_rows or change.net_change or Rows(())).bag()
        inserts = [s for s in body.statements if isinstance(s, Insert)]
        for place, insert in enumerate(inserts):
            output, text = insert.object_id, insert.query.sql.span.text
            stored: Rows = sources.stored_rows(output) or Rows(())
            copied = re.search(r"FROM contents\(\w+\.(\w+)\)", text)
            if copied:
                clears = len(inserts) < len(body.statements)
                gone = stored.bag() if clears else Counter()
                rows = sources.contents(copied[1], at).bag()
                made[output] = proposal_of(stored, gone, rows)
                continue
            if new and "v + 0" in text and body_fails(new, 0):
                raise failed()
            shape = Shape.OUTPUTS if output.endswith(Shape.OUTPUTS.value) else Shape.ALONE
            rows = rows_at_place(_made_of(text, new), place, shape)
            made[output] = proposal_of(stored, Counter(), rows)
        return made

    def stage_batched_runs(
        self, plan: TaskWrite, table: Any, version_changes: Any, staging: Any
    ) -> list[int] | Declined:
        """What the body makes at each of several Ts; declined where a row breaks the constraint."""
        if plan.object_id in world.DEFINED:
            return super().stage_batched_runs(plan, table, version_changes, staging)
        insert: Any = plan.transaction.statements[0]
        found = []
        for time, version_change in version_changes:
            rows: Any = added_rows(table, version_change)
            if "v + 0" in insert.query.sql.span.text and body_fails(rows.bag(), 0):
                raise failed()
            made = _made_of(insert.query.sql.span.text, rows.bag())
            if plan.transaction.constraints and rows_at_place(made, 1, Shape.QUARANTINE):
                return Declined("a row breaks the constraint")
            if made:
                staged = staging.txn.stage(Rows(made.elements()))
                staging.inserts += [tag(file, time) for file in staged]
                found.append(time)
        return found


def body_fails(new: Bag, added: int) -> bool:
    """Whether a body fails: only the first one does."""
    return added == 0 and any(v == world.BAD for _, v in new)


def _made_of(text: str, new: Bag) -> Bag:
    shift = re.search(r"v \+ (\d+)", text)
    return Counter() if shift is None else shifted(new, int(shift[1]))


class Swapper(Process):
    """A process that also replays the task, and reads it."""

    simulation: Swapping

    def _any(self, engine: MemoryEngine, matches: Callable[[Item], bool]) -> Item | None:
        return super()._any(engine, lambda i: i.id in world.DEFINED and matches(i))

    def statement(self, engine: MemoryEngine) -> None:
        """Often one about the task."""
        more = [super().statement, self.replay, self.bring_up, self.create_beside, self.apply_it]
        weights = [4, 3, 4, 2, 3]
        what: Callable[[MemoryEngine], None] = self.simulation.rng.choices(more, weights)[0]
        self.doing = what.__name__
        what(engine)

    def bring_up(self, engine: MemoryEngine) -> None:
        """What a read of the task does."""
        until = engine.mint()
        engine.advance([engine.relations.item(TASK)], until)

    def replay(self, engine: MemoryEngine) -> None:
        """REPLAY CONTINUAL TASK, as its statement does it without binding texts."""
        made = self._built(engine)
        if made is not None:
            self._swap(engine, *made)

    def create_beside(self, engine: MemoryEngine) -> None:
        """CREATE REPLACEMENT CONTINUAL TASK ... FROM, likewise."""
        made = self._built(engine)
        if made is None:
            return
        _, items = made

        def register(current: Catalog) -> Catalog:
            check_alone(current, items[0])
            return current.with_items(items)

        engine.catalog_store.change(register)
        engine.refresh_catalog()

    def apply_it(self, engine: MemoryEngine) -> None:
        """ALTER CONTINUAL TASK ... APPLY REPLACEMENT, likewise."""
        task = self._settled(engine)
        beside = replacement_of(engine.refresh_catalog(), TASK)
        read = {r.object_id for r in task.reads}
        if beside is None:
            return
        items = [beside, *parts_of(engine.catalog, beside)]
        if not read & {i.id for i in items}:
            self.simulation.applied_count += 1
            self._swap(engine, task, items)

    def _settled(self, engine: MemoryEngine) -> Item:
        engine.mint()
        task = engine.relations.item(TASK)
        if task.earlier:
            settle(engine, task)
        return engine.relations.item(TASK)

    def _built(self, engine: MemoryEngine) -> tuple[Item, list[Item]] | None:
        """The task, and a replacement that no catalog knows; None where it cannot begin.

        The replacement has its outputs and its quarantine behind it.
        """
        simulation, task = self.simulation, self._settled(engine)
        if replacement_of(engine.catalog, TASK) is not None:
            return None
        advance_to_now(engine, task)
        failure = failure_of(engine.warehouse, task)
        times = [t for t in simulation.model.times if t <= engine.timeline.now]
        start = simulation.rng.choice([simulation.created_at, *times])
        since = max(start - 1, simulation.created_at)
        if failure is not None and failure.time <= since:
            return None  # what it held then is not known
        simulation.made_count += 1
        name, shape = f"beside{simulation.made_count}", simulation.shape
        simulation.begins[100 * simulation.made_count] = since
        made = _items(name, 100 * simulation.made_count, since, shape, TASK)
        for place in shape.places(name):
            simulation.store.make(place)
        now, follows = engine.mint(), engine.relations.item(SOURCE)
        quarantine = engine.catalog.items.get(task.quarantine or "")
        theirs = outputs_of(engine.catalog, task) or [task]
        own = outputs_among(made)
        fill(engine, made, copy_of(made[0], own, theirs, follows, quarantine=quarantine), now)
        return task, made

    def _swap(self, engine: MemoryEngine, task: Item, made: list[Item]) -> None:
        beside, simulation = made[0], self.simulation
        if beside.id not in engine.refresh_catalog().items:
            for app in [k for k in self.known_uppers if beside.id in k]:
                del self.known_uppers[app]  # opened anew
        added = int(beside.id.removeprefix("beside")) * 100
        change = redefined(engine, task, body_text(TASK, added, simulation.shape))
        change = with_rows_of(engine, change, made, engine.relations.item(SOURCE))
        advance_replacement(engine, made)
        simulation.stood_count += failure_of(engine.warehouse, task) is not None

        cut_over(engine, change)

    def _explained(self, problem: CtsqlError) -> None:
        if problem.condition in LOST and problem.condition not in EXPECTED:
            self.simulation.loss_count += 1
            return
        super()._explained(problem)
