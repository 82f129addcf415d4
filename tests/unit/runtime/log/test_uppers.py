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

    def __init__(self, uppers: list[int | None], *, gone: int = 0) -> None:
        self.uppers = uppers
        self.gone = gone
        self.location = "a log"
        self.commits_read = 0

    def version(self) -> int:
        """The newest one."""
        return len(self.uppers) - 1

    def has(self, version: int) -> bool:
        """Whether it is there."""
        return self.gone <= version < len(self.uppers)

    def commit_at(self, version: int) -> Commit:
        """A commit, which may be gone."""
        if not self.has(version):
            raise error("HISTORY_LOST", relation="a log", detail=f"{version}", hint="")
        self.commits_read += 1
        upper = self.uppers[version]
        action: dict[str, Any] = {"commitInfo": {}}
        if upper is not None:
            action = {"txn": {"appId": APP, "version": upper}}
        return parse_commit(version, json.dumps(action), modified_ms=version)

    def application_version(self, app: str) -> int | None:
        """The newest upper."""
        assert app == APP
        return max((u for u in self.uppers if u is not None), default=None)

    def domains(self) -> tuple[int, dict[str, str]]:
        """None."""
        return self.version(), {}


def _followed(log: Log) -> Uppers:
    uppers = Uppers(log, APP, shared=False, since=-1)  # type: ignore[arg-type]
    uppers.follow(log.version())
    return uppers


def _around(uppers: Uppers, upper: int) -> list[Entry] | str:
    try:
        return uppers.around(upper)
    except CtsqlError as problem:
        return problem.condition


def _begin_of_all(log: Log, upper: int) -> list[Entry] | str:
    """The same, of all entries since then."""
    try:
        entries = _followed(log).since(upper)
    except CtsqlError as problem:
        return problem.condition
    return entries[: 2 if entries and entries[0].upper <= upper else 1]


@given(
    steps=st.lists(st.one_of(st.none(), st.integers(1, 3)), min_size=1, max_size=40),
    gone=st.integers(0, 40),
    upper=st.integers(0, 90),
    seen=st.integers(0, 90),
)
def test_around_is_how_since_begins(
    steps: list[int | None], gone: int, upper: int, seen: int
) -> None:
    """Whatever was read before, and whatever is gone."""
    total, moves = 0, list[int | None]()
    for step in steps:
        total += step or 0
        moves.append(total if step else None)
    log = Log(moves, gone=min(gone, len(moves) - 1))
    uppers = _followed(log)
    assert _around(uppers, upper) == _begin_of_all(log, upper)
    with suppress(CtsqlError):
        uppers.since(seen)
    assert _around(uppers, upper) == _begin_of_all(log, upper)


@pytest.mark.parametrize("upper", [1, 2, 5_000, 9_998])
def test_few_commits_are_read_of_a_long_log(upper: int) -> None:
    """However long ago it was."""
    log = Log([*range(1, 10_001)])
    uppers = _followed(log)
    assert [e.upper for e in uppers.around(upper)] == [upper, upper + 1]
    assert log.commits_read < 40


def test_few_commits_are_read_of_a_log_that_is_cleaned_up() -> None:
    """Which is told, as it is where all are read."""
    log = Log([*range(1, 10_001)], gone=9_000)
    uppers = _followed(log)
    with pytest.raises(CtsqlError) as caught:
        uppers.around(8_000)
    assert caught.value.condition == "HISTORY_LOST"
    assert [e.upper for e in uppers.around(9_500)] == [9_500, 9_501]
    assert log.commits_read < 60
