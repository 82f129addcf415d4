"""The expiry tables of a view with now(): the rows that enter and leave next, in that order.

    turn | diff | c1, c2, ...     at T = turn diff copies of the row enter, or leave if negative

Each window of the view's plan over a large table has one (:class:`ctsql.planner.ivm.ClockWindow`).
It holds the future turns of the rows of that table as of the view's last T. So the window's change
in a span of T is the sum of the turns in it, and the table is not read. In addition to the
invariants of :mod:`ctsql.runtime.views.side_table`:

[table-still-turns-still] future turns change only with the table. A refresh in which only time has
    passed commits nothing here; the span skips past turns.
[signed-turns] a change of the table adds the turns of its rows with their sign. A deleted row's
    turns cancel those of its insertion, so nothing is searched or deleted here.
[equal-rows-equal-turns] equal rows have equal turns. So turns that remain after cancelling belong
    to rows of the table, and the next due T is the first with a remainder.
[passed-files-go] files whose newest turn is past are removed with the next change.

Rows are sorted by turn when the table is filled, so file and page statistics select a span.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.declined import Declined
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
from ctsql.runtime.views.refresh_policy import TURNS_BY, looked_ahead
from ctsql.runtime.views.side_table import TURNS, Pointer, SideTable, SideTableKind, digest_of
from ctsql.runtime.warehouse.warehouse import Warehouse

ROWS_MIN = 100_000
"""Below so many rows of a table, looking through all of them costs no more than a turn table."""
FOUND = "found in its turn table"
ADDED = f"{FOUND}, and those of what has changed were added"
FILLED = "looked for in all rows, and its turn table was filled"
OF_FEW = f"looked for in all rows: they are fewer than {ROWS_MIN:,}"
_TURN, _SIGN, _ENTERS, _LEAVES = "turn", "sign", "enters", "leaves"
_DIFF = "diff"


def is_worth(rows: int | None) -> bool:
    """Do turn tables pay where one of the tables has so many rows? None if no log says how many."""
    return rows is None or rows >= ROWS_MIN


def turns_within(statistics: str | None, after: int, until: int | None) -> bool:
    """May a file with these statistics (JSON) have a turn in (after, until]?

    >>> told = '{"minValues": {"turn": 5}, "maxValues": {"turn": 7}}'
    >>> [turns_within(told, *span) for span in ((0, 4), (4, 5), (6, None), (7, 9))]
    [False, True, True, False]
    >>> turns_within(None, 7, 9)
    True
    """
    statistics_of_file = json.loads(statistics) if statistics else {}
    low, high = (
        statistics_of_file.get(bound, {}).get(_TURN) for bound in ("minValues", "maxValues")
    )
    return NumberRange(_TURN, after, until).meets(low, high)


class TurnTable(SideTable):
    """The expiry table of one window during one refresh; it keeps ``columns`` of the table."""

    kind = SideTableKind.TURNS

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
        """How the rows that turn were found, for people; empty where that was not needed."""
        if self.next_pointer is not None and self.next_pointer.refusal is not None:
            return f"looked for in all rows: no turn table because {self.next_pointer.refusal}"
        return self.did

    def opened(self) -> bool:
        """Is it current at the view's last write? From then on it is used."""
        self._stored_batch = self.find()
        return self._stored_batch is not None

    def between(self, after: int, until: int) -> RowSet | None:
        """The rows that turn in (after, until], by the names of the table's columns, signed.

        None if no file may have one.
        """
        turns = self._turns(after, until)
        return None if turns is None else turns.select([*self._names, DIFF], [*self.columns, DIFF])

    def _turns(self, after: int, until: int | None) -> RowSet | None:
        assert self._stored_batch is not None  # it stands
        version = self._stored_batch.version_read
        live = self.table.files(version).values()
        files = [f for f in live if turns_within(f.statistics, after, until)]
        if not files:
            return None
        columns = [_TURN, *self._names]
        near = rows_between(self.table, files, version, NumberRange(_TURN, after, until))
        if not isinstance(near, Declined):
            return near.select([*columns, _DIFF], [*columns, DIFF])
        rows = self.table.frame_of(files, version).withColumnRenamed(_DIFF, DIFF)
        rows = rows.where(F.col(_TURN) > after)
        return SparkRows(rows if until is None else rows.where(F.col(_TURN) <= until))

    def follow(self, change: RowSet | None, at: int) -> int | None:
        """Stage the turns of the table's change; the first T after ``at`` that is due.

        ``change`` is signed; None for none. The view is shown as of ``at``.
        """
        assert self._stored_batch is not None  # it stands
        with ExitStack() as stack:
            fresh = None
            if change is not None:
                turns = self._turns_of(change.plain_frame, at)
                fresh = SparkRows(consolidate(turns, [_TURN, *self._names])).keep(stack)
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
        columns = [_TURN, *self._names, DIFF]
        rows = fresh.select(columns, [_TURN, *self._names, _DIFF])
        names = [_TURN, _DIFF, *self._names]
        staging.stage(
            rows.select(names) if rows.is_local else rows.frame.select(*names).sort(_TURN)
        )
        live = self.table.files(batch.version_read)
        past = [f for f in live.values() if not turns_within(f.statistics, at, None)]
        staging.delete_rows((f.path, range(f.records_count or 0)) for f in past)

    def _next(self, fresh: RowSet | None, at: int) -> int | None:
        """The first T after one at which anything is left of the turns [equal-rows-equal-turns]."""
        assert self._stored_batch is not None  # it stands
        version = self._stored_batch.version_read
        for until in looked_ahead([self.table.rows_count(version)], at):
            parts = [rows for rows in (self._turns(at, until), fresh) if rows is not None]
            turn = _first_left([p.select([_TURN, *self._names, DIFF]) for p in parts])
            if turn is not None and (until is None or turn <= until):
                return turn
        return None

    def build(self, rows: DataFrame, at: int, siblings: Sequence[str]) -> None:
        """Stage the future turns of all rows of the table as of a T.

        ``siblings``: digests of the other expiry tables of the view.
        """
        turns = self._turns_of(rows.withColumn(DIFF, F.lit(1)), at)
        turns = turns.select(_TURN, F.col(DIFF).alias(_DIFF), *self._names)
        batch = self.start(turns.schema, at, siblings)
        if batch is None:
            return
        with discard_on_error([self]):
            if self.table.files(batch.version_read):
                batch.overwrite_with_schema(self.table.schema_text())
            columns, queries = turns.columns, self.warehouse.queries
            queries.stage(batch.at(self.time), turns.sort(_TURN), None, columns, small=False)
        self.is_filled = True
        self.did = FILLED

    def _turns_of(self, rows: DataFrame, after: int) -> DataFrame:
        """The turns after a T of signed rows of the table, signed."""
        enters, leaves = map(F.expr, self.window.interval)
        names = [
            F.col(backtick(c)).alias(k) for k, c in zip(self._names, self.columns, strict=True)
        ]
        signed_bounds = rows.where(self.window.matters).select(
            *names, DIFF, enters.alias(_ENTERS), leaves.alias(_LEAVES)
        )
        both = f"stack(2, {_ENTERS}, 1L, {_LEAVES}, -1L) AS ({_TURN}, {_SIGN})"
        turns = signed_bounds.where(F.col(_ENTERS) < F.col(_LEAVES)).select(
            *self._names, DIFF, F.expr(both)
        )
        is_to_come = (F.col(_TURN) > after) & (F.col(_TURN) < NEVER)
        diff = (F.col(DIFF) * F.col(_SIGN)).alias(DIFF)
        return turns.where(is_to_come).select(_TURN, *self._names, diff)


