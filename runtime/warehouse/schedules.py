"""Times at which objects change: refresh times of views, and the times that tasks run for.

A view with a refresh schedule changes only at refresh times: those of the schedule, and those that
the timeline has bound for refreshes by hand.

[as-of-refresh-time] at T it shows its query as of the newest refresh time R <= T, whether or not
    anything was written at R.
[times-of-then] a changed schedule holds from its T on: a read as of an earlier T uses the schedule
    in force at that T.

A view with now() also changes when a row is due, without any change of a source.

[next-time-is-stored] each commit of such a view stores the first later T at which time changes it
    if its tables do not change, so every process computes the same times. A commit that does not
    store it, or is no longer in the log, counts as one with T + 1.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from itertools import groupby

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import all_readers, closure, subscribers
from ctsql.catalog.items import Item, Maintained, MaterializedView, Table, Task, View
from ctsql.catalog.refreshes import At, RefreshPart
from ctsql.catalog.times import CLOSED
from ctsql.planner.binding.definitions import may_wait
from ctsql.planner.bodies.row_local import only_loses_rows
from ctsql.planner.nodes import TaskWrite, ViewWrite
from ctsql.runtime.log import table_changes
from ctsql.runtime.log.actions import RowChange
from ctsql.runtime.log.table_changes import VersionChange, due_changes, input_columns
from ctsql.runtime.warehouse.relations import Relations
from ctsql.runtime.warehouse.table_checks import unreadable_table
from ctsql.runtime.warehouse.times.refresh_times import Schedule
from ctsql.runtime.warehouse.times.timeline import Timeline
from ctsql.runtime.warehouse.versions import Versions

DUE = "due"
"""Key in the metadata of a view's commit: the first T at which time changes it; null for none."""


Known = dict[tuple[str, int, int], frozenset[int]]
"""Times by an object's id, and the Ts between which they are."""


