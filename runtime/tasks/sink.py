"""The continual-task sink: writes what a task proposes, one commit at each due T.

    inputs' logs --> times (TimesExtract, TimesReduce) --+
                                                        +--> SinkState.decide() --> one commit
    body run at the due time --> proposal --------------+

The handle here is that of the leading output (:mod:`ctsql.runtime.tasks.multi_output`). Times are
loaded below ``until + 1``: the timeline has bound all of them.

[T-written-once] every due T is written at most once: the commit depends on the upper it read, and
    another process's commit at T moves that upper.
[times-in-order] Ts are written in order, because the decision writes the smallest due time.
[on-its-own-version] a proposal is computed against the version that the commit builds on.
[lost-is-deleted] the staged files of a lost or disturbed batch are deleted.
[definition-at-T] a body runs by the definition that the timeline has for that T, not the newest.
[mended-from-its-T] a definition that replaces a failed one is in force from the failed T on. Its
    commit stores the revision. A process that has not loaded that revision stops and reloads the
    catalog (:class:`OutdatedDefinition`).
[fault-at-its-own-T] if several Ts cannot be computed at once, or a row breaks a constraint, fewer
    Ts are tried, in the end each by itself. So the failing T fails, and rows that break a
    constraint are counted at their own T.

If the body cannot be computed, the task stops or skips that T
(:mod:`ctsql.runtime.tasks.failed_times`); ON ERROR = 'quarantine' sets aside all changed rows of T
with the error, and goes on.

A crash before the commit leaves unreferenced files, and T runs again. A crash after it changes
nothing. Empty advances are kept in memory and written once, at the end of a catch-up without rows,
so that a restart does not run these bodies again.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from ctsql.catalog.dependencies import outputs_or_itself
from ctsql.catalog.errors import (
    CtsqlError,
    DataError,
    Declined,
    EnvironmentProblem,
    StatementError,
    error,
)
from ctsql.catalog.items import Item
from ctsql.planner.lowering.output_state import union_all
from ctsql.planner.updates import inserts_input
from ctsql.runtime.log.failures import (
    find_recorded,
    is_final,
)
from ctsql.runtime.log.staging import discard_on_error
from ctsql.runtime.log.uppers import SHARED_BY
from ctsql.runtime.log.write_handle import (
    Committed,
    OutputBatch,
    Phases,
    disturbance_error,
)
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.failures.storage_errors import FILE_MISSING
from ctsql.runtime.tasks.failed_times import DISTURBED_TRIES_MAX, FailedTimes
from ctsql.runtime.tasks.multi_output import OutputBatches
from ctsql.runtime.tasks.progress import first_due
from ctsql.runtime.tasks.proposals import quarantine_changes, stage_proposals, taken_over
from ctsql.runtime.tasks.runs import (
    RUNS_MAX,
    RUNS_MIN,
    Run,
    RunInputs,
    due_runs,
    first_lost,
    may_run_together,
)
from ctsql.runtime.tasks.sink_state import SinkState
from ctsql.runtime.warehouse.advance_context import UNATTENDED, AdvanceContext
from ctsql.runtime.warehouse.output_columns import (
    begins_with,
    check_columns_there,
    ensure_columns,
)
from ctsql.runtime.warehouse.query_engine import OutputProposal
from ctsql.runtime.warehouse.sink_decisions import Wait, Write
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.runtime.warehouse.warehouse import Warehouse

CHANGES, COMPUTE = "changes", "compute"
"""The phases of a run: reading the inputs' changes; running the body and writing files."""


class OutdatedDefinition(Exception):
    """The task was written by a definition that the timeline, as last read, does not contain."""


