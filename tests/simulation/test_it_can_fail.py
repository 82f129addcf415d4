"""The simulation is seen to fail: each mutation of the engine is caught within a few seeds."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.committing import Commits
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import Conflict
from ctsql.runtime.sinks import ct
from ctsql.runtime.timeline import Timeline
from ctsql.runtime.uppers import Uppers
from ctsql.runtime.write_handle import Attempt, Output
from tests.simulation.memory_log import MemoryTransaction
from tests.simulation.simulation import replay

SEEDS_MAX = 400


def _any_upper(output: Output, expected: int) -> Attempt:
    txn = output.table.begin()
    output.follow(txn.version_read)
    return Attempt(output, txn, expected)


def _deletes(commits: Any, problem: Exception, commit: Any) -> int | None:
    commits._unresolved.remove(commit)
    if isinstance(problem, Conflict):
        return None
    raise problem


def _retries(commits: Any, problem: Exception, commit: Any) -> int | None:
    commits._unresolved.remove(commit)
    return None


def _believes_a_failed_look(real: Callable[..., None]) -> Callable[..., None]:
    def follow(uppers: Any, version: int) -> None:
        try:
            real(uppers, version)
        except CtsqlError:
            uppers._looked_to = version
            raise

    return follow


def _skips_first(real: Callable[..., Any]) -> Callable[..., Any]:
    def movements(sink: Any, *, after: int, until: int) -> Any:
        found = real(sink, after=after, until=until)
        return found[1:] if len(found) > 2 else found

    return movements


MUTATIONS: dict[str, tuple[object, str, object]] = {
    "the expected upper is ignored": (MemoryTransaction, "read_application", lambda *_: None),
    "an attempt is opened at any upper": (Output, "open", _any_upper),
    "files are deleted after a lost answer": (Commits, "_after_failure", _deletes),
    "a lost answer is retried blindly": (Commits, "_after_failure", _retries),
    "a failed look is taken for a look": (
        Uppers,
        "follow",
        _believes_a_failed_look(Uppers.follow),
    ),
    "a mint tells an older T": (Timeline, "mint", lambda self, *_, **__: self.refresh()),
    "a due time is skipped": (ct.TaskSink, "_movements", _skips_first(ct.TaskSink._movements)),
    "lost files are kept": (Attempt, "discard", lambda attempt: attempt.release()),
    "what a read depends on is not brought up": (
        Engine,
        "advance",
        lambda *_: None,
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation_is_caught(name: str) -> None:
    """A run of some seed says what is wrong."""
    owner, attribute, mutant = MUTATIONS[name]
    with mock.patch.object(owner, attribute, mutant):
        for seed in range(SEEDS_MAX):
            try:
                replay(seed)
            except (AssertionError, CtsqlError):
                return
    pytest.fail(f"{SEEDS_MAX} seeds did not notice that {name}")
