"""The materialized-view sink: commits desired - stored.

    mint:   desired frontier, stored upper --> description [lower, upper)
    write:  difference of the query at T and the table's rows --> staged files, row numbers
    append: description, upper now --> one commit, or dropped

One process may write and another append (:mod:`ctsql.runtime.views.mint`).
:mod:`ctsql.runtime.views.refresh` decides how the rows are computed. Auxiliary tables
(:mod:`ctsql.runtime.views.side_table`) are committed first.

[table-is-query] after a commit at T the table holds the query's result on its sources at T, as a
    multiset, whatever it held before.
[one-commit-per-T] one commit for each T that is written; no file when there is no difference. Other
    columns are one commit that rewrites all rows (:mod:`ctsql.runtime.warehouse.replaced_views`).
[followed-at-every-T] a view that a task follows is written at every T at which anything it reads
    changed; a view without followers goes straight to the newest T. With a refresh schedule, T is a
    refresh time.
[closed-is-last] past the last refresh of its schedule a view's upper is CLOSED: it is never written
    again.
[foreign-is-compared] a foreign commit to the table, before or during the refresh, causes one
    comparison; one that changes no rows (OPTIMIZE) causes none.
[error-is-contents] if the query of a followed view cannot be computed, a commit without rows stores
    the error. It is the view's contents from that T until the query can be computed again. Any
    other view is tried at the newest T.

A crash loses or keeps the whole commit. A rival that commits first outdates the description, and
the files staged for it are deleted.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ctsql.catalog.errors import CtsqlError, DataError
from ctsql.catalog.items import Item
from ctsql.catalog.times import CLOSED
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.failures import Failure, find_recorded, is_final
from ctsql.runtime.log.staging import OutputBatch, discard_on_error
from ctsql.runtime.log.write_handle import (
    FAILURE,
    Appended,
    Committed,
    Phases,
    UpperMoved,
    disturbance_error,
)
from ctsql.runtime.views.expiry_table import ExpiryTables
from ctsql.runtime.views.mint import Description, Mint, decide, is_overtaken
from ctsql.runtime.views.outcomes import translated_failure
from ctsql.runtime.views.refresh import ViewRefresh, next_expiry
from ctsql.runtime.views.refresh_context import RefreshContext
from ctsql.runtime.views.refresh_policy import Strategy
from ctsql.runtime.views.state_table import ViewState
from ctsql.runtime.warehouse.advance_context import UNATTENDED, AdvanceContext
from ctsql.runtime.warehouse.output_columns import find_missing_column
from ctsql.runtime.warehouse.replaced_views import awaits_columns, is_outdated, is_redefined
from ctsql.runtime.warehouse.schedules import DUE
from ctsql.runtime.warehouse.sink_decisions import Advance, Wait, Write
from ctsql.runtime.warehouse.versions import revision_of
from ctsql.runtime.warehouse.warehouse import Warehouse

TRIES_MAX = 20


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """A description whose rows are staged."""

    batch: OutputBatch
    # the outcome of the refresh, for the metadata of the commit; empty for a batch from
    # another process.
    report: Mapping[str, object] = field(default_factory=dict)
    # the auxiliary tables of the view; none for a batch from another process.
    side_tables: tuple[ViewState | ExpiryTables, ...] = ()

    def describe(self) -> str:
        """The batch as a text for another process, without the view's auxiliary tables."""
        self.discard_side_tables()
        return self.batch.describe()

    def discard(self) -> None:
        """Delete what is staged."""
        self.batch.discard()
        self.discard_side_tables()

    def discard_side_tables(self) -> None:
        """Delete what is staged for the auxiliary tables of the view."""
        for one in self.side_tables:
            one.discard()


