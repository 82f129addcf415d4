"""Stages what a body proposes at one T: into its outputs, and into the task's quarantine.

The quarantine is a table of the task, written like another output
(:mod:`ctsql.runtime.tasks.multi_output`). So a row that breaks a constraint is in it exactly once,
and no reader sees the row before T is committed.
"""

import re
from collections.abc import Mapping
from contextlib import ExitStack

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.dependencies import quarantine_copied, written_under
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item
from ctsql.planner.lowering.output_state import union_all
from ctsql.planner.nodes import TaskWrite
from ctsql.runtime.delta.change_feed import InputChange
from ctsql.runtime.tasks.constraints import as_quarantined, check_rows, quarantine_rows
from ctsql.runtime.tasks.key_constraints import Surroundings, mark_keys
from ctsql.runtime.tasks.multi_output import OutputBatches
from ctsql.runtime.tasks.tallies import (
    COUNTED,
    QUARANTINE_COLUMNS,
    TALLIES,
    add_tallies,
    tallies_of,
)
from ctsql.runtime.warehouse.query_engine import OutputProposal
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.runtime.warehouse.warehouse import Warehouse

_CAST = re.compile(r"CAST\s*\(", re.IGNORECASE)
_TRY_CAST = re.compile(r"[.;]? Use `try_cast` .*")  # Spark's hint, without the expression
PLACE_TEXT_MAX = 200  # characters of the failed part of a body


def stage_proposals(
    warehouse: Warehouse,
    plan: TaskWrite,
    proposals: Mapping[str, OutputProposal],
    batches: OutputBatches,
    at: int,
    *,
    small: bool,
    arriving: DataFrame | None = None,
    leaving: DataFrame | None = None,
) -> None:
    """Stage the rows for each output that does not hold T yet.

    Args:
        arriving: rows for the quarantine, in addition to those that break constraints.
        leaving: rows, with their places, to delete from it.

    Raises:
        CONSTRAINT_VIOLATED: a row breaks a constraint ON VIOLATION FAIL; nothing is committed.
        DATA_ERROR: a row cannot be computed.
    """
    columns = {o.object_id: [c.name for c in o.columns] for o in plan.all_outputs}
    names = written_under(warehouse.catalog, warehouse.relations.item(plan.object_id))
    waiting = {part.object_id: part for part in batches.waiting}
    away: list[DataFrame] = [] if arriving is None else [arriving]
    with ExitStack() as stack:
        for object_id, proposal in proposals.items():
            constraints = plan.transaction.constraints_of(object_id)
            own = columns[object_id]
            inserts = proposal.inserts
            if any(c.key for c in constraints):
                around = Surroundings(warehouse, batches.read[object_id], proposal.victims, at)
                inserts = mark_keys(constraints, inserts, around, small=small, stack=stack)
            check = check_rows(constraints, inserts, own, small=small, stack=stack)
            if check.quarantined_rows is not None:
                name = names[object_id].name.qualified()
                away.append(quarantine_rows(constraints, check.quarantined_rows, name, own, at))
            part = waiting.get(object_id)
            if part is None:
                continue  # this output holds T already
            part.has_rows = warehouse.queries.stage(
                part.batch.at(at), check.output_rows, proposal.victims, own, small=small
            )
            if check.violations:
                _, domains = part.output.table.domains()
                tallies = add_tallies(tallies_of(domains), constraints, check.violations, at)
                part.batch.domains[TALLIES] = tallies
                part.metadata = {COUNTED: dict(check.violations)}
                part.has_rows = True
        quarantine = next((part for i, part in waiting.items() if i not in columns), None)
        if quarantine is not None and (away or leaving is not None):
            rows = union_all(*away)
            column_names = [name for name, _ in QUARANTINE_COLUMNS]
            quarantine.has_rows = warehouse.queries.stage(
                quarantine.batch.at(at), rows, leaving, column_names, small=small
            )


def quarantine_changes(
    warehouse: Warehouse, changes: Mapping[str, InputChange], fault: CtsqlError, at: int
) -> DataFrame | None:
    """All changes of the inputs at T, with the quarantine's columns; None if nothing changed.

    A deleted row has the relation ``deletes(input)``. ``changes``: by the id by which the body
    reads an input; ``fault``: the body's error at T.
    """
    place = None if fault.span is None else fault.span.text[:PLACE_TEXT_MAX]
    parts = []
    for object_id, change in changes.items():
        name = warehouse.relations.item(object_id).name.qualified()
        for relation, rows in ((name, change.inserts), (f"deletes({name})", change.deletes)):
            parts.append(
                as_quarantined(
                    rows,
                    rows.columns,
                    at=at,
                    relation=relation,
                    constraint_name=F.lit(None),
                    reason=F.lit(_reason(fault.message, place)),
                    place=place,
                )
            )
    return union_all(*parts)


def _reason(message: str, place: str | None) -> str:
    """The text of a body's error, with what to type in the body if the text does not name it.

    >>> tolerate = "Use `try_cast` to tolerate malformed input and return NULL instead"
    >>> _reason(f"the value 'a' is malformed. {tolerate}", "CAST(v AS INT)")
    "the value 'a' is malformed; to get NULL instead, type try_CAST(v AS INT)"
    >>> _reason("division by zero. Use `try_divide` to tolerate divisor being 0", "a / 0")
    'division by zero. Use `try_divide` to tolerate divisor being 0'
    >>> _reason("a row is too long", None)
    'a row is too long; to get NULL instead, type try_cast or the like'
    """
    if place is not None and _CAST.match(place):
        return f"{_TRY_CAST.sub('', message)}; to get NULL instead, type try_{place}"
    way = "to get NULL instead, type try_cast or the like"
    return message if "try_" in message else f"{message}; {way}"


def taken_over(
    warehouse: Warehouse, task: Item, read: Mapping[str, tuple[Item, int | None]], at: int
) -> tuple[DataFrame | None, DataFrame | None]:
    """The rows that a task's quarantine copies from another task's at a T, and its present rows.

    ``read``: the quarantine's version before T, by its id.
    """
    source = quarantine_copied(warehouse.catalog, task)
    if source is None:
        return None, None
    sources = StoredSources(warehouse, outputs=read)
    return sources.contents(source.id, at), sources.stored_rows(task.quarantine or "")
