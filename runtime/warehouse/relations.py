"""The objects of a warehouse as stored: tables and handles, and which version holds which T.

A source's versions are bound to times by the timeline; an output's own commits say their times.

A view with a refresh schedule changes at its refresh times only: those of the schedule and those
bound by the timeline because somebody asked for a refresh by hand. R1: what it shows at T is its
query as of the newest refresh time R <= T, whether or not anything was written at R.
"""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Catalog, Item, ObjectKind
from ctsql.catalog.times import CLOSED, TIME_MAX
from ctsql.planner.binding import Bound, bind_stored
from ctsql.planner.nodes import TaskWrite, ViewWrite
from ctsql.runtime.delta.table import DeltaTable, Gateway
from ctsql.runtime.log import table_changes as moved
from ctsql.runtime.log.actions import Change
from ctsql.runtime.log.table_changes import Movement, Stored, due_changes, input_columns
from ctsql.runtime.log.write_handle import Entry, Output
from ctsql.runtime.warehouse.relation_rows import ObjectRows
from ctsql.runtime.warehouse.replaced_tables import missing_table, replaced_error
from ctsql.runtime.warehouse.schedules import Schedule
from ctsql.runtime.warehouse.timeline import Timeline

DEFINITION = "definition"
"""In the metadata of an output's commit: of which definition it is."""
REVISION = "revision"
"""There too, of a view that was replaced: how often that was."""


def revision_of(item: Item) -> dict[str, object]:
    """What a commit of a view says of how often it was replaced; nothing of one that never was."""
    is_view = item.kind is ObjectKind.MATERIALIZED_VIEW
    return {REVISION: item.revision} if is_view and item.revision else {}


