"""The self-test names each function of the internals that fails for want of a method."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from ctsql.api import Connection, connect as open_connection
from ctsql.catalog.errors import CtsqlError
from ctsql.cli import doctor
from ctsql.connection import self_test
from ctsql.planner.lowering import queries
from ctsql.runtime.spark import versions
from ctsql.runtime.spark.missing import found
from ctsql.runtime.spark.start.session import process_session
from tests.conftest import TEST_MASTER
from tests.helpers.internals import FUNCTIONS, NEEDED

# Of these see tests/unit/runtime/spark/test_missing.py.
OF_THE_START = {
    f"spark.internals.java.{name}" for name in ("has_context", "start_jvm", "jvm_process")
}


_open = partial(open_connection, master=TEST_MASTER)


def _refuse(*_: Any, **__: Any) -> None:
    from py4j.protocol import Py4JError

    call, trace = "An error occurred while calling o1.gone. Trace:", "py4j.Py4JException:"
    raise Py4JError(f"{call}\n{trace} Method gone([]) does not exist\n\tat py4j.Gateway\n")


@pytest.fixture
def lack() -> Iterator[Callable[[str], Callable[[], None]]]:
    """Takes a method away from a function, by name; gives what brings it back."""
    codes: dict[str, CodeType] = {}

    def take(name: str) -> Callable[[], None]:
        function = FUNCTIONS[name]
        codes[name] = function.__code__
        # What errors are told by is the name of the code.
        qualified = function.__code__.co_qualname
        function.__code__ = _refuse.__code__.replace(co_qualname=qualified)
        return lambda: restore(name)

    def restore(name: str) -> None:
        FUNCTIONS[name].__code__ = codes.pop(name)

    process_session(TEST_MASTER)
    found.clear()
    yield take
    for name in list(codes):
        restore(name)
    found.clear()


@pytest.mark.core
def test_this_release_has_all(tmp_path: Path) -> None:
    """On the releases that ctsql is tested with no other way is taken."""
    found.clear()
    assert self_test.self_test(str(tmp_path), _open)
    assert found == {}


def test_each_function_is_named(
    tmp_path: Path, lack: Callable[[str], Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All lack a method until they were called, and each such call is told by its name.

    One that has another way fails no statement.
    """
    monkeypatch.setattr(queries, "_known_keys", {})  # Spark is asked once about a text
    restore = {name: lack(name) for name in FUNCTIONS if name not in OF_THE_START}
    count = 0
    while len(restore) != count:  # some are called only where others have given a plan before
        count = len(restore)
        for step in self_test.steps(_open(str(tmp_path / f"{count}"))):
            is_again = False
            while told := _told_by(step, is_again=is_again):
                is_again = True
                for name in told:
                    restore.pop(name)()
    assert not restore, "the statements of the self-test call none of these"


def _told_by(step: Callable[[], object], *, is_again: bool) -> list[str]:
    """The functions that fail in a step, which fails by SPARK_VERSION if it needs one of them."""
    problem: CtsqlError | None = None
    try:
        step()
    except CtsqlError as raised:
        problem = raised
    told = list(found)
    found.clear()
    if not told:
        # One that failed behind its commit has been done.
        assert problem is None or is_again, problem
    elif problem is not None:
        assert problem.condition == "SPARK_VERSION", problem
        assert any(name in f"{problem.detail}" for name in told)
        assert NEEDED & {*told}, told
    return told


def _rows(folder: Path) -> list[Any]:
    """What each query gives, in any order, but those about times and files."""
    return [
        sorted(rows)
        for step in self_test.steps(_open(str(folder)))
        if (rows := step()) and (not step.args[1:] or step.args[1].text.startswith("SELECT"))
    ]


def test_the_other_ways_give_the_same(
    tmp_path: Path, lack: Callable[[str], Callable[[], None]]
) -> None:
    """All that is not needed lacks a method, and each statement gives the rows that it gave."""
    rows = _rows(tmp_path / "a")
    others = set(FUNCTIONS) - NEEDED
    for name in others:
        lack(name)
    self_test.self_test(str(tmp_path / "b"), _open)
    assert set(found) <= others
    assert _rows(tmp_path / "c") == rows


def test_without_one_that_is_needed(
    tmp_path: Path, lack: Callable[[str], Callable[[], None]]
) -> None:
    """It is named, although later statements have no table then."""
    name = "delta.internals.handle.DeltaHandle.begin"
    lack(name)
    with pytest.raises(CtsqlError, match="SPARK_VERSION") as raised:
        self_test.self_test(str(tmp_path), _open)
    assert name in str(raised.value.detail)


def test_doctor_tells_what_is_switched_off(lack: Callable[[str], Callable[[], None]]) -> None:
    """In one line, and nothing is wrong."""
    lack("spark.internals.held_rows.frame_over")
    told = doctor.run_self_test(TEST_MASTER)
    assert "\n" not in told
    assert "Method gone([]) does not exist (spark.internals.held_rows.frame_over)" in told
    assert "without it, small refreshes run jobs" in told


def test_releases_that_no_test_has_run_on(
    con: Connection,
    tmp_path: Path,
    lack: Callable[[str], Callable[[], None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first connection of a process tries them, and warns of what they lack."""
    monkeypatch.setattr(versions, "DELTA", (4, 3))
    monkeypatch.setattr(self_test, "_tried", False)
    lack("spark.internals.jobs.jobs_started")
    with pytest.warns(UserWarning, match=r"with Delta 4\.4.*jobs_started\): without it"):
        con.start()
    with open_connection(str(tmp_path / "w2"), spark=con.spark) as second:
        second.start()  # a warning would fail the test
