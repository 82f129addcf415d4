"""The materialized-view sink: commits desired - stored.

    mint:   desired frontier, stored upper --> description [lower, upper)
    write:  difference of the query at T and the table's rows --> staged files, row numbers
    append: description, upper now --> one commit, or dropped

Frontiers: desired is T + 1 for the T to be reached; stored is the output's upper in its log.

V1: after a commit at T the table holds the query's result on what its sources held at T, as a
    multiset, whatever it held before (self-correcting: stored is what is in the table, foreign
    rows included).
V2: one commit for each T that is written; no file when there is no difference.
V3: a view that a task follows is written at every T at which anything it reads changed; one that
    nobody follows goes straight to the newest. With a refresh schedule, T is a refresh time.
V5: where the query of a view that a task follows cannot be computed, its contents are an error
    from that T until it can be computed again: a commit without rows says so. So what follows
    the view at later Ts is definite too. One that nobody follows is left as it is, and tried
    again at the newest T.
V4: past the last refresh of its schedule a view's upper is CLOSED: it is never written again.

On a crash: as for tasks, the commit is in or it is not. When a rival commits first the
description is outdated and what was staged for it is deleted.

Not yet: incremental change plans.
"""

from ctsql.catalog.errors import CtsqlError, DataError, StatementError, error
from ctsql.catalog.items import Item
from ctsql.catalog.times import CLOSED
from ctsql.planner.lowering import Context, lower_view
from ctsql.planner.nodes import ViewWrite
from ctsql.runtime.objects import Objects
from ctsql.runtime.sinks import mv_append
from ctsql.runtime.sinks.failure import FEATURE, Failure, is_final, recorded
from ctsql.runtime.sinks.mv_mint import Description, Mint
from ctsql.runtime.sinks.staging import DRIVER_ROWS_MAX, stage
from ctsql.runtime.sources import StoredSources
from ctsql.runtime.spark_errors import converted
from ctsql.runtime.write_handle import Attempt, Committed, UpperMismatch

TRIES_MAX = 20


class ViewSink:
    """Keeps one materialized view's table."""

    def __init__(self, objects: Objects, item: Item) -> None:
        plan = objects.bound(item).plan
        assert isinstance(plan, ViewWrite)
        self.objects = objects
        self.item = item
        self.plan = plan
        self.output = objects.output(item)

    def advance(self, until: int, *, full: bool = False) -> None:
        """Bring the view to its contents as of ``until``.

        Args:
            full: compare even when nothing it reads has changed.

        Raises:
            VIEW_FAILED: the query cannot be computed on the data; the table stays as it was.
        """
        if self.objects.is_closed(self.item):
            return
        upper = self.output.upper
        times: set[int] = set()
        after = max(upper - 1, self.item.created)
        if self.objects.schedule(self.item) is not None:
            after = max(upper, self.item.created) - 1  # at creation it may have none to write
        elif not upper:
            times.add(self.item.created)
        times |= self.objects.change_times(self.item, after=after, until=until)
        stale = self.output.has_foreign_rows() or self.objects.is_redefined(self.item)
        if full or (stale and until >= upper):
            times.add(until)
        due = sorted(times)
        followed = self.objects.is_followed(self.item)
        for time in due if followed else due[-1:]:
            try:
                self._write(time)
            except DataError as problem:
                if not followed or not self._write_error(time, problem):
                    raise
        held = recorded(self.output)
        if held is not None and held.time == self.output.upper - 1 <= until:
            raise held.view_error(self.item)
        if self.objects.is_to_close(self.item, until):
            self._close()

    def _write_error(self, time: int, problem: DataError) -> bool:
        """Make the contents as of a time an error (V5); False when it is none for good."""
        cause = problem.__cause__
        if not isinstance(cause, CtsqlError) or not is_final(cause):
            return False
        if not self.output.table.has_feature(FEATURE):
            return False  # made by a version that recorded nothing
        failure = Failure.of(time, cause, self.item).to_json()
        at = self.objects.shown_at(self.item, time)
        assert at is not None  # it was computed there
        while (upper := self.output.fetch_recent_upper()) <= time:
            attempt = self.output.open(upper)
            if not isinstance(attempt, UpperMismatch):
                said = {**self.objects.reads_at(self.item, at), "failed": True}
                attempt.commit(time + 1, said, failure=failure)
        return True

    def _close(self) -> None:
        """Write nothing but the last upper."""
        while (upper := self.output.fetch_recent_upper()) != CLOSED:
            attempt = self.output.open(upper)
            if not isinstance(attempt, UpperMismatch):
                attempt.commit(CLOSED, {"finished": True})

    def _write(self, time: int) -> None:
        mint = Mint()
        for _ in range(TRIES_MAX):
            stored = self.output.fetch_recent_upper()
            mint, description = mint.next(desired=time + 1, stored=stored)
            if description is None:
                if stored > time:
                    return  # a rival wrote it
                mint = Mint()  # disturbed by a commit without an upper: mint it again
                continue
            attempt = self.output.open(description.lower)
            if isinstance(attempt, UpperMismatch):
                continue
            if self._append(attempt, description, time):
                return
        raise error(
            "INTERNAL_ERROR",
            invariant="an output that nobody writes can be written",
            detail=f"{TRIES_MAX} tries at T = {time} were disturbed.",
        )

    def _append(self, attempt: Attempt, description: Description, time: int) -> bool:
        """Stage and commit one description; False when somebody else came first."""
        # With a schedule, rows that others wrote may have to be mended between two refreshes.
        at = self.objects.shown_at(self.item, time)
        assert at is not None  # a view is written from its first refresh on
        try:
            with converted():
                context = Context(self.objects.gateway.session, StoredSources(self.objects), at)
                sources = StoredSources(self.objects, output=(self.item, attempt.version_read))
                columns = [c.name for c in self.plan.columns]
                desired = lower_view(self.plan, context)
                stored = sources.stored(self.item.id)
                stage(attempt, desired, stored, columns, small=self._is_small(attempt, time))
            action = mv_append.decide(description, self.output.fetch_recent_upper())
            if isinstance(action, mv_append.Drop) or action.advance_from is not None:
                attempt.abandon()
                return False
            outcome = attempt.commit(description.upper, self.objects.reads_at(self.item, at))
        except (DataError, StatementError) as problem:
            attempt.abandon()
            raise error(
                "VIEW_FAILED",
                span=problem.span,
                name=str(self.item.name),
                time=time,
                reason=problem.message,
                detail=problem.detail or "",
            ) from problem
        except BaseException:
            attempt.abandon()
            raise
        return isinstance(outcome, Committed)

    def _is_small(self, attempt: Attempt, time: int) -> bool:
        """Is the difference likely to fit the driver? The view's size tells, or its inputs'."""
        if attempt.expected:
            rows = self.output.table.rows_count(attempt.version_read)
            return rows is not None and rows <= DRIVER_ROWS_MAX
        counts = [
            self.objects.rows_count(self.objects.item(r.object_id), time) for r in self.item.reads
        ]
        return all(c is not None and c <= DRIVER_ROWS_MAX for c in counts)
