"""The rows that plans read: the runtime's side of the planner's ``Sources`` protocol."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from ctsql.catalog import times
from ctsql.catalog.errors import CtsqlError, Declined, out_of_range
from ctsql.catalog.items import Item, MaterializedView, Table, View
from ctsql.catalog.schemas import same_columns
from ctsql.catalog.spans import Span
from ctsql.planner.bodies.delete_by_key import KeyLookup
from ctsql.planner.lowering.context import EMPTY, Context
from ctsql.planner.lowering.queries import lower_query
from ctsql.planner.nodes import ChangesInput, DeletesInput, InsertsInput
from ctsql.runtime.delta.change_feed import InputChange
from ctsql.runtime.delta.keyed_scan import find_with_keys, place_columns, rows_of
from ctsql.runtime.rows.collect import collect_bounded
from ctsql.runtime.rows.row_set import LocalRows
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.internals.plans import optimized_text
from ctsql.runtime.warehouse.relations import columns_of
from ctsql.runtime.warehouse.replaced_views import awaits_columns, check_known
from ctsql.runtime.warehouse.warehouse import Warehouse

_ROWS_READ = {InsertsInput: "inserts", DeletesInput: "deletes", ChangesInput: "changes"}
"""The rows of an :class:`InputChange` that a node reads."""


@dataclass
class StoredSources:
    """Rows as of T, for reads and for views."""

    warehouse: Warehouse
    # for a task's run, the changes of its inputs at T by object id.
    inputs: Mapping[str, InputChange] = field(default_factory=dict)
    # for a task's run, the outputs' items by id, each with the version that is read; None before
    # its first version.
    outputs: Mapping[str, tuple[Item, int | None]] = field(default_factory=dict)
    are_small: bool = False  # few rows are expected of these changes
    span: Span | None = None  # the place of the time in the user's text, for errors
    # the rows of tables that an open transaction has written, by object id.
    own_writes: Mapping[str, Callable[[], DataFrame]] = field(default_factory=dict)
    # whether the query was bound to the tables' present columns, not to those as of T.
    as_now: bool = False

    translate_errors = staticmethod(translate_spark_errors)
    optimized_text = staticmethod(optimized_text)

    def contents(self, object_id: str, at: int) -> DataFrame:
        """The whole contents as of T; raises AS_OF_OUT_OF_RANGE before the object existed."""
        item = self.warehouse.relations.item(object_id)
        if at == EMPTY:
            return self.warehouse.versions.contents(item, None)
        if object_id in self.own_writes:
            return self.own_writes[object_id]()
        if isinstance(item, View):
            return self.view_contents(item, at)
        if isinstance(item, Table):
            if self.warehouse.versions.version_at(item, at) is None:
                raise self._too_early(item, at)
            if self.as_now:
                return self.warehouse.versions.contents_as_now(item, at)
            return self.warehouse.versions.contents_at(item, at)
        if isinstance(item, MaterializedView):
            check_known(self.warehouse, item)
        if at < item.known_from:
            raise self._too_early(item, at)
        if isinstance(item, MaterializedView):
            shown_time = self.warehouse.schedules.shown_at(item, at)
            if shown_time is None:
                raise self._not_refreshed(item, at)
            if not self.is_exact(item, at):
                return self._compute(item, shown_time)
        return self.warehouse.versions.contents_at(item, at)

    def local_rows(self, object_id: str, at: int) -> LocalRows | Declined:
        """All rows of an object as of T, if they are few and readable by this process."""
        item, versions = self.warehouse.relations.item(object_id), self.warehouse.versions
        if item.location is None or object_id in self.own_writes:
            return Declined("it has no table of its own, or an open transaction has written it")
        if isinstance(item, MaterializedView) and not self.is_exact(item, at):
            return Declined("it is not stored as of then")
        storage = versions.find_storage(item, at)
        if storage.version is None or storage.shared_version is not None:
            return Declined("the rows are not those of one version")
        if versions.error_as_of(item, storage.version) is not None:
            return Declined("the contents are an error")
        table = self.warehouse.relations.table(item)
        names = [c.name for c in self.warehouse.relations.columns_now(item)]
        there = table.schema_at(storage.version)
        is_replaced = isinstance(item, MaterializedView) and item.revision > 0
        is_other = is_replaced and not same_columns(columns_of(there), item.columns)
        if is_other or there.names != names:
            return Declined("its columns have changed since")
        return rows_of(table, storage.version, names)

    def view_contents(self, item: Item, at: int) -> DataFrame:
        """The rows of a plain view's query as of T; the view need not be in the catalog."""
        query = self.warehouse.relations.bound(item).query
        rows = lower_query(query, Context(self.warehouse.gateway.session, self, at))
        return rows.toDF(*(c.name for c in item.columns))

    def is_exact(self, item: Item, at: int) -> bool:
        """Whether the view's last version at or before T holds its rows as of T."""
        output = self.warehouse.relations.output(item)
        entries = output.entries(since=at + 1)
        stretches = item.following.stretches
        anew = {s.start for s in stretches[1:]} | {item.created_at} if stretches else set()
        if entries and entries[0].upper == at + 1 and at + 1 in anew:
            # A view that starts again gets this upper before it has rows of its new definition:
            # the upper does not describe the rows of before.
            before = output.entries(since=at)
            if before and before[0].revision < entries[0].revision:
                entries = before
        if not entries or not item.known_from < entries[0].upper <= at + 1:
            return False  # an upper at or before its creation has no rows
        if at >= output.upper and awaits_columns(self.warehouse, item):
            return False
        last_write = entries[0].upper - 1
        return not self.warehouse.schedules.change_times(item, after=last_write, until=at)

    def _compute(self, item: Item, at: int) -> DataFrame:
        """The rows of a view that was not written at T, computed from its tables as of T."""
        plan = self.warehouse.relations.bound(item).view
        return self.warehouse.queries.view_rows(plan, StoredSources(self.warehouse), at).frame

    def _not_refreshed(self, item: Item, at: int) -> CtsqlError:
        schedule = self.warehouse.schedules.schedule(item)
        # Without one it shows every T since it was replaced.
        first = item.created_at if schedule is None else schedule.round_up(at + 1)
        detail = f"Its first refresh is at {times.to_iso(first)}."
        hint = f"Refresh it now: REFRESH MATERIALIZED VIEW {item.name}"
        return out_of_range(item.name, at, detail, hint, self.span)

    def _too_early(self, item: Item, at: int) -> CtsqlError:
        first = item.known_from
        if isinstance(item, Table):
            first = self.warehouse.timeline.first_time(item.id) or 0
        detail, hint = f"Its history begins at T = {first}.", f"Read it AS OF {first} or later."
        return out_of_range(item.name, at, detail, hint, self.span)

    def inserts(self, object_id: str, at: int) -> DataFrame:
        """The rows inserted at T."""
        return self.inputs[object_id].inserts

    def deletes(self, object_id: str, at: int) -> DataFrame:
        """The rows deleted at T."""
        return self.inputs[object_id].deletes

    def changes(self, object_id: str, at: int) -> DataFrame:
        """The rows changed at T, with ``diff``."""
        return self.inputs[object_id].changes

    def stored_rows(self, object_id: str) -> DataFrame | None:
        """The stored rows of an output, located; None if it has no file."""
        item, version = self.outputs[object_id]
        if version is None:
            return None
        table = self.warehouse.relations.table(item)
        if not table.files(version):
            return None
        return self.warehouse.versions.with_added(item, table.locate_rows(version), version)

    def stored_with_keys(self, lookup: KeyLookup) -> DataFrame | Declined | None:
        """The output's rows with a key of a change, if they are few."""
        rows = self.found_by_key(lookup)
        return rows if rows is None or isinstance(rows, Declined) else rows.plain_frame

    def inserted(self, object_id: str) -> LocalRows | Declined:
        """The rows inserted at T, if they are few and nothing else changed."""
        change = self.inputs.get(object_id)
        few = None if change is None else change.few
        return Declined("Spark has the rows") if few is None else few

    def found_by_key(self, lookup: KeyLookup) -> LocalRows | Declined | None:
        """The output's rows with a key of a change, located; None if there are none."""
        item, version = self.outputs.get(lookup.output.object_id, (None, None))
        if item is None or version is None or not self.are_small:
            return Declined("the change may be large, or there is nothing to look in")
        change = self.inputs[lookup.of.object_id]
        if isinstance(lookup.of, InsertsInput) and change.few is not None:
            few, names = change.few, list(lookup.keys)
        else:
            rows = getattr(change, _ROWS_READ[type(lookup.of)])
            few_keys = collect_bounded(place_columns(rows, lookup.keys))
            if isinstance(few_keys, Declined):
                return few_keys
            few, names = LocalRows.of(few_keys), few_keys.columns
        table = self.warehouse.relations.table(item)
        pairs = list(zip(lookup.columns, names, strict=True))
        return find_with_keys(table, version, (few, pairs))
