"""Refreshes a view by what changed, or says why it has to be recomputed.

What is staged makes the stored rows those of the query as of T, provided that they were those of
the query as of the last write; where that is not certain the view is recomputed and compared.
A change plan whose texts fail is not what decides on an error: the query itself is run then.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ctsql.catalog.errors import DataError, EnvironmentProblem, StatementError
from ctsql.catalog.items import Item
from ctsql.planner.ivm import ChangePlan, StatePlan
from ctsql.planner.ivm.algebra.reasons import Reason
from ctsql.runtime.delta.table_rows import has_no_vectors
from ctsql.runtime.spark.errors import is_lost, translate_spark_errors
from ctsql.runtime.spark.storage_errors import FILE_MISSING
from ctsql.runtime.views.change_plans import Prepared, not_compared, prepared
from ctsql.runtime.views.leaving_rows import LeavingRows
from ctsql.runtime.views.outcomes import Due, Fallback, NotApplicable, Staged
from ctsql.runtime.views.plan_runner import PlanRunner
from ctsql.runtime.views.refresh_context import FollowedChanges, RefreshContext
from ctsql.runtime.views.refresh_policy import (
    REASONS_THAT_FILL_STATE,
    Costs,
    Policy,
    Sizes,
    Strategy,
    looked_ahead,
    recompute_why,
)
from ctsql.runtime.views.side_table import DAMAGED, STATE, TURNS, Named, SideTable
from ctsql.runtime.views.state_table import groups_max, is_to_build
from ctsql.runtime.views.strategies import STRATEGIES
from ctsql.runtime.views.table_deltas import Moved, Span, find_move, opened, stored_as_of
from ctsql.runtime.views.turn_table import OF_FEW, TurnTable, is_worth
from ctsql.runtime.warehouse.replaced_views import is_by_another
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.runtime.warehouse.warehouse import Warehouse

DETAIL_MAX = 200
"""Characters of a detail that a commit keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshOutcome:
    """What a refresh did.

    Attributes:
        why: for RECOMPUTE, a code: of ``refresh_policy.WHY``, or of the planner's reasons.
        detail: which table, say. changed: the tables with a change. ms: what it took.
        due: when time changes the view next; None where that was not found out.
    """

    strategy: Strategy
    why: str | None = None
    detail: str = ""
    changed: tuple[str, ...] = field(default=())
    ms: int = 0
    due: Due | None = None

    def to_metadata(self) -> dict[str, Any]:
        """For the metadata of the commit."""
        made: dict[str, Any] = {"strategy": self.strategy.value}
        if self.why is not None:
            made["why"] = self.why
        if self.detail:
            made["detail"] = self.detail[:DETAIL_MAX]
        if self.changed:
            made["changed"] = list(self.changed)
        return made


