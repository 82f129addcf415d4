"""Drives one subscription: polls for new versions, advances the object, delivers due changes.

    look:  does a followed log have a new version?        no scan, no Spark job
    tick:  assign Ts; advance the object and all below it; the times after the position are due
    rows:  the change at one due time, or at several small ones, lazily

A passive subscription (of a read-only connection, or with the setting isolation = 'serializable')
assigns and writes nothing: it delivers what other processes have advanced, never a T that exists
only in this process's memory.
"""

import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog import reserved_columns
from ctsql.catalog.dependencies import closure
from ctsql.catalog.errors import DataError
from ctsql.catalog.items import Item, Table, View, was_dropped
from ctsql.catalog.names import backtick
from ctsql.runtime.delta.log.table_log import LogWatch
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import clock
from ctsql.runtime.log_reader import LogReader
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.subscriptions.changes import Changes
from ctsql.runtime.subscriptions.cursors import (
    Position,
    Readers,
    StoredCursor,
    definition_of,
    is_defined_as,
    outdated_error,
)
from ctsql.runtime.tasks.progress import complete_through

TIME, DIFF = "t", "diff"
TIMES_AT_ONCE_MAX = 1_000


def runs_of(row_counts: Mapping[int, int | None], rows_max: int) -> list[list[int]]:
    """Group times into runs of at most ``rows_max`` rows and :data:`TIMES_AT_ONCE_MAX` times.

    ``row_counts`` are in order of time; a time with an unknown count is a run alone.
    """
    runs: list[list[int]] = []
    room = -1  # the first time begins a run, also one without rows
    for time, count in row_counts.items():
        if count is not None and count <= room and len(runs[-1]) < TIMES_AT_ONCE_MAX:
            runs[-1].append(time)
            room -= count
        else:
            runs.append([time])
            room = -1 if count is None else rows_max - count
    return runs


