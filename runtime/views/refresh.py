"""Refreshes a view by what changed, or says why it has to be recomputed.

What is staged makes the stored rows those of the query as of T, provided that they were those of
the query as of the last write; where that is not certain the view is recomputed and compared.
A change plan whose texts fail is not what decides on an error: the query itself is run then.
"""

import time
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from ctsql.catalog.errors import DataError, EnvironmentProblem, StatementError
from ctsql.catalog.items import Item
from ctsql.planner.ivm import ChangePlan, Naming, StatePlan
from ctsql.planner.nodes import ViewWrite
from ctsql.runtime.log.staging import Batch
from ctsql.runtime.spark.errors import FILE_MISSING, converted, is_lost
from ctsql.runtime.views.change_plans import Prepared, prepared
from ctsql.runtime.views.plan_runner import ChangeTexts
from ctsql.runtime.views.refresh_policy import (
    STATE_AFTER,
    Costs,
    Policy,
    Sizes,
    Strategy,
    recompute_why,
)
from ctsql.runtime.views.state_table import (
    DAMAGED,
    STATE,
    Named,
    ViewState,
    is_to_build,
)
from ctsql.runtime.views.table_deltas import Moved, Unusable, moved, opened
from ctsql.runtime.warehouse.versions import DEFINITION
from ctsql.runtime.warehouse.warehouse import Warehouse