class ViewRefresh:
    """One refresh of one view.

    Attributes:
        context: what every way to refresh is given. costs: as the last commit has them.
    """

    def __init__(self, context: RefreshContext, *, full: bool) -> None:
        """Stage what the view is at T; ``full`` asks to recompute."""
        self.context, self.full = context, full
        self.warehouse, self.item, self.time = context.warehouse, context.item, context.time
        self.policy, self.state, self.turns = context.policy, context.state, context.turns
        self.costs = Costs()
        self._preparing_ms = 0  # what is done once in a process is no cost of a refresh

    def run(self, clock: Callable[[], int]) -> RefreshOutcome:
        """Stage what changed, or the difference of the whole query and the stored rows.

        Args:
            clock: milliseconds since any moment.

        Raises:
            VIEW_FAILED: the query cannot be computed on the data.
        """
        spent = self._cost(clock)
        try:
            outcome = self._follow()
        except (DataError, StatementError, EnvironmentProblem) as problem:
            outcome = _failed(problem)
        if isinstance(outcome, RefreshOutcome):
            return replace(outcome, ms=spent())
        self.context.staging.discard()
        self.state.discard()
        self.turns.discard()
        if outcome.code == "TEXTS_FAILED" and self.state.is_used:
            self.state.refuse(outcome.code)
        spent = self._cost(clock)
        done = _first_applicable(self.context)
        assert isinstance(done, Staged)  # recomputing follows no changes
        return RefreshOutcome(
            strategy=done.strategy, why=outcome.code, detail=outcome.detail, ms=spent()
        )

    def _cost(self, clock: Callable[[], int]) -> Callable[[], int]:
        """The milliseconds from now on, without what is done once in a process."""
        queries = self.warehouse.queries
        begun, once, self._preparing_ms = clock(), queries.once_ms(), 0
        return lambda: max(clock() - begun - self._preparing_ms - (queries.once_ms() - once), 0)

    def keep_state(self, done: RefreshOutcome) -> None:
        """After a refresh: fill the state table, if the next one is likely to use it."""
        retry = done.why == "FULL_ASKED"
        if self.state.is_refused and not retry:
            self.state.unchanged()  # what was refused stays so
            return
        is_kept = done.strategy in (Strategy.NO_CHANGE, Strategy.LEAVING)
        if self.policy is Policy.FULL or is_kept:
            return
        if done.strategy is Strategy.RECOMPUTE and done.why not in REASONS_THAT_FILL_STATE:
            return
        at = self.warehouse.schedules.shown_at(self.item, self.time)
        if at is None:
            return
        made = prepared(self.warehouse, self.item, at)
        plan = made.found
        if not isinstance(plan, ChangePlan):
            return
        kept = self.state.look(plan, made)
        if kept is None or self.state.did or self.state.told is not None:
            return
        if not is_to_build(kept[1], self.state.named, rows_went=self.state.rows_went, retry=retry):
            return
        if done.strategy is Strategy.RECOMPUTE and not self._is_followed_next(done, made, at):
            return
        if self.context.is_strict_arithmetic():
            fill = self.warehouse.queries.fill
            _make_or_refuse(self.state, partial(fill, self.context, made, kept[0], at))

    def _is_followed_next(self, done: RefreshOutcome, made: Prepared, at: int) -> bool:
        """Is the next change likely to be followed, after a refresh that recomputed the view?"""
        costs = self.costs.after(done.strategy, done.ms)
        likely = recompute_why(self.policy, self._sizes(made, {}, at), costs) is None
        return likely and made.refusal() is None

    def keep_turns(self, done: RefreshOutcome) -> None:
        """After a refresh: fill the turn tables that are worth it, if the next one may use them."""
        is_recomputed, retry = done.strategy is Strategy.RECOMPUTE, done.why == "FULL_ASKED"
        if not self.context.view.reads_clock or self.policy is Policy.FULL:
            return
        if is_recomputed and done.why not in REASONS_THAT_FILL_STATE:
            return
        at = self.warehouse.schedules.shown_at(self.item, self.time)
        made = None if at is None else prepared(self.warehouse, self.item, at)
        if at is None or made is None or not isinstance(made.found, ChangePlan):
            return
        self.turns.look(made)
        wanted = self.turns.wanted(retry=retry)
        items = {n: self.warehouse.relations.item(made.read_tables[n].object_id) for n in wanted}
        counts = [self.warehouse.versions.rows_count(item, at) for item in items.values()]
        if not any(map(is_worth, counts)):
            for turns in wanted.values():
                turns.did = OF_FEW
            return
        if is_recomputed and not self._is_followed_next(done, made, at):
            return
        fill = self.warehouse.queries.fill_turns
        for name, turns in wanted.items():
            _make_or_refuse(turns, partial(fill, self.context, turns, items[name], at))

    def _follow(self) -> RefreshOutcome | Fallback:
        span = self._span()
        if isinstance(span, Fallback):
            return span
        before, at = span
        made = prepared(self.warehouse, self.item, at)
        moves = self._moves(made, before, at)
        if isinstance(moves, Fallback):
            return moves
        if not moves and not self.context.view.reads_clock:
            self.state.unchanged()
            return RefreshOutcome(strategy=Strategy.NO_CHANGE)
        if not moves and made.leaving is not None:
            refusal = self._prepared(made.refusal_to_read)
            if refusal is not None:
                return Fallback(refusal)
            gone: RefreshOutcome = self.warehouse.queries.follow(
                self.context, made, None, moves, span
            )
            return gone
        why = recompute_why(self.policy, self._sizes(made, moves, at), self.costs)
        if why is not None:
            return Fallback(why)
        refusal = self._prepared(made.refusal)
        if refusal is not None:
            return Fallback(refusal)
        windows = made.plan.windows
        origin = {n: windows[n].table if n in windows else n for n in made.plan.reads}
        moves = {name: moves[table] for name, table in origin.items() if table in moves}
        kept = self.state.look(made.plan, made)
        self.turns.look(made)
        done: RefreshOutcome | Fallback = self.warehouse.queries.follow(
            self.context, made, None if kept is None else kept[0], moves, span
        )
        return done

    def _prepared(self, look: Callable[[], str | None]) -> str | None:
        """What a look says that is made once in a process; its time is no cost of a refresh."""
        begun = time.monotonic()
        found = look()
        self._preparing_ms = int((time.monotonic() - begun) * 1000)
        return found

    def _span(self) -> tuple[int, int] | Fallback:
        """The time whose contents are stored, and the one to be reached."""
        if self.policy is Policy.FULL:
            return Fallback("POLICY_FULL")
        output = self.warehouse.relations.output(self.item)
        entries = output.entries(since=output.fetch_recent_upper())
        if not entries:
            return Fallback("FIRST_WRITE")
        last = entries[-1]
        table = self.warehouse.relations.table(self.item)
        said = table.commit_at(last.version).metadata if table.has(last.version) else {}
        if is_by_another(self.warehouse, self.item, said):
            return Fallback("REDEFINED")
        if output.upper <= self.item.created:
            return Fallback("FIRST_WRITE")
        self.costs = Costs.of(said.get("costs"))
        self.state.named = Named.of(said.get(STATE))
        self.turns.named = Named.all_of(said.get(TURNS))
        if self.full:
            return Fallback("FULL_ASKED")
        if self.warehouse.versions.error_as_of(self.item, last.version) is not None:
            return Fallback("ERROR_HELD")
        if self.has_foreign_rows():
            return Fallback("FOREIGN_ROWS")
        before = self.warehouse.schedules.shown_at(self.item, last.upper - 1)
        at = self.warehouse.schedules.shown_at(self.item, self.time)
        if before is None or at is None:
            return Fallback("FIRST_WRITE")
        return before, at

    def has_foreign_rows(self) -> bool:
        """Did somebody else write into the view's table since it was compared last?"""
        return self.warehouse.relations.output(self.item).has_foreign_rows()

    def _moves(self, made: Prepared, before: int, at: int) -> dict[str, Moved] | Fallback:
        found = {}
        for name, table in made.tables.items():
            item = self.warehouse.relations.item(table.object_id)
            one = find_move(self.warehouse, item, table.names, before=before, at=at)
            if isinstance(one, Fallback):
                return one
            if one is not None:
                found[name] = one
        return found

    def _sizes(self, made: Prepared, moves: dict[str, Moved], at: int) -> Sizes:
        if self.policy is not Policy.AUTO:
            return Sizes((), ())
        items = [self.warehouse.relations.item(table.object_id) for table in made.tables.values()]
        rows = [self.warehouse.versions.rows_count(item, at) for item in items]
        changed = [moves[name].rows if name in moves else 0 for name in made.tables]
        return Sizes(tuple(rows), tuple(changed))


