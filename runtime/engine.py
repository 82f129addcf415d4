"""The engine of one warehouse: binds times, brings outputs up to them, and reads.

Order of a read: mint Ts for what is committed, look at the catalog, bring everything the read
depends on up to the newest T (each object after what it reads), then read one cut as of T.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress

from pyspark.sql import DataFrame, SparkSession

from ctsql.catalog.errors import CommitUnknown, DataError, EnvironmentProblem, error
from ctsql.catalog.items import Catalog, Item, ObjectKind
from ctsql.catalog.spans import Span
from ctsql.catalog.times import CLOSED
from ctsql.planner.lowering import Context, lower_query
from ctsql.planner.nodes import Node, NormalReference as Reference, Query, descend
from ctsql.runtime.delta.locks import folder_lock
from ctsql.runtime.delta.overlay import ReadOnlyGateway
from ctsql.runtime.delta.table import Gateway
from ctsql.runtime.log import clock
from ctsql.runtime.log.failures import Failure, note_view_failure, recorded
from ctsql.runtime.spark.errors import converted
from ctsql.runtime.spark.session import cloned
from ctsql.runtime.tasks.sink import TaskSink
from ctsql.runtime.views.mint import Mint
from ctsql.runtime.views.sink import ViewSink
from ctsql.runtime.warehouse.advance_context import UNATTENDED, AdvanceContext
from ctsql.runtime.warehouse.catalog_store import DeltaCatalog
from ctsql.runtime.warehouse.location import SYSTEM_FOLDER, check_may_begin
from ctsql.runtime.warehouse.multi_table_commit import settle
from ctsql.runtime.warehouse.replaced_views import check_columns, check_written, is_redefined
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.runtime.warehouse.table_checks import check_tables, missing_table, remember_tables
from ctsql.runtime.warehouse.timeline import TaskState, Timeline
from ctsql.runtime.warehouse.warehouse import Warehouse

SETTLE_TRIES_MAX = 5
KNOWN_TRIES_MAX = 5


class Engine:
    """One warehouse, opened by one process. Not for several threads at once.

    A read-only one does the same as any other, but what it would write stays in memory
    (:mod:`ctsql.runtime.delta.overlay`).

    Attributes:
        tick_ms: commits that this engine binds share a T in intervals of so long; 0 for none.
    """

    tick_ms = 0
    _settles = True

    def __init__(self, session: SparkSession, warehouse: str, *, read_only: bool = False) -> None:
        self.session = session
        self._given = warehouse
        self._mode = Mint(read_only=read_only)
        self._shadow: Engine | None = None
        self._open()

    @property
    def read_only(self) -> bool:
        """Does everything that is computed stay in memory?"""
        return self._mode.read_only

    def _open(self) -> None:
        """Open the warehouse in the mode that holds, and know nothing of it yet."""
        session, warehouse, read_only = self.session, self._given, self.read_only
        self.gateway = ReadOnlyGateway(session) if read_only else Gateway(session)
        self.location = self.gateway.qualified(warehouse)
        system = f"{self.location}/{SYSTEM_FOLDER}"
        catalog_at, timeline_at = f"{system}/catalog", f"{system}/timeline"
        if not self.gateway.exists(catalog_at):
            check_may_begin(self.gateway, self.location, warehouse)
            if read_only:
                raise error(
                    "WAREHOUSE_NOT_FOUND",
                    location=warehouse,
                    detail="A read-only connection makes nothing.",
                    hint="Check the path, or connect without read_only to make a warehouse.",
                )
            # Creation is a commit too. The catalog comes last: where it is, all is.
            with converted(), folder_lock(system):
                Timeline.create(self.gateway, timeline_at)
                DeltaCatalog.create(self.gateway, catalog_at)
        self.catalog_store = DeltaCatalog(self.gateway, catalog_at, warehouse)
        self._use(Warehouse.over(self.gateway, Timeline(self.gateway, timeline_at)))

    def _use(self, warehouse: Warehouse) -> None:
        self.warehouse, self.timeline = warehouse, warehouse.timeline
        self.relations, self.versions = warehouse.relations, warehouse.versions
        self.schedules = warehouse.schedules

    # ---- read-only

    def promote(self) -> None:
        """From read-only to writing; what was computed in memory is forgotten, not written.

        The next read mints and writes: the Ts may differ from those shown before, as somebody
        else may have bound some meanwhile. There is no way back.
        """
        self._mode = self._mode.writing()
        self._open()

    @contextmanager
    def as_stored(self) -> Iterator[None]:
        """Inside, what is stored is seen, not what a read-only engine computed beyond it."""
        gateway = self.gateway
        if not isinstance(gateway, ReadOnlyGateway):
            yield
            return
        warehouse = self.warehouse
        opened = gateway.start_again()
        self._know_nothing()
        try:
            yield
        finally:
            gateway.start_again(opened)
            self._use(warehouse)

    def _know_nothing(self) -> None:
        self._use(Warehouse.over(self.gateway, Timeline(self.gateway, self.timeline.location)))
        self.refresh_catalog()

    def _look(self) -> None:
        """Read-only: what was computed holds only while nobody else has written."""
        if isinstance(self.gateway, ReadOnlyGateway) and self.gateway.is_stale():
            self.gateway.start_again()
            self._know_nothing()

    def shadow(self) -> "Engine":
        """A read-only engine on the same warehouse: this one, if it is."""
        if self.read_only:
            return self
        if self._shadow is None:
            self._shadow = Engine(self.session, self._given, read_only=True)
        return self._shadow

    def beside(self) -> "Engine":
        """An engine for another thread: same warehouse, a session of its own."""
        made = Engine(cloned(self.session), self._given, read_only=self.read_only)
        made.tick_ms = self.tick_ms
        return made

    # ---- time and progress

    @property
    def catalog(self) -> Catalog:
        """The catalog as last looked at."""
        return self.warehouse.catalog

    def refresh_catalog(self) -> Catalog:
        """The newest catalog."""
        self.relations.use(self.catalog_store.load())
        return self.catalog

    def mint(self) -> int:
        """Bind what is committed; returns the newest T.

        When a refresh time has passed that a view waits for, the newest T is behind it.
        """
        self._look()
        self.refresh_catalog()
        if not self.read_only and remember_tables(self.relations, self.catalog_store):
            self.refresh_catalog()
        newest = self._known(self._mint())
        if self.is_refresh_due():
            newest = self.mint_fresh()
        return newest

    def _mint(self) -> int:
        """Bind what is committed, transactions that a killed process left included."""
        newest = self.timeline.mint(self.relations.sources(), tick_ms=self.tick_ms)
        for _ in range(SETTLE_TRIES_MAX):
            if not self.timeline.intents or not self._settles or self.read_only:
                break
            for group in list(self.timeline.intents):
                settle(self.timeline, group, self.relations.sources())
            newest = self.timeline.mint(self.relations.sources(), tick_ms=self.tick_ms)
        return newest

    @contextmanager
    def leaving_intents(self) -> Iterator[None]:
        """Inside, transactions of others are left as they are: for who holds a table's lock."""
        before, self._settles = self._settles, False
        try:
            yield
        finally:
            self._settles = before

    def is_being_changed(self, item: Item) -> bool:
        """Is a transaction decided that changes a table, and not bound yet?"""
        self.timeline.refresh()
        return any(item.id in intent["tables"] for intent in self.timeline.intents.values())

    def mint_fresh(self, *, request: Item | None = None) -> int:
        """Bind a T that is new, not before the clock's time; a view's refresh may be asked for."""
        view = None if request is None else request.id
        newest = self.timeline.mint(
            self.relations.sources(), fresh=True, request=view, tick_ms=self.tick_ms
        )
        return self._known(newest)

    def _known(self, newest: int) -> int:
        """Look at the catalog, as whoever knows a T is to know the definitions from before it.

        Gives the newest T again, or a newer one where a view was replaced after it: a view is
        known from a T on that is bound before the catalog says so.
        """
        for _ in range(KNOWN_TRIES_MAX):
            if all(item.created <= newest for item in self.refresh_catalog()):
                break
            self._look()
            newest = self._mint()
        return newest  # of a view that is known from a still later T on nothing is written or read

    def is_refresh_due(self) -> bool:
        """Has the clock passed a time at which some view or task has something to do?

        Without one the newest T need not move: reads of views that wait show the same. What
        cannot be read has nothing to do; whoever reads it is told why.
        """
        now, passed = self.timeline.now, clock.now_ms()
        readable = self.relations.readable()
        return any(
            self.schedules.trims(item, after=now, until=passed)
            or (
                self.schedules.schedule(item) is not None
                and (
                    self.schedules.possible_times(item, after=now, until=passed)
                    or self.schedules.is_to_close(item, passed)
                )
            )
            for item in self.catalog
            if item.is_run and item.id in readable
        )

    def mint_for(self, items: Iterable[Item]) -> int:
        """Bind what is committed; returns the newest T at which items can be brought up to date.

        When a view's definition was replaced after it was written at the newest T, or somebody
        wrote into its table, it is brought to what it should be at a new T.
        """
        now = self.mint()
        behind = any(
            missing_table(self.relations, [item]) is None
            and self.versions.stored_upper(item) > now
            and (
                is_redefined(self.warehouse, item) or self.relations.output(item).has_foreign_rows()
            )
            for item in self.catalog.closure([i.id for i in items])
            if item.kind is ObjectKind.MATERIALIZED_VIEW
        )
        return self.mint_fresh() if behind else now

    def next_refresh(self, item: Item) -> int | None:
        """The first refresh time of a view that is not over; None without one."""
        schedule = self.schedules.schedule(item)
        if schedule is None:
            return None
        planned = schedule.round_up(max(self.timeline.now, clock.now_ms()) + 1)
        return None if planned == CLOSED else planned

    def advance(
        self, items: Iterable[Item], until: int, *, context: AdvanceContext = UNATTENDED
    ) -> None:
        """Bring the outputs among the items, and all they depend on, up to a time."""
        for item in self.catalog.closure([i.id for i in items]):
            self.advance_one(item, until, context=context)

    def advance_one(self, item: Item, until: int, *, context: AdvanceContext = UNATTENDED) -> None:
        """Bring one object up to a time; what it reads must be there already.

        A suspended task is left alone, and what reads one is brought no further than that is.
        """
        if self.relations.is_suspended(item):
            return
        check_tables(self.relations, [self.relations.item(r.object_id) for r in item.reads])
        until = min(until, self.held_back(item, until))
        if item.kind is ObjectKind.CONTINUAL_TASK:
            TaskSink(self.warehouse, item, context).advance(until)
        elif item.kind is ObjectKind.MATERIALIZED_VIEW:
            try:
                ViewSink(self.warehouse, item, context).advance(until)
            except DataError as problem:
                if problem.condition == "VIEW_FAILED":
                    self._note_failure(item, problem)
                raise

    def suspended_below(self, item: Item) -> list[Item]:
        """The suspended tasks that an object reads, directly or through others."""
        stopped = set(self.timeline.suspended())
        if not stopped:
            return []
        below = self.catalog.closure([item.id])
        return [i for i in below if i.id != item.id and i.id in stopped]

    def held_back(self, item: Item, until: int) -> int:
        """How far an object can come, as suspended tasks below it stand still."""
        return min((self._complete(i) for i in self.suspended_below(item)), default=until)

    def check_not_suspended(self, item: Item) -> None:
        """Refuse what needs an object as of now while it, or what it reads, stands still.

        Raises:
            TASK_SUSPENDED: it would be given contents that RESUME changes afterwards.
        """
        stopped = [
            *self.suspended_below(item),
            *([item] if self.relations.is_suspended(item) else []),
        ]
        if stopped:
            raise error("TASK_SUSPENDED", name=str(stopped[0].name))

    def alter_task(self, item: Item, change: Callable[[TaskState, int], TaskState]) -> int:
        """Bind a change of a task's state to a new T; returns it."""
        return self.timeline.mint(
            self.relations.sources(), task=(item.id, change), tick_ms=self.tick_ms
        )

    def _note_failure(self, item: Item, problem: DataError) -> None:
        # What cannot be recorded is still raised by whoever called.
        with suppress(EnvironmentProblem, CommitUnknown):
            note_view_failure(self.relations.output(item), item, problem)

    def retry_failed(self, item: Item) -> None:
        """Run a task again where it failed, and on from there."""
        until = self.mint()
        self.check_not_suspended(item)
        self.advance([self.relations.item(r.object_id) for r in item.reads], until)
        TaskSink(self.warehouse, item).advance(until, retry=True)

    def skip_failed(self, item: Item) -> int:
        """Go past the T at which a task failed; returns it."""
        check_tables(self.relations, self.catalog.closure([item.id]))
        return TaskSink(self.warehouse, item).skip()

    def failure(self, item: Item) -> Failure | None:
        """Why an output stands still, by its log; None when it does not, or is none."""
        if not item.is_run:
            return None
        output = self.relations.output(item)
        output.fetch_recent_upper()
        return recorded(output)

    def _check_tasks(self, items: Iterable[Item]) -> None:
        """Raise what stopped a task on which a read depends, without running anything."""
        for item in self.catalog.closure([i.id for i in items]):
            if item.kind is ObjectKind.CONTINUAL_TASK:
                failure = self.failure(item)
                if failure is not None:
                    raise failure.task_error(self.relations.in_force(item, failure.time)[0])

    def check_not_finished(self, item: Item) -> None:
        """Refuse to write a view that is past the last refresh of its schedule."""
        if self.schedules.is_closed(item):
            raise error("VIEW_FINISHED", name=str(item.name))

    def refresh_view(self, item: Item, *, full: bool, replaced: bool = False) -> None:
        """Bring a view up to now, whatever its schedule.

        Args:
            full: compare it with its query whatever is known.
            replaced: its definition is new, so a schedule that is over already is no error,
                and it is not done before the definition is what is stored.

        Raises:
            VIEW_FINISHED: the last refresh of its schedule is over. UNKNOWN_RELATION: it was
                dropped meanwhile.
        """
        until = self.mint()
        item = self._still(item)
        self.check_not_suspended(item)
        if self.schedules.schedule(item) is not None:
            if not replaced:
                self.advance([item], until)
                self.check_not_finished(item)
            until = self.mint_fresh(request=item)
        if full and self.relations.output(item).fetch_recent_upper() > until:
            until = self.mint_fresh()
        while True:
            item = self._still(item)
            check_tables(self.relations, self.catalog.closure([item.id]))
            self.advance([self.relations.item(r.object_id) for r in item.reads], until)
            ViewSink(self.warehouse, item).advance(until, full=full)
            # One that did not know the new definition may have been first at this T.
            if not replaced or not is_redefined(self.warehouse, item):
                return
            until = self.mint_fresh()

    def _still(self, item: Item) -> Item:
        """An object as the catalog has it now; raises UNKNOWN_RELATION when it was dropped."""
        found = self.catalog.items.get(item.id)
        if found is None:
            raise error(
                "UNKNOWN_RELATION",
                kind=item.kind.value,
                name=str(item.name),
                hint="It was dropped meanwhile.",
            )
        return found

    # ---- reads

    def read(
        self,
        query: Query,
        *,
        as_of: int | None = None,
        as_of_span: Span | None = None,
        strict: bool = True,
        parameters: tuple[str, ...] = (),
        copies: Mapping[str, str] | None = None,
    ) -> DataFrame:
        """The result of a query on one consistent cut, lazily.

        Args:
            copies: where an open transaction has written tables, by object id.
            as_of: read the past at this T; as_of_span: where the user says so.
            strict: strictly serializable; else what is stored.
        """
        stored = nullcontext() if strict or as_of is not None else self.as_stored()
        with stored, converted():
            items = [self.relations.item(i) for i in read_objects(query)]
            at = self.read_time(items, as_of=as_of, as_of_span=as_of_span, strict=strict)
            check_columns(self.warehouse, query)
            sources = StoredSources(
                self.warehouse, span=as_of_span, copies=copies or {}, as_now=True
            )
            context = Context(self.session, sources, at)
            return lower_query(query, context, parameters=parameters)

    def read_time(
        self,
        items: list[Item],
        *,
        as_of: int | None = None,
        as_of_span: Span | None = None,
        strict: bool = True,
    ) -> int:
        """The T to read at; everything the items depend on is brought there."""
        if not strict and as_of is None:
            self.timeline.refresh()
            self.refresh_catalog()  # a definition that the timeline names is in the newest one
            self._check_tasks(items)
            for item in items:
                check_written(self.warehouse, self.relations.item(item.id))
            check_tables(self.relations, self.catalog.closure([i.id for i in items]))
            return self.complete_through(items)
        now = self.mint() if as_of is not None else self.mint_for(items)
        check_tables(self.relations, self.catalog.closure([i.id for i in items]))
        now = self._reach(items, now)
        if as_of is not None and as_of > now:
            raise error(
                "AS_OF_OUT_OF_RANGE",
                span=as_of_span,
                time=as_of,
                relation=str(items[0].name) if items else "the query",
                detail=f"The newest T is {now}.",
                hint=f"Read it AS OF {now} or earlier.",
            )
        self.advance(items, now if as_of is None else as_of)
        return now if as_of is None else as_of

    def _reach(self, items: list[Item], now: int) -> int:
        """The newest T at which all the items can be had: suspended tasks stand still."""
        stopped = {i.id: i for item in items for i in self.suspended_below(item)}
        stopped.update((i.id, i) for i in items if self.relations.is_suspended(i))
        for task in self.catalog.closure(stopped):
            if task.id in stopped:
                self.advance(self.relations.followed(task), now)
                now = min(now, self._complete(task))
        return now

    def complete_through(self, items: Iterable[Item]) -> int:
        """The newest T at which all the items are stored, without computing anything."""
        return min((self._complete(i) for i in items), default=self.timeline.now)

    def _complete(self, item: Item) -> int:
        if item.kind is ObjectKind.TASK_OUTPUT:
            item = self.relations.item(item.owner)  # all its outputs, or none, hold a T
        now = self.timeline.now
        below = [self._complete(i) for i in self.relations.followed(item)]
        through = min(below, default=now)
        if not item.is_run:
            return through
        written = self.versions.stored_upper(item) - 1
        failure = recorded(self.relations.output(item))
        if failure is not None and item.kind is ObjectKind.CONTINUAL_TASK:
            return min(failure.time - 1, through)
        due = self.schedules.due_times(item, after=written, until=through)
        return min(due) - 1 if due else through


def read_objects(node: Node) -> list[str]:
    """The ids of the stored objects a plan reads, each once."""
    found = {n.object_id: None for n in descend(node) if isinstance(n, Reference)}
    return list(found)