def _first_left(parts: Sequence[RowSet]) -> int | None:
    """The first turn that has anything left when the signed turns of all parts are added up."""
    if not parts:
        return None
    columns = [name for name in parts[0].schema.names if name != DIFF]
    turns = consolidate_all(parts, columns)
    local_rows = turns.local
    if not isinstance(local_rows, Declined):
        turn: int | None = pc.min(local_rows.arrow.column(_TURN)).as_py()
        return turn
    (row,) = turns.frame.agg(F.min(_TURN).alias(_TURN)).collect()
    return None if row[_TURN] is None else int(row[_TURN])


class TurnTables:
    """The expiry tables of one view during one refresh, one for each window.

    Attributes:
        pointers: of the view's last commit. by_window: those that the plan may have. due: when a
            row turns next, once computed.
    """

    def __init__(self, warehouse: Warehouse, item: Item, time: int) -> None:
        """``time`` is the T of the refresh."""
        self._warehouse, self._item, self._time = warehouse, item, time
        self.pointers: tuple[Pointer, ...] = ()
        self.by_window: dict[str, TurnTable] = {}
        self.due: Due | None = None

    def look(self, query: PreparedQuery) -> None:
        """Find out which ones the plan may have: none if none is needed, or may be written."""
        if self.by_window or query.leaving is not None or self._warehouse.gateway.read_only:
            return
        pointers = {pointer.digest: pointer for pointer in self.pointers}
        for name, window in query.plan.windows.items():
            columns = dict.fromkeys([*query.plan.reads[name], *window.columns])
            table = query.read_tables[name]
            types = [(c.name, c.type) for c in table.columns]
            turns = TurnTable(self._warehouse, self._item, self._time, window, [*columns])
            parts = (table.object_id, turns.columns, types, window.comparisons, window.matters)
            turns.digest = digest_of("\n".join(map(str, (*parts, window.interval))))
            turns.pointer = pointers.get(turns.digest)
            self.by_window[name] = turns

    def opened(self) -> dict[str, TurnTable]:
        """Those that stand at the view's last write, by the names of their windows."""
        return {name: one for name, one in self.by_window.items() if one.opened()}

    def follow(
        self, standing: Mapping[str, TurnTable], table_changes: Mapping[str, RowSet], at: int
    ) -> None:
        """Stage the turns of the tables' changes, given by the names of their windows."""
        dues = [one.follow(table_changes.get(name), at) for name, one in standing.items()]
        if len(standing) == len(self.by_window) > 0:
            self.due = Due(min((due for due in dues if due is not None), default=None))

    def to_fill(self, *, retry: bool) -> dict[str, TurnTable]:
        """The tables that the next refresh could not use; refused ones only with ``retry``."""
        for one in self.by_window.values():
            if one.is_refused and one.next_pointer is None and not retry:
                one.leave_unchanged()
        tables = self.by_window.items()
        return {name: one for name, one in tables if one.next_pointer is None and not one.did}

    @property
    def is_filled(self) -> bool:
        """Was one of them filled from all rows?"""
        return any(one.is_filled for one in self.by_window.values())

    @property
    def digests(self) -> list[str]:
        """Of all of them."""
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
        return {**({TURNS: pointers} if pointers else {}), **({TURNS_BY: how} if how else {})}

    def discard(self) -> None:
        """Delete what is staged."""
        for one in self.by_window.values():
            one.discard()
            one.next_pointer = None
        self.due = None
