"""Computes what a body proposes: from driver-local rows, by Spark in n passes, or at several Ts.

**Driver-local rows.** The usual small run: the driver holds the inputs' appended rows, the body
reads nothing else, and the rows it deletes are found by key. The insert then has one plan
(:mod:`ctsql.runtime.rows.prepared_rows`) for all tasks whose bodies differ in names only.

**Several passes.** The proposed and the deleted rows of each pass are kept, so the plan does not
grow. The fixpoint is reached when (inserts - victims) after a pass equals that before it, for each
output as multisets, compared in one Spark job. At the limit FIXPOINT fails; a number of iterations
ends.

**Several Ts.** A body that takes inserted rows one by one (:mod:`ctsql.planner.bodies.row_local`)
computes all waiting Ts at once, with one output file for each T. Readers see no difference.
"""

from collections.abc import Hashable, Mapping, Sequence
from contextlib import ExitStack

from pyspark.sql import DataFrame, SparkSession, functions as F

from ctsql.catalog.errors import Declined, error
from ctsql.catalog.names import backtick_all
from ctsql.catalog.reserved_columns import BROKEN, DIFF, FILE_COLUMN, ROW_COLUMN, TIME
from ctsql.planner.bodies.delete_by_key import KeyLookup, sole_lookup
from ctsql.planner.bodies.reads import reads_of
from ctsql.planner.bodies.row_local import carry_time, carry_time_below
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.output_state import OutputState, union_all
from ctsql.planner.lowering.transaction import (
    base,
    lower_inserts,
    lower_statements,
    lower_transaction,
    outputs_of,
    proposals,
)
from ctsql.planner.nodes import Delete, Insert, TaskWrite, Transaction, output_of
from ctsql.planner.shapes import Shapes
from ctsql.runtime.delta.change_feed import numbered_rows
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.log.staging import Staging
from ctsql.runtime.log.table_changes import VersionChange
from ctsql.runtime.rows.collect import collect_bounded, unadaptive
from ctsql.runtime.rows.multiset import consolidate
from ctsql.runtime.rows.prepared_rows import derive
from ctsql.runtime.rows.row_set import LocalRows, RowSet, computed, persisted
from ctsql.runtime.spark.analyzer import HeldSources
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.tasks.constraints import check_none_broken
from ctsql.runtime.tasks.runs import lower_seen, sources_of
from ctsql.runtime.warehouse.query_engine import OutputProposal, TaskSources


def propose(
    body: Transaction,
    sources: TaskSources,
    at: int,
    columns: Mapping[str, list[str]],
    session: SparkSession,
) -> Mapping[str, OutputProposal]:
    """The rows that the body proposes at T for each output that it writes, not consolidated.

    Args:
        columns: of each output, by its id. Inserts into an output with constraints have ``BROKEN``
            too.

    Raises:
        STEP_LIMIT_REACHED: with FIXPOINT, an output still changes after the last pass.
        DATA_ERROR: a row cannot be computed. Raised here if the body runs more than once, otherwise
            here or when the rows are staged.
    """
    few = _propose_from_few(body, sources, at, session)
    if not isinstance(few, Declined):
        return few
    context = Context(session, sources, at, clock_at=at)
    if body.iterations == 1:
        states = lower_transaction(body, context)
    else:
        states = proposals(body, context, _run_passes(body, context, columns))
    return {o: OutputProposal(state.inserts, state.victims) for o, state in states.items()}


# ---- few rows


class _InsertOnlySources(HeldSources):
    """Inputs that only insert, and outputs whose stored rows no statement reads."""

    def stored_with_keys(self, lookup: KeyLookup) -> None:
        return None  # the rows it finds are deleted; a separate lookup finds them


def _propose_from_few(
    body: Transaction, sources: TaskSources, at: int, session: SparkSession
) -> dict[str, OutputProposal] | Declined:
    reads = reads_of(body)
    if body.iterations != 1 or not all(isinstance(s, Insert | Delete) for s in body.statements):
        return Declined("it does more than to insert and delete")
    if not reads.inserts or reads.contents or not reads.is_all:
        return Declined("it reads more than what its inputs inserted")
    if any(sole_lookup(body, output) is None for output in reads.outputs):
        return Declined("it reads an output otherwise than by key")
    few_rows: dict[str, LocalRows] = {}
    for object_id in reads.inserts:
        rows = sources.inserted(object_id)
        if isinstance(rows, Declined):
            return rows
        few_rows[object_id] = rows
    proposals = {}
    for output in outputs_of(body):
        lookup = sole_lookup(body, output)
        victims = None if lookup is None else sources.found_by_key(lookup)
        if isinstance(victims, Declined):
            return victims
        proposals[output] = OutputProposal(_inserts(body, output, few_rows, at, session), victims)
    return proposals


