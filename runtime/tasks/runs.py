"""When a task runs, and what its body then sees of its inputs.

A run is due at every T at which an input changed in a way that the body may read. If the
consolidated change is empty, the body does not run.

Of an input that is a plain view, or has a condition, the body sees:

    change of the source  --view's query, WHERE-->  change that the body sees

The rows are processed one by one: seen inserts come from inserts, seen deletes from deletes. A
projection may map both to equal rows, which then cancel.

[plain-inserts-in-order] runs are computed together only at consecutive Ts with inserts only, by one
    definition, in order.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.errors import CtsqlError, Declined
from ctsql.catalog.items import Item
from ctsql.catalog.names import backtick_all
from ctsql.catalog.reserved_columns import DIFF
from ctsql.planner.bodies.reads import reads_of, snapshot_inputs
from ctsql.planner.bodies.row_local import is_row_local
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.queries import lower_relation
from ctsql.planner.nodes import InsertsInput, Node, TaskWrite, ViewReference, descend
from ctsql.runtime.delta.change_feed import InputChange, added_rows, few_added, few_changed
from ctsql.runtime.delta.table import FewChanged
from ctsql.runtime.log.actions import RowChange
from ctsql.runtime.log.table_changes import (
    VersionChange,
    due_changes,
    input_columns,
    rows_inserted,
)
from ctsql.runtime.rows.collect import DRIVER_ROWS_MAX, unadaptive
from ctsql.runtime.rows.multiset import consolidate
from ctsql.runtime.rows.prepared_rows import derive
from ctsql.runtime.rows.row_set import LocalRows, persisted
from ctsql.runtime.spark.analyzer import HeldSources
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.runtime.warehouse.warehouse import Warehouse


def sources_of(node: Node, rows: DataFrame) -> HeldSources:
    """The rows that the one source of a plan inserted, at one T or at several."""
    return HeldSources(rows.sparkSession, dict.fromkeys(reads_of(node).inserts, rows))


def seen_of(plan: TaskWrite) -> dict[str, ViewReference]:
    """The views and conditions through which a body reads sources, by source id."""
    sources = ((n, s) for s in plan.input_views for n in descend(s) if isinstance(n, InsertsInput))
    return {source.object_id: view for source, view in sources}


def lower_seen(node: Node, rows: DataFrame, at: int) -> DataFrame:
    """The rows that the body sees of a source's rows, lazily."""
    return lower_relation(node, Context(rows.sparkSession, sources_of(node, rows), at))


def seen_change(
    view: ViewReference,
    change: InputChange,
    at: int,
    keep: Callable[[DataFrame], DataFrame],
    *,
    only_inserts: bool,
) -> InputChange | None:
    """The part of a source's change at T that the body sees; None if it is empty.

    ``keep`` returns rows that are computed once and can be read several times. ``only_inserts``:
    the deletes are not read.
    """

    def nothing() -> DataFrame:
        return lower_seen(view, change.nothing(), at)

    def build(frames: Sequence[DataFrame]) -> DataFrame:
        return lower_seen(view, frames[0], at)

    if change.few is not None and change.net_change is None:
        rows = derive([change.few], build, ("seen", view)).collect()
        if not isinstance(rows, Declined):
            return None if rows.is_empty else InputChange(nothing, few=rows)
    if change.net_change is None:
        inserts = lower_seen(view, change.inserts, at)
        return None if inserts.isEmpty() else InputChange(nothing, inserts)
    inserts, deletes = (lower_seen(view, rows, at) for rows in (change.inserts, change.deletes))
    columns = [c for c in inserts.columns if c in deletes.columns]  # the source still has
    names = backtick_all(columns)
    parts = [r.select(*names, F.lit(n).alias(DIFF)) for r, n in ((inserts, 1), (deletes, -1))]
    signed_rows = consolidate(parts[0].unionAll(parts[1]), columns)
    signed_rows = keep(signed_rows.where(f"{DIFF} > 0") if only_inserts else signed_rows)
    return None if signed_rows.isEmpty() else InputChange(nothing, net_change=signed_rows)


SNAPSHOT = -1  # stands for a version: the first run reads the inputs' whole contents
RUNS_MIN = 2
RUNS_MAX = 256  # a commit holds a file for each, and Spark runs a task for each


@dataclass(frozen=True, slots=True)
class Run:
    """The inputs that changed at ``time``, by object id; ``revision`` of the task is in force.

    With ``anyway`` the body runs even if none changed (TRIM EVERY, a new flow, a copy).
    """

    time: int
    revision: int
    version_changes: tuple[tuple[str, VersionChange], ...]
    anyway: bool = False


