"""The engine of one warehouse: assigns Ts to commits, advances outputs, and reads.

A read mints Ts for new commits and reads the catalog. It advances all that it depends on to the
newest T, each object after what it reads, then reads one cut as of T.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress

from pyspark.sql import DataFrame, SparkSession

from ctsql.catalog.catalog import Catalog, still_there
from ctsql.catalog.dependencies import closure
from ctsql.catalog.errors import (
    CommitUnknown,
    DataError,
    EnvironmentProblem,
    not_supported,
    out_of_range,
)
from ctsql.catalog.items import Item, MaterializedView, Task
from ctsql.catalog.spans import Span
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.queries import lower_query
from ctsql.planner.nodes import External, Node, NormalReference as Reference, Query, descend
from ctsql.runtime.delta.overlay import ReadOnlyGateway
from ctsql.runtime.delta.stores.locks import folder_lock
from ctsql.runtime.delta.table import Gateway
from ctsql.runtime.log import clock
from ctsql.runtime.log.failures import note_view_failure
from ctsql.runtime.log.write_handle import disturbance_error
from ctsql.runtime.log_reader import LogReader
from ctsql.runtime.monitoring.spark_rows import SystemRows
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.internals.sessions import clone_session
from ctsql.runtime.spark_engine import SparkEngine
from ctsql.runtime.tasks.progress import (
    check_not_failed,
    complete_through,
    limit_by_suspended,
    suspended_below,
)
from ctsql.runtime.tasks.sink import OutdatedDefinition, TaskSink
from ctsql.runtime.views.sink import ViewSink
from ctsql.runtime.warehouse.advance_context import UNATTENDED, AdvanceContext
from ctsql.runtime.warehouse.followed_tables import keep_logs
from ctsql.runtime.warehouse.query_engine import QueryEngine
from ctsql.runtime.warehouse.replaced_views import check_columns, check_written, is_redefined
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.runtime.warehouse.stores.catalog_store import DeltaCatalog
from ctsql.runtime.warehouse.stores.external import ExternalRelations
from ctsql.runtime.warehouse.table_checks import check_tables, remember_tables, unreadable_table
from ctsql.runtime.warehouse.times.multi_table_commit import mint_resolved
from ctsql.runtime.warehouse.times.timeline import Timeline
from ctsql.runtime.warehouse.warehouse import Warehouse

KNOWN_TRIES_MAX = 5


class Engine(LogReader):
    """One warehouse, opened by one process. Not for several threads at once.

    A read-only engine keeps its writes in memory (:mod:`ctsql.runtime.delta.overlay`).

    Attributes:
        caller: the session whose temporary views and functions queries see.
        external: other things that queries see: these views, files, variables of Python.
        tick_ms: the interval in which commits bound by this engine share a T; 0 for none.
    """

    tick_ms = 0
    _resolves_intents = True

    def __init__(
        self,
        session: SparkSession,
        warehouse: str,
        *,
        read_only: bool = False,
        create: bool = True,
        queries: QueryEngine | None = None,
        caller: SparkSession | None = None,
    ) -> None:
        self.session = session
        self.caller = caller or session
        self.queries = queries or SparkEngine(session)
        self._warehouse_path = warehouse
        self.may_create = create and not read_only
        self.is_new = False  # whether this engine made the warehouse
        self.read_only = read_only
        self.context = UNATTENDED
        self._read_only_twin: Engine | None = None
        self._open()

    def _open(self) -> None:
        """Open the warehouse in the current mode; nothing of it is loaded yet."""
        session, warehouse, read_only = self.session, self._warehouse_path, self.read_only
        self.gateway = ReadOnlyGateway(session) if read_only else Gateway(session)
        self.external = ExternalRelations(self.gateway, self.caller)
        self._open_at(warehouse)

    def _use(self, warehouse: Warehouse) -> None:
        super()._use(warehouse)
        self._system_rows = SystemRows(self.session, self)
        self._followed: frozenset[str] | None = None  # unknown: a process may have been killed

    def change_catalog(self, change: Callable[[Catalog], Catalog]) -> Catalog:
        """Commit a change of the catalog; returns the newest catalog.

        Tables that now have followers keep their logs; tables without do not any more.
        """
        catalog = super().change_catalog(change)
        self._followed = keep_logs(self.warehouse, self._followed)
        return catalog

    def _make(self, system: str, catalog_at: str, timeline_at: str) -> None:
        # The catalog is created last: if it exists, the other tables exist.
        with translate_spark_errors(), folder_lock(system):
            Timeline.create(self.gateway, timeline_at)
            DeltaCatalog.create(self.gateway, catalog_at)
        self.is_new = True

    # ---- read-only

    def promote(self) -> None:
        """Change from read-only to writing; rows computed in memory are dropped, not written.

        The next read mints and writes. Its Ts may differ from those shown before, because another
        process may have bound some meanwhile. This cannot be undone.
        """
        self.read_only = False
        self._open()

    @contextmanager
    def as_stored(self) -> Iterator[None]:
        """Inside, reads return stored rows only, not what a read-only engine computed."""
        gateway = self.gateway
        if not isinstance(gateway, ReadOnlyGateway):
            yield
            return
        warehouse = self.warehouse
        tables = gateway.start_again()
        self._reset_caches()
        try:
            yield
        finally:
            gateway.start_again(tables)
            self._use(warehouse)

    def _reset_caches(self) -> None:
        self._use(Warehouse.over(self.gateway, self.timeline.location, self.queries))
        self.refresh_catalog()

    def _drop_if_stale(self) -> None:
        """Read-only: drop computed rows if another process has written."""
        if isinstance(self.gateway, ReadOnlyGateway) and self.gateway.is_stale():
            self.gateway.start_again()
            self._reset_caches()

    def read_only_twin(self) -> "Engine":
        """A read-only engine on the same warehouse; this one, if it is read-only."""
        if self.read_only:
            return self
        if self._read_only_twin is None:
            self._read_only_twin = Engine(self.session, self._warehouse_path, read_only=True)
        return self._read_only_twin

    def for_thread(self) -> "Engine":
        """An engine for another thread: same warehouse, its own session."""
        engine = Engine(
            clone_session(self.session),
            self._warehouse_path,
            read_only=self.read_only,
        )
        engine.tick_ms = self.tick_ms
        return engine

    # ---- time and progress

    def mint(self) -> int:
        """Bind new commits; returns the newest T.

        If a view's refresh time has passed, the newest T is after it.
        """
        self._drop_if_stale()
        self.refresh_catalog()
        if not self.read_only and remember_tables(self.relations, self.catalog_store):
            self.refresh_catalog()
        newest = self._ensure_definitions_known(self._mint())
        if self.schedules.is_refresh_due(self._clock_time()):
            newest = self.mint_fresh()
        return newest

    def _clock_time(self) -> int:
        """The clock's time; with a tick interval, the last tick: one T in each is enough."""
        now = clock.now_ms()
        return now - now % self.tick_ms if self.tick_ms else now

    def _mint(self) -> int:
        """Bind new commits, including transactions that a killed process left."""
        if self._resolves_intents and not self.read_only:
            return mint_resolved(self.timeline, self.relations.sources, tick_ms=self.tick_ms)
        return self.timeline.mint(self.relations.sources(), tick_ms=self.tick_ms)

    @contextmanager
    def leaving_intents(self) -> Iterator[None]:
        """Inside, other transactions are not completed; for a holder of a table's lock."""
        before, self._resolves_intents = self._resolves_intents, False
        try:
            yield
        finally:
            self._resolves_intents = before

    def mint_fresh(self, *, request: Item | None = None) -> int:
        """Bind a new T, not before the clock's time; ``request`` is a view to refresh at it."""
        view = None if request is None else request.id
        newest = self.timeline.mint(
            self.relations.sources(), fresh=True, request=view, tick_ms=self.tick_ms
        )
        return self._ensure_definitions_known(newest)

    def _ensure_definitions_known(self, newest: int) -> int:
        """Read the catalog: a T needs the definitions from before it; returns the newest T.

        If a view was replaced after the T, the result is newer: a view begins at a T that is bound
        before the catalog has its definition.
        """
        for _ in range(KNOWN_TRIES_MAX):
            if all(item.created_at <= newest for item in self.refresh_catalog()):
                break
            self._drop_if_stale()
            newest = self._mint()
        return newest  # of a view that is known from a still later T on nothing is written or read

    def mint_for(self, items: Iterable[Item]) -> int:
        """Bind new commits; returns the newest T at which items can be read.

        A view is refreshed at a new T if its definition was replaced after it was written at the
        newest T, or another writer changed its table. So is a view with now() whose next change is
        unknown.
        """
        items = list(items)
        now = self.mint()
        behind = any(
            unreadable_table(self.relations, [item]) is None
            and self.versions.stored_upper(item) > now
            and (
                is_redefined(self.warehouse, item) or self.relations.output(item).has_foreign_rows()
            )
            for item in closure(self.catalog, [i.id for i in items])
            if isinstance(item, MaterializedView)
        )
        clock_time, readable = self._clock_time(), self.relations.readable([i.id for i in items])
        behind = behind or any(
            item.id in readable
            and self.schedules.is_expiry_unknown(item, clock_time)
            and unreadable_table(self.relations, closure(self.catalog, [item.id])) is None
            and not suspended_below(self.warehouse, item)
            for item in closure(self.catalog, [i.id for i in items])
            if isinstance(item, MaterializedView)
        )
        return self.mint_fresh() if behind else now

    def advance(
        self, items: Iterable[Item], until: int, *, context: AdvanceContext | None = None
    ) -> None:
        """Advance the outputs among the items, and all they depend on, to a time."""
        for item in closure(self.catalog, [i.id for i in items]):
            self.advance_one(item, until, context=context)

    def advance_one(self, item: Item, until: int, *, context: AdvanceContext | None = None) -> None:
        """Advance one object to a time that its inputs have reached (``context``: the engine's).

        A suspended task is not advanced, and its readers no further than it.
        """
        context = self.context if context is None else context
        if self.relations.is_suspended(item):
            return
        check_tables(self.relations, [self.relations.item(r.object_id) for r in item.reads])
        until = limit_by_suspended(self.warehouse, item, until)
        if isinstance(item, Task):
            run_task(self, item, until, context=context)
        elif isinstance(item, MaterializedView):
            try:
                ViewSink(self.warehouse, item, context).advance(until)
            except DataError as problem:
                if problem.condition == "VIEW_FAILED":
                    # A failure that cannot be recorded is still raised by the caller.
                    with suppress(EnvironmentProblem, CommitUnknown):
                        note_view_failure(self.relations.output(item), item, problem)
                raise

    # ---- reads

    def advance_and_read(
        self,
        query: Query,
        *,
        as_of: int | None = None,
        as_of_span: Span | None = None,
        strict: bool = True,
        parameters: tuple[str, ...] = (),
        own_writes: Mapping[str, Callable[[], DataFrame]] | None = None,
    ) -> DataFrame:
        """The result of a query on one consistent cut, lazily; what it reads is advanced there.

        Args:
            own_writes: the rows of tables that an open transaction has written, by object id.
            as_of: read the past at this T; as_of_span: its place in the user's text.
            strict: strictly serializable; else what is stored.
        """
        reading = nullcontext() if strict or as_of is not None else self.as_stored()
        with reading, translate_spark_errors():
            items = [self.relations.item(i) for i in read_objects(query)]
            # System tables alone show what the logs record, for which no T is minted.
            reads_system = _reads_system_tables(query, as_of_span)
            strict = strict and (bool(items) or not reads_system)
            at = self.advance_to_read(items, as_of=as_of, as_of_span=as_of_span, strict=strict)
            check_columns(self.warehouse, query)
            sources = StoredSources(
                self.warehouse, span=as_of_span, own_writes=own_writes or {}, as_now=True
            )
            context = Context(self.session, sources, at)
            external = self.external_rows(query.relations)
            return lower_query(query, context, external, parameters=parameters)

    def external_rows(self, relations: Sequence[Node]) -> dict[int, DataFrame]:
        """The rows of relations that are not objects, by place in ``relations``."""
        return {
            i: self.external.rows(node.ref)
            if node.system is None
            else self._system_rows.of(node.system)
            for i, node in enumerate(relations)
            if isinstance(node, External)
        }

    def advance_to_read(
        self,
        items: list[Item],
        *,
        as_of: int | None = None,
        as_of_span: Span | None = None,
        strict: bool = True,
    ) -> int:
        """The T to read at, to which everything that the items depend on is advanced."""
        if not strict and as_of is None:
            self.timeline.refresh()
            self.refresh_catalog()  # a definition that the timeline names is in the newest one
            check_not_failed(self.warehouse, items)
            for item in items:
                check_written(self.warehouse, self.relations.item(item.id))
            check_tables(self.relations, closure(self.catalog, [i.id for i in items]))
            return complete_through(self.warehouse, items)
        now = self.mint() if as_of is not None else self.mint_for(items)
        check_tables(self.relations, closure(self.catalog, [i.id for i in items]))
        now = self._limit_by_suspended(items, now)
        if as_of is not None and as_of > now:
            name = items[0].name if items else "the query"
            detail, hint = f"The newest T is {now}.", f"Read it AS OF {now} or earlier."
            raise out_of_range(name, as_of, detail, hint, as_of_span)
        self.advance(items, now if as_of is None else as_of)
        return now if as_of is None else as_of

    def _limit_by_suspended(self, items: list[Item], now: int) -> int:
        """The newest T at which all the items are available: suspended tasks do not advance."""
        suspended_tasks = {i.id: i for item in items for i in suspended_below(self.warehouse, item)}
        suspended_tasks.update((i.id, i) for i in items if self.relations.is_suspended(i))
        for task in closure(self.catalog, suspended_tasks):
            if task.id in suspended_tasks:
                self.advance(self.relations.followed(task), now)
                now = min(now, complete_through(self.warehouse, [task]))
        return now


