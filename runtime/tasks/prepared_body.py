"""A body whose plan is kept: what it proposes from few rows that its inputs inserted.

The usual small run: each input appended few rows, which the driver holds; the body reads nothing
else, and all that it takes away is found by key. Then only the rows differ from run to run, and
what is inserted has one plan (:mod:`ctsql.runtime.rows.prepared_rows`). Other bodies, and bodies
that read the clock, are lowered at each run.

Tasks whose bodies differ in names only have one plan (:mod:`ctsql.planner.shapes`): the first run
of a process over many of them plans it once.
"""

from collections.abc import Hashable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from ctsql.catalog.declined import Declined
from ctsql.planner.delete_by_key import KeyLookup, sole_lookup
from ctsql.planner.lowering import Context, LocatedRows, lower_transaction, outputs_of
from ctsql.planner.nodes import (
    Delete,
    Insert,
    InsertsInput,
    Query,
    Relation,
    SelfReference,
    Transaction,
    descend,
    output_of,
)
from ctsql.planner.shapes import Shapes
from ctsql.runtime.rows.prepared_rows import derive
from ctsql.runtime.rows.row_set import LocalRows, RowSet
from ctsql.runtime.spark.analyzer import HeldSources
from ctsql.runtime.warehouse.query_engine import OutputProposal, TaskSources


class _InsertOnlySources(HeldSources):
    """Inputs that only insert; of outputs, nothing that a statement would still look at."""

    def stored_with_keys(self, lookup: KeyLookup, at: int) -> LocatedRows:
        return LocatedRows(None)  # what it finds goes, and is looked up by itself


def propose_from_few(
    body: Transaction, sources: TaskSources, at: int, session: SparkSession
) -> dict[str, OutputProposal] | None:
    """What the body proposes for each output; None where it is not such a body or run."""
    read = _read(body)
    if read is None:
        return None
    rows_by_source: dict[str, LocalRows] = {}
    for object_id in read:
        rows = sources.inserted(object_id)
        if rows is None:
            return None
        rows_by_source[object_id] = rows
    proposals = {}
    for output in outputs_of(body):
        lookup = sole_lookup(body, output)
        victims = None if lookup is None else sources.found_by_key(lookup)
        if isinstance(victims, Declined):
            return None
        proposals[output] = OutputProposal(
            _inserts(body, output, rows_by_source, at, session), victims
        )
    return proposals


def _inserts(
    body: Transaction,
    output: str,
    rows_by_source: Mapping[str, LocalRows],
    at: int,
    session: SparkSession,
) -> RowSet | None:
    if not any(isinstance(s, Insert) and s.object_id == output for s in body.statements):
        return None

    def build(frames: Sequence[DataFrame]) -> DataFrame:
        sources = _InsertOnlySources(session, dict(zip(rows_by_source, frames, strict=True)))
        rows = lower_transaction(body, Context(session, sources, at, clock_at=at))[output].inserts
        assert rows is not None  # there is an INSERT
        return rows

    key = ("body", _shape(body, output, list(rows_by_source)))
    return derive(list(rows_by_source.values()), build, key, origin=(body, output))


def _shape(body: Transaction, output: str, inputs: list[str]) -> Hashable:
    """What decides on the rows that a body of :func:`_read` inserts into an output.

    That are the statements that write it, but DELETEs in front of its first INSERT: these take away
    stored rows only, which no statement reads.
    """
    own = [s for s in body.statements if output_of(s) == output]
    first = next(i for i, s in enumerate(own) if isinstance(s, Insert))
    return Shapes(inputs).of((tuple(own[first:]), body.constraints_of(output)))


def _read(body: Transaction) -> list[str] | None:
    """The inputs that a body reads the inserts of, if it reads nothing else and no clock."""
    object_ids: dict[str, None] = {}
    if body.iterations != 1 or not all(isinstance(s, Insert | Delete) for s in body.statements):
        return None
    for node in descend(body):
        match node:
            case InsertsInput(object_id=object_id):
                object_ids[object_id] = None
            case SelfReference(object_id=object_id):
                if sole_lookup(body, object_id) is None:
                    return None
            case Relation():
                return None
            case Query(sql=sql) if sql.clocks:
                return None
    return list(object_ids) or None
