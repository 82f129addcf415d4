"""The expiry tables of a view with now(): the rows that enter and leave next, in that order.

    expiry | diff | c1, c2, ...     at T = expiry diff copies of the row enter, or leave if negative

Each window of the view's plan over a large table has one (:class:`ctsql.planner.ivm.ClockWindow`).
It holds the times at which rows of that table will enter and leave, as of the view's last T. The
window's change in a span of T is the sum of the expiries in it, so the table is not read. In
addition to the invariants of :mod:`ctsql.runtime.views.side_table`:

[table-still-expiries-still] future expiries change only with the table. A refresh in which only
    time has passed commits nothing here; the span skips past expiries.
[signed-expiries] a change of the table adds the expiries of its rows with their sign. A deleted
    row's expiries cancel those of its insertion, so nothing is searched or deleted here.
[equal-rows-equal-expiries] equal rows have equal expiries. So expiries that remain after cancelling
    belong to rows of the table, and the next due T is the first with a remainder.
[passed-files-go] files whose newest expiry is past are removed with the next change.

Rows are sorted by expiry when the table is filled, so file and page statistics select a span.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.errors import Declined
from ctsql.catalog.items import Item
from ctsql.catalog.names import backtick
from ctsql.catalog.reserved_columns import DIFF
from ctsql.planner.ivm import NEVER, ClockWindow
from ctsql.runtime.delta.keyed_scan import rows_between
from ctsql.runtime.delta.parquet.parquet_reader import NumberRange
from ctsql.runtime.log.staging import OutputBatch, discard_on_error
from ctsql.runtime.rows.multiset import consolidate, consolidate_all
from ctsql.runtime.rows.row_set import RowSet, SparkRows
from ctsql.runtime.views.change_plans import PreparedQuery
from ctsql.runtime.views.outcomes import Due
from ctsql.runtime.views.refresh_policy import EXPIRIES_BY, looked_ahead
from ctsql.runtime.views.side_table import EXPIRIES, Pointer, SideTable, SideTableKind, digest_of
from ctsql.runtime.warehouse.warehouse import Warehouse

ROWS_MIN = 100_000
"""If a table has fewer rows, searching all of them costs no more than an expiry table."""
FOUND = "found in its expiry table"
ADDED = f"{FOUND}, and those of the change were added"
FILLED = "searched in all rows, and its expiry table was filled"
OF_FEW = f"searched in all rows: they are fewer than {ROWS_MIN:,}"
_EXPIRY, _SIGN, _ENTERS, _LEAVES = "expiry", "sign", "enters", "leaves"
_DIFF = "diff"


def is_worth(rows: int | None) -> bool:
    """Whether an expiry table is worth its cost for a number of rows; None: it is unknown."""
    return rows is None or rows >= ROWS_MIN


def expires_within(statistics: str | None, after: int, until: int | None) -> bool:
    """Whether a file with these statistics (JSON) may have an expiry in (after, until].

    >>> statistics = '{"minValues": {"expiry": 5}, "maxValues": {"expiry": 7}}'
    >>> [expires_within(statistics, *span) for span in ((0, 4), (4, 5), (6, None), (7, 9))]
    [False, True, True, False]
    >>> expires_within(None, 7, 9)
    True
    """
    statistics_of_file = json.loads(statistics) if statistics else {}
    low, high = (
        statistics_of_file.get(bound, {}).get(_EXPIRY) for bound in ("minValues", "maxValues")
    )
    return NumberRange(_EXPIRY, after, until).meets(low, high)


class ExpiryTable(SideTable):
    """The expiry table of one window during one refresh; it keeps ``columns`` of the table."""

    kind = SideTableKind.EXPIRIES

    def __init__(
        self,
        warehouse: Warehouse,
        item: Item,
        time: int,
        window: ClockWindow,
        columns: Sequence[str],
    ) -> None:
        """``time`` is the T of the refresh."""
        super().__init__(warehouse, item, time)
        self.window = window
        self.columns = tuple(columns)
        self._names = [f"c{i}" for i, _ in enumerate(columns, 1)]
        self._stored_batch: OutputBatch | None = None

    @property
    def how(self) -> str:
        """How the expiring rows were found, as text; empty if none were searched."""
        if self.next_pointer is not None and self.next_pointer.refusal is not None:
            return f"searched in all rows: no expiry table because {self.next_pointer.refusal}"
        return self.did

    def opened(self) -> bool:
        """Whether it is current as of the view's last write; if so, it is used from now on."""
        self._stored_batch = self.find()
        return self._stored_batch is not None

    def between(self, after: int, until: int) -> RowSet | None:
        """The signed rows that expire in (after, until], with the table's column names.

        None if no file can have one.
        """
        expiries = self._expiries(after, until)
        return (
            None
            if expiries is None
            else expiries.select([*self._names, DIFF], [*self.columns, DIFF])
        )

    def _expiries(self, after: int, until: int | None) -> RowSet | None:
        assert self._stored_batch is not None  # it stands
        version = self._stored_batch.version_read
        live = self.table.files(version).values()
        files = [f for f in live if expires_within(f.statistics, after, until)]
        if not files:
            return None
        columns = [_EXPIRY, *self._names]
        near = rows_between(self.table, files, version, NumberRange(_EXPIRY, after, until))
        if not isinstance(near, Declined):
            return near.select([*columns, _DIFF], [*columns, DIFF])
        rows = self.table.frame_of(files, version).withColumnRenamed(_DIFF, DIFF)
        rows = rows.where(F.col(_EXPIRY) > after)
        return SparkRows(rows if until is None else rows.where(F.col(_EXPIRY) <= until))

    def follow(self, change: RowSet | None, at: int) -> int | None:
        """Stage the expiries of the table's change; returns the first T after ``at`` that is due.

        ``change`` is signed; None for none. The view is shown as of ``at``.
        """
        assert self._stored_batch is not None  # it stands
        with ExitStack() as stack:
            fresh = None
            if change is not None:
                expiries = self._expiries_of(change.plain_frame, at)
                fresh = SparkRows(consolidate(expiries, [_EXPIRY, *self._names])).keep(stack)
            if fresh is None or fresh.is_empty:
                due = self._next(None, at)
                self.leave_unchanged()
                self.did = FOUND
                return due
            with discard_on_error([self]):
                self._append(self._stored_batch, fresh, at)
            self.did = ADDED
            return self._next(fresh, at)

    def _append(self, batch: OutputBatch, fresh: RowSet, at: int) -> None:
        staging = batch.at(self.time)
        columns = [_EXPIRY, *self._names, DIFF]
        rows = fresh.select(columns, [_EXPIRY, *self._names, _DIFF])
        names = [_EXPIRY, _DIFF, *self._names]
        staging.stage(
            rows.select(names) if rows.is_local else rows.frame.select(*names).sort(_EXPIRY)
        )
        live = self.table.files(batch.version_read)
        past = [f for f in live.values() if not expires_within(f.statistics, at, None)]
        staging.delete_rows((f.path, range(f.records_count or 0)) for f in past)

    def _next(self, fresh: RowSet | None, at: int) -> int | None:
        """The first T after ``at`` with an expiry left [equal-rows-equal-expiries]."""
        assert self._stored_batch is not None  # it stands
        version = self._stored_batch.version_read
        for until in looked_ahead([self.table.rows_count(version)], at):
            parts = [rows for rows in (self._expiries(at, until), fresh) if rows is not None]
            expiry = _first_left([p.select([_EXPIRY, *self._names, DIFF]) for p in parts])
            if expiry is not None and (until is None or expiry <= until):
                return expiry
        return None

    def build(self, rows: DataFrame, at: int, siblings: Sequence[str]) -> None:
        """Stage the future expiries of all rows of the table as of a T.

        ``siblings``: digests of the other expiry tables of the view.
        """
        expiries = self._expiries_of(rows.withColumn(DIFF, F.lit(1)), at)
        expiries = expiries.select(_EXPIRY, F.col(DIFF).alias(_DIFF), *self._names)
        batch = self.start(expiries.schema, at, siblings)
        if batch is None:
            return
        with discard_on_error([self]):
            columns, queries = expiries.columns, self.warehouse.queries
            queries.stage(batch.at(self.time), expiries.sort(_EXPIRY), None, columns, small=False)
        self.is_filled = True
        self.did = FILLED

    def _expiries_of(self, rows: DataFrame, after: int) -> DataFrame:
        """The expiries after a T of signed rows of the table, signed."""
        enters, leaves = map(F.expr, self.window.interval)
        names = [
            F.col(backtick(c)).alias(k) for k, c in zip(self._names, self.columns, strict=True)
        ]
        signed_bounds = rows.where(self.window.matters).select(
            *names, DIFF, enters.alias(_ENTERS), leaves.alias(_LEAVES)
        )
        both = f"stack(2, {_ENTERS}, 1L, {_LEAVES}, -1L) AS ({_EXPIRY}, {_SIGN})"
        expiries = signed_bounds.where(F.col(_ENTERS) < F.col(_LEAVES)).select(
            *self._names, DIFF, F.expr(both)
        )
        is_to_come = (F.col(_EXPIRY) > after) & (F.col(_EXPIRY) < NEVER)
        diff = (F.col(DIFF) * F.col(_SIGN)).alias(DIFF)
        return expiries.where(is_to_come).select(_EXPIRY, *self._names, diff)