class Schedules:
    """The times at which the objects of a registry change."""

    def __init__(self, relations: Relations, versions: Versions, timeline: Timeline) -> None:
        self._relations = relations
        self._versions = versions
        self._timeline = timeline
        self._may_wait: tuple[Catalog, dict[str, Maintained]] = Catalog.of(()), {}

    def schedule(self, item: Item) -> Schedule | None:
        """The refresh times of a view, or the runs of a task with COALESCE; None: every commit."""
        if not isinstance(item, Maintained):
            return None
        plan = self._relations.bound(item).plan
        if isinstance(plan, TaskWrite):
            begin = _begin_of(self._relations.catalog, item)
            return Schedule.of([plan.coalesce], begin) if plan.coalesce else None
        if not isinstance(plan, ViewWrite) or plan.refresh is None:
            return None
        return _of_stretch(plan.refresh, item.created_at, is_later=bool(item.following.stretches))

    def shown_at(self, item: Item, at: int) -> int | None:
        """The time whose contents a view shows at T; None before its first refresh."""
        stretches = _stretches(item, self.schedule(item))
        begin, schedule = next((s for s in reversed(stretches) if s[0] <= at), stretches[0])
        if schedule is None:
            return at
        last = schedule.last_at_or_before(at)
        after = begin - 1 if last is None else last
        return max(self._timeline.requests(item.id, after=after, until=at), default=last)

    def next_refresh(self, item: Item, schedule: Schedule, time: int) -> int:
        """A view's first refresh time >= a time; CLOSED if there is none."""
        next_time = schedule.round_up(time)
        return min(
            self._timeline.requests(item.id, after=time - 1, until=next_time), default=next_time
        )

    def reads_clock(self, item: Item) -> bool:
        """Whether it is a view that changes because time passes."""
        if not isinstance(item, MaterializedView):
            return False
        return self._relations.bound(item).view.reads_clock

    def waits(self, item: Item) -> bool:
        """Whether an object may have work without a commit of a source."""
        return self.schedule(item) is not None or self.reads_clock(item)

    def _timed_items(self) -> dict[str, Maintained]:
        """The tasks and views that may have work as time passes; found without binding them."""
        catalog = self._relations.catalog
        if self._may_wait[0] is not catalog:
            items = {i.id: i for i in catalog if isinstance(i, Maintained) and may_wait(catalog, i)}
            self._may_wait = catalog, items
        return self._may_wait[1]

    def _next_expiry(self, item: Item, at: int) -> int | None:
        """The T at which time next changes the rows that a view last wrote at or before T."""
        entries = self._relations.output(item).entries_around(since=at + 1)
        begin = item.known_from if at + 1 < item.created_at else item.created_at
        if not entries or not begin < entries[0].upper <= at + 1:
            return None  # its creation writes it at any time
        entry, table = entries[0], self._relations.table(item)
        metadata = table.commit_at(entry.version).metadata if table.has(entry.version) else {}
        expiry: int | None = metadata.get(DUE, entry.upper)
        return expiry

    def _expiries(self, item: Item, *, last_write: int, after: int, until: int) -> set[int]:
        """The T in (after, until] at which time changes the last written rows; empty if none."""
        due = self._next_expiry(item, last_write) if self.reads_clock(item) else None
        return {max(due, after + 1)} if due is not None and due <= until else set()

    def is_expiry_unknown(self, item: Item, until: int) -> bool:
        """Whether a view with now() is behind, so its next change up to ``until`` is unknown.

        The next change is known after a refresh at the newest T that includes the expiries so far.
        """
        now, schedule = self._timeline.now, self.schedule(item)
        if now >= until or not self.reads_clock(item):
            return False
        if schedule is not None and schedule.round_up(now + 1) > until:
            return False
        after = self._versions.stored_upper(item) - 1
        if self._expiries(item, last_write=after, after=after, until=now):
            return True
        read = [self._relations.item(r.object_id) for r in item.reads]
        return any(self.possible_times(i, after=after, until=now) for i in read)

    def is_refresh_due(self, until: int) -> bool:
        """Whether work is due at a time after the newest T, up to ``until``.

        If not, no new T is needed: reads of the waiting views return the same rows. Unreadable
        objects count as having no work; their readers get the error.
        """
        now, items = self._timeline.now, self._timed_items()
        readable = self._relations.readable(items)
        return any(
            self.trims(item, after=now, until=until)
            or self._is_expiry_due(item, now, until)
            or (
                self.schedule(item) is not None
                and (
                    self.possible_times(item, after=now, until=until)
                    or self.is_to_close(item, until)
                )
            )
            for item in items.values()
            if item.id in readable
        )

    def _is_expiry_due(self, item: Item, now: int, until: int) -> bool:
        if self.schedule(item) is not None or not self.reads_clock(item):
            return False
        if unreadable_table(self._relations, [item]) is not None:
            return False
        due = self._next_expiry(item, now)
        return due is not None and now < due <= until

    def is_closed(self, item: Item) -> bool:
        """Whether an output is finished: it is never written again."""
        output = self._relations.output(item)
        return output.upper == CLOSED or output.fetch_recent_upper() == CLOSED

    def is_to_close(self, item: Item, at: int) -> bool:
        """Whether a view can be closed at T: its last refresh is past and written.

        False if its table, or one that it reads, is unreadable: its readers get the error.
        """
        schedule, catalog = self.schedule(item), self._relations.catalog
        return (
            schedule is not None
            and schedule.round_up(at + 1) == CLOSED
            and self._relations.output(item).upper != CLOSED
            and unreadable_table(self._relations, closure(catalog, [item.id])) is None
            and not self.is_closed(item)
            and not self.change_times(item, after=self._versions.stored_upper(item) - 1, until=at)
        )

    def move_times(
        self, item: Item, *, after: int, until: int, memo: Known | None = None
    ) -> set[int]:
        """The times at which an object's contents may have changed.

        ``memo`` caches answers: an object that several others read is computed once.
        """
        memo = {} if memo is None else memo

        def find() -> set[int]:
            if isinstance(item, View):
                return self.read_times(item, after=after, until=until, memo=memo)
            moves = self._versions.version_changes(item, after=after, until=until)
            times = {
                m.time for m in moves if self._versions.change_of(item, m) is not RowChange.NONE
            }
            if isinstance(item, MaterializedView):
                quiet = [m for m in moves if m.time not in times]
                times |= self._passed_over(item, quiet, after, memo) if quiet else set()
                # A view without followers may have skipped Ts before its last write.
                entries = self._relations.output(item).entries_around(since=until + 1)
                is_written = bool(entries) and entries[0].upper <= until + 1
                last_write = entries[0].upper - 1 if is_written else item.known_from
                since = max(after, last_write)
                times |= self.change_times(item, after=since, until=until, memo=memo)
            return times

        return _once(memo, (item.id, after, until), find)

    def _passed_over(
        self, item: MaterializedView, quiet: Sequence[VersionChange], after: int, memo: Known
    ) -> set[int]:
        """The times of a view's commits without changed rows that follow unwritten changes.

        A reader may have been computed from such a change, so these commits count.
        """
        writes = {e.version: e.upper - 1 for e in self._relations.output(item).entries(after + 1)}
        return {
            m.time
            for m in quiet
            if m.before in writes
            and self.change_times(item, after=writes[m.before], until=m.time - 1, memo=memo)
        }

    def read_times(
        self, item: Item, *, after: int, until: int, memo: Known | None = None
    ) -> set[int]:
        """The times at which any object that this object reads may have changed."""
        times: set[int] = set()
        memo = {} if memo is None else memo
        for reading in item.reads:
            if reading.object_id != item.id:
                read = self._relations.item(reading.object_id)
                times |= self.move_times(read, after=after, until=until, memo=memo)
        return times

    def change_times(
        self, item: Item, *, after: int, until: int, memo: Known | None = None
    ) -> set[int]:
        """The times in (after, until] at which an output's contents may change."""
        return self._refreshes(
            item,
            after,
            until,
            lambda since: (
                self.read_times(item, after=since, until=until, memo=memo)
                | self._expiries(item, last_write=after, after=since, until=until)
            ),
        )

    def possible_times(
        self, item: Item, *, after: int, until: int, memo: Known | None = None
    ) -> set[int]:
        """Like :meth:`change_times`, from the timeline alone, for objects that are behind."""
        memo = {} if memo is None else memo

        def find() -> set[int]:
            if isinstance(item, Table):
                return {b.time for b in self._timeline.bindings_between(item.id, after, until)}
            read = [self._relations.item(r.object_id) for r in item.reads if r.object_id != item.id]
            own = set[int]()
            if isinstance(item, Task):
                own = self.trims(item, after=after, until=until)
            return own | self._refreshes(
                item,
                after,
                until,
                lambda since: self._expiries(
                    item, last_write=after, after=since, until=until
                ).union(
                    *(self.possible_times(i, after=since, until=until, memo=memo) for i in read)
                ),
            )

        return _once(memo, (item.id, after, until), find)

    def _refreshes(
        self, item: Item, after: int, until: int, changes: Callable[[int], set[int]]
    ) -> set[int]:
        """The refresh times at which changes become due; without a schedule, their own times."""
        refreshes, stretches = set[int](), _stretches(item, self.schedule(item))
        ends = [begin - 1 for begin, _ in stretches[1:]] + [until]
        for number, ((begin, schedule), end) in enumerate(zip(stretches, ends, strict=True)):
            start, stop = max(after, begin - 1) if number else after, min(until, end)
            if start >= stop:
                continue
            begins = number > 0 and start < begin  # its rows were as of an earlier schedule
            if schedule is None:
                refreshes |= {begin} if begins else set()
                refreshes |= {t for t in changes(start) if t <= stop}
                continue
            first = self.next_refresh(item, schedule, max(start, begin - 1) + 1)
            if first > stop:
                continue
            shown_time = None if begins else self.shown_at(item, start)
            refreshes |= {first} if shown_time is None else set()
            since = first if shown_time is None else shown_time
            times = (self.next_refresh(item, schedule, t) for t in changes(since))
            refreshes |= {t for t in times if t <= stop}
        return refreshes

    def due_times(self, item: Item, *, after: int, until: int) -> set[int]:
        """The times at which an object may have to be advanced; for a task, those of its inputs."""
        if not isinstance(item, Task):
            return self.change_times(item, after=after, until=until)
        due = self.due_version_changes(item, after=after, until=until)
        return {time for time, *_ in due} | self.trims(item, after=after, until=until)

    def due_version_changes(
        self, item: Item, *, after: int, until: int
    ) -> Iterator[tuple[int, int, str, VersionChange]]:
        """The changes for which a task runs with after < T <= until.

        Each with its T, the task's revision in force then, and the input's id.
        """
        for start, stop, then, plan in self._relations.plans(
            item, after=max(after, item.created_at), until=until
        ):
            first, last = self.shown_at(item, start), self.shown_at(item, stop)
            assert first is not None  # a task begins when it is created
            assert last is not None
            waiting = {
                i: self._waiting(item, plan, i, after=first, until=last) for i in due_changes(plan)
            }
            for time, object_id, version_change in table_changes.due_version_changes(plan, waiting):
                yield time, then.revision, object_id, version_change

    def _waiting(
        self, item: Item, plan: TaskWrite, object_id: str, *, after: int, until: int
    ) -> list[tuple[int, VersionChange, RowChange]]:
        """The changes of an input, merged by due T: T, the change, and its kind of change."""
        source, columns = self._relations.item(object_id), input_columns(plan, object_id)
        moves = self._versions.version_changes(source, after=after, until=until)
        version_changes = []
        schedule = self.schedule(item)
        at = (lambda m: m.time) if schedule is None else (lambda m: schedule.round_up(m.time))
        for time, group in groupby(moves, at):
            version_change = table_changes.merge(list(group))
            version_changes.append(
                (time, version_change, self._versions.change_of(source, version_change, columns))
            )
        return version_changes

    def trims(self, item: Item, *, after: int, until: int) -> set[int]:
        """The times in (after, until] at which a task runs without a change of its inputs.

        These are the times of TRIM EVERY, and of a definition that copies rows. If rows only leave,
        a missed time that no other object reads is left out.
        """
        times: set[int] = set()
        if not isinstance(item, Task):
            return times
        for start, stop, then, plan in self._relations.plans(
            item, after=max(after, item.created_at), until=until
        ):
            if then.definition.copies_rows:
                times.add(stop)  # it is in force at this one T
            if plan.trim is not None:
                schedule = Schedule.of([plan.trim], _begin_of(self._relations.catalog, item))
                first, last = schedule.round_up(start + 1), schedule.last_at_or_before(stop)
                if last is not None and first < last:
                    looks = None
                    if only_loses_rows(plan):
                        span, catalog = (start, stop), self._relations.catalog
                        looks = _looks(catalog, self._timeline, self._timed_items(), item, span)
                    times |= _times_before(schedule, looks, first, last)
                elif first <= stop:
                    times.add(first)
        return times


