"""Refreshes a view by its tables' changes, or recomputes it and records the reason.

Following changes is correct only if the stored rows were those of the query at the last write. If
that is uncertain, the view is recomputed and compared. If a query of the change plan fails, the
view's query is run, and only its error counts.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ctsql.catalog.errors import DataError, Declined, EnvironmentProblem, StatementError
from ctsql.catalog.items import Item
from ctsql.planner.ivm import ChangePlan, StatePlan
from ctsql.runtime.log.actions import sum_known
from ctsql.runtime.spark.failures.errors import is_lost, translate_spark_errors
from ctsql.runtime.spark.failures.storage_errors import FILE_MISSING
from ctsql.runtime.views.change_plans import PreparedQuery, not_compared, prepared
from ctsql.runtime.views.expiry_table import OF_FEW, ExpiryTable, is_worth
from ctsql.runtime.views.outcomes import Due, WayOutcome
from ctsql.runtime.views.plan_runner import PlanRunner
from ctsql.runtime.views.refresh_context import FollowedChanges, RefreshContext
from ctsql.runtime.views.refresh_policy import (
    REASONS_THAT_FILL_EXPIRIES,
    Costs,
    Policy,
    Sizes,
    Strategy,
    looked_ahead,
    recompute_why,
    size_of,
    stopped_after,
)
from ctsql.runtime.views.side_table import DAMAGED, EXPIRIES, STATE, Pointer, SideTable
from ctsql.runtime.views.strategies import follow
from ctsql.runtime.views.strategies.recompute import recompute
from ctsql.runtime.views.strategies.state_table import NOT_EXACT, fill_and_stage
from ctsql.runtime.views.table_deltas import TableMove, WindowSpan, find_move, opened, stored_as_of
from ctsql.runtime.views.time_limit import TookLonger, time_limit
from ctsql.runtime.warehouse.replaced_views import awaits_columns, is_by_another, is_redefined
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.runtime.warehouse.warehouse import Warehouse

DETAIL_MAX = 200  # characters of a detail that a commit keeps


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshOutcome:
    """What a refresh did."""

    strategy: Strategy
    # for RECOMPUTE, a code of ``RECOMPUTE_REASONS`` or of the planner.
    why: str | None = None
    detail: str = ""  # such as the table's name
    changed_tables: tuple[str, ...] = field(default=())  # the tables with a change
    ms: int = 0  # its cost
    tried_ms: int = 0  # time spent on following in vain; 0 if not tried
    changed_rows: int | None = None  # of its tables, by their logs; None if not counted
    expected_ms: int | None = None  # what recomputing was expected to take; None if unknown
    due: Due | None = None  # when time changes the view next; None if not computed

    def to_metadata(self) -> dict[str, Any]:
        """The outcome as metadata of the commit."""
        metadata: dict[str, Any] = {"strategy": self.strategy.value}
        if self.why is not None:
            metadata["why"] = self.why
        if self.detail:
            metadata["detail"] = self.detail[:DETAIL_MAX]
        if self.changed_tables:
            metadata["changed"] = list(self.changed_tables)
        estimates = {"changed_rows": self.changed_rows, "recompute_ms": self.expected_ms}
        metadata["estimates"] = {name: n for name, n in estimates.items() if n is not None}
        return metadata

    def costs_after(self, costs: Costs) -> Costs:
        """The costs known after this refresh."""
        return costs.after(
            self.strategy,
            self.ms,
            tried_ms=self.tried_ms,
            changed=size_of(self.changed_rows),
            expected_ms=self.expected_ms,
        )


class ViewRefresh:
    """One refresh of one view.

    Attributes:
        context: shared by all strategies. costs: as stored by the last commit. accepted_plan: the
            digest of the last plan that passed all checks; None for none.
    """

    def __init__(self, context: RefreshContext, *, full: bool) -> None:
        """Stage what the view is at T; ``full`` asks to recompute."""
        self.context, self.full = context, full
        self.warehouse, self.item, self.time = context.warehouse, context.item, context.time
        self.policy, self.state, self.expiries = context.policy, context.state, context.expiries
        self.costs = Costs()
        self.accepted_plan: str | None = None
        self._is_tried = False
        self._changed_rows: int | None = None
        self._expected_ms: int | None = None

    def run(self, clock: Callable[[], int]) -> RefreshOutcome:
        """Stage the change, or the difference of the whole query and the stored rows.

        Args:
            clock: milliseconds since any moment.

        Raises:
            VIEW_FAILED: the query cannot be computed on the data.
        """
        started_at = clock()
        try:
            outcome = self._follow(lambda: clock() - started_at)
        except TookLonger:
            outcome = Declined("TOOK_LONGER")
        except (DataError, StatementError, EnvironmentProblem) as problem:
            outcome = _failure(problem)
        follow_ms = clock() - started_at
        if self.state.is_refused and not self.full:
            self.state.leave_unchanged()  # a refusal is kept
        if isinstance(outcome, RefreshOutcome):
            return self._with_estimates(replace(outcome, ms=follow_ms))
        self.context.staging.discard()
        self.state.discard()
        self.expiries.discard()
        if outcome.reason == "TEXTS_FAILED" and self.state.is_used:
            self.state.refuse(outcome.reason)
        started_at = clock()
        # A stop by a guess may be wrong, so the next refresh may need the groups.
        is_doubtful = outcome.reason == "TOOK_LONGER" and self.costs.is_guess
        by_groups = outcome.reason == "FIRST_WRITE" or is_doubtful
        if not (by_groups and self._recompute_by_groups()):
            recompute(self.context)
        done = RefreshOutcome(
            strategy=Strategy.RECOMPUTE,
            why=outcome.reason,
            detail=outcome.detail,
            ms=clock() - started_at,
            tried_ms=follow_ms if self._is_tried else 0,
        )
        return self._with_estimates(done)

    def _with_estimates(self, outcome: RefreshOutcome) -> RefreshOutcome:
        return replace(outcome, changed_rows=self._changed_rows, expected_ms=self._expected_ms)

    def _recompute_by_groups(self) -> bool:
        """Fill the view's state table, and compute the view from its groups.

        The tables are read once for both. False if the view has no state table, or a refused one,
        or if the next refresh is unlikely to be incremental: then nothing is staged for the view.
        """
        at = self.warehouse.schedules.shown_at(self.item, self.time)
        if at is None or self.state.is_refused or not self.context.is_strict_arithmetic():
            return False
        if awaits_columns(self.warehouse, self.item) or is_redefined(self.warehouse, self.item):
            return False
        query = prepared(self.warehouse, self.item, at)
        plan = query.plan_or_reason
        state_plan = self.state.look(query) if isinstance(plan, ChangePlan) else None
        if state_plan is None or not self._is_followed_next(self.costs, query, at):
            return False
        _make_or_refuse(self.state, partial(fill_state, self.context, query, state_plan, at))
        if not self.state.is_filled:
            self.context.staging.discard()
        return self.state.is_filled

    def _is_followed_next(self, costs: Costs, query: PreparedQuery, at: int) -> bool:
        """Whether the next refresh is likely to be incremental, after a recomputation."""
        likely = recompute_why(self.policy, self._sizes(query, {}, at), costs) is None
        return likely and self._refusal(query) is None

    def _refusal(self, query: PreparedQuery) -> Declined | None:
        """Why the view cannot follow its tables; a plan accepted before is not checked again."""
        if isinstance(query.plan_or_reason, Declined):
            return query.plan_or_reason
        if self.accepted_plan == query.digest:
            return None
        refusal = query.refusal()
        if refusal is None:
            self.accepted_plan = query.digest
        return refusal

    def keep_expiries(self, outcome: RefreshOutcome) -> None:
        """After a refresh: fill the expiry tables that the next refresh may use."""
        is_recomputed, retry = outcome.strategy is Strategy.RECOMPUTE, outcome.why == "FULL_ASKED"
        if not self.context.view.reads_clock or self.policy is Policy.FULL:
            return
        if is_recomputed and outcome.why not in REASONS_THAT_FILL_EXPIRIES:
            return
        at = self.warehouse.schedules.shown_at(self.item, self.time)
        query = None if at is None else prepared(self.warehouse, self.item, at)
        if at is None or query is None or not isinstance(query.plan_or_reason, ChangePlan):
            return
        self.expiries.look(query)
        tables_to_fill = self.expiries.to_fill(retry=retry)
        items = {
            n: self.warehouse.relations.item(query.read_tables[n].object_id) for n in tables_to_fill
        }
        counts = [self.warehouse.versions.rows_count(item, at) for item in items.values()]
        if not any(map(is_worth, counts)):
            for expiries in tables_to_fill.values():
                expiries.did = OF_FEW
            return
        next_costs = outcome.costs_after(self.costs)
        if is_recomputed and not self._is_followed_next(next_costs, query, at):
            return
        for name, expiries in tables_to_fill.items():
            _make_or_refuse(
                expiries, partial(fill_expiries, self.context, expiries, items[name], at)
            )

    def _follow(self, took_ms: Callable[[], int]) -> RefreshOutcome | Declined:
        span = self._span()
        if isinstance(span, Declined):
            return span
        before, at = span
        is_cold = self.item.id not in self.warehouse.relations.change_plans
        query = prepared(self.warehouse, self.item, at)
        moves = self._moves(query, before, at)
        if isinstance(moves, Declined):
            return moves
        if not moves and not self.context.view.reads_clock:
            self.state.leave_unchanged()
            return RefreshOutcome(strategy=Strategy.NO_CHANGE)
        self._changed_rows = sum_known(move.rows for move in moves.values())
        sizes = self._sizes(query, moves, at)
        if self.policy is Policy.AUTO:
            self._expected_ms = self.costs.expected_full_ms(sizes, is_cold=is_cold)
        why = recompute_why(self.policy, sizes, self.costs)
        if why is not None:
            return Declined(why)
        refusal = self._refusal(query)
        if refusal is not None:
            return refusal
        self._is_tried = True
        windows = query.plan.windows
        origin = {n: windows[n].table if n in windows else n for n in query.plan.reads}
        moves = {name: moves[table] for name, table in origin.items() if table in moves}
        state_plan = self.state.look(query)
        self.expiries.look(query)
        if self._expected_ms is None or (state_plan is not None and self.state.is_to_fill):
            return follow_changes(self.context, query, state_plan, moves, span)
        session = self.warehouse.gateway.session
        with time_limit(session, took_ms, stopped_after(self._expected_ms)) as limit:
            context = replace(self.context, limit=limit)
            return follow_changes(context, query, state_plan, moves, span)

    def _span(self) -> tuple[int, int] | Declined:
        """The T of the stored contents, and the T of this refresh."""
        if self.policy is Policy.FULL:
            return Declined("POLICY_FULL")
        output = self.warehouse.relations.output(self.item)
        entries = output.entries(since=output.fetch_recent_upper())
        if not entries:
            return Declined("FIRST_WRITE")
        last = entries[-1]
        table = self.warehouse.relations.table(self.item)
        metadata = table.commit_at(last.version).metadata if table.has(last.version) else {}
        if is_by_another(self.warehouse, self.item, metadata):
            return Declined("REDEFINED")
        if output.upper <= self.item.created_at:
            return Declined("FIRST_WRITE")
        self.costs = Costs.of(metadata.get("costs"))
        self.accepted_plan = metadata.get("accepted_plan")
        self.state.pointer = Pointer.of(metadata.get(STATE))
        self.expiries.pointers = Pointer.all_of(metadata.get(EXPIRIES))
        if self.full:
            return Declined("FULL_ASKED")
        if self.warehouse.versions.error_as_of(self.item, last.version) is not None:
            return Declined("ERROR_HELD")
        if self.has_foreign_rows():
            return Declined("FOREIGN_ROWS")
        before = self.warehouse.schedules.shown_at(self.item, last.upper - 1)
        at = self.warehouse.schedules.shown_at(self.item, self.time)
        if before is None or at is None:
            return Declined("FIRST_WRITE")
        return before, at

    def has_foreign_rows(self) -> bool:
        """Whether another writer wrote into the view's table since the last comparison."""
        return self.warehouse.relations.output(self.item).has_foreign_rows()

    def _moves(self, query: PreparedQuery, before: int, at: int) -> dict[str, TableMove] | Declined:
        moves = {}
        for name, table in query.tables.items():
            item = self.warehouse.relations.item(table.object_id)
            one = find_move(self.warehouse, item, table.names, before=before, at=at)
            if isinstance(one, Declined):
                return one
            if one is not None:
                moves[name] = one
        return moves

    def _sizes(self, query: PreparedQuery, moves: dict[str, TableMove], at: int) -> Sizes:
        if self.policy is not Policy.AUTO:
            return Sizes((), ())
        items = [self.warehouse.relations.item(table.object_id) for table in query.tables.values()]
        rows = [self.warehouse.versions.rows_count(item, at) for item in items]
        changes = [moves[name].rows if name in moves else 0 for name in query.tables]
        return Sizes(tuple(rows), tuple(changes), query.readings)