def _make_or_refuse(side: SideTable, fill: Callable[[], Fallback | None]) -> None:
    """Fill a table beside the view, or say in the view's commit why there is none."""
    try:
        failed = fill()
    except (DataError, StatementError, EnvironmentProblem) as problem:
        if isinstance(problem, EnvironmentProblem) and problem.condition in DAMAGED:
            side.remove()
            return
        failed = _failed(problem)
    if failed is None:
        return
    if failed.code == "HISTORY_LOST":
        side.remove()  # a file of its table, as the query's own were just read
    else:
        side.refuse(failed.code)


def _failed(problem: Exception) -> Fallback:
    """Why a way to refresh cannot be taken.

    What no other way would mend is raised again.
    """
    match problem:
        case DataError() | StatementError():
            return Fallback("TEXTS_FAILED", problem.message)
        case EnvironmentProblem():
            if problem.condition == "HISTORY_LOST" or problem.message == FILE_MISSING:
                return Fallback("HISTORY_LOST", problem.detail or "")
            if problem.condition == "SPARK_ERROR" and not is_lost(problem):
                # Spark's optimizer has queries that it fails on; the whole one may be none.
                return Fallback("TEXTS_FAILED", problem.message)
    raise problem


def follow_changes(
    context: RefreshContext,
    made: Prepared,
    kept: StatePlan | None,
    moves: Mapping[str, Moved],
    span: tuple[int, int],
) -> RefreshOutcome | Fallback:
    """Stage what changed in the view, by its plan, from what changed in its tables.

    Args:
        moves: how these went from the first to the second T of the span.
    """
    before, at = span
    leaving = None
    if made.leaving is not None:
        own = context.warehouse, context.item, made.leaving, context.batch
        leaving = LeavingRows(*own, before, at)
        if not moves:
            context.state.unchanged()
            with translate_spark_errors():
                leaving.stage(context.staging)
                return RefreshOutcome(strategy=Strategy.LEAVING, due=leaving.due())
        if has_no_vectors(context.warehouse.relations.table(context.item)):
            leaving = None  # of its files each goes once in a commit, whole
    plan, turns = made.plan, context.turns.opened()
    # Where the view shows what leaves, the changes are of what passes now.
    since = before if leaving is None else at
    spans = {name: Span(plan.windows[name], since, turns.get(name)) for name in plan.windows}
    with (
        translate_spark_errors(),
        opened(context.warehouse, made.read_tables, moves, plan.reads, at, spans) as relations,
        ExitStack() as stack,
    ):
        runner = PlanRunner(relations, stack)
        changed = tuple(sorted(relations.changes))
        done: Staged | Fallback = Staged(Strategy.NO_CHANGE)
        if changed or leaving is not None:
            changes = FollowedChanges(
                plan=plan, changed=changed, at=at, kept=kept, runner=runner, leaving=leaving
            )
            done = _first_applicable(replace(context, changes=changes))
        else:
            context.state.unchanged()
        if isinstance(done, Fallback):
            return done
        context.turns.follow(turns, relations.moved, at)
    named = {plan.windows[n].table if n in plan.windows else n for n in changed}
    due = context.turns.due if done.due is None else done.due
    return RefreshOutcome(strategy=done.strategy, changed=tuple(sorted(named)), due=due)


