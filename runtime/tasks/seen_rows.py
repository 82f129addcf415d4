"""What a body sees of an input that is a plain view or has a condition.

    change of the source  --view's query, WHERE-->  change that the body sees

The rows are processed one by one: seen inserts come from inserts, seen deletes from deletes. A
projection may map both to equal rows, which then cancel.
"""

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.declined import Declined
from ctsql.catalog.names import backtick_all
from ctsql.catalog.reserved_columns import DIFF
from ctsql.planner.bodies.reads import reads_of
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.queries import lower_relation
from ctsql.planner.nodes import InsertsInput, Node, TaskWrite, ViewReference, descend
from ctsql.runtime.delta.change_feed import InputChange
from ctsql.runtime.rows.multiset import consolidate
from ctsql.runtime.rows.prepared_rows import derive
from ctsql.runtime.spark.analyzer import HeldSources


def sources_of(node: Node, rows: DataFrame) -> HeldSources:
    """The rows that the one source of a plan inserted, at one T or at several."""
    return HeldSources(rows.sparkSession, dict.fromkeys(reads_of(node).inserts, rows))


def seen_of(plan: TaskWrite) -> dict[str, ViewReference]:
    """The views and conditions through which a body reads sources, by source id."""
    sources = ((n, s) for s in plan.input_views for n in descend(s) if isinstance(n, InsertsInput))
    return {source.object_id: view for source, view in sources}


def lower_seen(node: Node, rows: DataFrame, at: int) -> DataFrame:
    """The rows that the body sees of a source's rows, lazily."""
    return lower_relation(node, Context(rows.sparkSession, sources_of(node, rows), at))


def seen_change(
    view: ViewReference,
    change: InputChange,
    at: int,
    keep: Callable[[DataFrame], DataFrame],
    *,
    only_inserts: bool,
) -> InputChange | None:
    """The part of a source's change at T that the body sees; None if it is empty.

    ``keep`` returns rows that are computed once and can be read several times. ``only_inserts``:
    the deletes are not read.
    """

    def nothing() -> DataFrame:
        return lower_seen(view, change.nothing(), at)

    def build(frames: Sequence[DataFrame]) -> DataFrame:
        return lower_seen(view, frames[0], at)

    if change.few is not None and change.net_change is None:
        rows = derive([change.few], build, ("seen", view)).collect()
        if not isinstance(rows, Declined):
            return None if rows.is_empty else InputChange(nothing, few=rows)
    if change.net_change is None:
        inserts = lower_seen(view, change.inserts, at)
        return None if inserts.isEmpty() else InputChange(nothing, inserts)
    inserts, deletes = (lower_seen(view, rows, at) for rows in (change.inserts, change.deletes))
    columns = [c for c in inserts.columns if c in deletes.columns]  # the source still has
    names = backtick_all(columns)
    parts = [r.select(*names, F.lit(n).alias(DIFF)) for r, n in ((inserts, 1), (deletes, -1))]
    signed_rows = consolidate(parts[0].unionAll(parts[1]), columns)
    signed_rows = keep(signed_rows.where(f"{DIFF} > 0") if only_inserts else signed_rows)
    return None if signed_rows.isEmpty() else InputChange(nothing, net_change=signed_rows)