def _make_or_refuse(side: SideTable, fill: Callable[[], Declined | None]) -> None:
    """Fill an auxiliary table of the view, or record in the view's commit why there is none."""
    try:
        failure = fill()
    except (DataError, StatementError, EnvironmentProblem) as problem:
        if isinstance(problem, EnvironmentProblem) and problem.condition in DAMAGED:
            side.remove()
            return
        failure = _failure(problem)
    if failure is None:
        return
    if failure.reason == "HISTORY_LOST":
        side.remove()  # the damage is in its own table, because the query's files were just read
    else:
        side.refuse(failure.reason)


def _failure(problem: Exception) -> Declined:
    """Why a strategy cannot be used; errors that every strategy would meet are raised again."""
    match problem:
        case DataError() | StatementError():
            return Declined("TEXTS_FAILED", problem.message)
        case EnvironmentProblem():
            if problem.condition == "HISTORY_LOST" or problem.message == FILE_MISSING:
                return Declined("HISTORY_LOST", problem.detail or "")
            if problem.condition == "SPARK_ERROR" and not is_lost(problem):
                # Spark's optimizer fails on some queries, and perhaps not on the whole one.
                return Declined("TEXTS_FAILED", problem.message)
    raise problem


def follow_changes(
    context: RefreshContext,
    query: PreparedQuery,
    state_plan: StatePlan | None,
    moves: Mapping[str, TableMove],
    span: tuple[int, int],
) -> RefreshOutcome | Declined:
    """Stage the view's change by its plan; ``moves``: its tables' changes in the span."""
    before, at = span
    plan, expiries = query.plan, context.expiries.opened()
    spans = {
        name: WindowSpan(plan.windows[name], before, expiries.get(name)) for name in plan.windows
    }
    with (
        translate_spark_errors(),
        opened(context.warehouse, query.read_tables, moves, plan.reads, at, spans) as relations,
        ExitStack() as stack,
    ):
        runner = PlanRunner(relations, stack, context.limit)
        changed_names = tuple(sorted(relations.changes))
        outcome: WayOutcome = Strategy.NO_CHANGE
        if changed_names:
            changes = FollowedChanges(
                plan=plan,
                changed_tables=changed_names,
                at=at,
                state_plan=state_plan,
                runner=runner,
            )
            outcome = follow(context, changes)
            if outcome == NOT_EXACT:
                outcome = follow(context, replace(changes, state_plan=None))
        else:
            context.state.leave_unchanged()
        if isinstance(outcome, Declined):
            return outcome
        context.expiries.follow(expiries, relations.table_changes, at)
    tables = {plan.windows[n].table if n in plan.windows else n for n in changed_names}
    changed_tables, due = tuple(sorted(tables)), context.expiries.due
    return RefreshOutcome(strategy=outcome, changed_tables=changed_tables, due=due)