def due_runs(warehouse: Warehouse, item: Item, *, after: int, until: int) -> list[Run]:
    """The runs that may be due with after < T <= until, in no order.

    Before the task's first write that is the snapshot at its creation, or BACKFILL FROM.
    """
    runs: list[Run] = []
    if after < item.created_at:
        snapshot = VersionChange(item.created_at, SNAPSHOT, SNAPSHOT)
        first = warehouse.timeline.task(item.id).revision_at(item.created_at)
        then, plan = warehouse.relations.in_force(item, item.created_at)
        inputs = tuple((i, snapshot) for i in snapshot_inputs(plan))
        runs.append(Run(item.created_at, first, inputs, anyway=then.definition.copies_rows))
        after = item.created_at
    version_changes: dict[tuple[int, int], list[tuple[str, VersionChange]]] = {}
    for time, revision, object_id, version_change in warehouse.schedules.due_version_changes(
        item, after=after, until=until
    ):
        version_changes.setdefault((time, revision), []).append((object_id, version_change))
    state = warehouse.timeline.task(item.id)
    anyway = warehouse.schedules.trims(item, after=after, until=until)
    for time in anyway:
        version_changes.setdefault((time, state.revision_at(time)), [])
    return runs + [
        Run(time, revision, tuple(m), time in anyway)
        for (time, revision), m in version_changes.items()
    ]


def first_lost(warehouse: Warehouse, item: Item, *, after: int, until: int) -> int | None:
    """The first T with after < T <= until whose changes of an input are no longer in the logs."""
    plan = warehouse.relations.in_force(item, until)[1]
    schedule = warehouse.schedules.schedule(item)
    times = []
    for object_id in due_changes(plan):
        source, columns = warehouse.relations.item(object_id), input_columns(plan, object_id)
        for version_change in warehouse.versions.version_changes(source, after=after, until=until):
            try:
                warehouse.versions.change_of(source, version_change, columns)
            except CtsqlError as problem:
                if problem.condition != "HISTORY_LOST":
                    raise
                time = version_change.time
                times.append(time if schedule is None else schedule.round_up(time))
                break
    return min(times, default=None)


def may_run_together(warehouse: Warehouse, item: Item, waiting: Sequence[Run]) -> list[Run]:
    """The first of the waiting runs that may be computed together [plain-inserts-in-order].

    ``waiting`` is in the order of T, complete, and not empty.
    """
    plan = warehouse.relations.in_force(item, waiting[0].time)[1]
    if warehouse.gateway.read_only or not is_row_local(plan):
        return []
    runs: list[Run] = []
    for run in waiting[:RUNS_MAX]:
        if run.revision != waiting[0].revision or not _only_inserts(warehouse, plan, run):
            break
        runs.append(run)
    return runs


def _only_inserts(warehouse: Warehouse, plan: TaskWrite, run: Run) -> bool:
    if len(run.version_changes) != 1:
        return False
    ((object_id, version_change),) = run.version_changes
    is_snapshot = version_change.version == SNAPSHOT
    if is_snapshot:
        return False
    columns = input_columns(plan, object_id)
    return (
        warehouse.versions.change_of(warehouse.relations.item(object_id), version_change, columns)
        is RowChange.APPEND
    )


