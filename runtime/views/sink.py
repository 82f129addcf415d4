"""The materialized-view sink: commits desired - stored.

    mint:   desired frontier, stored upper --> description [lower, upper)
    write:  difference of the query at T and the table's rows --> staged files, row numbers
    append: description, upper now --> one commit, or dropped

Frontiers: desired is T + 1 for the T to be reached; stored is the output's upper in its log.

V1: after a commit at T the table holds the query's result on what its sources held at T, as a
    multiset, whatever it held before (self-correcting: stored is what is in the table, foreign
    rows included). (tests/runtime/test_view_correction.py)
V2: one commit for each T that is written; no file when there is no difference. Where a new
    definition has other columns the commit writes all rows anew, under them
    (:mod:`ctsql.runtime.warehouse.replaced_views`).
V3: a view that a task follows is written at every T at which anything it reads changed; one that
    nobody follows goes straight to the newest. With a refresh schedule, T is a refresh time.
V4: past the last refresh of its schedule a view's upper is CLOSED: it is never written again.
V5: somebody else's change to the table is noticed in its log, also one that came between the
    version that was compared and the commit. It makes one comparison; what changes no rows
    (OPTIMIZE) makes none. (tests/runtime/test_view_correction.py)
V6: where the query of a view that a task follows cannot be computed, its contents are an error
    from that T until it can be computed again: a commit without rows says so. So what follows
    the view at later Ts is definite too. One that nobody follows is left as it is, and tried
    again at the newest T.

The three parts share nothing but the description and the batch, so one process may write and
another append. M1 to M3 of :mod:`ctsql.runtime.views.mint` are asserted there.

On a crash: as for tasks, the commit is in or it is not. ``mv_advanced_upper``: the upper stands at
the description's lower and there are no rows; the description is minted and written again. When
a rival commits first, or brings the upper to the lower with rows of its own, the description is
outdated and what was staged for it is deleted.

How the rows are computed, from what changed or from the whole query, is decided at every write by
:mod:`ctsql.runtime.views.refresh`; each way leaves the same rows. Where a state table is
kept beside the view (:mod:`ctsql.runtime.views.state_table`) it is committed first.
"""

from ctsql.catalog.errors import CtsqlError, DataError, StatementError, error
from ctsql.catalog.items import Item
from ctsql.catalog.times import CLOSED
from ctsql.planner.lowering import Context, lower_view
from ctsql.runtime.delta.diff_writer import DRIVER_ROWS_MAX, stage
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.failures import FEATURE, Failure, is_final, recorded
from ctsql.runtime.log.staging import Batch, discarded_on_error
from ctsql.runtime.log.write_handle import Appended, Committed, UpperMismatch
from ctsql.runtime.spark.errors import converted
from ctsql.runtime.spark.job_metrics import Meter
from ctsql.runtime.views.mint import Description, Mint, decide
from ctsql.runtime.views.refresh import Following
from ctsql.runtime.views.refresh_policy import Strategy
from ctsql.runtime.views.state_table import ViewState
from ctsql.runtime.warehouse.relations import Objects, revision_of
from ctsql.runtime.warehouse.replaced_views import (
    awaits_columns,
    is_outdated,
    is_redefined,
    table_schema,
)
from ctsql.runtime.warehouse.sink_decisions import Advance, Wait, Write
from ctsql.runtime.warehouse.sources import StoredSources

TRIES_MAX = 20


