"""Drives one subscription: looks whether anything moved, brings the object up, says what is due.

    look:  has any log that matters one more version?        no scan, no Spark job
    tick:  mint; bring the object and all below it up; the times after the position are due
    rows:  the change at one due time, or at several small ones, lazily

A passive subscription (of a read-only connection, or with the setting isolation = 'serializable')
binds and writes nothing: it is told what others have brought up, never a T that is bound in this
process's memory only.

Ts are bound to commits, so none passes while nothing moves. The newest T at which the object is
known to be complete is :attr:`Feed.until`.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog import reserved_columns
from ctsql.catalog.errors import DataError
from ctsql.catalog.items import Item, ObjectKind, was_dropped
from ctsql.catalog.names import backtick
from ctsql.runtime.delta.log_watch import LogWatch
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import clock
from ctsql.runtime.spark.errors import translate_spark_errors
from ctsql.runtime.subscriptions.changes import Changes
from ctsql.runtime.subscriptions.cursors import Readers, StoredCursor, definition_of, outdated_error
from ctsql.runtime.subscriptions.position import Position
from ctsql.runtime.tasks.progress import complete_through
from ctsql.runtime.warehouse.advance_context import AdvanceContext

TIME, DIFF = "t", "diff"
TIMES_AT_ONCE_MAX = 1_000


def runs_of(counted: Mapping[int, int | None], rows_max: int) -> list[list[int]]:
    """Times cut into runs of at most so many rows each, and of :data:`TIMES_AT_ONCE_MAX` times.

    Args:
        counted: the times in order, each with how many rows it has; with None it stands alone.
    """
    runs: list[list[int]] = []
    room = -1  # the first time begins a run, also one without rows
    for time, count in counted.items():
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
        position: what was told so far. until: the newest T that is complete, inclusive.
        end: nothing at or after it is told; None for no end.
        place: where the position is kept, for a named reader.
        failure: why the object stands still, once everything before was told.
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
        self.item_id = item.id
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

    # ---- looking

    def look(self, engine: Engine, stop: threading.Event) -> list[int]:
        """The times that are due to be told, oldest first; none when nothing moved.

        Raises:
            UNKNOWN_RELATION: what is followed was dropped. SUBSCRIPTION_OUTDATED: it is a plain
                view that was replaced, or a materialized one with other columns.
            STATEMENT_CANCELLED: ``stop`` was set.
        """
        if not self._has_new_version(engine):
            return []
        item = self._item(engine)
        self._note_versions(engine, item)
        self.failure = None
        if self.passive:
            engine.timeline.refresh()
        else:
            self._bring_up(engine, item, stop)
        # Not the T that was asked for: what stands still is complete only to there.
        self.until = complete_through(engine.warehouse, [item])
        self._watch.note(engine.timeline.table, engine.timeline.read_to)
        until = self.until if self.end is None else min(self.until, self.end - 1)
        if until < self.position.next:
            return []
        changes = Changes(engine.warehouse, item)
        return self.position.due(changes.times(after=self.position.next - 1, until=until), until)

    def _bring_up(self, engine: Engine, item: Item, stop: threading.Event) -> None:
        until = engine.mint_for([item])
        # The views below are written at every T, as if a named subscription followed them.
        context = AdvanceContext(stop=stop, watched=frozenset([self.item_id]))
        try:
            engine.advance([item], until, context=context)
        except DataError as problem:
            self.failure = problem

    def _item(self, engine: Engine) -> Item:
        item = engine.refresh_catalog().items.get(self.item_id)
        if item is None:
            raise was_dropped(self.name, "while it was followed")
        place = self.place
        if place is not None and Readers(engine).find(place.subscription.name) != (
            place.subscription
        ):
            raise was_dropped(place.subscription.name, "while it was followed", "subscription")
        if definition_of(engine, item) != self._definition:
            raise outdated_error(item, "SUBSCRIBE again")
        return item

    def _has_new_version(self, engine: Engine) -> bool:
        """Has a log that matters a version that was not taken in, or is a refresh due?"""
        item = engine.catalog.items.get(self.item_id)
        if item is None:
            return True
        if self._watch.has_new_version(self._tables(engine, item)):
            return True
        if self.passive:
            return False
        waits = any(engine.schedules.schedule(i) for i in engine.catalog.closure([item.id]))
        return waits and engine.schedules.is_refresh_due(clock.now_ms())

    def _tables(self, engine: Engine, item: Item) -> list[DeltaTable]:
        """Of what is below the object the sources; for a passive subscription the outputs too."""
        found = [engine.catalog_store.table, engine.timeline.table]
        for one in engine.catalog.closure([item.id]):
            # An output is complete as its task is, which the log of the first output says.
            is_stored = one.location is not None or one.outputs
            if one.kind is ObjectKind.TABLE or (is_stored and self.passive):
                found.append(engine.relations.table(one))
        return found

    def _note_versions(self, engine: Engine, item: Item) -> None:
        """Note the newest versions; what comes later is seen at the next look."""
        for table in self._tables(engine, item):
            self._watch.note(table, table.version())

    # ---- telling

    def is_snapshot(self, time: int) -> bool:
        """Is at this time the whole contents told, not the change?"""
        return self.position.snapshot and time == self.position.next

    def rows(self, engine: Engine, time: int, *, whole: bool) -> tuple[DataFrame, int | None]:
        """The change at a due time as rows (t, diff, columns), deletions first.

        Args:
            whole: the contents instead, see :meth:`is_snapshot`.

        Returns:
            The rows, and at most how many they are; None when that is not known.
        """
        changes = Changes(engine.warehouse, self._item(engine))
        with translate_spark_errors():
            found = (
                changes.contents(time)
                if whole
                else changes.at(time).orderBy(F.col(reserved_columns.DIFF) > 0)
            )
            told = found.select(
                F.lit(time).cast("bigint").alias(TIME),
                F.col(reserved_columns.DIFF).alias(DIFF),
                *(backtick(c.name) for c in self.columns),
            )
            return told, changes.count_rows(time, whole=whole)

    def group_times(self, engine: Engine, due: Sequence[int], rows_max: int) -> list[list[int]]:
        """The due times cut into runs that are told at once, of at most so many rows each.

        A time of which the log does not tell how many rows it changes stands alone.
        """
        changes = Changes(engine.warehouse, self._item(engine))
        first = changes.begins()
        counted = {}
        for time in due:
            whole = time <= first or self.is_snapshot(time)
            counted[time] = None if whole else changes.count_rows(time, whole=False)
        return runs_of(counted, rows_max)

    def rows_of(self, engine: Engine, times_: Sequence[int]) -> DataFrame:
        """The changes at several times that are told at once, in order, deletions first."""
        changes = Changes(engine.warehouse, self._item(engine))
        with translate_spark_errors():
            found = changes.at_all(times_).orderBy(
                reserved_columns.TIME, F.col(reserved_columns.DIFF) > 0
            )
            return found.select(
                F.col(reserved_columns.TIME).alias(TIME),
                F.col(reserved_columns.DIFF).alias(DIFF),
                *(backtick(c.name) for c in self.columns),
            )

    def advance_past(self, time: int) -> None:
        """Everything up to a time (inclusive) was told."""
        self.position = self.position.advance_past(time)

    def is_over(self, engine: Engine) -> bool:
        """Is there nothing more to come: the end is reached, or the object is finished?"""
        if self.end is not None and self.until >= self.end - 1:
            return True
        item = engine.catalog.items.get(self.item_id)
        return item is not None and item.is_output and engine.schedules.is_closed(item)


@contextmanager
def as_told(engine: Engine, *, passive: bool) -> Iterator[None]:
    """What a subscription sees: for a passive one nothing that is in memory only.

    A feed's methods are to be called inside.
    """
    if not passive:
        yield
        return
    with engine.as_stored():
        yield