class RunInputs:
    """The inputs of one run; ``has_rows``, set by :meth:`opened`: whether any of them changed."""

    def __init__(self, warehouse: Warehouse, plan: TaskWrite, run: Run) -> None:
        self.warehouse = warehouse
        self.run = run
        self.has_rows = False
        self.due = due_changes(plan)
        self.columns = {
            n.object_id: list(n.columns)
            for n in plan.inputs
            if isinstance(n, InsertsInput)  # every input has one
        }
        self.views_by_source = seen_of(plan)

    def count_inserts(self, object_id: str, version_change: VersionChange) -> int | None:
        """The number of rows that an input inserts; None if the log does not contain it."""
        item = self.warehouse.relations.item(object_id)
        if version_change.version == SNAPSHOT:
            return self.warehouse.versions.rows_count(item, version_change.time)
        if (
            self.warehouse.versions.change_of(item, version_change, self.columns[object_id])
            is RowChange.APPEND
        ):
            return rows_inserted(self.warehouse.relations.table(item), version_change)
        return None

    @property
    def are_small(self) -> bool:
        """Whether the whole change is below the driver's limit, according to the log."""
        for object_id, version_change in self.run.version_changes:
            row_count = self.count_inserts(object_id, version_change)
            if row_count is None and version_change.version == SNAPSHOT:
                return False
            if row_count is not None and row_count > DRIVER_ROWS_MAX:
                return False
        return True

    @property
    def has_lost_columns(self) -> bool:
        """Whether an input lacks a column that it had when the body was defined."""
        return any(
            version_change.version != SNAPSHOT
            and self.warehouse.versions.reshape_of(
                self.warehouse.relations.item(object_id), version_change, self.columns[object_id]
            ).removed_columns
            for object_id, version_change in self.run.version_changes
        )

    @contextmanager
    def opened(self) -> Iterator[Mapping[str, InputChange] | None]:
        """The change of every input; None if nothing changed, and the body does not run.

        An input that has lost a column is read even without rows, because the body may name it.
        """
        with ExitStack() as stack:
            changes = {self._name(i): InputChange(partial(self._nothing_seen, i)) for i in self.due}
            self.has_rows = self.run.anyway
            for object_id, version_change in self.run.version_changes:
                change = self._visible_change(object_id, version_change, stack)
                if change is not None:
                    changes[self._name(object_id)] = change
                    self.has_rows = True
            yield changes if self.has_rows or self.has_lost_columns else None

    def _name(self, object_id: str) -> str:
        """The id by which the body reads an input: the source's, or that of a view of it."""
        view = self.views_by_source.get(object_id)
        return object_id if view is None else view.object_id

    def _nothing(self, object_id: str) -> DataFrame:
        item = self.warehouse.relations.item(object_id)
        return self.warehouse.versions.nothing_at(item, self.run.time)

    def _nothing_seen(self, object_id: str) -> DataFrame:
        view, nothing = self.views_by_source.get(object_id), self._nothing(object_id)
        return nothing if view is None else lower_seen(view, nothing, self.run.time)

    def _visible_change(
        self, object_id: str, version_change: VersionChange, stack: ExitStack
    ) -> InputChange | None:
        """The part of an input's change that the body sees; None if it is empty."""
        change = self._change(object_id, version_change, stack)
        view = self.views_by_source.get(object_id)
        if change is None or view is None:
            return change
        keep = partial(self._persist, stack=stack)
        inserts = RowChange.DELETE not in self.due[object_id]
        return seen_change(view, change, self.run.time, keep, only_inserts=inserts)

    def _change(
        self, object_id: str, version_change: VersionChange, stack: ExitStack
    ) -> InputChange | None:
        """The change of an input; None if it is empty.

        Few rows are read once, however often the body names the input, into one partition, which
        saves exchanges in aggregates.
        """
        warehouse, item = self.warehouse, self.warehouse.relations.item(object_id)
        row_count = self.count_inserts(object_id, version_change)
        if row_count == 0:
            return None
        if version_change.version != SNAPSHOT and warehouse.versions.only_loses_columns(
            item, version_change, self.columns[object_id]
        ):
            return None
        nothing = partial(self._nothing, object_id)
        is_small = row_count is not None and row_count <= DRIVER_ROWS_MAX
        kind = None
        if version_change.version != SNAPSHOT:
            kind = warehouse.versions.change_of(item, version_change, self.columns[object_id])
        if kind is None:
            rows = StoredSources(warehouse).contents(object_id, version_change.time)
            if row_count is None and rows.isEmpty():
                return None
        elif kind is RowChange.APPEND:
            if is_small:
                few = few_added(warehouse.relations.table(item), version_change)
                if not isinstance(few, Declined):
                    return InputChange(nothing, few=few)
            rows = added_rows(warehouse.relations.table(item), version_change)
            if row_count is None:
                rows = self._persist(rows, stack)
                if rows.isEmpty():
                    return None
        else:
            # The view may map a deleted and an inserted row to equal rows.
            inserts = (
                RowChange.DELETE not in self.due[object_id] and self._name(object_id) == object_id
            )
            columns = warehouse.versions.present(item, version_change, self.columns[object_id])
            if kind is not RowChange.FAILED:
                change = few_changed(warehouse.relations.table(item), version_change, columns)
                if not isinstance(change, Declined):
                    return _few_change(nothing, change, only_inserts=inserts)
            rows = warehouse.versions.changed_by(
                item, version_change, columns, only_inserts=inserts
            )
            signed_rows = warehouse.queries.consolidate_change_feed(rows, columns)
            signed_rows = self._persist(
                signed_rows.where(f"{DIFF} > 0") if inserts else signed_rows, stack
            )
            return None if signed_rows.isEmpty() else InputChange(nothing, net_change=signed_rows)
        more = Declined("the log counts more rows")
        local_rows = warehouse.queries.collect_bounded(rows) if is_small else more
        if isinstance(local_rows, Declined):
            return InputChange(nothing, rows)
        return InputChange(nothing, few=LocalRows.of(local_rows))

    def _persist(self, rows: DataFrame, stack: ExitStack) -> DataFrame:
        frame = stack.enter_context(persisted(rows))
        stack.enter_context(unadaptive(rows.sparkSession))
        return frame


def _few_change(
    nothing: Callable[[], DataFrame], change: FewChanged, *, only_inserts: bool
) -> InputChange | None:
    """A change of few rows; None if it is empty, or has only rows that the body does not read."""
    if only_inserts:
        return None if change.inserts.is_empty else InputChange(nothing, few=change.inserts)
    if change.net is None or change.net.is_empty:
        return None
    return InputChange(nothing, few=change.inserts, net_change=change.net.frame)