def run_task(
    engine: Engine,
    item: Item,
    until: int,
    *,
    retry: bool = False,
    context: AdvanceContext = UNATTENDED,
) -> None:
    """Run a task at every due T up to a time, by the definitions that are in force.

    If the task was already written by a definition of another process, that is read first. Args and
    raises as :meth:`ctsql.runtime.tasks.sink.TaskSink.advance`.
    """
    for _ in range(KNOWN_TRIES_MAX):
        try:
            TaskSink(engine.warehouse, item, context).advance(until, retry=retry)
            return
        except OutdatedDefinition:
            engine.timeline.refresh()
            item = still_there(engine.refresh_catalog(), item, "while it was to be run")
    raise disturbance_error(f"{KNOWN_TRIES_MAX} tries to find the definition of {item.name}")


def _reads_system_tables(query: Query, as_of_span: Span | None) -> bool:
    """Whether a query reads a system table; raises NOT_SUPPORTED if it reads the past."""
    nodes = (node for node in query.relations if isinstance(node, External))
    if not any(node.system is not None for node in nodes):
        return False
    if as_of_span is not None:
        what = "AS OF with a system table"
        why = "A system table shows the present contents of the logs, which include the past."
        hint = "Compare its columns: WHERE t <= 1700000000000"
        raise not_supported(as_of_span, what, why=why, hint=hint)
    return True


def read_objects(node: Node) -> list[str]:
    """The ids of the stored objects a plan reads, each once."""
    object_ids = {n.object_id: None for n in descend(node) if isinstance(n, Reference)}
    return list(object_ids)
