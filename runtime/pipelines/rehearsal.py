"""Rehearses a folder of SQL: its definitions over the newest changes of what they read, in memory.

    present:  a read-only engine with the definitions that are there, brought up to the last T
    trial:    another one with the folder's. Outputs are pinned as they were before the first T;
              from there the same sinks run as ever, T by T.

[nothing-written] nothing is written below the warehouse's folder. What is new has its tables in a
    folder that goes when the rehearsal is over.
[as-if-applied-before] what runs is what would have run if the folder had been applied just before
    the first T.
[no-made-up-changes] changes that are gone from a log are not made up: HISTORY_LOST is raised.
[new-tables-as-created] a table that is new holds at the first T, and ever after, what creating it
    gives: no rows, or those of its query, or of the table that is attached.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame

from ctsql.catalog.errors import CtsqlError, DataError, not_supported
from ctsql.catalog.items import Catalog, Item, ObjectKind, written_by
from ctsql.catalog.schemas import same_columns
from ctsql.catalog.times import to_iso
from ctsql.planner.definition_parts import Part
from ctsql.planner.folder import Folder
from ctsql.planner.syntax import ast as st
from ctsql.runtime.delta.overlay import ReadOnlyGateway
from ctsql.runtime.engine import Engine
from ctsql.runtime.monitoring.refreshes import refreshes
from ctsql.runtime.monitoring.row_request import Bounds, RowRequest
from ctsql.runtime.pipelines.applying import check_not_refused, with_changes
from ctsql.runtime.pipelines.binding import BoundObject
from ctsql.runtime.pipelines.plan import Refusal, Status
from ctsql.runtime.pipelines.planning import PlannedFolder, plan_folder
from ctsql.runtime.pipelines.table_changes import TableChange
from ctsql.runtime.spark.errors import translate_spark_errors
from ctsql.runtime.statements.create import Creation
from ctsql.runtime.statements.dml import run_on_table
from ctsql.runtime.statements.name_resolution import Namespace
from ctsql.runtime.statements.output_tables import create_table_text
from ctsql.runtime.statements.transaction import OpenTransaction
from ctsql.runtime.tasks.progress import complete_through, failure_of
from ctsql.runtime.warehouse.table_checks import identify
from ctsql.runtime.warehouse.timeline import TaskState, assume_bound

LOOK_BACK_MS = 60_000
"""So far back changes are looked for at first; then four times as far, and so on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What commits took in all: their number, seconds of computing, rows, bytes read."""

    commits: int
    seconds: float
    rows_written: int
    bytes_read: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error that came, or would come, at a T."""

    time: int
    refusal: Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRehearsal:
    """What came of one output.

    Attributes:
        parts: of a changed definition what differs; of one that only reads what is changed none.
        rows: as of the last T by the folder's definitions; None after a problem.
        stored_rows: by the present ones, with the same columns; None for a new output, one with
            other columns, and after a problem.
        problems: by the folder's definitions, in order of T. present: the one by the present ones.
        costs: by the folder's definitions; before: by the present ones, of one that is there.
        note: why it was not rehearsed, or not compared.
    """

    name: str
    keyword: str
    status: Status
    parts: tuple[str, ...] = ()
    rows: DataFrame | None = None
    stored_rows: DataFrame | None = None
    problems: tuple[Problem, ...] = ()
    present: Problem | None = None
    costs: Costs | None = None
    before: Costs | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What came of a rehearsal.

    Attributes:
        after: the T before the first one. times: the Ts that were gone through, oldest first.
        inputs: the names of what changed at them. outputs: in order of what they read.
        notes: which tables are new, and why the newest changes are left out, if they are.
    """

    after: int
    times: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[OutputRehearsal, ...]
    notes: tuple[str, ...] = ()


def choose_times(
    times: Sequence[int], *, count: int, first: int, complete: int
) -> tuple[int, list[int]]:
    """The T to begin behind, and the Ts to go through.

    These are the newest ones; but where the present definitions have stopped before, those from
    there on, as what is stored must be known where the rehearsal begins.

    Args:
        times: of all changes, ascending. first: an output is known from there on (inclusive).
        complete: through there (inclusive) what is stored is complete.

    >>> choose_times([10, 20, 30, 40], count=2, first=0, complete=99)
    (20, [30, 40])
    >>> choose_times([10, 20, 30, 40], count=2, first=0, complete=15)
    (10, [20, 30])
    >>> choose_times([10, 20, 30, 40], count=9, first=15, complete=99)
    (15, [20, 30, 40])
    """
    later_times = [t for t in times if t > first]
    waiting = [t for t in later_times if t > complete]
    chosen_times = waiting[:count] if len(waiting) > count else later_times[-count:]
    before = [t for t in later_times if chosen_times and t < chosen_times[0]]
    return before[-1] if before else first, chosen_times


@contextmanager
def rehearse(engine: Engine, folder: Folder, *, count: int) -> Iterator[Rehearsal]:
    """Rehearse a folder; inside, the rows of its outputs can be read.

    Args:
        count: over so many changes, at least 1.

    Raises:
        PLAN_REFUSED: an object cannot become what the folder says. HISTORY_LOST: changes, or what
            was stored before them, are gone from a log.
    """
    present = Engine(engine.session, engine.location, read_only=True)
    present.context = engine.context
    present.mint()
    planned_folder = plan_folder(present, folder)
    check_not_refused(planned_folder.plan)
    _check_quarantines(planned_folder)
    with tempfile.TemporaryDirectory(prefix="ctsql-rehearse-") as place:
        yield _Rehearsing(present, planned_folder, place).run(count)


def _check_quarantines(planned_folder: PlannedFolder) -> None:
    """Raise NOT_SUPPORTED where something reads the quarantine that a table would get."""
    for change in (o.table_change for o in planned_folder.objects if o.table_change is not None):
        for away in change.after[1:]:
            for item in (i for o in planned_folder.objects for i in o.items):
                if any(r.object_id == away.id for r in item.reads):
                    why = f'"{away.name}" is made by a constraint that table gets.'
                    raise _over_altered(item, "a quarantine that is new", why, change)


def _over_altered(reader: Item, what: str, why: str, change: TableChange) -> CtsqlError:
    hint = f"Type first: {'; '.join(change.texts)}"
    return not_supported(None, f'rehearsing "{reader.name}" over {what}', why=why, hint=hint)


def _is_defined_anew(bound_object: BoundObject) -> bool:
    return bound_object.old is None or (
        bool(bound_object.parts) and bound_object.table_change is None
    )


@dataclass
class _Rehearsing:
    present: Engine
    planned_folder: PlannedFolder
    place: str
    problems: dict[str, list[Problem]] = field(default_factory=dict)
    failed_at: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stored_catalog = self.present.catalog
        # Alterations of tables are not gone through.
        objects = [o for o in self.planned_folder.objects if _is_defined_anew(o)]
        items = [
            i for o in objects for i in (with_changes(self.stored_catalog, o) if o.old else o.items)
        ]
        self.catalog = self.stored_catalog.with_items(items)
        self.changed_ids = [i.id for o in objects for i in o.items]
        self.parts = {i.id: tuple(p.value for p in o.parts) for o in objects for i in o.items}
        self.redefined_ids = {i.id for o in objects for i in o.redefined_items if i.is_task}
        self.new = [i for i in self.catalog if i.id not in self.stored_catalog.items]
        self.notes: list[str] = []
        self.affected_items = self._affected_items()
        self.running = self._running()
        self._note_altered()

    def _note_altered(self) -> None:
        """Say what of tables is not rehearsed.

        Raises NOT_SUPPORTED where what is rehearsed reads a table that would have other columns.
        """
        for change in (
            o.table_change for o in self.planned_folder.objects if o.table_change is not None
        ):
            readers = [i for i in self.running if change.table in self.catalog.closure([i.id])]
            if readers and Part.COLUMNS in change.parts:
                why = f'Table "{change.table.name}" has them only when it is altered.'
                raise _over_altered(readers[0], "other columns of a table", why, change)
            text = ", ".join(p.value for p in change.parts)
            self.notes.append(f"{change.table.name} is as it is now: its {text} are not rehearsed")

    def _affected_items(self) -> list[Item]:
        """The tasks and views that may have other rows, each after what it reads."""
        catalog, followers = self.catalog, [i.id for i in self.planned_folder.followers]
        changed_ids = (*self.changed_ids, *followers)
        read = {c: [r.id for r in catalog.all_readers(c)] for c in changed_ids}
        ids = dict.fromkeys(i for c in changed_ids for i in (c, *read[c]))
        return [i for i in catalog.closure(ids) if i.id in ids and i.is_run]

    def _running(self) -> list[Item]:
        """Those of the affected that are rehearsed, and views that have to be gone through, too.

        Of a view that no task has followed not every T is stored.
        """
        ids = {i.id for i in self.affected_items}
        below = self.catalog.closure(ids)
        return [i for i in below if i.id in ids or self._is_followed_anew(i)]

    def _is_followed_anew(self, item: Item) -> bool:
        """Is it a view that a task follows by the folder's definitions only?"""
        if (
            item.kind is not ObjectKind.MATERIALIZED_VIEW
            or item.id not in self.stored_catalog.items
        ):
            return False
        now, then = (c.all_readers(item.id) for c in (self.stored_catalog, self.catalog))
        return any(r.is_task for r in then) and not any(r.is_task for r in now)

    def run(self, count: int) -> Rehearsal:
        bases = self._bases()
        after, times = self._times(bases, count)
        last = times[-1] if times else after
        trial = self._trial(after)
        trial.advance(bases, last)
        self._go_through(trial, times or [after])
        outputs = [
            r for item in self.affected_items for r in self._came_of(trial, item, after, times)
        ]
        inputs = [i for i in bases if self._moves(i, after, last)]
        self._note_changes_since(last)
        return Rehearsal(
            after=after,
            times=tuple(times),
            inputs=tuple(sorted(str(i.name) for i in inputs)),
            outputs=tuple(outputs),
            notes=tuple(self.notes),
        )

    # ---- which changes

    def _bases(self) -> list[Item]:
        """What the affected objects read that is there, and as it was."""
        affected_ids = {i.id for i in (*self.affected_items, *self.running)}
        below = self.catalog.closure(i.id for i in self.running)
        return [
            i
            for i in below
            if i.id in self.stored_catalog.items
            and i.id not in affected_ids
            and (i.kind is ObjectKind.TABLE or i.is_run)
            and any(r.id in affected_ids for r in self.catalog.all_readers(i.id))
        ]

    def _moves(self, item: Item, after: int, until: int) -> set[int]:
        moves = self.present.versions.movements(item, after=after, until=until)
        return {m.time for m in moves}

    def _times(self, bases: Sequence[Item], count: int) -> tuple[int, list[int]]:
        """The T to begin behind, and those to go through."""
        present, now = self.present, self._newest_readable(bases)
        there = [
            self.stored_catalog.items[i.id]
            for i in self.running
            if i.id in self.stored_catalog.items
        ]
        tasks = [i for i in there if i.is_task]
        begins = [i.created_at for i in tasks] + [self._known_from(i) for i in bases]
        first = max(begins, default=now)
        complete = complete_through(present.warehouse, tasks)
        times: set[int] = set()
        back = LOOK_BACK_MS
        while True:
            after = max(min(now, complete) - back, first)
            times = {t for i in bases for t in self._moves(i, after, now)}
            if after == first or len([t for t in times if t <= complete]) > count:
                break
            back *= 4
        after, chosen_times = choose_times(
            sorted(times), count=count, first=first, complete=min(now, complete)
        )
        later = len([t for t in times if chosen_times and t > chosen_times[-1]])
        if later:
            through = [(t, complete_through(present.warehouse, [t])) for t in tasks]
            self.notes += (
                f"{task.name} is behind: it is complete through {to_iso(at)}, so the rehearsal "
                f"begins there, and leaves the newest {_count_of(later, 'change')} out"
                for task, at in through
                if at <= complete
            )
        return self._apart(tasks, after), chosen_times

    def _note_changes_since(self, last: int) -> None:
        """Say what was changed behind the Ts gone through, as by a replay: that is not compared."""
        for item in self.affected_items:
            there = (
                _outputs(self.stored_catalog, item) if item.id in self.stored_catalog.items else ()
            )
            times = {t for o in there for t in self._moves(o, last, self.present.timeline.now)}
            if times:
                self.notes.append(
                    f"{item.name} was changed again at {to_iso(max(times))}: its rows are compared "
                    f"with those as of {to_iso(last)}"
                )

    def _newest_readable(self, bases: Sequence[Item]) -> int:
        """The newest T as of which all that stays as it is can be read."""
        present, now = self.present, self.present.timeline.now
        for item in bases:
            try:
                present.advance([item], now)
            except DataError:
                tasks = (i for i in self.stored_catalog.closure([item.id]) if i.is_task)
                failures = [failure_of(present.warehouse, task) for task in tasks]
                times = [failure.time for failure in failures if failure is not None]
                if not times:
                    raise
                now = min(now, *(time - 1 for time in times))
                self.notes.append(
                    f"{item.name} cannot be read from {to_iso(now + 1)} on: changes from there on "
                    "are left out"
                )
        return now

    def _known_from(self, item: Item) -> int:
        """The first T as of which an object can be read."""
        if item.kind is not ObjectKind.TABLE:
            return item.created_at
        first = self.present.timeline.first_time(item.id)
        return self.present.timeline.now if first is None else first

    def _apart(self, tasks: Iterable[Item], after: int) -> int:
        """A T at which no task's output shares its commit with later Ts."""
        outputs = [o for task in tasks for o in _outputs(self.stored_catalog, task)]
        while True:
            before = after
            for output in outputs:
                storage = self.present.versions.find_storage(output, after)
                if storage.shared_version is not None:
                    entries = self.present.relations.output(output).entries(since=after + 1)
                    after = min(after, max(entries[0].upper - 1, output.created_at))
            if after == before:
                return after

    # ---- the trial

    def _trial(self, after: int) -> Engine:
        """An engine with the folder's definitions, and outputs as they were at a T."""
        trial = Engine(self.present.session, self.present.location, read_only=True)
        trial.context = self.present.context
        gateway = trial.gateway
        assert isinstance(gateway, ReadOnlyGateway)  # as asked for
        tables = [m for o in self.planned_folder.objects for m in self._made_tables(o, after)]
        new = {i.id: replace(i, created_at=after) for i in (*self.new, *tables)}
        trial.relations.use(self.catalog.with_items(new.values()))
        trial.timeline.refresh()
        for table in tables:
            version = trial.relations.table(table).version()
            assume_bound(trial.timeline, table.id, version, at=after)
        put_in_force: dict[str, Callable[[TaskState, int], TaskState]] = {}
        for item in self.running:
            if item.id in self.redefined_ids:
                put_in_force[item.id] = _from(0, item.revision)
            elif item.id not in self.stored_catalog.items and item.earlier:
                put_in_force[item.id] = _from(after + 1, item.revision)
            for output in _outputs(trial.catalog, item):
                self._place(trial, gateway, output, after)
        trial.timeline.mint(trial.relations.sources(), tasks=put_in_force)
        return trial

    def _made_tables(self, bound: BoundObject, after: int) -> Iterator[Item]:
        """The table of a definition, if it is new, as it would have been made at a T."""
        statement = bound.definition.statement
        if bound.old is not None or not isinstance(statement, st.CreateTable):
            return
        (table,), schema = bound.items, bound.definition.schema
        if statement.location is None:
            location = f"file:{self.place}/{table.id}"
            transaction = OpenTransaction(self.present, after)  # it reads as of then
            run_on_table(
                self.present, statement.text, statement.target, location, schema, within=transaction
            )
            table = replace(table, location=location)
            table = Creation(Namespace(self.present, schema)).as_stored(table)
        delta_table = self.present.relations.table(table)
        count = delta_table.rows_count(delta_table.version())
        contents = "some rows" if count is None else _count_of(count, "row") if count else "no rows"
        self.notes.append(f"{table.name} is new: it holds {contents} throughout")
        yield table

    def _place(self, trial: Engine, gateway: ReadOnlyGateway, output: Item, after: int) -> None:
        """Pin an output's table, or make an empty one where there was none with its columns."""
        old = self.stored_catalog.items.get(output.id)
        if (
            old is not None
            and old.location is not None
            and same_columns(old.columns, output.columns)
        ):
            version = self.present.versions.version_at(old, after)
            if version is not None and old.created_at <= after:
                gateway.pin(old.location, version)
                return
        if output.location is None:
            return
        new_output = replace(
            output,
            location=f"file:{self.place}/{output.id}",
            created_at=after,
            table_id=None,
            revision=output.revision if output.is_task else 0,
        )
        with translate_spark_errors():
            trial.session.sql(create_table_text(new_output, has_vectors=True))
        trial.relations.add([new_output])
        trial.relations.add([identify(trial.relations, new_output)])

    def _go_through(self, trial: Engine, times: Iterable[int]) -> None:
        stopped_ids: set[str] = set()
        for at in times:
            for item in self.running:
                below = trial.catalog.closure([item.id])
                if any(i.id in stopped_ids for i in below):
                    continue
                try:
                    trial.advance_one(trial.catalog.items[item.id], at)
                except DataError as problem:
                    failed_at = at
                    if item.is_task:
                        stopped_ids.add(item.id)
                        failure = failure_of(trial.warehouse, item)
                        failed_at = at if failure is None else failure.time
                    self._note(item, failed_at, problem)

    def _note(self, item: Item, at: int, problem: CtsqlError) -> None:
        """Keep an error; of a view that has the same one at the next T the first."""
        self.failed_at[item.id] = at
        problems = self.problems.setdefault(item.id, [])
        cause = problem.__cause__ if isinstance(problem.__cause__, CtsqlError) else problem
        refusal = replace(Refusal.of(cause), place=self._place_of(item, problem), hint="")
        if not problems or problems[-1].refusal != refusal:
            problems.append(Problem(time=at, refusal=refusal))

    def _place_of(self, item: Item, problem: CtsqlError) -> str:
        """Where in the folder an error is; in the stored definition of one that is as it was."""
        if problem.span is None:
            return ""
        inside = problem.span
        definitions = (
            o.definition for o in self.planned_folder.objects if item.id in {i.id for i in o.items}
        )
        span = next((m.statement.span for m in definitions), None)
        if span is None or inside.source.text != span.text:
            return inside.place()
        return span.part(inside.start, inside.stop).place()

    # ---- what came of it

    def _outcome_of(self, item: Item, **fields: object) -> OutputRehearsal:
        is_new = item.id not in self.stored_catalog.items
        parts = self.parts.get(item.id, ())
        status = Status.NEW if is_new else Status.CHANGED if parts else Status.UNCHANGED
        outcome = OutputRehearsal(
            name=str(item.name), keyword=item.kind.keyword, status=status, parts=parts
        )
        return replace(outcome, **fields)  # type: ignore[arg-type]

    def _came_of(
        self, trial: Engine, item: Item, after: int, times: Sequence[int]
    ) -> Iterator[OutputRehearsal]:
        """What came of a task's outputs, or of a view."""
        if not times and item.id in self.stored_catalog.items:
            yield self._outcome_of(item, note="nothing has changed in what it reads")
            return
        if trial.relations.is_suspended(item):
            yield self._outcome_of(item, note="it is suspended")
            return
        last, problems = times[-1] if times else after, tuple(self.problems.get(item.id, ()))
        waits = [
            str(i.name)
            for i in trial.catalog.closure([item.id])
            if i.id != item.id and i.is_task and i.id in self.problems
        ]
        for number, output in enumerate(_outputs(trial.catalog, item)):
            outcome = self._outcome_of(output, parts=self.parts.get(item.id, ()))
            if number == 0:
                costs = _costs(trial, item, after, last)
                outcome = replace(outcome, problems=problems, costs=costs)
            if waits:
                outcome = replace(outcome, note=f"it waits for {', '.join(waits)}")
            elif not (problems and (item.is_task or self.failed_at[item.id] == last)):
                rows = trial.versions.contents_as_now(output, last)
                outcome = self._compare(replace(outcome, rows=rows), output, last)
            if number == 0:  # now that it is brought up by the present definitions, too
                outcome = replace(outcome, before=self._costs_before(item, after, last))
            yield outcome

    def _costs_before(self, item: Item, after: int, last: int) -> Costs | None:
        if item.id not in self.stored_catalog.items:
            return None
        return _costs(self.present, self.stored_catalog.items[item.id], after, last)

    def _compare(self, outcome: OutputRehearsal, output: Item, last: int) -> OutputRehearsal:
        old = self.stored_catalog.items.get(output.id)
        if old is None:
            return outcome
        try:
            self.present.advance([old], last)
            rows = self.present.versions.contents_as_now(old, last)
        except DataError as problem:
            return replace(outcome, present=Problem(time=last, refusal=Refusal.of(problem)))
        if not same_columns(old.columns, output.columns):
            return replace(outcome, note="its columns are others, so its rows are not compared")
        return replace(outcome, stored_rows=rows)


def _count_of(count: int, what: str) -> str:
    """A number of things.

    >>> _count_of(1, "row"), _count_of(1200, "change")
    ('1 row', '1,200 changes')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _outputs(catalog: Catalog, item: Item) -> list[Item]:
    """What a task writes, its quarantine included; that of a view is a view of its own."""
    item = catalog.items[item.id]
    return written_by(catalog, item) if item.is_task else [item]


def _from(start: int, number: int) -> Callable[[TaskState, int], TaskState]:
    """A definition is in force from a T on, whatever was before."""
    return lambda state, _: replace(state, revisions=(*state.revisions, (start, number)))


def _costs(engine: Engine, item: Item, after: int, last: int) -> Costs:
    """What the commits of a task or view took at the Ts of a rehearsal, by what they say."""
    request = RowRequest(objects=frozenset({str(item.name)}), t=Bounds(after + 1, last))
    refresh_rows = list(refreshes(engine, request))
    return Costs(
        commits=len(refresh_rows),
        seconds=sum(r.seconds or 0.0 for r in refresh_rows),
        rows_written=sum((r.rows_inserted or 0) + (r.rows_deleted or 0) for r in refresh_rows),
        bytes_read=sum(r.bytes_read or 0 for r in refresh_rows),
    )
