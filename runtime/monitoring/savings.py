"""SHOW SAVINGS: what following changes cost, against what recomputing each time would have.

Every commit of an output says which versions of its tables it was made from, and the logs of these
say how many rows they held. A refresh that recomputed the view says how long that took, for how
many rows. So for a refresh that followed the changes:

    recomputing would have read   the rows of the versions that it was made from
    and would have taken          what recomputing took, times these rows by the rows of then

Of the recomputing that is known, the one of the most rows counts. It is scaled only where it had
:data:`SCALED_ROWS_MIN` rows or more and for more rows than that, since small tables cost what a
query costs at all. A view that was never recomputed for so many rows is given what its commits
hand on as the time of recomputing, which is less than the truth for tables that have grown.
Recomputing a task's output is nothing that anybody measured, so of a task there are rows alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.times import to_iso
from ctsql.runtime.log.actions import Commit, rows_changed, sum_known
from ctsql.runtime.log_reader import LogReader
from ctsql.runtime.monitoring.history import commits_back
from ctsql.runtime.monitoring.refreshes import WORK
from ctsql.runtime.monitoring.row_request import Bounds
from ctsql.runtime.views.refresh_policy import Costs, Strategy

if TYPE_CHECKING:
    from ctsql.runtime.delta.table import DeltaTable

SCALED_ROWS_MIN = 10_000
RECOMPUTE = Strategy.RECOMPUTE.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One refresh or run.

    Attributes:
        t: its T. strategy: None for a run of a task. seconds: what it took. rows_read: by it.
        rows_there: in all that it reads, as of T; None where statistics are missing.
        full_seconds: of recomputing, as its commit hands it on.
    """

    t: int
    strategy: str | None
    seconds: float
    rows_read: int
    rows_there: int | None
    full_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """What was saved of one object; the columns of SHOW SAVINGS, in their order.

    Attributes:
        refreshes: those whose cost is known. recomputed: how many of them recomputed.
        seconds: what all took. recomputing_seconds: what they would have taken; None if unknown.
        rows_read: by Spark's jobs. recomputing_rows: what these would have read.
        estimate: how the seconds of recomputing are known.
    """

    object: str
    kind: str
    refreshes: int
    recomputed: int
    seconds: float
    recomputing_seconds: float | None
    saved_seconds: float | None
    rows_read: int
    recomputing_rows: int | None
    estimate: str


COLUMNS = (
    ("object", "string"),
    ("kind", "string"),
    ("refreshes", "bigint"),
    ("recomputed", "bigint"),
    ("seconds", "double"),
    ("recomputing_seconds", "double"),
    ("saved_seconds", "double"),
    ("rows_read", "bigint"),
    ("recomputing_rows", "bigint"),
    ("estimate", "string"),
)


def summed(name: str, kind: str, steps: Sequence[Step]) -> Savings:
    """The savings over some refreshes, in any order. Pure."""
    recomputes = [s for s in steps if s.strategy == RECOMPUTE]
    best = max(recomputes, key=lambda s: (s.rows_there or 0, s.t), default=None)
    estimates = [s.seconds if s.strategy == RECOMPUTE else _estimate(s, best) for s in steps]
    figures = [e for e in estimates if e is not None]
    full = sum(figures) if steps and len(figures) == len(steps) else None
    seconds = sum(s.seconds for s in steps)
    return Savings(
        object=name,
        kind=kind,
        refreshes=len(steps),
        recomputed=len(recomputes),
        seconds=round(seconds, 3),
        recomputing_seconds=None if full is None else round(full, 3),
        saved_seconds=None if full is None else round(full - seconds, 3),
        rows_read=sum(s.rows_read for s in steps),
        recomputing_rows=sum_known(s.rows_there for s in steps),
        estimate=_how(steps, best, full),
    )