def fill_state(
    context: RefreshContext, query: PreparedQuery, state_plan: StatePlan, at: int
) -> Declined | None:
    """Stage all groups as of a T, and from these the view's difference; or refuse the state."""
    warehouse, plan = context.warehouse, query.plan
    for name in plan.reads:
        item = warehouse.relations.item(query.read_tables[name].object_id)
        storage = stored_as_of(warehouse, item, at)
        if isinstance(storage, Declined):
            return storage
    spans = {name: WindowSpan(window, at) for name, window in plan.windows.items()}
    with (
        translate_spark_errors(),
        opened(warehouse, query.read_tables, {}, plan.reads, at, spans) as relations,
        ExitStack() as stack,
    ):
        fill_and_stage(context, PlanRunner(relations, stack), plan, state_plan, at)
    return None


def fill_expiries(
    context: RefreshContext, expiries: ExpiryTable, item: Item, at: int
) -> Declined | None:
    """Stage the future expiries of all rows of a table as of a T, or refuse the expiry table."""
    storage = stored_as_of(context.warehouse, item, at)
    if isinstance(storage, Declined):
        return storage
    with translate_spark_errors():
        rows = StoredSources(context.warehouse).contents(item.id, at)
        expiries.build(rows, at, context.expiries.digests)
    return None


def next_expiry(warehouse: Warehouse, item: Item, at: int) -> int | None:
    """The first later T at which time changes the view's rows of this T; None for none.

    It is searched in the view's tables. Raises CLOCK_NOT_COMPARED if changed columns make it
    unknown.
    """
    query = prepared(warehouse, item, at)
    if isinstance(query.clock, Declined):
        raise not_compared(query, warehouse.relations.bound(item).view, query.clock)
    reads = {name: [c.name for c in table.columns] for name, table in query.tables.items()}
    items = (warehouse.relations.item(table.object_id) for table in query.tables.values())
    counts = [warehouse.versions.rows_count(item, at) for item in items]
    expiries: list[int] = []
    with opened(warehouse, query.tables, {}, reads, at) as relations, ExitStack() as stack:
        runner = PlanRunner(relations, stack)
        for until in looked_ahead(counts, at):
            for text in query.clock.next_expiries(at, until):
                dues = (row["due"] for row in runner.rows(text).frame.collect())
                expiries += [due for due in dues if due is not None]
            if expiries:
                break
    return min(expiries, default=None)
