"""The uppers of an output: what is found of a log, and how many commits that takes."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ctsql.catalog.errors import CtsqlError, error
from ctsql.runtime.log.actions import Commit, parse_commit
from ctsql.runtime.log.uppers import Entry, Uppers

APP = "app"


class Log:
    """The log of a table whose commits move an upper, or do not (None); the first ones are gone."""

    def __init__(self, uppers: list[int | None], *, oldest: int = 0) -> None:
        self.uppers = uppers
        self.oldest = oldest
        self.location = "a log"
        self.commits: dict[int, Commit] = {}
        self.commits_read = 0

    def version(self) -> int:
        """The newest one."""
        return len(self.uppers) - 1

    def has(self, version: int) -> bool:
        """Whether it is there."""
        return self.oldest <= version < len(self.uppers)

    def commit_at(self, version: int) -> Commit:
        """A commit, which may be gone; one that was read before is known for ever."""
        if version in self.commits:
            return self.commits[version]
        if not self.has(version):
            raise error("HISTORY_LOST", relation="a log", detail=f"{version}", hint="")
        self.commits_read += 1
        upper = self.uppers[version]
        action: dict[str, Any] = {"commitInfo": {}}
        if upper is not None:
            action = {"txn": {"appId": APP, "version": upper}}
        commit = parse_commit(version, json.dumps(action), modified_ms=version)
        self.commits[version] = commit
        return commit

    def application_version(self, app: str) -> int | None:
        """The newest upper."""
        assert app == APP
        return max((u for u in self.uppers if u is not None), default=None)

    def domains(self) -> tuple[int, dict[str, str]]:
        """None."""
        return self.version(), {}


def _followed(log: Log) -> Uppers:
    uppers = Uppers(log, APP, since=-1)  # type: ignore[arg-type]
    uppers.follow(log.version())
    return uppers


def _around(uppers: Uppers, upper: int) -> list[Entry] | str:
    try:
        return uppers.around(upper)
    except CtsqlError as problem:
        return problem.condition


def _begin_of_all(log: Log, upper: int) -> list[Entry] | str:
    """The same, of all entries since then, by one who has read nothing."""
    try:
        entries = _followed(Log(log.uppers, oldest=log.oldest)).since(upper)
    except CtsqlError as problem:
        return problem.condition
    return entries[: 2 if entries and entries[0].upper <= upper else 1]


@given(
    steps=st.lists(st.one_of(st.none(), st.integers(1, 3)), min_size=1, max_size=40),
    oldest=st.integers(0, 40),
    upper=st.integers(0, 90),
    read_upper=st.integers(0, 90),
)
def test_around_is_how_since_begins(
    steps: list[int | None], oldest: int, upper: int, read_upper: int
) -> None:
    """Whatever was read before, and whatever is gone."""
    log = Log(_moves(steps), oldest=min(oldest, len(steps) - 1))
    uppers = _followed(log)
    assert _around(uppers, upper) == _begin_of_all(log, upper)
    with suppress(CtsqlError):
        uppers.since(read_upper)
    assert _around(uppers, upper) in (_begin_of_all(log, upper), _known(log, upper))


@given(
    steps=st.lists(st.one_of(st.none(), st.integers(1, 3)), min_size=1, max_size=40),
    oldest=st.integers(0, 40),
    read_uppers=st.lists(st.integers(0, 90), min_size=1, max_size=3),
    upper=st.integers(0, 90),
)
def test_a_log_may_be_cleaned_up_meanwhile(
    steps: list[int | None], oldest: int, read_uppers: list[int], upper: int
) -> None:
    """What is known of single commits below tells nothing of those between."""
    log = Log(_moves(steps))
    uppers = _followed(log)
    for one in read_uppers:
        _around(uppers, one)
    log.oldest = min(oldest, len(steps) - 1)
    assert _around(uppers, upper) in (_begin_of_all(log, upper), _known(log, upper))


def test_what_is_cached_of_a_lost_log_tells_nothing() -> None:
    """A search has left single commits that are far apart."""
    log = Log([*range(1, 1_001)])
    uppers = _followed(log)
    assert [e.upper for e in uppers.around(300)] == [300, 301]
    log.oldest = 900
    for upper in range(1, 899, 23):
        assert _around(uppers, upper) in ("HISTORY_LOST", _known(log, upper))
    assert _around(uppers, 600) == "HISTORY_LOST"


def _moves(steps: list[int | None]) -> list[int | None]:
    total, moves = 0, list[int | None]()
    for step in steps:
        total += step or 0
        moves.append(total if step else None)
    return moves


def _known(log: Log, upper: int) -> list[Entry] | str:
    """The answer by the whole log, which commits that were read before may still tell."""
    return _begin_of_all(Log(log.uppers), upper)


@pytest.mark.parametrize(
    ("uppers", "oldest", "asked", "most"),
    [
        *(([*range(1, 10_001)], 0, upper, 40) for upper in (1, 2, 5_000, 9_998)),
        ([*range(1, 10_001)], 9_000, 9_500, 60),  # a log that is cleaned up
        ([1, *[None] * 9_000, 2, *[None] * 50, 3], 0, 2, 200),  # compacted often, written seldom
    ],
)
def test_few_commits_are_read(uppers: list[int | None], oldest: int, asked: int, most: int) -> None:
    """However long ago it was; that history is lost is told as fast."""
    log = Log(uppers, oldest=oldest)
    found = _followed(log)
    if oldest:
        assert _around(found, oldest - 1_000) == "HISTORY_LOST"
    assert [e.upper for e in found.around(asked)] == [asked, asked + 1]
    assert log.commits_read < most