class TaskSink:
    """Writes one task's outputs.

    Attributes:
        lost_at: the T at which the last advance found removed history; None if it did not.
    """

    def __init__(
        self, warehouse: Warehouse, item: Item, context: AdvanceContext = UNATTENDED
    ) -> None:
        self.warehouse = warehouse
        self.item = item
        self.context = context
        self.output = warehouse.relations.output(item)
        self.failures = FailedTimes(warehouse, item, self.output, self._commit, self._check_known)
        self.lost_at: int | None = None
        self._writing: int | None = None
        self._retrying = False
        self._waiting: list[Run] = []
        self._together_max = RUNS_MAX

    def advance(self, until: int, *, retry: bool = False) -> None:
        """Run the body at every due T <= until; with ``retry`` also at a recorded failure.

        Raises:
            TASK_FAILED: the body cannot be computed at some T; nothing is written there.
            STORED_DATA_INVALID: another writer has changed the columns of an output's table.
            STATEMENT_CANCELLED: the caller asked to stop; between two commits.
            OutdatedDefinition: the timeline and the catalog must be read again.
        """
        self._writing = None
        try:
            self._advance(until, retry=retry)
        except CtsqlError as problem:
            if problem.condition == "HISTORY_LOST":
                self.lost_at = self._find_lost(until)
                if self.lost_at is not None:
                    skip = f"ALTER CONTINUAL TASK {self.item.name} SKIP"
                    problem.hint = f"{problem.hint or ''} To leave out T = {self.lost_at}: {skip}"
            raise

    def _find_lost(self, until: int) -> int | None:
        """The T at which history is missing: the running T, or the first T with lost history."""
        if self._writing is not None:
            return self._writing
        after = self._effective_upper() - 1
        return first_lost(self.warehouse, self.item, after=after, until=until)

    def _advance(self, until: int, *, retry: bool) -> None:
        upper = self._effective_upper()
        self._check_known()
        stood = find_recorded(self.output) is not None
        begin = self.failures.pass_to(until, upper, retry=retry)
        if begin is None:
            return
        upper = begin
        self._retrying = retry
        runs = due_runs(self.warehouse, self.item, after=upper - 1, until=until)
        if runs and not self.item.revision:  # else the definition adds missing columns
            for output in outputs_or_itself(self.warehouse.catalog, self.item):
                check_columns_there(self.warehouse, output)
        state: SinkState[Run] = SinkState(
            append_times=[run.time for run in runs],
            append_times_progress=until + 1,
            output_upper=upper,
        )
        by_time = {run.time: run for run in runs}
        self._waiting, self._together_max = sorted(runs, key=lambda r: r.time), RUNS_MAX
        unwritten = False
        self._propose(state, by_time)
        while not isinstance(decision := state.decide(), Wait):
            self.context.check_stop()
            state.output_upper = decision.upper
            match decision:
                case Write(what=((run, _),)):
                    self._writing = run.time
                    written = self._write_together(run)
                    if isinstance(written, Declined):
                        written = self._write(run)
                    state.output_upper, wrote = written
                    unwritten = not wrote
            self._propose(state, by_time)
        if unwritten or (stood and retry):  # under another definition that T may not be due
            self._advance_upper(state.output_upper)
            self._check_known()

    def _check_known(self) -> None:
        """Raise OutdatedDefinition if the newest commit's definition is not loaded here."""
        if self._is_outdated():
            raise OutdatedDefinition

    def _is_outdated(self) -> bool:
        newest = self.output.uppers.last
        if newest is None:
            return False
        state = self.warehouse.timeline.task(self.item.id)
        return newest.revision > state.revision_at(newest.upper - 1)

    def _propose(self, state: SinkState[Run], by_time: dict[int, Run]) -> None:
        """Add the due time's proposal to the state; its rows are computed when it is written."""
        time = state.due()
        if time is not None and state.to_append_progress <= time:
            state.to_append += inserts_input([(by_time[time], time, 1)])
            state.to_append_progress = time + 1

    def _effective_upper(self) -> int:
        """The output's upper; before the first write, the time from which the task runs."""
        upper = self.output.fetch_recent_upper()
        if upper:
            return upper
        return first_due(self.warehouse, self.item)

    def _write_together(self, run: Run) -> tuple[int, bool] | Declined:
        """Like :meth:`_write`, for a due time and the waiting times after it, in one commit.

        Declined if the due time must run alone.
        """
        first = bisect_left(self._waiting, run.time, key=lambda r: r.time)
        waiting = self._waiting[first : first + self._together_max]
        while len(waiting) >= RUNS_MIN and not self._retrying:
            waiting = may_run_together(self.warehouse, self.item, waiting)
            if len(waiting) < RUNS_MIN:
                break
            try:
                return self._try(waiting)
            except (DataError, StatementError, EnvironmentProblem):
                self._together_max = len(waiting) // 2
                waiting = waiting[: self._together_max]
        return Declined("it cannot be run with others")

    def _write(self, run: Run, fault: CtsqlError | None = None) -> tuple[int, bool]:
        """Run the body at a due time; returns the output's upper after it, and whether we wrote.

        ``fault``: the body's error at this time; the changes are then written to the quarantine.
        """
        missed = False
        for _ in range(DISTURBED_TRIES_MAX):
            try:
                outcome = self._try([run], fault)
            except (DataError, StatementError) as problem:
                if not is_final(problem):
                    raise
                _, plan = self.warehouse.relations.in_force(self.item, run.time)
                is_of_rows = problem.condition == "DATA_ERROR"  # which rows cause
                if fault is None and plan.quarantine_errors and is_of_rows:
                    return self._write(run, problem)
                return self.failures.failed(run.time, problem, again=self._retrying), True
            except EnvironmentProblem as problem:
                if problem.message != FILE_MISSING:
                    raise
                if missed:
                    raise self._history_lost(run, problem) from problem
                missed = True  # its files may have been compacted and removed while they were read
                continue
            if not isinstance(outcome, Declined):
                return outcome
        raise disturbance_error(f"{DISTURBED_TRIES_MAX} tries at T = {run.time}")

    def _try(
        self, runs: Sequence[Run], fault: CtsqlError | None = None
    ) -> tuple[int, bool] | Declined:
        """Run the body at one or several due times, and commit its proposal once.

        Declined if another commit was first, or the rows of the Ts cannot be separated.
        """
        first, last = runs[0].time, runs[-1].time
        if self.output.upper > first:
            self._check_known()
            return self.output.upper, True  # another process wrote it
        batches = OutputBatches.open(self.warehouse, self.item, last, self.context)
        if batches is None:
            return Declined("the upper has moved")
        meter = self.warehouse.queries.meter()
        phases = Phases(meter.ms)
        with discard_on_error([batches]):
            is_staged: bool | Declined = Declined("it has other columns now")
            if self._fit(first, batches):
                self._check_known()
                is_staged = self._stage(batches, runs, phases, fault)
            if isinstance(is_staged, Declined) or not is_staged:
                batches.discard()
                return is_staged if isinstance(is_staged, Declined) else (last + 1, False)
            # The versions that it was made from, and its cost.
            reads = self.warehouse.versions.reads_at(self.item, last)
            work = meter.work().to_metadata()
            outcome = batches.commit({**reads, "work": work, **phases.to_metadata()})
        is_in = isinstance(outcome, Committed)
        return (last + 1, True) if is_in else Declined("another commit was first")

    def _fit(self, time: int, batches: OutputBatches) -> bool:
        """Whether outputs have the columns in force at T, at the versions that batches build on.

        Otherwise the columns are added (:mod:`ctsql.runtime.warehouse.output_columns`), and the
        outputs must be opened again.
        """
        relations = self.warehouse.relations
        then, plan = relations.in_force(self.item, time)
        columns = {o.object_id: o.columns for o in plan.all_outputs if then.revision}
        fits = True
        for part in batches.waiting:  # the outputs that do not hold T
            if part.object_id in columns:
                item, own = relations.item(part.object_id), columns[part.object_id]
                schema = relations.table(item).metadata_at(part.batch.version_read).schema_text
                if not begins_with(schema, own):
                    ensure_columns(self.warehouse, item, own)
                    fits = False
        return fits

    def _commit(self, batch: OutputBatch, new: int, metadata: Mapping[str, Any]) -> bool:
        """Commit to the leading output; returns whether T is committed."""
        outcome = self.output.compare_and_append(
            [batch], expected=batch.lower, new=new, metadata=metadata
        )
        lead = self.warehouse.relations.lead(self.item)
        self.context.committed(lead.id, outcome, new)
        return isinstance(outcome, Committed)

    def _history_lost(self, run: Run, problem: CtsqlError) -> CtsqlError:
        items = [self.warehouse.relations.item(object_id) for object_id, _ in run.version_changes]
        versions = ", ".join(str(change.version) for _, change in run.version_changes)
        detail = (
            f"A file that holds the change of its version {versions} "
            f"(T = {run.time}) is gone, as after a VACUUM that kept too little: "
            f"{problem.detail}"
        )
        hint = (
            "Restore the file, or create the task again: DROP CONTINUAL TASK "
            f"{self.item.name}, then CREATE it; with SNAPSHOT it begins with the present rows."
        )
        names = ", ".join(str(item.name) for item in items)
        return error("HISTORY_LOST", relation=names, detail=detail, hint=hint)

    def _stage(
        self, batches: OutputBatches, runs: Sequence[Run], phases: Phases, fault: CtsqlError | None
    ) -> bool | Declined:
        """Stage the proposal, or ``fault`` as in :meth:`_write`; False if nothing was staged."""
        if len(runs) > 1:
            is_staged = self._stage_together(batches, runs)
            phases.end(COMPUTE)
            return is_staged
        (run,) = runs
        then, plan = self.warehouse.relations.in_force(self.item, run.time)
        inputs, queries = RunInputs(self.warehouse, plan, run), self.warehouse.queries
        with translate_spark_errors(), inputs.opened() as changes:
            if changes is None:
                return False
            phases.end(CHANGES)
            small = inputs.are_small
            arriving, leaving = taken_over(self.warehouse, then, batches.read, run.time)
            proposals: Mapping[str, OutputProposal] = {}
            if fault is None:
                sources = StoredSources(self.warehouse, changes, batches.read, are_small=small)
                columns = {o.object_id: [c.name for c in o.columns] for o in plan.all_outputs}
                proposals = queries.propose(plan.transaction, sources, run.time, columns)
            if not inputs.has_rows:
                return False
            if fault is not None:
                failed_rows = quarantine_changes(self.warehouse, changes, fault, run.time)
                arriving = union_all(arriving, failed_rows)
            stage_proposals(
                self.warehouse,
                plan,
                proposals,
                batches,
                run.time,
                small=small,
                arriving=arriving,
                leaving=leaving,
            )
            phases.end(COMPUTE)
            return batches.has_rows

    def _stage_together(self, batches: OutputBatches, runs: Sequence[Run]) -> bool | Declined:
        """The same for several Ts, of inserts alone into one output."""
        _, plan = self.warehouse.relations.in_force(self.item, runs[0].time)
        ((object_id, _),) = runs[0].version_changes
        table = self.warehouse.relations.table(self.warehouse.relations.item(object_id))
        version_changes = [
            (run.time, version_change) for run in runs for _, version_change in run.version_changes
        ]
        part, queries = batches.lead, self.warehouse.queries
        with translate_spark_errors():
            times = queries.stage_batched_runs(
                plan, table, version_changes, part.batch.at(runs[-1].time)
            )
        if isinstance(times, Declined):
            return times
        part.has_rows, part.metadata = bool(times), {SHARED_BY: times}
        return bool(times)

    def settle(self, through: int) -> None:
        """Record in the log that the task has run through a time, so no process checks it again."""
        if self.output.fetch_recent_upper() <= through:
            self._advance_upper(through + 1)

    def _advance_upper(self, upper: int) -> None:
        """Commit an upper without rows; does nothing if another commit is first."""
        batch = self.output.open(self.output.upper)
        if isinstance(batch, OutputBatch) and batch.lower < upper and not self._is_outdated():
            self._commit(batch, upper, self.warehouse.versions.reads_at(self.item, upper - 1))