class Feed:
    """One subscription of one process.

    Attributes:
        position: of the deliveries. until: the newest T at which the object is complete, inclusive.
        end: the exclusive end of the deliveries; None for no end.
        place: the stored position of a named reader.
        failure: the error that stops the object, raised after all earlier changes were delivered.
    """

    def __init__(
        self,
        engine: Engine,
        item: Item,
        *,
        position: Position,
        end: int | None,
        place: StoredCursor | None,
        passive: bool,
    ) -> None:
        """``item`` is the object; one outside of the catalog stands for a query."""
        self.item_id = item.id
        self._query = item if item.id not in engine.catalog.items else None
        self.name = str(item.name)
        self.columns = engine.relations.columns_now(item)
        self.position = position
        self.end = end
        self.place = place
        self.passive = passive
        self.until = -1
        self.failure: DataError | None = None
        self._definition = definition_of(engine, item)
        self._watch = LogWatch()

    def look(self, engine: Engine, stop: threading.Event) -> list[int]:
        """The due times, oldest first; none if no log has a new version.

        Raises:
            UNKNOWN_RELATION: the object was dropped. SUBSCRIPTION_OUTDATED: it is a plain view that
                was replaced, or a materialized one with other columns. STATEMENT_CANCELLED:
                ``stop`` was set.
        """
        if not self._has_new_version(engine):
            return []
        item = self._item(engine)
        self._note_versions(engine, item)
        self.failure = None
        if self.passive:
            engine.timeline.refresh()
        else:
            self._advance(engine, item, stop)
        # A failed object is complete only up to its failure.
        self.until = complete_through(engine.warehouse, items_to_advance(engine, item))
        self._watch.note(engine.timeline.table, engine.timeline.read_to)
        until = self.until if self.end is None else min(self.until, self.end - 1)
        if until < self.position.next:
            return []
        changes = Changes(engine.warehouse, item, self.columns)
        return self.position.due(changes.times(after=self.position.next - 1, until=until), until)

    def _advance(self, engine: Engine, item: Item, stop: threading.Event) -> None:
        items = items_to_advance(engine, item)
        until = engine.mint_for(items)
        # The views below are written at every T, as if a named subscription followed them.
        watched_ids = frozenset(i.id for i in items)
        context = replace(engine.context, stop=stop, watched_ids=watched_ids)
        try:
            engine.advance(items, until, context=context)
        except DataError as problem:
            self.failure = problem

    def _item(self, engine: Engine) -> Item:
        engine.refresh_catalog()
        item = self._current_item(engine)
        if item is None:
            raise was_dropped(self.name, "while it was followed")
        place = self.place
        if place is not None and Readers(engine).find(place.subscription.name) != (
            place.subscription
        ):
            raise was_dropped(place.subscription.name, "while it was followed", "subscription")
        if not is_defined_as(engine, item, self._definition):
            raise outdated_error(item, "SUBSCRIBE again")
        return item

    def _current_item(self, engine: Engine) -> Item | None:
        """The followed object, by the loaded catalog; None if it was dropped."""
        if self._query is None:
            return engine.catalog.items.get(self.item_id)
        for reading in self._query.reads:
            if reading.object_id not in engine.catalog.items:
                raise was_dropped(reading.name, "while it was followed")
        return self._query

    def _has_new_version(self, engine: Engine) -> bool:
        """Whether a followed log has a new version, or a refresh is due."""
        item = self._current_item(engine)
        if item is None:
            return True
        if self._watch.has_new_version(self._tables(engine, item)):
            return True
        if self.passive:
            return False
        below = closure(engine.catalog, [i.id for i in items_to_advance(engine, item)])
        waits = any(engine.schedules.waits(i) for i in below)
        return waits and engine.schedules.is_refresh_due(clock.now_ms())

    def _tables(self, engine: Engine, item: Item) -> list[DeltaTable]:
        """The sources below the object; for a passive subscription also the outputs."""
        tables = [engine.catalog_store.table, engine.timeline.table]
        for one in closure(engine.catalog, [i.id for i in items_to_advance(engine, item)]):
            # The log of the leading output shows up to which T a task is complete.
            is_stored = one.location is not None or one.outputs
            if isinstance(one, Table) or (is_stored and self.passive):
                tables.append(engine.relations.table(one))
        return tables

    def _note_versions(self, engine: Engine, item: Item) -> None:
        """Record the newest versions; the next look finds later ones."""
        for table in self._tables(engine, item):
            self._watch.note(table, table.version())

    def is_snapshot(self, time: int) -> bool:
        """Whether the whole contents are delivered at a time, instead of the change."""
        return self.position.snapshot and time == self.position.next

    def rows(self, engine: Engine, time: int, *, whole: bool) -> tuple[DataFrame, int | None]:
        """The change at a due time as rows (t, diff, columns), deletions first, and a row bound.

        The bound is None if unknown. ``whole`` gives the contents instead, see :meth:`is_snapshot`.
        """
        changes = Changes(engine.warehouse, self._item(engine), self.columns)
        with translate_spark_errors():
            rows = (
                changes.contents(time)
                if whole
                else changes.at(time).orderBy(F.col(reserved_columns.DIFF) > 0)
            )
            rows_with_time = rows.withColumn(reserved_columns.TIME, F.lit(time).cast("bigint"))
            return self._select(rows_with_time), changes.count_rows(time, whole=whole)

    def group_times(self, engine: Engine, due: Sequence[int], rows_max: int) -> list[list[int]]:
        """Group the due times into runs that are delivered together; see :func:`runs_of`."""
        changes = Changes(engine.warehouse, self._item(engine), self.columns)
        first = changes.begins()
        row_counts = {}
        for time in due:
            whole = time <= first or self.is_snapshot(time)
            row_counts[time] = None if whole else changes.count_rows(time, whole=False)
        return runs_of(row_counts, rows_max)

    def rows_of(self, engine: Engine, times_: Sequence[int]) -> DataFrame:
        """The changes at the times of a run, in order, deletions first."""
        changes = Changes(engine.warehouse, self._item(engine), self.columns)
        with translate_spark_errors():
            rows = changes.at_all(times_)
            order = reserved_columns.TIME, F.col(reserved_columns.DIFF) > 0
            return self._select(rows.orderBy(*order))

    def _select(self, rows: DataFrame) -> DataFrame:
        """The delivered rows: t, diff, columns."""
        time, diff = F.col(reserved_columns.TIME), F.col(reserved_columns.DIFF)
        names = (backtick(c.name) for c in self.columns)
        return rows.select(time.alias(TIME), diff.alias(DIFF), *names)

    def advance_past(self, time: int) -> None:
        """Record that everything through a time was delivered."""
        self.position = self.position.advance_past(time)

    def is_over(self, engine: Engine) -> bool:
        """Whether the end is reached, or the object is finished."""
        if self.end is not None and self.until >= self.end - 1:
            return True
        item = engine.catalog.items.get(self.item_id)
        return item is not None and item.is_output and self._is_finished(engine, item)

    def _is_finished(self, engine: Engine, item: Item) -> bool:
        """Whether an object is closed, and has no commit after the last delivered T."""
        if not engine.schedules.is_closed(item):
            return False
        table, last = engine.relations.table(item), engine.relations.output(item).uppers.last
        if last is None or not table.has(last.version):
            return True  # that was long ago: its commit was cleaned up
        return int(table.commit_at(last.version).metadata["lower"]) <= self.until + 1


def items_to_advance(engine: LogReader, item: Item) -> list[Item]:
    """What to advance for an object: for a plain view, or a query, its inputs."""
    if not isinstance(item, View):
        return [item]
    return [engine.relations.item(reading.object_id) for reading in item.reads]


def use_stored(engine: Engine, *, passive: bool) -> AbstractContextManager[object]:
    """Hide contents in memory from a passive subscription; call a feed's methods inside."""
    return engine.as_stored() if passive else nullcontext()
