"""The Ts that pending commits count with."""

from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.runtime.log.actions import RowChange
from ctsql.runtime.monitoring.status import follow_times


@pytest.mark.parametrize(
    ("times", "found"),
    [([101, 102, 102], [101, 102, 103]), ([7, 8, 9], [101, 102, 103]), ([99, 105], [101, 105])],
)
def test_each_commit_without_a_t_has_one_of_its_own(times: list[int], found: list[int]) -> None:
    """As it would get now, also where the newest T is later than all of them."""
    commits = [SimpleNamespace(version=v, time_ms=t) for v, t in enumerate(times)]
    versions = SimpleNamespace(
        version_changes=lambda *_, **__: [], change_of=lambda *_: RowChange.APPEND
    )
    relations = SimpleNamespace(table=lambda _: None)
    engine: Any = SimpleNamespace(
        timeline=SimpleNamespace(now=100, unbound=lambda *_: commits),
        warehouse=SimpleNamespace(versions=versions, relations=relations),
    )
    source: Any = SimpleNamespace(id="s", name=SimpleNamespace(qualified=lambda: "s"))
    assert list(follow_times(engine, source, 50, frozenset(RowChange), None)) == found
