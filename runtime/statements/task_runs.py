"""What a run of a task's body read beside the rows that tables hold, so that WHY can follow it.

    RETRY QUARANTINE at that T   rows of the quarantine, mended, beside what the input inserted
    ITERATIONS                   before each pass: what earlier ones proposed and is still there;
                                 stored rows that they took away are gone

A body with ITERATIONS is run again for that, pass by pass, over what it was run over then; nothing
is written. Each pass is then asked by itself, the last one first: of the rows that it made, where
they come from, and of those that it found there already, where an earlier pass had them from.

[own-places] rows that a run read beside stored ones have places of their own, and are told apart by
    these.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.items import Item
from ctsql.catalog.names import backtick_all
from ctsql.catalog.reserved_columns import FILE_COLUMN, ROW_COLUMN
from ctsql.catalog.schemas import Column
from ctsql.planner import nodes as lp
from ctsql.planner.body_rows import depends_on_passes, made_before, sent_again
from ctsql.planner.lowering import Context, OutputState
from ctsql.runtime.engine import Engine
from ctsql.runtime.rows.multiset import equality_keys
from ctsql.runtime.spark.checkpoint import computed
from ctsql.runtime.tasks.body import states
from ctsql.runtime.tasks.retried_rows import Group, RetriedRows, retry_statement, rows_to_retry
from ctsql.runtime.tasks.runs import Run, RunInputs, due_runs
from ctsql.runtime.warehouse.row_origins import LocatedContents, inserted_at, located_contents
from ctsql.runtime.warehouse.sources import StoredSources

_PLACES = [FILE_COLUMN, ROW_COLUMN]
PASSES_MAX = 20
"""Of a body that ran more often at a T it is not told where its rows come from."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Rows that a run read and that no table holds as they were read.

    Attributes:
        rows: with ``FILE_COLUMN`` and ``ROW_COLUMN``, which are theirs alone.
        origin: the stored rows with the same places; None for rows of an earlier pass.
        output_id: of an earlier pass the id of the output that they were made for.
    """

    columns: tuple[Column, ...]
    rows: DataFrame
    origin: LocatedContents | None = None
    output_id: str = ""


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass of a body found there.

    Attributes:
        beside: by the id under which a query reads it. victims: stored rows that are gone by then,
            of each output. at_fault: rows that came and that the body did not take. number: from 1;
            0 if no pass depends on another one.
    """

    beside: Mapping[str, Beside] = field(default_factory=dict)
    victims: Mapping[str, DataFrame] = field(default_factory=dict)
    at_fault: DataFrame | None = None
    number: int = 0

    @property
    def is_later(self) -> bool:
        """Whether another pass was before it."""
        return self.number > 1

    def name_of(self, statement: str) -> str:
        """What a statement of this pass is called."""
        return f"pass {self.number} > {statement}" if self.number else statement


