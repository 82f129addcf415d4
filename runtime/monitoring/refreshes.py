"""One row for each commit that brought a task or a materialized view to a T."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import merge
from itertools import chain, islice
from typing import Any

from ctsql.catalog.items import Item, ObjectKind, tasks_and_views
from ctsql.catalog.times import CLOSED
from ctsql.runtime.log.actions import Commit, rows_changed
from ctsql.runtime.log.data_files import DataFile
from ctsql.runtime.log.phases import PHASES
from ctsql.runtime.log.process import PROCESS
from ctsql.runtime.log.uppers import SHARED_BY
from ctsql.runtime.log_reader import LogReader
from ctsql.runtime.monitoring.history import commits_back
from ctsql.runtime.monitoring.row_request import ALL, Bounds, RowRequest
from ctsql.runtime.views.refresh_policy import TURNS_BY, Strategy
from ctsql.runtime.warehouse.table_checks import are_there

WORK = "work"
"""Key in the metadata of a commit: :class:`ctsql.runtime.spark.job_metrics.Work` as values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    """A commit; the columns of ``system.refreshes``, in their order."""

    object: str
    output: str
    kind: str
    t: int | None
    at: datetime
    version: int
    strategy: str
    reason: str | None
    detail: str | None
    changed: tuple[str, ...]
    rows_inserted: int | None
    rows_deleted: int | None
    files_written: int
    bytes_written: int
    rows_read: int | None
    bytes_read: int | None
    jobs: int | None
    seconds: float | None
    phases: Mapping[str, float]
    delay_seconds: float | None
    times: int
    process: str | None


@dataclass(frozen=True, slots=True)
class OutputOf:
    """An output, and the task or view whose it is."""

    item: Item
    output: Item


def outputs(reader: LogReader, request: RowRequest) -> list[OutputOf]:
    """The outputs of the tasks and views that are asked for and are there, in order of name."""
    catalog = reader.catalog
    items = [i for i in tasks_and_views(catalog) if request.has(str(i.name))]
    all_outputs = [OutputOf(i, output) for i in items for output in catalog.outputs_of(i) or [i]]
    return [one for one in all_outputs if are_there(reader.relations, [one.output])]


def refreshes(reader: LogReader, request: RowRequest) -> Iterator[Refresh]:
    """The commits that are asked for, by the cached catalog; the newest first where few are."""
    each = [_of_output(reader, one, request) for one in outputs(reader, request)]
    if request.newest is None:
        return chain.from_iterable(each)
    by, count = request.newest.column, request.newest.count
    if by == "at":
        return islice(merge(*each, key=lambda r: r.at, reverse=True), count)
    # The commit that closes an output is its last one, and has no T.
    closing: list[Refresh] = []
    rows = merge(*(_with_time(one, closing) for one in each), key=lambda r: r.t or 0, reverse=True)
    return islice(chain(rows, closing), count)


def _with_time(refreshes_of_output: Iterator[Refresh], closing: list[Refresh]) -> Iterator[Refresh]:
    for one in refreshes_of_output:
        if one.t is None:
            closing.append(one)
        else:
            yield one


def _of_output(reader: LogReader, one: OutputOf, request: RowRequest) -> Iterator[Refresh]:
    table = reader.relations.table(one.output)
    for commit in commits_back(table, one.output.app, request.t, request.at):
        refresh = refresh_of(one, commit, request)
        if refresh is not None and _is_within(refresh.t, request.t):
            yield refresh


def _is_within(t: int | None, bounds: Bounds) -> bool:
    return bounds == Bounds() if t is None else bounds.holds(t)


def _detail_of(metadata: Mapping[str, Any]) -> str | None:
    """What a commit says in addition: of its reason, or of how rows that turn were found."""
    detail: str | None = metadata.get("detail") or (
        metadata.get("reason") if "skipped" in metadata else None
    )
    return (
        detail or "; ".join(f"{n}: {how}" for n, how in metadata.get(TURNS_BY, {}).items()) or None
    )


def refresh_of(one: OutputOf, commit: Commit, request: RowRequest = ALL) -> Refresh | None:
    """The row of a commit; None for one that moves no upper, as of a compaction.

    What takes the longest is left out of columns that nobody looks at.
    """
    upper = commit.transaction(one.output.app)
    if upper is None:
        return None
    metadata = commit.metadata
    work: Mapping[str, Any] = metadata.get(WORK) or {}
    phases = (metadata.get(PHASES) or {}) if request.looks_at("phases") else {}
    t = None if upper == CLOSED else upper - 1
    looks_at = request.looks_at
    counts = looks_at("rows_inserted") or looks_at("rows_deleted")
    insert_count, delete_count = rows_changed(commit) if counts else (None, None)
    new_files: list[DataFile] = []
    if looks_at("files_written") or looks_at("bytes_written"):
        removed_paths = {r.path for r in commit.removes}
        new_files = [a for a in commit.adds if a.data_change and a.path not in removed_paths]
    return Refresh(
        object=str(one.item.name),
        output=str(one.output.name),
        kind=one.item.kind.value,
        t=t,
        at=datetime.fromtimestamp(commit.time_ms / 1000, UTC),
        version=commit.version,
        strategy=_strategy(one.item, commit) if looks_at("strategy") else "",
        reason=metadata.get("why"),
        detail=_detail_of(metadata) if looks_at("detail") else None,
        changed=tuple(metadata.get("changed", ())),
        rows_inserted=insert_count,
        rows_deleted=delete_count,
        files_written=len(new_files),
        bytes_written=sum(a.size for a in new_files),
        rows_read=work.get("rows_read"),
        bytes_read=work.get("bytes_read"),
        jobs=work.get("jobs"),
        seconds=None if "ms" not in work else work["ms"] / 1000,
        phases={name: ms / 1000 for name, ms in phases.items()},
        delay_seconds=None if t is None else (commit.time_ms - t) / 1000,
        times=max(len(metadata.get(SHARED_BY, ())), 1),
        process=metadata.get(PROCESS),
    )


def _strategy(item: Item, commit: Commit) -> str:
    """How a commit brought its output to T, in words."""
    metadata = commit.metadata
    if "strategy" in metadata:
        return str(metadata["strategy"])
    if metadata.get("failed"):
        return "the query failed"
    if metadata.get("finished"):
        return "finished"
    if "skipped" in metadata:
        return "skipped"
    if not commit.changes_data:
        return Strategy.NO_CHANGE.value
    if item.kind is ObjectKind.CONTINUAL_TASK:
        return "several runs" if SHARED_BY in metadata else "run"
    return "unknown"
