"""Refreshes a view by what changed, or says why it has to be recomputed.

What is staged makes the stored rows those of the query as of T, provided that they were those of
the query as of the last write; where that is not certain the view is recomputed and compared.
A change plan whose texts fail is not what decides on an error: the query itself is run then.
"""

import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.errors import DataError, EnvironmentProblem, StatementError
from ctsql.catalog.items import Item
from ctsql.planner.changes import ChangePlan, Naming, StatePlan, StepText
from ctsql.planner.changes.rules.context import StepRole
from ctsql.planner.lowering import checked, stored_types
from ctsql.planner.nodes import ViewWrite
from ctsql.runtime.incremental.choice import (
    STATE_AFTER,
    Costs,
    Policy,
    Sizes,
    Strategy,
    recompute_why,
)
from ctsql.runtime.incremental.deltas import Moved, Relations, Unusable, held, moved, opened
from ctsql.runtime.incremental.plans import Prepared, prepared
from ctsql.runtime.incremental.skipping import may_equal
from ctsql.runtime.incremental.view_state import (
    DAMAGED,
    STATE,
    Named,
    ViewState,
    is_above,
    is_to_build,
)
from ctsql.runtime.objects import DEFINITION, Objects
from ctsql.runtime.sinks.correction import COPIES, column_name
from ctsql.runtime.sinks.signed import Staged, stage_signed
from ctsql.runtime.sinks.staging import stage
from ctsql.runtime.sources import StoredSources
from ctsql.runtime.spark_errors import FILE_MISSING, converted, is_lost
from ctsql.runtime.staged import Batch

DETAIL_MAX = 200
"""Characters of a detail that a commit keeps."""


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


_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_DIGITS_MAX = 36
_PLACES_MAX = 6


def adds_exactly(data_type: str) -> bool:
    """Are two values of a type, if it is one of numbers, added without rounding? As Spark does it.

    >>> [adds_exactly(t) for t in ("bigint", "decimal(38,6)", "decimal(37,7)", "interval day")]
    [True, True, False, False]
    """
    found = _DECIMAL.fullmatch(data_type.lower())
    if found is not None:
        return int(found[1]) <= _DIGITS_MAX or int(found[2]) <= _PLACES_MAX
    return not data_type.lower().startswith("interval")


class Following:
    """One refresh of one view.

    Args:
        batch: where to stage, and the version of the view's table that is compared with.
        time: T. full: it was asked to compare in full.
    """

    def __init__(
        self, objects: Objects, item: Item, plan: ViewWrite, batch: Batch, time: int, *, full: bool
    ) -> None:
        self.objects = objects
        self.item = item
        self.plan = plan
        self.batch = batch
        self.time = time
        self.full = full
        self.policy = Policy(plan.policy)
        self.costs = Costs()  # as the last commit has them
        self.state = ViewState(objects, item, time)
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
        at = self.objects.shown_at(self.item, self.time)
        made = prepared(self.objects, self.item)
        plan = made.found
        if at is None or not isinstance(plan, ChangePlan):
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
        with converted(), opened(self.objects, made.tables, {}, plan.reads, at) as relations:
            text = plan.initial_state(kept.number, Naming(table=relations.name))
            self.state.build(kept, self.objects.gateway.session.sql(text), at)

    def is_strict_arithmetic(self) -> bool:
        """Is a sum that is too large an error? Otherwise it were NULL, and nothing to add to."""
        return self.objects.gateway.session.conf.get("spark.sql.ansi.enabled") == "true"

    def _run(self) -> Refreshed:
        before, at = self._span()
        made = prepared(self.objects, self.item)
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
        output = self.objects.output(self.item)
        entries = output.entries(since=output.fetch_recent_upper())
        if not entries or output.upper <= self.item.created:
            raise Unusable("FIRST_WRITE")
        last = entries[-1]
        table = self.objects.table(self.item)
        said = table.commit_at(last.version).metadata if table.has(last.version) else {}
        if said.get(DEFINITION) != self.objects.catalog.fingerprint(self.item):
            raise Unusable("REDEFINED")
        self.costs = Costs.of(said.get("costs"))
        self.state.named = Named.of(said.get(STATE))
        if self.full:
            raise Unusable("FULL_ASKED")
        if self.objects.held_error(self.item, last.version) is not None:
            raise Unusable("ERROR_HELD")
        if self.has_foreign_rows():
            raise Unusable("FOREIGN_ROWS")
        before = self.objects.shown_at(self.item, last.upper - 1)
        at = self.objects.shown_at(self.item, self.time)
        if before is None or at is None:
            raise Unusable("FIRST_WRITE")
        return before, at

    def has_foreign_rows(self) -> bool:
        """Did somebody else write into the view's table since it was compared last?"""
        return self.objects.output(self.item).has_foreign_rows()

    def _moves(self, made: Prepared, before: int, at: int) -> dict[str, Moved]:
        found = {}
        for name, table in made.tables.items():
            item = self.objects.item(table.object_id)
            one = moved(self.objects, item, before=before, at=at)
            if one is not None:
                found[name] = one
        return found

    def _sizes(self, made: Prepared, moves: dict[str, Moved], at: int) -> Sizes:
        if self.policy is not Policy.AUTO:
            return Sizes((), ())
        rows, changed = [], []
        for name, table in made.tables.items():
            rows.append(self.objects.rows_count(self.objects.item(table.object_id), at))
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
    objects = following.objects
    with converted(), opened(objects, made.tables, moves, plan.reads, at) as relations:
        changed = tuple(sorted(relations.changes))
        if not changed:
            following.state.unchanged()
            return Refreshed(strategy=Strategy.NO_CHANGE)
        strategy = _Texts(following, plan, relations).stage(changed)
        return Refreshed(strategy=strategy, changed=changed)