class ViewSink:
    """Keeps one materialized view's table."""

    def __init__(self, objects: Objects, item: Item) -> None:
        plan = objects.bound(item).view
        self.objects = objects
        self.item = item
        self.plan = plan
        self.output = objects.output(item)
        self._mint = Mint(since=item.created)
        self._full = False
        self._said: dict[str, dict[str, object]] = {}  # by batch, what its refresh did
        self._states: dict[str, ViewState] = {}  # by batch, the view's state table

    def advance(self, until: int, *, full: bool = False) -> None:
        """Bring the view to its contents as of ``until``.

        Args:
            full: compare even when nothing it reads has changed.

        Raises:
            VIEW_FAILED: the query cannot be computed on the data; the table stays as it was.
        """
        if self.objects.is_closed(self.item) or until < self.item.created:
            return
        if self.objects.gateway.read_only and awaits_columns(self.objects, self.item):
            return  # reads of it are computed: tables in memory have the columns of those stored
        self._full = full
        upper = self.output.upper
        times: set[int] = set()
        after = max(upper - 1, self.item.created)
        if self.objects.schedule(self.item) is not None:
            after = max(upper, self.item.created) - 1  # at creation it may have none to write
        elif upper <= self.item.created:
            times.add(self.item.created)
        times |= self.objects.change_times(self.item, after=after, until=until)
        stale = self.output.has_foreign_rows() or is_redefined(self.objects, self.item)
        if full or (stale and until >= upper):
            times |= {until} if self.objects.shown_at(self.item, until) is not None else set()
        due = sorted(times)
        followed = self.objects.is_followed(self.item)
        for time in due if followed else due[-1:]:
            try:
                self._reach(time)
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
        if awaits_columns(self.objects, self.item):
            return False  # the next that can be computed gives the table its columns
        failure = Failure.of(time, cause, self.item).to_json()
        at = self.objects.shown_at(self.item, time)
        assert at is not None  # it was computed there
        while (upper := self.output.fetch_recent_upper()) <= time:
            if is_outdated(self.objects, self.item):
                return False
            attempt = self.output.open(upper)
            if not isinstance(attempt, UpperMismatch):
                said = {**self.objects.reads_at(self.item, at), "failed": True}
                attempt.commit(time + 1, said, failure=failure)
        return True

    def _close(self) -> None:
        """Write nothing but the last upper."""
        while (upper := self.output.fetch_recent_upper()) != CLOSED:
            if is_outdated(self.objects, self.item):
                return  # by its new definition it may go on
            self.output.compare_and_append(
                (), expected=upper, new=CLOSED, metadata={"finished": True}
            )

    def _reach(self, time: int) -> None:
        """Mint, write and append until the view is written at a time, by whomever."""
        for _ in range(TRIES_MAX):
            stored = self.output.fetch_recent_upper()
            if stored > time:
                return  # a rival wrote it
            if is_outdated(self.objects, self.item):
                return  # by a definition that this process does not know yet (N1)
            self._mint, _ = self._mint.next(desired=time + 1, stored=stored)
            # Not minted anew: the last description is still valid, and its batch was disturbed.
            description = self._mint.minted
            assert description is not None  # the time is not written, so there is one to write
            batch = self.write(description)
            with discarded_on_error([batch, *self._states.values()]):
                if isinstance(self.append(batch), Committed):
                    return
        raise error(
            "INTERNAL_ERROR",
            invariant="an output that nobody writes can be written",
            detail=f"{TRIES_MAX} tries at T = {time} were disturbed.",
        )

    def write(self, description: Description) -> Batch:
        """Stage desired - stored for a description, against the newest version.

        The batch may be appended by this process (:meth:`append`) or travel to another one.

        Raises:
            VIEW_FAILED: the query cannot be computed on the data at the description's last time.
        """
        time = description.upper - 1
        # With a schedule, rows that others wrote may have to be mended between two refreshes.
        at = self.objects.shown_at(self.item, time)
        assert at is not None  # a view is written from its first refresh on
        batch = self.output.batch(description.lower, description.upper)
        meter = Meter(self.objects.gateway.session)
        following = Following(self.objects, self.item, self.plan, batch, time, full=self._full)
        state = following.state
        with discarded_on_error([batch, state]):
            done = following.run()
            ms = meter.ms() - following.preparing_ms
            if done.strategy is Strategy.RECOMPUTE:
                begun = meter.ms()
                self._recompute(batch, time, at)
                ms = meter.ms() - begun
            costs = following.costs.after(done.strategy, ms)
            work = meter.work().said()
            following.keep_state(done)  # once for many refreshes: not among the costs of this one
            if state.is_filled and done.strategy is not Strategy.RECOMPUTE:
                costs = costs.anew()
        said = {**done.said(), "work": work, "costs": costs.said()}
        self._said = {batch.text.batch_id: said}
        for one in self._states.values():
            one.discard()  # of a batch that travelled: whoever appends it knows of no state
        self._states = {batch.text.batch_id: state}
        return batch

    def _recompute(self, batch: Batch, time: int, at: int) -> None:
        """Stage the difference of the whole query and the stored rows."""
        try:
            with discarded_on_error([batch]), converted():
                context = Context(self.objects.gateway.session, StoredSources(self.objects), at)
                sources = StoredSources(
                    self.objects, outputs={self.item.id: (self.item, batch.version_read)}
                )
                columns = [c.name for c in self.plan.columns]
                desired = lower_view(self.plan, context)
                stored = None
                if awaits_columns(self.objects, self.item):
                    batch.start_anew(table_schema(self.item))
                else:
                    stored = sources.stored(self.item.id)
                small = self._is_small(batch.version_read, time)
                stage(batch.at(time), desired, stored, columns, small=small)
        except (DataError, StatementError) as problem:
            raise error(
                "VIEW_FAILED",
                span=problem.span,
                name=str(self.item.name),
                time=time,
                reason=problem.message,
                detail=problem.detail or "",
            ) from problem

    def append(self, batch: Batch) -> Appended:
        """Commit a written description, whoever wrote it; one that is outdated is deleted."""
        description = Description(batch.text.lower, batch.text.upper)
        said = self._said.get(batch.text.batch_id, {})  # none if another process wrote it
        state = self._states.get(batch.text.batch_id)
        while True:
            upper = self.output.fetch_recent_upper()
            match decide(description, upper):
                case Wait():
                    return self._drop(batch, state)
                case Write() if self._is_overtaken(batch):
                    return self._drop(batch, state)
                case Write():
                    at = self.objects.shown_at(self.item, description.upper - 1)
                    assert at is not None  # as when it was written
                    if state is not None:
                        said = {**said, **state.commit(at)}
                    return self.output.compare_and_append(
                        [batch],
                        expected=description.lower,
                        new=description.upper,
                        metadata={**self.objects.reads_at(self.item, at), **said},
                    )
                case Advance(lower):
                    said_first = revision_of(self.item)
                    advanced = self.output.compare_and_append(
                        (), expected=upper, new=lower, metadata=said_first
                    )
                    if isinstance(advanced, Committed):
                        faults.point("mv_advanced_upper")

    def _drop(self, batch: Batch, state: ViewState | None) -> Appended:
        if state is not None:
            state.discard()
        return self.output.drop(batch)

    def _is_overtaken(self, batch: Batch) -> bool:
        """Did a rival's rows, not our own empty commit, bring the upper to the batch's lower?

        That is where a view begins anew: its lower is the time of creation, not the stored upper.
        """
        last = self.output.uppers.last
        if last is None or last.version <= batch.version_read:
            return False
        return last.anew or self.output.table.commit_at(last.version).changes_data

    def _is_small(self, version: int, time: int) -> bool:
        """Is the difference likely to fit the driver? The view's size tells, or its inputs'."""
        if self.output.upper > self.item.created:
            rows = self.output.table.rows_count(version)
            return rows is not None and rows <= DRIVER_ROWS_MAX
        counts = [
            self.objects.rows_count(self.objects.item(r.object_id), time) for r in self.item.reads
        ]
        return all(c is not None and c <= DRIVER_ROWS_MAX for c in counts)
