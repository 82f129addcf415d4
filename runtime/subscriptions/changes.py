"""The change of an object at a T, as signed rows: contents(T) - contents(T - 1), consolidated.

    table, task   the change of its table at T, from the log's change rows
    stored view   the same, if the log holds the contents just before T and at T;
                  otherwise (a view that nobody followed may skip Ts) the difference
    plain view    the difference of its query as of T and as of the last T before

[T-decides] the result depends on T alone, not on how it is computed.
[first-change-is-contents] at the first T at which an object is known, its contents are its change.

A plain view is computed twice for each T at which anything it reads changed.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, functions as F

from ctsql.catalog.errors import Declined, type_changed
from ctsql.catalog.items import Item, MaterializedView, ObjectKind, View
from ctsql.catalog.names import backtick, backtick_all, fold
from ctsql.catalog.reserved_columns import DIFF, NUMBER, TIME
from ctsql.catalog.schemas import Column as CatalogColumn
from ctsql.catalog.times import CLOSED
from ctsql.planner.lowering.spark_types import type_name
from ctsql.planner.lowering.store_assignment import is_exact
from ctsql.runtime.delta.change_feed import added_rows, numbered_rows
from ctsql.runtime.log.actions import RowChange, rows_changed, sum_known
from ctsql.runtime.log.table_changes import VersionChange, rows_inserted
from ctsql.runtime.rows.multiset import consolidate
from ctsql.runtime.warehouse.schedules import first_shown
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.runtime.warehouse.warehouse import Warehouse


class Changes:
    """The changes of one object; ``columns`` are the object's when its follower began."""

    def __init__(
        self, warehouse: Warehouse, item: Item, columns: Sequence[CatalogColumn] | None = None
    ) -> None:
        self.warehouse = warehouse
        self.item = item
        self.columns = warehouse.relations.columns_now(item) if columns is None else columns
        self._names = [c.name for c in self.columns]

    def begins(self) -> int:
        """The first T at which the object is known; CLOSED if there is none yet."""
        return self._begins(self.item)

    def _begins(self, item: Item) -> int:
        warehouse = self.warehouse
        match item.kind:
            case ObjectKind.TABLE:
                first = warehouse.timeline.first_time(item.id)
                return CLOSED if first is None else first
            case ObjectKind.VIEW:
                return max(
                    (self._begins(warehouse.relations.item(r.object_id)) for r in item.reads),
                    default=0,
                )
            case _:
                return first_shown(warehouse.schedules, item)

    def times(self, *, after: int, until: int) -> set[int]:
        """The times with after < T <= until at which the object may have changed."""
        first = self.begins()
        times = {first} if after < first <= until else set()
        since = max(after, first)
        if since >= until:
            return times
        warehouse, item = self.warehouse, self.item
        match item.kind:
            case ObjectKind.VIEW:
                return times | warehouse.schedules.read_times(item, after=since, until=until)
            case ObjectKind.MATERIALIZED_VIEW:
                times |= warehouse.schedules.change_times(item, after=since, until=until)
        return times | warehouse.schedules.move_times(item, after=since, until=until)

    def contents(self, at: int) -> DataFrame:
        """The rows as of T, each distinct one once with its ``DIFF``."""
        return consolidate(self._with_diff(self._rows(at), 1), self._names)

    def at(self, time: int) -> DataFrame:
        """The rows that changed at T, each distinct one once with its ``DIFF``, not 0."""
        if time <= self.begins():
            return self.contents(time)
        version_change = self.find_exact(time)
        if version_change is not None:
            return consolidate(self._change_rows(version_change), self._names)
        before, after = self._rows(time - 1), self._rows(time)
        both = self._with_diff(after, 1).unionAll(self._with_diff(before, -1))
        return consolidate(both, self._names)

    def at_all(self, times: Sequence[int]) -> DataFrame:
        """Like :meth:`at` for several times in one pass, with the T in ``TIME``.

        ``times`` are in order, each with a row count (:meth:`count_rows`).
        """
        version_changes = [m for t in times if (m := self.find_exact(t)) is not None]
        assert len(version_changes) == len(times)  # the caller looked
        shared_changes = [m for m in version_changes if m.is_shared]
        parts = [self._read_shared(shared_changes)] if shared_changes else []
        if own_changes := [m for m in version_changes if not m.is_shared]:
            parts.append(self._read_feed(own_changes))
        return consolidate(reduce(DataFrame.unionAll, parts), [TIME, *self._names])

    def _read_shared(self, version_changes: Sequence[VersionChange]) -> DataFrame:
        """The rows of commits that several Ts share, all of them inserts."""
        rows = numbered_rows(self.warehouse.relations.table(self.item), version_changes, NUMBER)
        assert not isinstance(rows, Declined)  # ctsql named the files
        times = F.array(*(F.lit(m.time).cast("bigint") for m in version_changes))
        time = F.element_at(times, F.col(NUMBER) + 1).alias(TIME)
        rows = self._with_added(rows, version_changes[-1])
        return rows.select(time, *backtick_all(self._names), F.lit(1).alias(DIFF))

    def _read_feed(self, version_changes: Sequence[VersionChange]) -> DataFrame:
        """The rows of other changes, from the change feed."""
        table = self.warehouse.relations.table(self.item)
        at = [(v, m.time) for m in version_changes for v in m.versions]
        rows = table.change_rows(version_changes[0].before + 1, version_changes[-1].version)
        rows = self._with_added(rows, version_changes[-1])
        times = self.warehouse.gateway.rows_of(at, f"_commit_version BIGINT, {TIME} BIGINT")
        return rows.join(F.broadcast(times.frame), "_commit_version").select(
            TIME, *backtick_all(self._names), self._sign()
        )

    def count_rows(self, time: int, *, whole: bool) -> int | None:
        """A bound of the rows of :meth:`at`, or (whole) of contents; None if unknown."""
        if isinstance(self.item, View):
            return None
        if whole or time <= self.begins():
            is_view = isinstance(self.item, MaterializedView)  # may have to be computed
            return None if is_view else self.warehouse.versions.rows_count(self.item, time)
        version_change = self.find_exact(time)
        return None if version_change is None else self._rows_of(version_change)

    def _rows_of(self, version_change: VersionChange) -> int | None:
        table = self.warehouse.relations.table(self.item)
        if not table.versions.read_alike(max(version_change.before, 0), version_change.version):
            return None  # must be read alone
        if version_change.is_shared:
            appends = (
                self.warehouse.versions.change_of(self.item, version_change) is RowChange.APPEND
            )
            return rows_inserted(table, version_change) if appends else None
        commits = (table.commit_at(version) for version in version_change.versions)
        return sum_known(count for commit in commits for count in rows_changed(commit))

    def find_exact(self, time: int) -> VersionChange | None:
        """The version change that is exactly the change at T; None if there is none."""
        warehouse, item = self.warehouse, self.item
        if isinstance(item, View):
            return None
        version_changes = warehouse.versions.version_changes(item, after=time - 1, until=time)
        if not version_changes:
            return None
        (version_change,) = version_changes
        if isinstance(item, MaterializedView):
            entries = warehouse.relations.output(item).entries(since=time)
            there = warehouse.versions.present(item, version_change, self._names)
            if len(there) < len(self._names):
                return None  # one of those that are delivered is another one from then on
            earlier = [e for e in entries if e.upper <= time]
            last_write = earlier[-1].upper - 1 if earlier else item.known_from - 1
            if warehouse.schedules.change_times(item, after=last_write, until=time - 1):
                return None  # the view skipped a T, so this is the change of several
        elif warehouse.versions.reshape_of(item, version_change).changes_rows:
            return None  # rows are shown by the present names, which then meant other columns
        return version_change

    def _change_rows(self, version_change: VersionChange) -> DataFrame:
        warehouse, item = self.warehouse, self.item
        if warehouse.versions.change_of(item, version_change, self._names) is RowChange.APPEND:
            rows = added_rows(warehouse.relations.table(item), version_change)
            return self._with_diff(self._with_added(rows, version_change), 1)
        rows = warehouse.versions.change_rows(item, version_change, self._names)
        rows = self._with_added(rows, version_change)
        return rows.select(*self._columns_as_asked(rows), self._sign())

    def _with_added(self, rows: DataFrame, version_change: VersionChange) -> DataFrame:
        """The rows of a change, with the columns that were added after it."""
        return self.warehouse.versions.as_now(self.item, rows, version_change.version)

    def _sign(self) -> Column:
        is_insert = F.col("_change_type").isin("insert", "update_postimage")
        return F.when(is_insert, 1).otherwise(-1).alias(DIFF)

    def _rows(self, at: int) -> DataFrame:
        """The object's rows as of T, at or after its first."""
        sources = StoredSources(self.warehouse, as_now=True)
        if isinstance(self.item, View):
            return sources.view_contents(self.item, at)
        rows = sources.contents(self.item.id, at)
        return rows.select(*self._columns_as_asked(rows))

    def _with_diff(self, rows: DataFrame, diff: int) -> DataFrame:
        return rows.select(*self._columns_as_asked(rows), F.lit(diff).alias(DIFF))

    def _columns_as_asked(self, rows: DataFrame) -> list[Column]:
        """The columns, in their types at the start.

        Raises COLUMN_TYPE_CHANGED if values of the new type cannot be cast to the old one.
        """
        types = {fold(f.name): type_name(f.dataType) for f in rows.schema}
        columns = []
        for column in self.columns:
            now = types.get(fold(column.name), column.type)  # Spark reports a missing column
            if not is_exact(now, column.type):
                before, after = column.type.upper(), now.upper()
                raise type_changed(column.name, self.item.name, before, after)
            value = F.col(backtick(column.name))
            same = now == column.type or column.name not in rows.columns
            columns.append(value if same else value.cast(column.type).alias(column.name))
        return columns