def _inserts(
    body: Transaction,
    output: str,
    few_rows: Mapping[str, LocalRows],
    at: int,
    session: SparkSession,
) -> RowSet | None:
    if not any(isinstance(s, Insert) and s.object_id == output for s in body.statements):
        return None

    def build(frames: Sequence[DataFrame]) -> DataFrame:
        sources = _InsertOnlySources(session, dict(zip(few_rows, frames, strict=True)))
        rows = lower_transaction(body, Context(session, sources, at, clock_at=at))[output].inserts
        assert rows is not None  # there is an INSERT
        return rows

    key = ("body", _shape(body, output, list(few_rows)))
    return derive(list(few_rows.values()), build, key, origin=(body, output))


def _shape(body: Transaction, output: str, inputs: list[str]) -> Hashable:
    """The statements that determine the rows a body inserts into an output.

    All that write it, except DELETEs before its first INSERT: these delete only stored rows, which
    no statement reads.
    """
    own = [s for s in body.statements if output_of(s) == output]
    first = next(i for i, s in enumerate(own) if isinstance(s, Insert))
    return Shapes(inputs).of((tuple(own[first:]), body.constraints_of(output)))


# ---- several passes


def _run_passes(
    transaction: Transaction, context: Context, columns: Mapping[str, list[str]]
) -> Mapping[str, OutputState]:
    """The outputs' contents after the last pass that changes something."""
    base_states = base(transaction, context)
    outputs: Mapping[str, OutputState] = base_states
    for _ in range(transaction.iterations):
        after = lower_statements(transaction, context, outputs, keep=True)
        states_by_output = {
            o: OutputState(None, _compute(s.inserts), _compute(s.victims)) for o, s in after.items()
        }
        if not any(_differ(outputs[o], states_by_output[o], columns[o]) for o in states_by_output):
            return outputs
        outputs = {
            o: OutputState(
                _without_victims(base_states[o].stored_rows, s.victims), s.inserts, s.victims
            )
            for o, s in states_by_output.items()
        }
    if transaction.fixpoint:
        raise error("STEP_LIMIT_REACHED", limit=transaction.iterations)
    return outputs


def _compute(frame: DataFrame | None) -> DataFrame | None:
    return None if frame is None else computed(frame)


def _without_victims(stored_rows: DataFrame | None, victims: DataFrame | None) -> DataFrame | None:
    if stored_rows is None or victims is None:
        return stored_rows
    places = victims.select(FILE_COLUMN, ROW_COLUMN)
    return stored_rows.join(places, on=[FILE_COLUMN, ROW_COLUMN], how="left_anti").select(
        *backtick_all(stored_rows.columns)
    )


def _differ(before: OutputState, after: OutputState, columns: list[str]) -> bool:
    """Whether a pass changed the output's rows."""
    names = backtick_all(columns)

    def signed(frame: DataFrame | None, diff: int) -> DataFrame | None:
        if frame is None:
            return None
        return frame.select(*names, F.lit(diff).alias(DIFF))

    rows = union_all(
        signed(after.inserts, 1),
        signed(after.victims, -1),
        signed(before.inserts, -1),
        signed(before.victims, 1),
    )
    return rows is not None and not consolidate(rows, columns).isEmpty()


# ---- several Ts


def stage_batched_runs(
    plan: TaskWrite,
    table: DeltaTable,
    version_changes: Sequence[tuple[int, VersionChange]],
    staging: Staging,
) -> list[int] | Declined:
    """Compute and stage what a task proposes at several Ts; returns the Ts that have rows.

    Declined, with nothing done, if the rows of the Ts cannot be separated.
    ``version_changes``: each T, and the change of the input at it.
    """
    rows = numbered_rows(table, [version_change for _, version_change in version_changes], TIME)
    if isinstance(rows, Declined):
        return rows
    times = F.array(*(F.lit(time) for time, _ in version_changes))
    rows = rows.withColumn(TIME, F.element_at(times, F.col(TIME) + 1))
    session = table.gateway.session
    with ExitStack() as stack:
        stack.enter_context(translate_spark_errors())
        stack.enter_context(unadaptive(session))
        for view in plan.input_views:
            rows = lower_seen(carry_time_below(view), rows, version_changes[0][0])
        body = carry_time(plan.transaction)
        context = Context(session, sources_of(body, rows), version_changes[0][0], clock_at=TIME)
        inserts = lower_inserts(body, context, TIME)
        local_rows = collect_bounded(inserts)
        rows_once = (
            stack.enter_context(persisted(inserts))
            if isinstance(local_rows, Declined)
            else local_rows
        )
        if plan.transaction.constraints:
            check_none_broken(rows_once)
            rows_once = rows_once.drop(BROKEN)
        time_rows = rows_once.select(TIME)
        if isinstance(local_rows, Declined):
            time_rows = time_rows.distinct()
        times_with_rows = sorted({row[0] for row in time_rows.collect()})
        if not times_with_rows:
            return []
        # Spark writes a file for its first partition even where that has no row.
        place = F.array_position(F.array(*map(F.lit, times_with_rows)), F.col(TIME)) - 1
        partitions = rows_once.repartitionById(len(times_with_rows), place.cast("int")).drop(TIME)
        return staging.stage_shared(partitions, times_with_rows)