def _begin_of(catalog: Catalog, item: Item) -> int:
    """The creation time of a task, or of the task it replaces: its intervals count from there."""
    of = catalog.items.get(item.replaces or item.id)
    return item.created_at if of is None else of.created_at


def _looks(
    catalog: Catalog,
    timeline: Timeline,
    timed_ids: Container[str],
    item: Item,
    span: tuple[int, int],
) -> set[int] | None:
    """The Ts in a span as of which views may read a task's contents; None for every T.

    None if an object follows the task's changes, because they show when a row was deleted.

    Args:
        timed_ids: the objects that change as time passes. span: (after, until].
    """
    readers = all_readers(catalog, item.id)
    if any(r.id in timed_ids or isinstance(r, Task) for r in readers):
        return None
    if any(subscribers(catalog, i.id) for i in (item, *readers)):
        return None
    tables = (i for i in closure(catalog, (r.id for r in readers)) if isinstance(i, Table))
    return {b.time for i in tables for b in timeline.bindings_between(i.id, *span)}


def _times_before(schedule: Schedule, looks: set[int] | None, first: int, last: int) -> set[int]:
    """The first time, the last time, and the last time at or before each look; None: all times.

    With the first time, the task is complete up to it in processes that have loaded fewer Ts too.
    """
    if looks is not None:
        last_times = map(schedule.last_at_or_before, looks)
        return {first, last, *(time for time in last_times if time is not None and time >= first)}
    times, time = set[int](), first
    while time <= last:
        times.add(time)
        time = schedule.round_up(time + 1)
    return times


def _once(memo: Known, key: tuple[str, int, int], find: Callable[[], set[int]]) -> set[int]:
    """The times of a key, computed now unless cached."""
    if key not in memo:
        memo[key] = frozenset(find())
    return {*memo[key]}


def first_shown(schedules: Schedules, item: Item) -> int:
    """The first T at which an output can be read; CLOSED if there is none."""
    begin, schedule = _stretches(item, schedules.schedule(item))[0]
    return begin if schedule is None else schedules.next_refresh(item, schedule, begin)


def _stretches(item: Item, newest: Schedule | None) -> list[tuple[int, Schedule | None]]:
    """The earlier schedules of an object and ``newest``, each with its first T."""
    earlier = [
        (s.start, None if s.parts is None else _of_stretch(s.parts, s.start, is_later=n > 0))
        for n, s in enumerate(item.following.stretches)
    ]
    return [*earlier, (item.created_at, newest)]


def _of_stretch(parts: Sequence[RefreshPart], begin: int, *, is_later: bool) -> Schedule:
    """The schedule of a stretch; every stretch but the first begins with a refresh.

    The view had rows before that stretch, so its readers find rows at every T.
    """
    return Schedule.of([*parts, At(begin)] if is_later else parts, begin)