def _estimate(step: Step, best: Step | None) -> float | None:
    """The seconds that recomputing would have taken; None where nothing is known."""
    if step.strategy is None:
        return None
    if best is None or (best.rows_there or 0) < SCALED_ROWS_MIN:
        best_seconds = None if best is None else best.seconds
        return step.full_seconds if step.full_seconds is not None else best_seconds
    growth = (step.rows_there or 0) / (best.rows_there or 1)
    return best.seconds * max(growth, 1.0)


def _how(steps: Sequence[Step], best: Step | None, full: float | None) -> str:
    if not steps:
        return "no refresh whose cost is known"
    if full is None:
        is_task = any(s.strategy is None for s in steps)
        return "rows only: recomputing a task is not measured" if is_task else "never recomputed"
    if best is None or (best.rows_there or 0) < SCALED_ROWS_MIN:
        return "as recomputing was measured when the tables were small; not scaled, so at least"
    when = to_iso(best.t)
    return f"{best.seconds:.2f} s for {best.rows_there:,} rows at {when}, scaled by rows"


class _RowsThere:
    """The rows of a table at its versions: those now, without what later commits did."""

    def __init__(self, table: "DeltaTable") -> None:
        self._table = table
        self._oldest = table.version()
        files = table.files(self._oldest).values()
        self._counts: dict[int, int | None] = {self._oldest: sum_known(f.rows_count for f in files)}

    def at(self, version: int) -> int | None:
        """The rows at a version; None where statistics or commits are missing."""
        while self._oldest > version:
            count = self._counts[self._oldest]
            known = count is not None and self._table.has(self._oldest)
            insert_count, delete_count = (
                rows_changed(self._table.commit_at(self._oldest)) if known else (None, None)
            )
            missing = count is None or insert_count is None or delete_count is None
            self._oldest -= 1
            self._counts[self._oldest] = (
                None if missing else (count or 0) - (insert_count or 0) + (delete_count or 0)
            )
        return self._counts.get(version)


def savings(reader: LogReader, items: Sequence[Item], since: int | None) -> list[Savings]:
    """The savings of some tasks and views since a T (inclusive), by the cached catalog.

    Raises:
        NeedsSpark: a table has too many files for its log alone to list them.
    """
    tables: dict[str, _RowsThere] = {}
    all_savings = []
    for item in items:
        lead = reader.relations.lead(item)
        table = reader.relations.table(item)
        steps = []
        for commit in commits_back(table, lead.app, Bounds(since), Bounds()):
            step = _step(reader, item, lead, commit, tables)
            if step is not None:
                steps.append(step)
        all_savings.append(summed(str(item.name), item.kind.value, steps))
    return all_savings


def _step(
    reader: LogReader, item: Item, lead: Item, commit: Commit, tables: dict[str, _RowsThere]
) -> Step | None:
    """A commit as a step; None for one that does not say what it took."""
    upper, metadata = commit.transaction(lead.app), commit.metadata
    work: Mapping[str, Any] = metadata.get(WORK) or {}
    if upper is None or "ms" not in work:
        return None
    strategy = metadata.get("strategy") if item.kind is ObjectKind.MATERIALIZED_VIEW else None
    full_ms = Costs.of(metadata.get("costs")).full_ms
    return Step(
        t=upper - 1,
        strategy=strategy,
        seconds=work["ms"] / 1000,
        rows_read=int(work.get("rows_read", 0)),
        rows_there=_rows_there(reader, metadata.get("bindings") or {}, tables),
        full_seconds=None if full_ms is None else full_ms / 1000,
    )


def _rows_there(
    reader: LogReader, bindings: Mapping[str, int | None], tables: dict[str, _RowsThere]
) -> int | None:
    counts: list[int | None] = []
    for object_id, version in bindings.items():
        item = reader.catalog.items.get(object_id)
        if item is None or item.location is None:
            return None  # it was dropped
        if version is None:
            continue  # it held nothing yet
        if object_id not in tables:
            tables[object_id] = _RowsThere(reader.relations.table(item))
        counts.append(tables[object_id].at(version))
    return sum_known(counts)