class ViewSink:
    """Writes one materialized view's table."""

    def __init__(
        self, warehouse: Warehouse, item: Item, context: AdvanceContext = UNATTENDED
    ) -> None:
        plan = warehouse.relations.bound(item).view
        self.warehouse = warehouse
        self.item = item
        self.context = context
        self.plan = plan
        self.output = warehouse.relations.output(item)
        self._mint = Mint(since=item.created_at)
        self._full = False

    def advance(self, until: int, *, full: bool = False) -> None:
        """Advance the view to its contents at ``until``; ``full`` compares even without a change.

        Raises:
            VIEW_FAILED: the query cannot be computed on the data; the table is unchanged.
            STORED_DATA_INVALID: another writer has changed the table's columns.
        """
        if self.warehouse.schedules.is_closed(self.item) or until < self.item.created_at:
            return
        if not self._may_be_written():
            return
        self._full = full
        followed = self.warehouse.relations.is_followed(self.item, self.context.watched_ids)
        # The next change by time is known after a write, so write one T after another.
        while due := self._due(until):
            times = due if followed else due[-1:]
            if self.plan.reads_clock:
                times = times[:1]
            for time in times:
                try:
                    self._advance_to(time)
                except DataError as problem:
                    is_last = time == times[-1]
                    if not followed or not self._write_error(time, problem, is_last=is_last):
                        raise
            if times[-1] == due[-1]:
                self._full = False
            if not self.plan.reads_clock or self.output.upper <= times[-1]:
                break
        failure = find_recorded(self.output)
        if failure is not None and failure.time == self.output.upper - 1 <= until:
            raise failure.view_error(self.item)
        if self.warehouse.schedules.is_to_close(self.item, until):
            self._close()

    def _may_be_written(self) -> bool:
        """Whether the table has the view's columns, or gets them with the next commit.

        False if a newer definition has written it, and in read-only mode before that commit: reads
        are then computed, because tables in memory have the stored columns. Raises
        STORED_DATA_INVALID if another writer has changed the columns.
        """
        for _ in range(TRIES_MAX):
            version = self.output.table.version()
            if awaits_columns(self.warehouse, self.item):
                return not self.warehouse.gateway.read_only
            problem = find_missing_column(self.warehouse, self.item)
            if problem is None:
                return True
            if is_outdated(self.warehouse, self.item):
                return False
            if self.output.table.version() == version:
                raise problem
            # Another process may have written the view by another definition.
        raise disturbance_error(f"{TRIES_MAX} looks at the columns of {self.item.name}")

    def _due(self, until: int) -> list[int]:
        """The known times at which it must be written."""
        upper = self.output.upper
        times: set[int] = set()
        after = max(upper - 1, self.item.created_at)
        if self.warehouse.schedules.schedule(self.item) is not None:
            after = max(upper, self.item.created_at) - 1  # a new view may be empty
        elif upper <= self.item.created_at:
            times.add(self.item.created_at)
        times |= self.warehouse.schedules.change_times(self.item, after=after, until=until)
        stale = self.output.has_foreign_rows() or is_redefined(self.warehouse, self.item)
        shown_at = self.warehouse.schedules.shown_at(self.item, until)
        if shown_at is not None and (self._full or (stale and until >= upper)):
            times.add(until)
        if shown_at is not None and times and self.plan.reads_clock:
            times.add(max(shown_at, *times))  # it includes the changes by time until then
        return sorted(times)

    def _write_error(self, time: int, problem: DataError, *, is_last: bool) -> bool:
        """Make the contents as of a time an error; False if the error is not lasting.

        A table with other columns cannot store an error: that T is skipped, unless it is the last.
        """
        cause = problem.__cause__
        if not isinstance(cause, CtsqlError) or not is_final(cause):
            return False
        if awaits_columns(self.warehouse, self.item):
            self._mint = Mint(since=self.item.created_at)
            return not is_last  # the next successful T gives the table its columns
        failure = Failure.of(time, cause, self.item).to_json()
        at = self.warehouse.schedules.shown_at(self.item, time)
        assert at is not None  # it could be computed at that T
        due = None
        if self.plan.reads_clock:
            with suppress(DataError):  # the T at which time corrects it is unknown
                due = self._next_expiry(at)
        while (upper := self.output.fetch_recent_upper()) <= time:
            if is_outdated(self.warehouse, self.item):
                return False
            batch = self.output.open(upper)
            if not isinstance(batch, UpperMoved):
                batch.domains[FAILURE] = failure
                metadata = {**self.warehouse.versions.reads_at(self.item, at), "failed": True}
                if self.plan.reads_clock:
                    metadata[DUE] = due
                outcome = self.output.compare_and_append(
                    [batch], expected=batch.lower, new=time + 1, metadata=metadata
                )
                self.context.committed(self.item.id, outcome, time + 1)
        return True

    def _close(self) -> None:
        while (upper := self.output.fetch_recent_upper()) != CLOSED:
            now = self.warehouse.relations.load_stored().items.get(self.item.id)
            is_replaced = now is not None and now.revision > self.item.revision
            if is_replaced or is_outdated(self.warehouse, self.item):
                return  # with its new definition it may continue
            self._append((), upper, CLOSED, {"finished": True})

    def _advance_to(self, time: int) -> None:
        """Mint, write and append until the view is written at a time, by any process."""
        for _ in range(TRIES_MAX):
            upper = self.output.fetch_recent_upper()
            if upper > time:
                return  # a rival wrote it
            if is_outdated(self.warehouse, self.item):
                return  # by a definition that this process has not loaded
            self._mint, _ = self._mint.next(desired=time + 1, stored_upper=upper)
            # Nothing was minted: the last description is valid, but its batch was disturbed.
            description = self._mint.description
            assert description is not None  # the time is not written, so there is a description
            write = self.write(description)
            with discard_on_error([write]):
                if isinstance(self.append(write), Committed):
                    return
        raise disturbance_error(f"{TRIES_MAX} tries at T = {time}")

    def write(self, description: Description) -> StagedBatch:
        """Stage desired - stored for a description, against the newest version.

        This process may append it (:meth:`append`), or its batch may travel to another.

        Raises:
            VIEW_FAILED: the query cannot be computed on the data at the description's last time.
        """
        time = description.upper - 1
        batch = self.output.batch(description.lower, description.upper)
        meter = self.warehouse.queries.meter()
        state = ViewState(self.warehouse, self.item, time)
        expiries = ExpiryTables(self.warehouse, self.item, time)
        context = RefreshContext(
            warehouse=self.warehouse,
            item=self.item,
            view=self.plan,
            batch=batch,
            time=time,
            state=state,
            expiries=expiries,
        )
        refresh = ViewRefresh(context, full=self._full)
        phases = Phases(meter.ms)
        with discard_on_error([batch, state, expiries]):
            outcome = refresh.run(meter.ms)
            phases.end("compute")
            costs = refresh.costs
            # An incremental refresh that filled the state shows neither cost.
            if not state.is_filled or outcome.strategy is Strategy.RECOMPUTE:
                costs = outcome.costs_after(costs)
            work = meter.work().to_metadata()
            refresh.keep_expiries(outcome)  # for later refreshes, so this one's cost excludes it
            phases.end("expiries")
            if expiries.is_filled and outcome.strategy is not Strategy.RECOMPUTE:
                costs = costs.anew()
            metadata = {**outcome.to_metadata(), "work": work, "costs": costs.to_metadata()}
            if refresh.accepted_plan is not None:
                metadata["accepted_plan"] = refresh.accepted_plan
            if self.plan.reads_clock:
                at = self.warehouse.schedules.shown_at(self.item, time)
                assert at is not None  # as it is written
                metadata[DUE] = self._next_expiry(at) if outcome.due is None else outcome.due.time
                phases.end("clock")
            metadata |= phases.to_metadata()
        return StagedBatch(batch, metadata, (state, expiries))

    def _next_expiry(self, at: int) -> int | None:
        """The first later T at which time changes the view.

        Raises:
            VIEW_FAILED: a value compared with the clock cannot be computed on the data.
        """
        with translated_failure(self.item, at):
            return next_expiry(self.warehouse, self.item, at)

    def append(self, write: StagedBatch) -> Appended:
        """Commit a written description from any process; delete it if it is outdated."""
        batch, metadata = write.batch, write.report
        description = Description(batch.text.lower, batch.text.upper)
        while True:
            upper = self.output.fetch_recent_upper()
            match decide(description, upper):
                case Wait():
                    return self._drop(write)
                case Write() if self._is_overtaken(batch):
                    return self._drop(write)
                case Write():
                    at = self.warehouse.schedules.shown_at(self.item, description.upper - 1)
                    assert at is not None  # as when it was written
                    for one in write.side_tables:
                        metadata = {**metadata, **one.commit(at)}
                    metadata = {**self.warehouse.versions.reads_at(self.item, at), **metadata}
                    return self._append([batch], upper, description.upper, metadata)
                case Advance(lower):
                    outcome = self._append((), upper, lower, revision_of(self.item))
                    if isinstance(outcome, Committed):
                        faults.point("mv_advanced_upper")

    def _append(
        self, batches: Sequence[OutputBatch], expected: int, new: int, metadata: Mapping[str, Any]
    ) -> Appended:
        outcome = self.output.compare_and_append(
            batches, expected=expected, new=new, metadata=metadata
        )
        self.context.committed(self.item.id, outcome, new)
        return outcome

    def _drop(self, write: StagedBatch) -> Appended:
        write.discard_side_tables()
        return self.output.drop(write.batch)

    def _is_overtaken(self, batch: OutputBatch) -> bool:
        last = self.output.uppers.last
        if last is None:
            return False
        commit = self.output.table.commit_at(last.version)
        has_rows = commit.changes_data or commit.changes_schema
        return is_overtaken(batch.version_read, last.version, has_rows=has_rows)