class TaskRun:
    """One run of a task.

    Args:
        plan: what was in force at ``time``. stack: keeps what Spark holds while it is asked about.
    """

    def __init__(
        self, engine: Engine, task: Item, plan: lp.TaskWrite, time: int, stack: ExitStack
    ) -> None:
        self._engine, self._warehouse = engine, engine.warehouse
        self._task, self.plan, self.time = task, plan, time
        self.is_snapshot = plan.snapshot and time == task.created_at
        self._stack = stack
        self._quarantine: LocatedContents | None = None
        self._retried_rows = self._find_retried()

    def _find_retried(self) -> RetriedRows | None:
        """The mended rows of RETRY QUARANTINE with the places that they had in the quarantine."""
        then, plan = self._engine.relations.in_force(self._task, self.time)
        if not then.retry:
            return None
        item = self._engine.relations.item(self._task.quarantine or "")
        contents = located_contents(self._warehouse, item, self.time - 1)
        if contents is None:
            return None
        self._quarantine = contents
        statement = retry_statement(then.retry)
        return rows_to_retry(
            self._warehouse, plan, statement, item, contents.rows, self.time, self._stack
        )

    @property
    def _retry_groups(self) -> Sequence[tuple[Group, DataFrame]]:
        return () if self._retried_rows is None else self._retried_rows.located_groups

    @property
    def again(self) -> dict[str, lp.NormalReference]:
        """How a body reads rows that were sent again, by the id by which it reads its input."""
        return {
            group.object_id: sent_again(group.object_id, [c.name for c in group.columns])
            for group, _ in self._retry_groups
            if group.is_input
        }

    def mended_rows(self, output: Item, rows: DataFrame) -> LocatedContents | None:
        """Rows of the quarantine that went into an output and equal some of its rows."""
        frames = (r for g, r in self._retry_groups if not g.is_input and g.object_id == output.id)
        frame = next(frames, None)
        if frame is None or self._quarantine is None:
            return None
        places = equal_rows(frame, rows).select(*_PLACES)
        mended_rows = self._quarantine.rows.join(places, _PLACES, "left_semi")
        return replace(self._quarantine, rows=mended_rows)

    def before_quarantine(
        self, rows: DataFrame
    ) -> tuple[str, DataFrame | None, dict[str, DataFrame]]:
        """What rows of the quarantine, written by this run, were before they were set aside.

        Returns:
            the input's id with its rows at fault, None for none; and what the body proposed for
            each output, by its id.
        """
        item = self._engine.relations.item(self._task.quarantine or "")
        every = retry_statement(f"RETRY QUARANTINE {item.name}")
        retry = rows_to_retry(
            self._warehouse, self.plan, every, item, rows, self.time, self._stack, refuses=True
        )
        groups = () if retry is None else retry.groups
        at_fault = next(((g.object_id, r) for g, r in groups if g.is_input), ("", None))
        return *at_fault, {g.object_id: r for g, r in groups if not g.is_input}

    def _at_fault(self) -> DataFrame | None:
        """The rows that the run set aside as they could not be computed; None for none."""
        if not self.plan.quarantine_errors or self._task.quarantine is None:
            return None
        item = self._engine.relations.item(self._task.quarantine)
        new_rows = inserted_at(self._warehouse, item, self.time)
        return None if new_rows is None else self.before_quarantine(new_rows.rows)[1]

    # ---- passes

    def passes(self) -> list[Pass] | str:
        """What each pass found there, in order; a sentence where that cannot be told."""
        retried_rows = {
            sent_again(group.object_id, ()).object_id: Beside(group.columns, rows, self._quarantine)
            for group, rows in self._retry_groups
            if group.is_input
        }
        if not depends_on_passes(self.plan):
            return [Pass(retried_rows, at_fault=self._at_fault())]
        runs = due_runs(self._warehouse, self._task, after=self.time - 1, until=self.time)
        run = next((r for r in runs if r.time == self.time), None)
        if run is None:
            return "the changes that the body ran over are no longer known"
        pass_states = self._states(run)
        if len(pass_states) > PASSES_MAX + 1:
            return f"the body ran more than {PASSES_MAX} times at this T"
        return [self._pass(i, states, retried_rows) for i, states in enumerate(pass_states[:-1], 1)]

    def _states(self, run: Run) -> list[Mapping[str, OutputState]]:
        """What the outputs held before each pass that changed something, and behind the last."""
        warehouse = self._warehouse
        input_changes = self._stack.enter_context(RunInputs(warehouse, self.plan, run).opened())
        changes = input_changes or {}
        if self._retried_rows is not None:
            changes = self._retried_rows.among(changes)
        sources = StoredSources(warehouse, changes, self._output_versions())
        context = Context(self._engine.session, sources, self.time, clock_at=self.time)
        columns = {o.object_id: [c.name for c in o.columns] for o in self.plan.all_outputs}
        return list(islice(states(self.plan.transaction, context, columns), PASSES_MAX + 2))

    def _output_versions(self) -> dict[str, tuple[Item, int | None]]:
        """The outputs with their versions before the run."""
        versions: dict[str, tuple[Item, int | None]] = {}
        for output in self.plan.all_outputs:
            item = self._engine.relations.item(output.object_id)
            version = self._warehouse.versions.version_at(item, self.time - 1)
            if version is not None:
                table = self._engine.relations.table(item)
                version = self._warehouse.versions.settled(table, version)
            versions[item.id] = (item, version)
        return versions

    def _pass(
        self, number: int, states: Mapping[str, OutputState], retried_rows: Mapping[str, Beside]
    ) -> Pass:
        beside, victims = dict(retried_rows), {}
        for output in self.plan.all_outputs:
            state = states.get(output.object_id)
            if state is None:
                continue
            if state.victims is not None:
                victims[output.object_id] = state.victims.select(*_PLACES)
            if number > 1:
                rows = self._proposed_rows(state, output, number - 1)
                earlier_id = made_before(output.object_id, ()).object_id
                beside[earlier_id] = Beside(output.columns, rows, output_id=output.object_id)
        return Pass(beside, victims, number=number)

    def _proposed_rows(self, state: OutputState, output: lp.TaskOutput, number: int) -> DataFrame:
        """What was proposed before a pass, with places."""
        inserts = state.inserts
        if inserts is None:
            item = self._engine.relations.item(output.object_id)
            inserts = self._warehouse.versions.nothing_at(item, self.time)
        names = backtick_all([c.name for c in output.columns])
        return computed(
            inserts.select(
                *names,
                F.lit(f"pass {number}").alias(FILE_COLUMN),
                F.monotonically_increasing_id().alias(ROW_COLUMN),
            )
        )


def equal_rows(rows: DataFrame, others: DataFrame, how: str = "left_semi") -> DataFrame:
    """Those rows that equal one of some others, NULL equal to NULL, in the columns of both.

    Args:
        how: ``left_anti`` for those that equal none.
    """
    names = [c for c in rows.columns if c in others.columns and c not in _PLACES]
    count = len(rows.columns)
    keys = [f"key{i}" for i in range(len(equality_keys(others, names)))]
    keys_of_others = others.select(*equality_keys(others, names)).distinct().toDF(*keys).alias("b")
    rows_with_keys = rows.select("*", *equality_keys(rows, names))
    own_rows = rows_with_keys.toDF(*(f"own{i}" for i in range(count)), *keys).alias("a")
    equal = [F.col(f"a.{key}").eqNullSafe(F.col(f"b.{key}")) for key in keys]
    matches = own_rows.join(keys_of_others, equal, how)
    return matches.select(*(F.col(f"own{i}").alias(c) for i, c in enumerate(rows.columns)))


def without_faulty(stored_rows: LocatedContents, at_fault: DataFrame | None) -> LocatedContents:
    """The rows that came less those that the body did not take, which are equal to no other."""
    if at_fault is None or not set(at_fault.columns) <= set(stored_rows.rows.columns):
        return stored_rows
    # Computed first: Spark would evaluate the body's expressions before this, over all that came.
    return replace(stored_rows, rows=computed(equal_rows(stored_rows.rows, at_fault, "left_anti")))


def without(stored_rows: LocatedContents, victims: DataFrame | None) -> LocatedContents:
    """Stored rows less those that were taken away."""
    if victims is None:
        return stored_rows
    return replace(stored_rows, rows=stored_rows.rows.join(victims, _PLACES, "left_anti"))