class _Texts:
    """Runs the texts of a change plan and stages their rows."""

    def __init__(self, following: Following, plan: ChangePlan, relations: Relations) -> None:
        self.following = following
        self.plan = plan
        self.relations = relations
        self.session = following.objects.gateway.session
        self.columns = [c.name for c in following.plan.columns]
        self.uses: Counter[str] = Counter()
        self.done: dict[str, DataFrame | None] = {}  # steps, with the rows the driver holds
        # Several connections may share the session, each in a thread of its own.
        self.own = f"__ct_{uuid.uuid4().hex}"
        self.naming = Naming(table=relations.name, step=self._step, view=f"{self.own}_view")

    def _step(self, name: str) -> str:
        self.uses[name] += 1
        return self._called(name)

    def _called(self, step: str) -> str:
        return f"{self.own}_step_{step}"

    def stage(self, changed: Sequence[str]) -> Strategy:
        """Stage by the cheapest way that the plan has."""
        with ExitStack() as stack:
            if self._first_rows(changed, stack):
                return Strategy.FIRST_ROWS
            if self._with_state(changed, stack):
                return Strategy.STATE_TABLE
            if self._keyed(changed, stack):
                return Strategy.AFFECTED_KEYS
            self._signed(changed, stack)
            return Strategy.INCREMENTAL

    @property
    def _stored(self) -> DataFrame | None:
        """The view's rows, with where they are."""
        following = self.following
        outputs = {following.item.id: (following.item, following.batch.version_read)}
        return StoredSources(following.objects, outputs=outputs).stored(following.item.id)

    def _run(
        self,
        steps: Sequence[StepText],
        stack: ExitStack,
        groups: Callable[[StepText], DataFrame] | None = None,
    ) -> None:
        """Compute the steps in order, each under its name.

        Args:
            groups: gives the rows of a step that reads stored groups.
        """
        awaited = self.relations.key_steps()
        for step in steps:
            self.relations.bind(self.done)
            local = None
            if step.role is StepRole.STORED_GROUPS and groups is not None:
                self._name(self._called(step.name), groups(step), stack)
                continue
            rows = self.session.sql(step.sql)
            if step.role is StepRole.GROUPS:
                rows = self.following.state.typed(rows)
            is_read_often = step.must_be_stored or self.uses[step.name] > 1
            is_held = step.role in (StepRole.KEYS, StepRole.GROUPS)
            if is_read_often or is_held or step.name in awaited:
                rows, local = held(rows, stack)
            self.done[step.name] = local
            self._name(self._called(step.name), rows, stack)
        self.relations.bind(self.done)

    def _name(self, name: str, rows: DataFrame, stack: ExitStack) -> None:
        rows.createOrReplaceTempView(name)
        stack.callback(self.session.catalog.dropTempView, name)

    def _first_rows(self, changed: Sequence[str], stack: ExitStack) -> bool:
        texts = self.plan.first_rows(changed, self.naming)
        if texts is None:
            return False
        stored = self._stored
        if stored is None:
            return False
        self._name(self.naming.view, stored.select(*(column_name(c) for c in self.columns)), stack)
        self._run(texts.steps, stack)
        (holds,) = self.session.sql(texts.holds).collect()
        if not holds["holds"]:
            raise Unusable("ROWS_MOVED_UP")
        self._compare(self.session.sql(texts.sql), stored)
        return True

    def _with_state(self, changed: Sequence[str], stack: ExitStack) -> bool:
        """The signed change of the view, from stored groups that the change is added to."""
        state, kept = self.following.state, self.following.kept
        if kept is None or not self.following.is_strict_arithmetic():
            return False
        stored = state.stored()
        if stored is None:
            return False
        name = f"{self.own}_state"
        naming = replace(self.naming, state=lambda _: name)
        columns = [F.col(column) for column in kept.columns]
        texts = self.plan.signed(changed, naming, [kept.number])
        if texts is None:
            state.unchanged()
            return True
        steps = texts.states[kept.number]
        located: list[DataFrame] = []

        def before(step: StepText) -> DataFrame:
            """The stored groups that change, read once, with their places."""
            found = stored
            if steps.keys is not None:
                found = self._with_keys(stored, steps.keys, steps.pairs)
            located.append(held(found, stack)[0])
            names = self.session.sql(step.sql).columns
            return located[0].select(*(c.alias(n) for c, n in zip(columns, names, strict=True)))

        self._name(name, stored, stack)
        self._run(texts.steps, stack, before)
        after = self.session.table(self._called(steps.after)).toDF(*kept.columns)
        if is_above(after, kept.bounded):
            state.refuse("STATE_ROUNDS")
            return False
        self._stage_signed(texts.sql)
        if kept.key_columns:
            after = after.where(F.col(kept.columns[kept.key_columns]) != 0)
        state.stage(after, located[0])
        return True

    def _with_keys(
        self, stored: DataFrame, step: str, pairs: Sequence[tuple[str, str]]
    ) -> DataFrame:
        """Stored rows with one of a step's keys, NULL equal to NULL.

        Args:
            pairs: a column of the stored rows, and the step's.
        """
        wanted = self.session.table(self._called(step))
        named = [(column_name(mine), F.col(column_name(key))) for mine, key in pairs]
        keys = wanted.select(*(key.alias(f"__ct_k{i}") for i, (_, key) in enumerate(named)))
        equal = F.lit(True)
        for i, (mine, _) in enumerate(named):
            equal = equal & F.col(mine).eqNullSafe(F.col(f"__ct_k{i}"))
        local = self.done[step]
        if local is not None:
            stored = stored.where(may_equal(stored, local, pairs))
        return stored.join(keys, equal, "left_semi")

    def _keyed(self, changed: Sequence[str], stack: ExitStack) -> bool:
        add = self._adds()
        texts = self.plan.keyed(changed, self.naming, add=add)
        if texts is None:
            return False
        stored = self._stored
        if add:
            objects, item = self.following.objects, self.following.item
            held = objects.contents(item, None) if stored is None else stored
            held = held.select(*(column_name(c) for c in self.columns))
            self._name(self.naming.view, held, stack)
        self._run(texts.steps, stack)
        if texts.doubtful is not None and self.following.kept is not None:
            rows_went = not self.session.sql(texts.doubtful).isEmpty()
            self.following.state.rows_went = rows_went
        if stored is not None:
            stored = self._with_keys(stored, texts.keys, texts.pairs)
        self._compare(self.session.sql(texts.sql), stored)
        return True

    def _adds(self) -> bool:
        """Can the change be added to groups that the view holds, whatever the sums come to?

        A sum of two sums must keep all digits, and one that is too large must be an error.
        """
        if not self.plan.adds_groups or not self.following.is_strict_arithmetic():
            return False
        return all(adds_exactly(c.type) for c in self.following.plan.columns)

    def _compare(self, rows: DataFrame, stored: DataFrame | None) -> None:
        """Stage the difference of rows wanted and stored."""
        following = self.following
        wanted = checked(stored_types(rows, following.plan), following.plan)
        staging = following.batch.at(following.time)
        stage(staging, wanted, stored, self.columns, small=True)

    def _signed(self, changed: Sequence[str], stack: ExitStack) -> None:
        if self.plan.inexact is not None:
            raise Unusable(self.plan.inexact.code)
        texts = self.plan.signed(changed, self.naming)
        if texts is None:
            return
        self._run(texts.steps, stack)
        self._stage_signed(texts.sql)

    def _stage_signed(self, sql: str) -> None:
        following = self.following
        rows = stored_types(self.session.sql(sql), following.plan, [COPIES])
        nulls = [F.col(column_name(c)).isNull() for c in following.plan.not_null]
        done = stage_signed(
            following.batch.at(following.time),
            rows,
            self._stored,
            self.columns,
            reduce(or_, nulls) if nulls else None,
        )
        if done is Staged.ROWS_DIFFER:
            raise Unusable("ROWS_DIFFER")
        if done is Staged.REFUSED:  # the query itself says what is wrong
            raise Unusable("TEXTS_FAILED", "a column that is asserted to have no NULL has one")