class Objects(ObjectRows):
    """Tables and handles by object; made anew when the catalog changes.

    Attributes:
        on_commit: told of every commit of this process to an output: the object's id, and what
            was reached. stop: looked at between the commits of a catch-up.
        watched: the ids of the objects that this process's running subscriptions follow.
        change_plans: views' change plans, by object id, with what they were made for.
        states: the write handles of views' state tables, by location.
    """

    def __init__(self, gateway: Gateway, timeline: Timeline) -> None:
        super().__init__()
        self.gateway = gateway
        self.timeline = timeline
        self.on_commit: Callable[[str, Entry], None] | None = None
        self.stop: threading.Event | None = None
        self.watched: set[str] = set()
        self.catalog: Catalog = Catalog.of(())
        self._outputs: dict[str, Output] = {}
        self._bound: dict[tuple[str, int], Bound] = {}
        self.change_plans: dict[str, tuple[object, object]] = {}
        self.states: dict[str, Output] = {}

    def use(self, catalog: Catalog) -> None:
        """Go on with another catalog."""
        for object_id in set(self._outputs) - set(catalog.items):
            del self._outputs[object_id]
        changed = [i for i in catalog if self.catalog.items.get(i.id) != i]
        if changed or len(catalog.items) != len(self.catalog.items):
            self._bound.clear()
        self.catalog = catalog

    def item(self, object_id: str) -> Item:
        """The object of an id; raises STORED_DATA_INVALID where the catalog cannot be read."""
        return self.catalog.items[object_id].checked()

    def table(self, item: Item) -> DeltaTable:
        """The Delta table of an object that has one; of a task with outputs the first one's."""
        item = self.lead(item)
        if item.location is None:
            raise error(
                "INTERNAL_ERROR",
                invariant="only stored objects are read from a table",
                detail=f"{item.kind.value} {item.name} has none.",
            )
        table = self.gateway.table(item.location)
        if table.identity.owner != item.id:
            if table.identity.owner is not None:
                self.gateway.forget(item.location)  # of an object that was dropped
                table = self.gateway.table(item.location)
            table.identity.expect(item.id, item.table_id, partial(self._replaced, item))
        return self.gateway.output_table(item.location) if item.is_output else table

    def _replaced(self, item: Item, facts: str) -> CtsqlError:
        """The error for an object in whose place another table lies."""
        return replaced_error(self.catalog, self.catalog.items.get(item.id, item), facts)

    def lead(self, item: Item) -> Item:
        """Whose log says how far an object is: of a task with outputs that of the first one."""
        return self.item(item.outputs[0]) if item.outputs else item

    def output(self, item: Item) -> Output:
        """The write handle of an output; of a task with outputs the first one's."""
        item = self.lead(item)
        found = self._outputs.get(item.id)
        if found is None:
            found = self._outputs[item.id] = Output(
                self.table(item), item.app, partial(self._committed, item.id)
            )
        return found

    def _committed(self, object_id: str, entry: Entry) -> None:
        if self.on_commit is not None:
            self.on_commit(object_id, entry)

    def check_stop(self) -> None:
        """Between two commits: raises STATEMENT_CANCELLED when whoever runs this wants to stop."""
        if self.stop is not None and self.stop.is_set():
            raise error("STATEMENT_CANCELLED")

    def bound(self, item: Item) -> Bound:
        """The bound definition of an object; of a task the one in force now."""
        return self._bound_as(self.current(item))

    def _bound_as(self, item: Item) -> Bound:
        found = self._bound.get((item.id, item.revision))
        if found is None:
            found = self._bound[item.id, item.revision] = bind_stored(item, self.catalog)
        return found

    def readable(self) -> set[str]:
        """The ids of all objects of which this program can read the definition, and what is below.

        In one pass over the catalog: what reads something unreadable is not among them.
        """
        found: set[str] = set()
        for item in self.catalog.closure(self.catalog.items):
            read = {r.object_id for r in item.reads} - {item.id}
            if read <= found and self._is_readable(item):
                found.add(item.id)
        return found

    def _is_readable(self, item: Item) -> bool:
        """Can this program read what the catalog says of an object?"""
        if item.problem or not item.is_run:
            return not item.problem
        try:
            self.bound(item)
        except CtsqlError as problem:
            if problem.condition != "STORED_DATA_INVALID":
                raise
            return False
        return True

    def current(self, item: Item) -> Item:
        """An object with the definition that is in force now; an output is its task."""
        if item.kind is ObjectKind.TASK_OUTPUT:
            item = self.item(item.owner)
        if item.kind is not ObjectKind.CONTINUAL_TASK:
            return item
        if self.timeline.read_to < 0:
            self.timeline.refresh()
        return self._at_revision(item, self.timeline.task(item.id).revision_at(TIME_MAX))

    def _at_revision(self, item: Item, number: int) -> Item:
        """A task with one of its definitions, by the newest catalog that was looked at."""
        newest = self.catalog.items.get(item.id, item)
        if number > newest.revision:
            raise error(
                "INTERNAL_ERROR",
                invariant="a definition is in the catalog before it is in force",
                detail=f"{item.name}: {number} is in force, {newest.revision} is the newest known.",
            )
        return newest.at_revision(number)

    def plans(
        self, item: Item, *, after: int, until: int
    ) -> list[tuple[int, int, Item, TaskWrite]]:
        """(after, until] cut where a task's definition changes, with the item as it is then."""
        found = []
        for start, stop, number in self.timeline.task(item.id).spans(after, until):
            then = self._at_revision(item, number)
            plan = self._bound_as(then).task
            found.append((start, stop, then, plan))
        return found

    def in_force(self, item: Item, at: int) -> tuple[Item, TaskWrite]:
        """A task as it is at a time, and what it does then."""
        ((_, _, then, plan),) = self.plans(item, after=at - 1, until=at)
        return then, plan

    def is_suspended(self, item: Item) -> bool:
        """Is it a task that is not to run?"""
        return self.timeline.task(item.id).suspended is not None

    def sources(self) -> dict[str, tuple[str, DeltaTable]]:
        """What the timeline mints for: every source with its name."""
        return {i.id: (i.name.qualified(), self.table(i)) for i in self.catalog.sources()}

    # ---- versions and times

    def version_at(self, item: Item, at: int) -> int | None:
        """The version that holds an object's contents as of T; None before there were any.

        Where a later commit is shared by Ts before and after this one, that is not all of it:
        rows are to be read by :meth:`contents_at`.
        """
        return self.stored_at(item, at).version

    def stored_at(self, item: Item, at: int) -> Stored:
        """Where an object's contents as of T are."""
        if item.kind is ObjectKind.TABLE:
            return Stored(self.timeline.version_at(item.id, at))
        return moved.stored_at(self.output(item).entries(since=at + 1), at)

    def stored_upper(self, item: Item) -> int:
        """An output's upper (exclusive), or its time of creation when nothing is written yet.

        CLOSED for a view that is finished.
        """
        return max(self.output(item).fetch_recent_upper(), item.created)

    def movements(self, item: Item, *, after: int, until: int) -> list[Movement]:
        """The changes of an object's table with after < T <= until, oldest first."""
        if item.kind is ObjectKind.TABLE:
            found = []
            before = self.timeline.version_at(item.id, after)
            for binding in self.timeline.moves(item.id, after, until):
                found.append(
                    Movement(binding.time, -1 if before is None else before, binding.version)
                )
                before = binding.version
            return found
        entries = self.output(item).entries(since=after + 1)
        return moved.movements(entries, after=after, until=until)

    def move_times(self, item: Item, *, after: int, until: int) -> set[int]:
        """The times at which what an object holds may have changed."""
        if item.kind is ObjectKind.VIEW:
            return self.read_times(item, after=after, until=until)
        times = {
            m.time
            for m in self.movements(item, after=after, until=until)
            if self.change_of(item, m) is not Change.NONE
        }
        if item.kind is ObjectKind.MATERIALIZED_VIEW:
            # One that nobody follows may have been written at a later T without those between.
            entries = self.output(item).entries(since=until + 1)
            is_written = bool(entries) and entries[0].upper <= until + 1
            written = entries[0].upper - 1 if is_written else item.created
            times |= self.change_times(item, after=max(after, written), until=until)
        return times

    def read_times(self, item: Item, *, after: int, until: int) -> set[int]:
        """The times at which anything that an object reads may have changed."""
        times: set[int] = set()
        for reading in item.reads:
            if reading.object_id != item.id:
                read = self.item(reading.object_id)
                times |= self.move_times(read, after=after, until=until)
        return times

    def followed(self, item: Item) -> list[Item]:
        """What an object must keep up with: a task its inputs, any other all that it reads."""
        if item.kind in (ObjectKind.CONTINUAL_TASK, ObjectKind.TASK_OUTPUT):
            plan = self.bound(item).task
            return [self.item(object_id) for object_id in due_changes(plan)]
        return [self.item(r.object_id) for r in item.reads if r.object_id != item.id]

    def due_times(self, item: Item, *, after: int, until: int) -> set[int]:
        """The times at which an object may have to be brought up; a task is, for its inputs."""
        if item.kind is not ObjectKind.CONTINUAL_TASK:
            return self.change_times(item, after=after, until=until)
        due = self.due_movements(item, after=after, until=until)
        return {time for time, *_ in due} | self.trims(item, after=after, until=until)

    def due_movements(
        self, item: Item, *, after: int, until: int
    ) -> Iterator[tuple[int, int, str, Movement]]:
        """The changes that a task runs for at a T with after < T <= until.

        Each with the T, the revision of the task that is in force then, and the input's id.
        """
        for start, stop, then, plan in self.plans(
            item, after=max(after, item.created), until=until
        ):
            first, last = self.shown_at(item, start), self.shown_at(item, stop)
            assert first is not None  # a task begins when it is created
            assert last is not None
            waiting = {
                i: self._waiting(item, plan, i, after=first, until=last) for i in due_changes(plan)
            }
            for time, object_id, movement in moved.due_movements(plan, waiting):
                yield time, then.revision, object_id, movement

    def _waiting(
        self, item: Item, plan: TaskWrite, object_id: str, *, after: int, until: int
    ) -> list[tuple[int, Movement, Change]]:
        """The movements of an input, those due at one T together: T, how it moved, what it did."""
        source, columns = self.item(object_id), input_columns(plan, object_id)
        moves = self.movements(source, after=after, until=until)
        found = []
        for time, group in groupby(moves, lambda m: self._run_time(item, m.time)):
            movement = moved.merged(list(group))
            found.append((time, movement, self.change_of(source, movement, columns)))
        return found

    def _run_time(self, item: Item, time: int) -> int:
        """The T at which a task runs for a change at a time."""
        schedule = self.schedule(item)
        return time if schedule is None else schedule.round_up(time)

    def trims(self, item: Item, *, after: int, until: int) -> set[int]:
        """The times in (after, until] at which a task runs because time has passed."""
        found: set[int] = set()
        if item.kind is not ObjectKind.CONTINUAL_TASK:
            return found
        for start, stop, _, plan in self.plans(item, after=max(after, item.created), until=until):
            if plan.trim is not None:
                schedule = Schedule.of([plan.trim], item.created)
                time = schedule.round_up(start + 1)
                while time <= stop:
                    found.add(time)
                    time = schedule.round_up(time + 1)
        return found

    # ---- refresh times

    def schedule(self, item: Item) -> Schedule | None:
        """When a view is refreshed, or a task with COALESCE runs; None for at every commit."""
        if not item.is_run:
            return None
        plan = self.bound(item).plan
        if isinstance(plan, TaskWrite):
            return Schedule.of([plan.coalesce], item.created) if plan.coalesce else None
        if not isinstance(plan, ViewWrite) or plan.refresh is None:
            return None
        return Schedule.of(plan.refresh, item.created)

    def shown_at(self, item: Item, at: int) -> int | None:
        """The time whose contents a view shows at T (R1); None before its first refresh."""
        schedule = self.schedule(item)
        if schedule is None:
            return at
        last = schedule.last_at_or_before(at)
        after = item.created - 1 if last is None else last
        return max(self.timeline.requests(item.id, after=after, until=at), default=last)

    def next_refresh(self, item: Item, schedule: Schedule, time: int) -> int:
        """A view's first refresh time >= a time; CLOSED when none is known."""
        planned = schedule.round_up(time)
        return min(self.timeline.requests(item.id, after=time - 1, until=planned), default=planned)

    def change_times(self, item: Item, *, after: int, until: int) -> set[int]:
        """The times in (after, until] at which an output's contents may change."""
        return self._refreshes(
            item, after, until, lambda since: self.read_times(item, after=since, until=until)
        )

    def possible_times(self, item: Item, *, after: int, until: int) -> set[int]:
        """Like :meth:`change_times`, told from the timeline alone, for objects that are behind."""
        if item.kind is ObjectKind.TABLE:
            return {b.time for b in self.timeline.moves(item.id, after, until)}
        read = [self.item(r.object_id) for r in item.reads if r.object_id != item.id]
        own = set[int]()
        if item.kind is ObjectKind.CONTINUAL_TASK:
            own = self.trims(item, after=after, until=until)
        return own | self._refreshes(
            item,
            after,
            until,
            lambda since: set[int]().union(
                *(self.possible_times(i, after=since, until=until) for i in read)
            ),
        )

    def _refreshes(
        self, item: Item, after: int, until: int, changes: Callable[[int], set[int]]
    ) -> set[int]:
        """The refresh times at which a change becomes due; without a schedule the changes'."""
        schedule = self.schedule(item)
        if schedule is None:
            return changes(after)
        first = self.next_refresh(item, schedule, max(after, item.created - 1) + 1)
        if first > until:
            return set()
        shown = self.shown_at(item, after)
        since = first if shown is None else shown
        due = {first} if shown is None else set()
        times = (self.next_refresh(item, schedule, t) for t in changes(since))
        return due | {t for t in times if t <= until}

    def is_closed(self, item: Item) -> bool:
        """Is an output finished, never to be written again?"""
        output = self.output(item)
        return output.upper == CLOSED or output.fetch_recent_upper() == CLOSED

    def is_to_close(self, item: Item, at: int) -> bool:
        """Is a view that is not closed past its last refresh at T, and does it hold that?

        Not while its table, or one that it reads, is not there: whoever reads it is told.
        """
        schedule = self.schedule(item)
        return (
            schedule is not None
            and schedule.round_up(at + 1) == CLOSED
            and self.output(item).upper != CLOSED
            and missing_table(self, self.catalog.closure([item.id])) is None
            and not self.is_closed(item)
            and not self.change_times(item, after=self.stored_upper(item) - 1, until=at)
        )

    def reads_at(self, item: Item, time: int) -> dict[str, object]:
        """What a commit of an output at T says of itself: T, and the versions it was made from."""
        read = [self.item(r.object_id) for r in item.reads]
        versions = {i.id: self.version_at(i, time) for i in read if i.location is not None}
        definition = self.catalog.fingerprint(item)
        return {"t": time, "bindings": versions, DEFINITION: definition, **revision_of(item)}

    def is_followed(self, item: Item) -> bool:
        """Does a task or a subscription read it, also through views, so that every T matters?"""
        readers = self.catalog.all_readers(item.id)
        if any(r.kind is ObjectKind.CONTINUAL_TASK for r in readers):
            return True
        subscriptions = self.catalog.subscriptions.values()
        if any(s.problem for s in subscriptions):
            return True  # nobody can tell what it follows
        told = self.watched | {s.object_id for s in subscriptions}
        return item.id in told or any(r.id in told for r in readers)