def _first_left(parts: Sequence[RowSet]) -> int | None:
    """The first expiry that remains when the signed expiries of all parts are added up."""
    if not parts:
        return None
    columns = [name for name in parts[0].schema.names if name != DIFF]
    expiries = consolidate_all(parts, columns)
    local_rows = expiries.local
    if not isinstance(local_rows, Declined):
        expiry: int | None = pc.min(local_rows.arrow.column(_EXPIRY)).as_py()
        return expiry
    (row,) = expiries.frame.agg(F.min(_EXPIRY).alias(_EXPIRY)).collect()
    return None if row[_EXPIRY] is None else int(row[_EXPIRY])


class ExpiryTables:
    """The expiry tables of one view during one refresh, one for each window.

    Attributes:
        pointers: of the view's last commit. by_window: those that the plan may have. due: when a
            row expires next, once computed.
    """

    def __init__(self, warehouse: Warehouse, item: Item, time: int) -> None:
        """``time`` is the T of the refresh."""
        self._warehouse, self._item, self._time = warehouse, item, time
        self.pointers: tuple[Pointer, ...] = ()
        self.by_window: dict[str, ExpiryTable] = {}
        self.due: Due | None = None

    def look(self, query: PreparedQuery) -> None:
        """Find the expiry tables of a plan; none if nothing may be written."""
        if self.by_window or self._warehouse.gateway.read_only:
            return
        pointers = {pointer.digest: pointer for pointer in self.pointers}
        for name, window in query.plan.windows.items():
            columns = dict.fromkeys([*query.plan.reads[name], *window.columns])
            table = query.read_tables[name]
            types = [(c.name, c.type) for c in table.columns]
            expiries = ExpiryTable(self._warehouse, self._item, self._time, window, [*columns])
            parts = (table.object_id, expiries.columns, types, window.comparisons, window.matters)
            expiries.digest = digest_of("\n".join(map(str, (*parts, window.interval))))
            expiries.pointer = pointers.get(expiries.digest)
            self.by_window[name] = expiries

    def opened(self) -> dict[str, ExpiryTable]:
        """The tables that are current as of the view's last write, by window."""
        return {name: one for name, one in self.by_window.items() if one.opened()}

    def follow(
        self, standing: Mapping[str, ExpiryTable], table_changes: Mapping[str, RowSet], at: int
    ) -> None:
        """Stage the expiries of the tables' changes, given by the names of their windows."""
        dues = [one.follow(table_changes.get(name), at) for name, one in standing.items()]
        if len(standing) == len(self.by_window) > 0:
            self.due = Due(min((due for due in dues if due is not None), default=None))

    def to_fill(self, *, retry: bool) -> dict[str, ExpiryTable]:
        """The tables that are not current; refused ones only with ``retry``."""
        for one in self.by_window.values():
            if one.is_refused and one.next_pointer is None and not retry:
                one.leave_unchanged()
        tables = self.by_window.items()
        return {name: one for name, one in tables if one.next_pointer is None and not one.did}

    @property
    def is_filled(self) -> bool:
        """Whether one of them was filled from all rows."""
        return any(one.is_filled for one in self.by_window.values())

    @property
    def digests(self) -> list[str]:
        """The digests of all of them."""
        return [one.digest for one in self.by_window.values()]

    def commit(self, at: int) -> dict[str, Any]:
        """Commit what is staged; returns what the view's commit records about it."""
        for one in self.by_window.values():
            one.write(at)
        pointers = [
            one.next_pointer.to_metadata()
            for one in self.by_window.values()
            if one.next_pointer is not None
        ]
        how = {name: one.how for name, one in self.by_window.items() if one.how}
        return {**({EXPIRIES: pointers} if pointers else {}), **({EXPIRIES_BY: how} if how else {})}

    def discard(self) -> None:
        """Delete what is staged."""
        for one in self.by_window.values():
            one.discard()
            one.next_pointer = None
        self.due = None
