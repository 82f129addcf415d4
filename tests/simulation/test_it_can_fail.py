"""The simulation is seen to fail: each mutation of the engine is caught within a few seeds.

The mutations above the line are mistakes one could make; those below it are defects that the
simulation found, put back as they were.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from ctsql.catalog.dependencies import outputs_of
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import ObjectKind
from ctsql.catalog.times import CLOSED
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import table_changes as version_changes
from ctsql.runtime.log.actions import RowChange
from ctsql.runtime.log.failures import Failure
from ctsql.runtime.log.protocol import Conflict
from ctsql.runtime.log.uppers import Uppers
from ctsql.runtime.log.write_handle import Commits, Committed, Output, OutputBatch
from ctsql.runtime.statements.objects import refresh_view
from ctsql.runtime.tasks import progress, runs, sink as ct
from ctsql.runtime.tasks.multi_output import OutputBatches
from ctsql.runtime.views.refresh import ViewRefresh
from ctsql.runtime.views.sink import ViewSink
from ctsql.runtime.warehouse.advance_context import AdvanceContext
from ctsql.runtime.warehouse.times.timeline import Timeline
from ctsql.runtime.warehouse.versions import Versions
from tests.simulation.memory_log import MemoryTransaction
from tests.simulation.mistakes import NOTICED, check_noticed
from tests.simulation.simulation import replay

pytestmark = pytest.mark.thorough

SEEDS_MAX = 400
FIRST = {
    "rows that are back after an error are no change": 1_890,
    "a full refresh binds a T after bringing up what it reads": 1_670,
    "a failed look at older bindings passes over them": 262,
    "the state of a cleaned log may be of a later version": 855,
    "one output that holds T is enough to read all": 82,
    "the error of a view below is another one at each T": 250,
    "rows under an error are counted": 380,
    "an output that holds T is read as it is": 400,
    "the timeline is looked at twice": 130,
    "a failed look is taken for a look": 38,
    "a shared commit is a change at its last T": 39,
}
"""The seed to begin with, where the first to notice is far off."""


def _any_upper(output: Output, expected: int) -> OutputBatch:
    txn = output.table.begin()
    output.follow(txn.version_read)
    return output.begin_batch(txn, expected, CLOSED, is_pinned=True)


def _deletes(commits: Any, problem: Exception, commit: Any) -> int | None:
    commits.unresolved_commits.remove(commit)
    if isinstance(problem, Conflict):
        return None
    raise problem


def _retries(commits: Any, problem: Exception, commit: Any) -> int | None:
    commits.unresolved_commits.remove(commit)
    return None


def _believes_a_failed_look(real: Callable[..., None]) -> Callable[..., None]:
    def follow(uppers: Any, version: int) -> None:
        try:
            real(uppers, version)
        except CtsqlError:
            uppers.newest_read = version
            raise

    return follow


def _looks_twice(real: Callable[..., int]) -> Callable[..., int]:
    def refresh(timeline: Any) -> int:
        timeline._output.fetch_recent_upper()
        with mock.patch.object(timeline._output, "follow", lambda version: version):
            return real(timeline)

    return refresh


def _passes_over(real: Callable[..., bool]) -> Callable[..., bool]:
    def take_older(timeline: Any) -> bool:
        try:
            return real(timeline)
        except CtsqlError:
            timeline._read_from -= 1
            raise

    return take_older


def _mints_after(engine: Any, item: Any, *, full: bool) -> None:
    until = engine.mint()
    engine.advance([engine.relations.item(r.object_id) for r in item.reads], until)
    if engine.relations.output(item).fetch_recent_upper() > until:
        until = engine.mint_fresh()
    ViewSink(engine.warehouse, item).advance(until, full=full)


def _takes_any_state(uppers: Any, version: int) -> None:
    uppers.oldest_read = version + 1
    uppers.scan_back(until_upper=None)
    uppers.newest_read = version


def _skips_first(real: Callable[..., Any]) -> Callable[..., Any]:
    def due_runs(warehouse: Any, item: Any, *, after: int, until: int) -> Any:
        found = sorted(real(warehouse, item, after=after, until=until), key=lambda r: r.time)
        return found[1:] if len(found) > 2 else found

    return due_runs


def _heals_unseen(real: Callable[..., RowChange]) -> Callable[..., RowChange]:
    def change_of(of: Any, item: Any, version_change: Any, columns: Any = None) -> RowChange:
        between = range(version_change.before + 1, version_change.version + 1)
        table = of._relations.table(item)
        found = real(of, item, version_change, columns)
        is_seen = found is RowChange.FAILED or any(table.commit_at(v).changes_data for v in between)
        return found if is_seen else RowChange.NONE

    return change_of


def _counts_under_errors(of: Any, item: Any, at: int) -> int | None:
    version = of.version_at(item, at)
    return 0 if version is None else of._relations.table(item).rows_count(version)  # type: ignore[no-any-return]


def _whole_commits(
    real: Callable[..., version_changes.StoredVersion],
) -> Callable[..., version_changes.StoredVersion]:
    return lambda entries, at: replace(real(entries, at), shared_version=None)


def _one_each(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda entries, **within: real([replace(e, times=()) for e in entries], **within)


def _lead_first(batches: Any, metadata: Any) -> Any:
    lead, others = batches.lead, batches.others
    batches.others = []
    outcome = _COMMIT(batches, metadata)
    for part in others:
        if part.has_rows and isinstance(outcome, Committed):
            batches.lead = part
            _COMMIT(batches, metadata)
    batches.lead, batches.others = lead, others
    return outcome


_COMMIT = OutputBatches.commit


def _as_it_is(real: Callable[..., Any]) -> Callable[..., Any]:
    def open_(warehouse: Any, task: Any, time: int, context: Any) -> Any:
        batches = real(warehouse, task, time, context)
        if batches is not None:
            for object_id, (item, _) in batches.read.items():
                newest = warehouse.relations.table(item).version()
                batches.read[object_id] = (item, newest)
        return batches

    return open_


def _complete_by_any(real: Callable[..., int]) -> Callable[..., int]:
    def complete(warehouse: Any, item: Any, through: int) -> int:
        if item.kind is not ObjectKind.TASK_OUTPUT:
            return real(warehouse, item, through)
        outputs = outputs_of(warehouse.catalog, warehouse.relations.item(item.owner))
        uppers = (warehouse.versions.stored_upper(o) for o in outputs)
        return max(real(warehouse, item, through), *(upper - 1 for upper in uppers))

    return complete


MUTATIONS: dict[str, tuple[object, str, object]] = {
    "the expected upper is ignored": (MemoryTransaction, "read_application", lambda *_: None),
    "a batch is opened at any upper": (Output, "open", _any_upper),
    "files are deleted after a lost answer": (Commits, "after_failure", _deletes),
    "a lost answer is retried blindly": (Commits, "after_failure", _retries),
    "a mint binds nothing": (Timeline, "mint", lambda self, *_, **__: self.refresh()),
    "a due time is skipped": (ct, "due_runs", _skips_first(runs.due_runs)),
    "lost files are kept": (OutputBatch, "discard", lambda batch: batch.release()),
    "what a read depends on is not brought up": (
        Engine,
        "advance",
        lambda *_, **__: None,
    ),
    "a commit is not reported": (AdvanceContext, "committed", lambda *_: None),
    "the output that leads is committed first": (OutputBatches, "commit", _lead_first),
    "an output that holds T is read as it is": (
        OutputBatches,
        "open",
        staticmethod(_as_it_is(OutputBatches.open)),
    ),
    "one output that holds T is enough to read all": (
        progress,
        "_complete_through",
        _complete_by_any(progress._complete_through),
    ),
    # ----
    "a failed look is taken for a look": (
        Uppers,
        "follow",
        _believes_a_failed_look(Uppers.follow),
    ),
    "the timeline is looked at twice": (Timeline, "refresh", _looks_twice(Timeline.refresh)),
    "a failed look at older bindings passes over them": (
        Timeline,
        "_load_older",
        _passes_over(Timeline._load_older),
    ),
    "a full refresh binds a T after bringing up what it reads": (
        refresh_view,
        "refresh_view",
        _mints_after,
    ),
    "the state of a cleaned log may be of a later version": (
        Uppers,
        "rescan",
        _takes_any_state,
    ),
    "rows that are back after an error are no change": (
        Versions,
        "change_of",
        _heals_unseen(Versions.change_of),
    ),
    "the error of a view below is another one at each T": (
        Failure,
        "is_like",
        lambda failure, other: failure.reason == other.reason,
    ),
    "rows under an error are counted": (Versions, "rows_count", _counts_under_errors),
    "the past in the middle of a shared commit is what was before it": (
        version_changes,
        "find_storage",
        _whole_commits(version_changes.find_storage),
    ),
    "a shared commit is a change at its last T": (
        version_changes,
        "version_changes",
        _one_each(version_changes.version_changes),
    ),
    "who follows does not ask for others' rows": (ViewRefresh, "has_foreign_rows", lambda _: False),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation_is_caught(name: str) -> None:
    """A run of some seed says what is wrong."""
    noticed = (*NOTICED, KeyError)  # the last: a file that is not there
    check_noticed(name, MUTATIONS[name], replay, SEEDS_MAX, FIRST.get(name, 0), noticed)
