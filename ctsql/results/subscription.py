"""A subscription in a Python program: the changes of an object as they happen.

    with con.subscribe("orders", reader="billing") as changes:
        for t, diff, row in changes:
            ...

The position of a named reader is committed up to T when the row (or batch) after T is taken, and
when the ``with`` block ends without an exception. :meth:`Subscription.commit` commits it too; with
``auto_commit=False`` only that does.

A T is delivered again, with the same rows, after a crash before its commit: at least once. A
program that stores T with its own data in one transaction, and skips stored Ts, processes each T
exactly once. This module does not import Spark: a prompt must not wait for it.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ctsql.catalog.errors import CtsqlError, misuse
from ctsql.catalog.schemas import plain_type
from ctsql.results.result import Convert, Result, Row

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from ctsql.runtime.engine import Engine
    from ctsql.runtime.subscriptions.feed import Feed

ROWS_AT_ONCE_MAX = 10_000
"""A batch of more rows is not kept in memory: each iteration computes it again."""
PROGRESS_COMMIT_SECONDS = 60.0
"""How often the position of a named reader moves without changes, to release history."""


class Change(NamedTuple):
    """``diff`` copies of ``row`` were inserted at ``t``, or deleted if ``diff`` is negative.

    With ``progress``, a diff of 0 and a row of NULLs: all up to ``t`` (inclusive) was delivered.
    """

    t: int
    diff: int
    row: Row


class Batch:
    """The changes at one T, ``t``, in milliseconds since 1970-01-01 UTC."""

    def __init__(self, t: int, compute: Callable[[], Result], rows: list[Row] | None) -> None:
        """Args: compute: computes the changes (again). rows: the changes, if they are in memory."""
        self.t = t
        self._compute = compute
        self._rows = rows

    def __iter__(self) -> Iterator[Change]:
        return (Change(row[0], row[1], row[2:]) for row in self.rows())

    def rows(self) -> Iterator[Row]:
        """The changes as flat rows: t, diff and the columns; deletions first."""
        return iter(self._compute() if self._rows is None else self._rows)

    def to_arrow(self) -> "pa.Table":
        """The changes as an Arrow table with the columns t and diff in front."""
        return self._compute().to_arrow()

    def to_pandas(self) -> "pd.DataFrame":
        """The changes as a pandas DataFrame with the columns t and diff in front."""
        return self._compute().to_pandas()

    def to_spark(self) -> "DataFrame":
        """The changes as a Spark DataFrame, computed when it is used."""
        return self._compute().to_spark()


class Subscription:
    """Delivers the changes of one object; made by :meth:`Connection.subscribe`.

    Iterate it once, in one thread; :meth:`stop` may be called from any.

    Attributes:
        columns, types: of the rows, with Spark's type names. reader: the name, if it has one.
    """

    def __init__(
        self,
        feed: "Feed",
        *,
        open_engine: Callable[[], AbstractContextManager["Engine"]],
        convert: Convert,
        progress: bool,
        auto_commit: bool,
        interval: float,
    ) -> None:
        self.columns = [c.name for c in feed.columns]
        self.types = [plain_type(c.type) for c in feed.columns]
        self.reader = None if feed.place is None else feed.place.subscription.name
        self._feed = feed
        self._open_engine = open_engine
        self._convert = convert
        self._progress = progress
        self._auto_commit = auto_commit and feed.place is not None
        self._interval = interval
        self._stop = threading.Event()
        self._delivered_t: int | None = None  # the T whose rows were all delivered
        self._committed_at = time.monotonic()
        self._batches: Iterator[Batch] | None = None

    @property
    def position(self) -> int:
        """Everything below this time was delivered, acknowledged or not."""
        return self._feed.position.next

    # ---- taking

    def batches(self) -> Iterator[Batch]:
        """The changes, one batch for each T that has any, in order; waits for more.

        With ``progress`` also a batch of one row with diff 0 after everything up to a T.

        Raises:
            SUBSCRIPTION_MOVED: another process reads under the same name.
            TASK_FAILED, VIEW_FAILED: the object failed; everything before was delivered.
            UNKNOWN_RELATION, SUBSCRIPTION_OUTDATED: it was dropped, or replaced.
        """
        if self._batches is None:
            self._batches = self._follow()
        return self._batches

    def __iter__(self) -> Iterator[Change]:
        for batch in self.batches():
            self._delivered_t = None
            rows = iter(batch)
            row = next(rows, None)
            while row is not None:
                following = next(rows, None)
                if following is None:
                    self._delivered_t = batch.t
                yield row
                row = following
            self._delivered_t = batch.t

    def _follow(self) -> Iterator[Batch]:
        from ctsql.runtime.service.backoff import Pace

        pace, last_t = Pace(self._interval), -1
        while not self._stop.is_set():
            try:
                with self._open_engine() as engine:
                    due = self._feed.look(engine, self._stop)
                    over = self._feed.is_over(engine)
            except CtsqlError as problem:
                if problem.condition == "STATEMENT_CANCELLED" and self._stop.is_set():
                    return  # while what is followed was advanced
                raise
            for t, batch in self._batches_due(due):
                if self._stop.is_set():
                    return
                if batch is not None:
                    self._delivered_t = last_t = t
                    yield batch
                self._advance(t)
            end = self._feed.end
            newest_t = self._feed.until if end is None else min(self._feed.until, end - 1)
            if newest_t > last_t:
                last_t = newest_t
                if self._progress:
                    self._delivered_t = newest_t
                    nothing: Row = (newest_t, 0, *(None for _ in self.columns))
                    make = partial(Result.of_rows, *self.heads, [nothing])
                    yield Batch(newest_t, make, [nothing])
            self._advance(newest_t, quietly=True)
            if self._feed.failure is not None:
                raise self._feed.failure
            if over:
                self._advance(newest_t)
                return
            pace = pace.after(moved=bool(due))
            self._stop.wait(pace.wait)

    def _batches_due(self, due: list[int]) -> Iterator[tuple[int, Batch | None]]:
        """Each due time and its batch; small ones are computed together."""
        runs: list[list[int]] = []
        if due:
            with self._open_engine() as engine:
                runs = self._feed.group_times(engine, due, ROWS_AT_ONCE_MAX)
        for times in runs:
            if self._stop.is_set():
                return
            if len(times) == 1:
                yield times[0], self._batch(times[0])
                continue
            with self._open_engine() as engine:
                frame = self._feed.rows_of(engine, times)
            by_time: dict[object, list[Row]] = {}
            for row in Result.of_dataframe(frame, convert=self._convert).fetchall():
                by_time.setdefault(row[0], []).append(row)
            for t in times:
                rows = by_time.get(t)
                compute = partial(self._result, t, whole=False)
                yield t, None if rows is None else Batch(t, compute, rows)

    def _result(self, t: int, *, whole: bool) -> Result:
        with self._open_engine() as engine:
            frame, _ = self._feed.rows(engine, t, whole=whole)
        return Result.of_dataframe(frame, convert=self._convert)

    def _batch(self, t: int) -> Batch | None:
        """The changes at T; None if they cancel."""
        whole = self._feed.is_snapshot(t)
        with self._open_engine() as engine:
            frame, count = self._feed.rows(engine, t, whole=whole)
        compute = partial(self._result, t, whole=whole)
        if count is not None and count > ROWS_AT_ONCE_MAX:
            return Batch(t, compute, None)
        rows = Result.of_dataframe(frame, convert=self._convert).head(ROWS_AT_ONCE_MAX + 1)
        if len(rows) > ROWS_AT_ONCE_MAX:
            return Batch(t, compute, None)
        return Batch(t, compute, rows) if rows else None

    @property
    def heads(self) -> tuple[list[str], list[str]]:
        """Names and types of the columns of flat rows."""
        from ctsql.runtime.subscriptions.feed import DIFF, TIME

        return [TIME, DIFF, *self.columns], ["bigint", "bigint", *self.types]

    # ---- acknowledging

    def _advance(self, t: int, *, quietly: bool = False) -> None:
        """Move the position past T; quietly: nothing was delivered at it."""
        self._delivered_t = None
        self._feed.advance_past(t)
        seconds = time.monotonic() - self._committed_at
        if self._auto_commit and (not quietly or seconds > PROGRESS_COMMIT_SECONDS):
            self._move()

    def commit(self) -> None:
        """Acknowledge everything that was delivered, including the current batch.

        A T whose rows were not all delivered is not acknowledged.

        Raises:
            INVALID_USAGE: the reader has no name.
            SUBSCRIPTION_MOVED: another process reads under the same name.
        """
        if self._feed.place is None:
            message = "only a reader with a name has a position to commit"
            detail = "Give one: subscribe(..., reader='name')."
            raise misuse(message, detail)
        if self._delivered_t is not None:
            self._feed.advance_past(self._delivered_t)
        self._move()

    def _move(self) -> None:
        assert self._feed.place is not None  # checked by callers
        with self._open_engine():
            self._feed.place.move(self._feed.position)
        self._committed_at = time.monotonic()

    # ---- ending

    def stop(self) -> None:
        """End the iteration, between two Ts; may be called from another thread."""
        self._stop.set()

    def close(self) -> None:
        """Stop, and with ``auto_commit`` acknowledge everything that was delivered."""
        self.stop()
        if self._auto_commit:
            self.commit()

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.stop()
