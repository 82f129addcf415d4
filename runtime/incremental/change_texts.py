"""Runs the texts of a view's change plan, and stages the rows that they give."""

import re
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, functions as F

from ctsql.planner.changes import ChangePlan, Naming, StepText
from ctsql.planner.changes.rules.context import StepRole
from ctsql.planner.lowering import checked, stored_types
from ctsql.runtime.incremental.choice import Strategy
from ctsql.runtime.incremental.deltas import Relations, Unusable, held
from ctsql.runtime.incremental.near_rows import StoredRows
from ctsql.runtime.incremental.view_state import is_above
from ctsql.runtime.sinks.correction import COPIES, column_name
from ctsql.runtime.sinks.signed import Staged, stage_signed
from ctsql.runtime.sinks.staging import stage

if TYPE_CHECKING:
    from ctsql.runtime.incremental.following import Following

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


class ChangeTexts:
    """Runs the texts of a change plan and stages their rows."""

    def __init__(self, following: "Following", plan: ChangePlan, relations: Relations) -> None:
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
    def _stored(self) -> StoredRows | None:
        """The view's rows; None for none."""
        following = self.following
        table = following.objects.table(following.item)
        version = following.batch.version_read
        return StoredRows(table, version) if table.files(version) else None

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
        rows = stored.all
        self._name(self.naming.view, rows.select(*(column_name(c) for c in self.columns)), stack)
        self._run(texts.steps, stack)
        (holds,) = self.session.sql(texts.holds).collect()
        if not holds["holds"]:
            raise Unusable("ROWS_MOVED_UP")
        self._compare(self.session.sql(texts.sql), rows)
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
            keys, pairs = steps.keys, steps.pairs
            found = stored.all if keys is None else self._with_keys(stored, keys, pairs)
            located.append(held(found, stack)[0])
            names = self.session.sql(step.sql).columns
            return located[0].select(*(c.alias(n) for c, n in zip(columns, names, strict=True)))

        self._name(name, stored.all, stack)
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
        self, stored: StoredRows, step: str, pairs: Sequence[tuple[str, str]]
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
        return stored.having(self.done[step], pairs).join(keys, equal, "left_semi")

    def _keyed(self, changed: Sequence[str], stack: ExitStack) -> bool:
        add = self._adds()
        texts = self.plan.keyed(changed, self.naming, add=add)
        if texts is None:
            return False
        stored = self._stored
        if add:
            objects, item = self.following.objects, self.following.item
            rows = objects.contents(item, None) if stored is None else stored.all
            rows = rows.select(*(column_name(c) for c in self.columns))
            self._name(self.naming.view, rows, stack)
        self._run(texts.steps, stack)
        if texts.doubtful is not None and self.following.kept is not None:
            rows_went = not self.session.sql(texts.doubtful).isEmpty()
            self.following.state.rows_went = rows_went
        before = None if stored is None else self._with_keys(stored, texts.keys, texts.pairs)
        self._compare(self.session.sql(texts.sql), before)
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
