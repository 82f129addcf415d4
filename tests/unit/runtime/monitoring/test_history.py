"""Commits of an output between bounds: which are found, and how many are read; no Spark."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache

import pytest
from hypothesis import given, strategies as st

from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.names import Name
from ctsql.catalog.times import CLOSED
from ctsql.runtime.log.actions import Commit, parse_commit
from ctsql.runtime.monitoring.history import commits_back, first_within
from ctsql.runtime.monitoring.refreshes import OutputOf, refresh_of
from ctsql.runtime.monitoring.row_request import Bounds, Comparison, Newest, RowRequest, request_of

APP = "ctsql:m"
VIEW = Item(id="m", kind=ObjectKind.MATERIALIZED_VIEW, name=Name("default", "m"), columns=())
TASK = Item(id="m", kind=ObjectKind.CONTINUAL_TASK, name=Name("default", "m"), columns=())


def made(
    version: int,
    at: int,
    upper: int | None,
    metadata: dict[str, object] | None = None,
    *more: object,
) -> Commit:
    info = {"inCommitTimestamp": at, "userMetadata": json.dumps(metadata or {})}
    actions: list[object] = [{"commitInfo": info}, *more]
    if upper is not None:
        actions.append({"txn": {"appId": APP, "version": upper}})
    return parse_commit(version, "\n".join(json.dumps(a) for a in actions), modified_ms=0)


class Log:
    """The log of a table; the first versions may have been cleaned up."""

    location = "memory"

    def __init__(self, commits: Sequence[Commit], first: int = 0) -> None:
        self.commits, self.first = commits, first
        self.read: set[int] = set()

    @property
    def log_files(self) -> "Log":
        return self

    def may_mention(self, version: int, words: Sequence[str]) -> bool:
        commit = self.commits[version]
        return any(w in f"{commit.domains} {commit.user_metadata}" for w in words)

    def version(self) -> int:
        return len(self.commits) - 1

    def has(self, version: int) -> bool:
        return self.first <= version < len(self.commits)

    def find_commit(self, version: int) -> Commit | None:
        return self.commit_at(version) if self.has(version) else None

    def commit_at(self, version: int) -> Commit:
        assert self.has(version)
        self.read.add(version)
        return self.commits[version]


ANY = Bounds()


def found(log: Log, t: Bounds = ANY, at: Bounds = ANY) -> list[int]:
    return [c.version for c in commits_back(log, APP, t, at)]  # type: ignore[arg-type]


@cache
def _long() -> list[Commit]:
    return [made(v, 1_000 * v, 1_000 * v - 99 if v % 7 else None) for v in range(10_000)]


def test_few_commits_are_read_for_few() -> None:
    """A range in the middle of ten thousand commits costs its own length and two halvings."""
    log = Log(_long())
    assert found(log, Bounds(5_000_000, 5_003_000)) == [5_003, 5_002, 5_001]
    assert len(log.read) < 30
    log = Log(_long())
    assert found(log, at=Bounds(2_000_000_000, 2_001_000_000)) == [2_001, 2_000]
    assert len(log.read) < 30
    log = Log(_long())
    newest = commits_back(log, APP, Bounds(), Bounds())  # type: ignore[arg-type]
    assert [next(newest).version for _ in range(3)] == [9_999, 9_998, 9_997]
    assert len(log.read) == 3
    assert found(Log(_long(), first=9_000), Bounds(upper=1_000_000)) == []


@given(
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=30),
    first=st.integers(0, 10),
    bounds=st.tuples(*(st.none() | st.integers(-2, 60) for _ in range(4))),
)
def test_nothing_of_a_range_is_missed(
    steps: list[tuple[int, int, bool]], first: int, bounds: tuple[int | None, ...]
) -> None:
    """What commits_back gives holds every commit of the range that the log still has, in order."""
    commits, at, upper = [], 0, 1
    for version, (later, higher, moves) in enumerate(steps):
        at, upper = at + later, upper + higher + 1
        commits.append(made(version, at, upper if moves else None))
    t, instants = Bounds(*bounds[:2]), Bounds(*bounds[2:])
    micro = Bounds(*(None if b is None else b * 1_000 for b in bounds[2:]))
    log = Log(commits, first)
    got = found(log, t, micro)
    assert got == sorted(got, reverse=True)
    wanted_ = {
        c.version
        for c in commits[first:]
        if (u := c.transaction(APP)) is not None and t.holds(u - 1) and instants.holds(c.time_ms)
    }
    assert wanted_ <= set(got)
    assert not wanted_ or first_within(log, APP, t, micro) <= min(wanted_)  # type: ignore[arg-type]


ADD = {"add": {"path": "a", "size": 10, "dataChange": True, "stats": '{"numRecords": 4}'}}
WORK = {"ms": 1500, "jobs": 2, "rows_read": 7, "bytes_read": 70}

ROWS = [
    (VIEW, 6, {"strategy": "incremental", "changed": ["t"], "work": WORK, "phases": {"compute": 9},
               "process": "h:1"},
     {"t": 5, "strategy": "incremental", "changed": ("t",), "seconds": 1.5, "jobs": 2,
      "rows_inserted": 4, "bytes_written": 10, "phases": {"compute": 0.009}, "process": "h:1",
      "delay_seconds": 0.995, "at": datetime.fromtimestamp(1, UTC)}),
    (VIEW, 6, {"failed": True}, {"strategy": "the query failed"}),
    (VIEW, CLOSED, {"finished": True}, {"strategy": "finished", "t": None, "delay_seconds": None}),
    (VIEW, 6, {"lower": 2}, {"strategy": "unknown"}),
    (TASK, 6, {}, {"strategy": "run", "seconds": None, "jobs": None, "times": 1}),
    (TASK, 6, {"shared_by": [3, 5]}, {"strategy": "several runs", "times": 2}),
    (TASK, 6, {"skipped": [5], "reason": "x"}, {"strategy": "skipped", "detail": "x"}),
]  # fmt: skip


@pytest.mark.parametrize(("item", "upper", "metadata", "expected"), ROWS)
def test_a_commit_as_a_row(
    item: Item, upper: int, metadata: dict[str, object], expected: dict[str, object]
) -> None:
    """A row has what the commit says, and NULL for what an old commit does not say."""
    row = refresh_of(OutputOf(item, item), made(3, 1_000, upper, metadata, ADD))
    assert row is not None
    assert {name: getattr(row, name) for name in expected} == expected


def test_a_compaction_is_no_refresh() -> None:
    assert refresh_of(OutputOf(VIEW, VIEW), made(3, 1_000, None)) is None


COMPARED = [
    ([("object", "=", ("a",)), ("object", "in", ("a", "b"))], RowRequest(frozenset("a"))),
    ([("t", ">", (3,)), ("t", "<=", (9,))], RowRequest(t=Bounds(4, 9))),
    ([("t", "=", (3,))], RowRequest(t=Bounds(3, 3))),
    ([("at", ">=", (5,)), ("at", "<", (8,))], RowRequest(at=Bounds(5, 7))),
    ([("state", "=", ("open",))], RowRequest(states=frozenset({"open"}))),
    ([("rows_read", ">", (3,)), ("t", "<", (9,))], RowRequest(t=Bounds(None, 8))),
    ([("object", ">", ("a",))], RowRequest()),
]


@pytest.mark.parametrize(("comparisons", "expected"), COMPARED)
def test_comparisons_make_ranges(
    comparisons: list[tuple[str, str, tuple[int | str, ...]]], expected: RowRequest
) -> None:
    """Comparisons that can be used make the range smaller, and others leave it."""
    assert request_of(Comparison(*c) for c in comparisons) == expected


def test_a_limit_stays_only_where_the_range_is_exact() -> None:
    newest = Newest(3, "t")
    assert request_of([Comparison("t", ">", (3,))], newest).newest == newest
    assert request_of([Comparison("version", ">", (3,))], newest).newest is None


def test_a_hull_holds_both() -> None:
    """What two places of a query ask for is asked for together, without a limit."""
    one = RowRequest(frozenset("a"), t=Bounds(1, 3), newest=Newest(1, "t"))
    other = RowRequest(frozenset("b"), t=Bounds(5, 9), at=Bounds(1))
    assert one.hull(other) == RowRequest(frozenset("ab"), t=Bounds(1, 9))
    assert one.hull(RowRequest()) == RowRequest()