DETAIL_MAX = 200
"""Characters of a detail that a commit keeps."""
GROUPS_MAX = 200_000
"""Groups that a state table may have if all of them are read at each refresh."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """What a refresh did.

    Attributes:
        why: for RECOMPUTE, a code: of ``choice.WHY``, or of the planner's reasons.
        detail: which table, say. changed: the tables with a change.
    """

    strategy: Strategy
    why: str | None = None
    detail: str = ""
    changed: tuple[str, ...] = field(default=())

    def said(self) -> dict[str, Any]:
        """For the metadata of the commit."""
        told: dict[str, Any] = {"strategy": self.strategy.value}
        if self.why is not None:
            told["why"] = self.why
        if self.detail:
            told["detail"] = self.detail[:DETAIL_MAX]
        if self.changed:
            told["changed"] = list(self.changed)
        return told


class Following:
    """One refresh of one view.

    Args:
        batch: where to stage, and the version of the view's table that is compared with.
        time: T. full: it was asked to compare in full.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        item: Item,
        plan: ViewWrite,
        batch: Batch,
        time: int,
        *,
        full: bool,
    ) -> None:
        self.warehouse = warehouse
        self.item = item
        self.plan = plan
        self.batch = batch
        self.time = time
        self.full = full
        self.policy = Policy(plan.policy)
        self.costs = Costs()  # as the last commit has them
        self.state = ViewState(warehouse, item, time)
        self.kept: StatePlan | None = None
        self.preparing_ms = 0  # what is done once in a process is no cost of a refresh

    def run(self) -> Refreshed:
        """Stage what changed; with RECOMPUTE nothing is staged, and the caller is to do it."""
        try:
            return self._run()
        except (Unusable, DataError, StatementError, EnvironmentProblem) as problem:
            why, detail = _failed(problem)
        self.batch.at(self.time).discard()
        self.state.discard()
        if why == "TEXTS_FAILED" and self.state.is_used:
            self.state.refuse(why)
        return Refreshed(strategy=Strategy.RECOMPUTE, why=why, detail=detail)

    def keep_state(self, done: Refreshed) -> None:
        """After a refresh: fill the state table, if the next one is likely to use it."""
        retry = done.why == "FULL_ASKED"
        if self.state.is_refused and not retry:
            self.state.unchanged()  # what was refused stays so
            return
        if self.policy is Policy.FULL or done.strategy is Strategy.NO_CHANGE:
            return
        if done.strategy is Strategy.RECOMPUTE and done.why not in STATE_AFTER:
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
        if done.strategy is Strategy.RECOMPUTE:
            likely = recompute_why(self.policy, self._sizes(made, {}, at), self.costs) is None
            if not likely or made.refusal() is not None:
                return
        if not self.is_strict_arithmetic():
            return
        try:
            self._fill(kept[0], plan, made, at)
        except (Unusable, DataError, StatementError, EnvironmentProblem) as problem:
            if isinstance(problem, EnvironmentProblem) and problem.condition in DAMAGED:
                self.state.remove()
                return
            why, _ = _failed(problem)
            if why == "HISTORY_LOST":
                self.state.remove()  # a file of its table, as the query's own were just read
            else:
                self.state.refuse(why)

    def _fill(self, kept: StatePlan, plan: ChangePlan, made: Prepared, at: int) -> None:
        with converted(), opened(self.warehouse, made.tables, {}, plan.reads, at) as relations:
            text = plan.initial_state(kept.number, Naming(table=relations.name))
            self.build(kept, plan, self.warehouse.gateway.session.sql(text), at)

    def build(self, kept: StatePlan, plan: ChangePlan, groups: DataFrame, at: int) -> None:
        """Stage all groups as of a T as the contents of the state table; or refuse it."""
        self.state.build(kept, groups, at, GROUPS_MAX if plan.reads_all_groups else None)

    def is_strict_arithmetic(self) -> bool:
        """Is a sum that is too large an error? Otherwise it were NULL, and nothing to add to."""
        return self.warehouse.gateway.session.conf.get("spark.sql.ansi.enabled") == "true"

    def _run(self) -> Refreshed:
        before, at = self._span()
        made = prepared(self.warehouse, self.item, at)
        moves = self._moves(made, before, at)
        if not moves:
            self.state.unchanged()
            return Refreshed(strategy=Strategy.NO_CHANGE)
        why = recompute_why(self.policy, self._sizes(made, moves, at), self.costs)
        if why is not None:
            raise Unusable(why)
        begun = time.monotonic()
        refusal = made.refusal()
        self.preparing_ms = int((time.monotonic() - begun) * 1000)
        if refusal is not None:
            raise Unusable(refusal)
        plan = made.found
        assert isinstance(plan, ChangePlan)  # otherwise it was refused
        moves = {name: one for name, one in moves.items() if name in plan.reads}
        kept = self.state.look(plan, made)
        self.kept = None if kept is None else kept[0]
        return stage_change(self, made, plan, moves, at)

    def _span(self) -> tuple[int, int]:
        """The time whose contents are stored, and the one to be reached."""
        if self.policy is Policy.FULL:
            raise Unusable("POLICY_FULL")
        output = self.warehouse.relations.output(self.item)
        entries = output.entries(since=output.fetch_recent_upper())
        if not entries:
            raise Unusable("FIRST_WRITE")
        last = entries[-1]
        table = self.warehouse.relations.table(self.item)
        said = table.commit_at(last.version).metadata if table.has(last.version) else {}
        if said.get(DEFINITION) != self.warehouse.catalog.fingerprint(self.item):
            raise Unusable("REDEFINED")
        if output.upper <= self.item.created:
            raise Unusable("FIRST_WRITE")
        self.costs = Costs.of(said.get("costs"))
        self.state.named = Named.of(said.get(STATE))
        if self.full:
            raise Unusable("FULL_ASKED")
        if self.warehouse.versions.held_error(self.item, last.version) is not None:
            raise Unusable("ERROR_HELD")
        if self.has_foreign_rows():
            raise Unusable("FOREIGN_ROWS")
        before = self.warehouse.schedules.shown_at(self.item, last.upper - 1)
        at = self.warehouse.schedules.shown_at(self.item, self.time)
        if before is None or at is None:
            raise Unusable("FIRST_WRITE")
        return before, at

    def has_foreign_rows(self) -> bool:
        """Did somebody else write into the view's table since it was compared last?"""
        return self.warehouse.relations.output(self.item).has_foreign_rows()

    def _moves(self, made: Prepared, before: int, at: int) -> dict[str, Moved]:
        found = {}
        for name, table in made.tables.items():
            item = self.warehouse.relations.item(table.object_id)
            one = moved(self.warehouse, item, table.names, before=before, at=at)
            if one is not None:
                found[name] = one
        return found

    def _sizes(self, made: Prepared, moves: dict[str, Moved], at: int) -> Sizes:
        if self.policy is not Policy.AUTO:
            return Sizes((), ())
        rows, changed = [], []
        for name, table in made.tables.items():
            rows.append(
                self.warehouse.versions.rows_count(
                    self.warehouse.relations.item(table.object_id), at
                )
            )
            changed.append(moves[name].rows if name in moves else 0)
        return Sizes(tuple(rows), tuple(changed))


def _failed(problem: Exception) -> tuple[str, str]:
    """Why a way to refresh cannot be taken: code and detail.

    What no other way would mend is raised again.
    """
    match problem:
        case Unusable():
            return problem.code, problem.detail
        case DataError() | StatementError():
            return "TEXTS_FAILED", problem.message
        case EnvironmentProblem():
            if problem.condition == "HISTORY_LOST" or problem.message == FILE_MISSING:
                return "HISTORY_LOST", problem.detail or ""
            if problem.condition == "SPARK_ERROR" and not is_lost(problem):
                # Spark's optimizer has queries that it fails on; the whole one may be none.
                return "TEXTS_FAILED", problem.message
    raise problem


def stage_change(
    following: Following, made: Prepared, plan: ChangePlan, moves: dict[str, Moved], at: int
) -> Refreshed:
    """Stage what changed in the view, by its plan, from what changed in its tables."""
    warehouse = following.warehouse
    with converted(), opened(warehouse, made.tables, moves, plan.reads, at) as relations:
        changed = tuple(sorted(relations.changes))
        if not changed:
            following.state.unchanged()
            return Refreshed(strategy=Strategy.NO_CHANGE)
        texts = ChangeTexts(following, plan, relations)
        strategy = texts.stage(changed)
        return Refreshed(strategy=strategy, changed=changed)
