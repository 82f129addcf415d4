"""One row for each commit that advanced a task or a materialized view to a T."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import merge
from typing import Any

from ctsql.catalog.dependencies import outputs_or_itself, tasks_and_views
from ctsql.catalog.items import Item, Task
from ctsql.catalog.times import CLOSED
from ctsql.runtime.log.actions import Commit, rows_changed
from ctsql.runtime.log.uppers import SHARED_BY
from ctsql.runtime.log.write_handle import PHASES, PROCESS
from ctsql.runtime.log_reader import LogReader
from ctsql.runtime.views.refresh_policy import EXPIRIES_BY, Strategy
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
    changed_rows: int | None
    expected_seconds: float | None
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


def refreshes(reader: LogReader, items: Iterable[Item]) -> Iterator[Refresh]:
    """The commits of tasks and views, the newest first, by the cached catalog.

    Each log is read backwards as far as the caller takes rows.
    """
    by_output = [_of_output(reader, *both) for both in _outputs(reader, items)]
    return merge(*by_output, key=lambda refresh: refresh.at, reverse=True)


def _outputs(reader: LogReader, items: Iterable[Item]) -> list[tuple[Item, Item]]:
    """The outputs of some tasks and views, without missing tables, in order of name."""
    outputs = [
        (i, output)
        for i in tasks_and_views(items)
        for output in outputs_or_itself(reader.catalog, i)
    ]
    return [both for both in outputs if are_there(reader.relations, [both[1]])]


def _of_output(reader: LogReader, item: Item, output: Item) -> Iterator[Refresh]:
    table = reader.relations.table(output)
    version = table.version()
    while (commit := table.find_commit(version)) is not None:
        refresh = refresh_of(item, output, commit)
        if refresh is not None:
            yield refresh
        version -= 1


def _detail_of(metadata: Mapping[str, Any]) -> str | None:
    """Details of a commit: of its reason, or of its expiry."""
    detail: str | None = metadata.get("detail") or (
        metadata.get("reason") if "skipped" in metadata else None
    )
    return (
        detail
        or "; ".join(f"{n}: {how}" for n, how in metadata.get(EXPIRIES_BY, {}).items())
        or None
    )


def refresh_of(item: Item, output: Item, commit: Commit) -> Refresh | None:
    """The row of a commit; None if it moves no upper, as a compaction."""
    upper = commit.transaction(output.app)
    if upper is None:
        return None
    metadata = commit.metadata
    work: Mapping[str, Any] = metadata.get(WORK) or {}
    estimates: Mapping[str, int] = metadata.get("estimates") or {}
    phases: Mapping[str, int] = metadata.get(PHASES) or {}
    t = None if upper == CLOSED else upper - 1
    insert_count, delete_count = rows_changed(commit)
    removed_paths = {r.path for r in commit.removes}
    new_files = [a for a in commit.adds if a.data_change and a.path not in removed_paths]
    return Refresh(
        object=str(item.name),
        output=str(output.name),
        kind=item.kind.value,
        t=t,
        at=datetime.fromtimestamp(commit.time_ms / 1000, UTC),
        version=commit.version,
        strategy=_strategy(item, commit),
        reason=metadata.get("why"),
        detail=_detail_of(metadata),
        changed=tuple(metadata.get("changed", ())),
        changed_rows=estimates.get("changed_rows"),
        expected_seconds=_seconds(estimates.get("recompute_ms")),
        rows_inserted=insert_count,
        rows_deleted=delete_count,
        files_written=len(new_files),
        bytes_written=sum(a.size for a in new_files),
        rows_read=work.get("rows_read"),
        bytes_read=work.get("bytes_read"),
        jobs=work.get("jobs"),
        seconds=_seconds(work.get("ms")),
        phases={name: ms / 1000 for name, ms in phases.items()},
        delay_seconds=_seconds(None if t is None else commit.time_ms - t),
        times=max(len(metadata.get(SHARED_BY, ())), 1),
        process=metadata.get(PROCESS),
    )


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def _strategy(item: Item, commit: Commit) -> str:
    """How a commit advanced its output to T, in words."""
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
    if isinstance(item, Task):
        return "several runs" if SHARED_BY in metadata else "run"
    return "unknown"