def fill_state(
    context: RefreshContext, made: Prepared, kept: StatePlan, at: int
) -> Fallback | None:
    """Stage all groups as of a T as the contents of the state table; or refuse it."""
    warehouse, plan = context.warehouse, made.plan
    for name in plan.reads:
        item = warehouse.relations.item(made.read_tables[name].object_id)
        stored = stored_as_of(warehouse, item, at)
        if isinstance(stored, Fallback):
            return stored
    spans = {name: Span(window, at) for name, window in plan.windows.items()}
    with (
        translate_spark_errors(),
        opened(warehouse, made.read_tables, {}, plan.reads, at, spans) as relations,
        ExitStack() as stack,
    ):
        groups = PlanRunner(relations, stack).rows(plan.initial_state(kept.number))
        context.state.build(kept, groups.frame, at, groups_max(plan))
    return None


def fill_turns(context: RefreshContext, turns: TurnTable, item: Item, at: int) -> Fallback | None:
    """Stage the turns to come of all rows of a table as of a T; or refuse it."""
    stored = stored_as_of(context.warehouse, item, at)
    if isinstance(stored, Fallback):
        return stored
    with translate_spark_errors():
        rows = StoredSources(context.warehouse).contents(item.id, at)
        turns.build(rows, at, context.turns.digests)
    return None


def next_turn(warehouse: Warehouse, item: Item, at: int) -> int | None:
    """The first T after one at which time changes what a view shows as of that; None for none.

    It is looked for in the tables that the view reads.

    Raises CLOCK_NOT_COMPARED if the query no longer tells, as its tables' columns have changed.
    """
    made = prepared(warehouse, item, at)
    if isinstance(made.clock, Reason):
        raise not_compared(made, warehouse.relations.bound(item).view, made.clock)
    reads = {name: [c.name for c in table.columns] for name, table in made.tables.items()}
    items = (warehouse.relations.item(table.object_id) for table in made.tables.values())
    counts = [warehouse.versions.rows_count(item, at) for item in items]
    found: list[int] = []
    with opened(warehouse, made.tables, {}, reads, at) as relations, ExitStack() as stack:
        runner = PlanRunner(relations, stack)
        for until in looked_ahead(counts, at):
            for text in made.clock.next_turns(at, until):
                dues = (row["due"] for row in runner.rows(text).frame.collect())
                found += [due for due in dues if due is not None]
            if found:
                break
    return min(found, default=None)


def _first_applicable(context: RefreshContext) -> Staged | Fallback:
    for strategy in STRATEGIES:
        outcome = strategy.refresh(context)
        if not isinstance(outcome, NotApplicable):
            return outcome
    raise AssertionError("recomputing always applies")
