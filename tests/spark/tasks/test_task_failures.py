"""A task that fails at T: known after a restart without running it; RETRY, SKIP, ON ERROR."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ctsql.api import Connection, connect as connect_to
from ctsql.catalog.errors import error
from ctsql.runtime.spark_engine import SparkEngine
from ctsql.runtime.tasks import sink as ct
from tests.conftest import TEST_MASTER
from tests.helpers.table_folder import data_files, folder, log, orphans, transaction
from tests.scenarios.runner import assert_rows, expect_error

TASK = """CREATE CONTINUAL TASK ratios (k INT, r INT) ON INPUT feed AS (
    INSERT INTO ratios SELECT k, 100 DIV v FROM feed
)"""


def _set_up(con: Connection) -> Path:
    con.execute("CREATE TABLE feed (k INT, v INT)")
    con.execute(TASK)
    con.execute("INSERT INTO feed VALUES (1, 10)")
    con.execute("SELECT * FROM ratios").fetchall()
    return folder(con, "ratios")


def _task(con: Connection) -> dict[str, Any]:
    shown = con.execute("SHOW CONTINUAL TASKS")
    return dict(zip(shown.columns, shown.fetchone() or (), strict=True))


def _records(table: Path) -> list[dict[str, Any]]:
    """The records of failures in an output's log, oldest first; the removals too."""
    return [
        action["domainMetadata"]
        for commit in log(table)
        for action in commit
        if action.get("domainMetadata", {}).get("domain") == "ctsql.failure"
    ]


def _never_run(*_: object) -> bool:
    raise AssertionError("the body was run")


def test_a_failure_is_known_after_a_restart(
    connect: Callable[[], Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One record, no second commit; every read says T and why, and the body is not run again."""
    con = connect()
    table = _set_up(con)
    con.execute("INSERT INTO feed VALUES (2, 0)")
    con.execute("INSERT INTO feed VALUES (3, 1)")
    first = expect_error(con, "SELECT * FROM ratios", "TASK_FAILED")
    time = first.given["time"]
    assert "by zero" in first.message
    commits = len(log(table))
    con.close()
    con = connect()
    monkeypatch.setattr(ct.TaskSink, "_stage", _never_run)
    again = expect_error(con, "SELECT * FROM ratios", "TASK_FAILED")
    assert (str(again), again.given["time"]) == (str(first), time)
    con.execute("SET isolation = 'serializable'")
    assert expect_error(con, "SELECT * FROM ratios", "TASK_FAILED").message == first.message
    con.execute("RESET isolation")
    shown = _task(con)
    assert (shown["state"], shown["complete_through"] is not None) == ("failed", True)
    assert f"T = {time}" in shown["last_error"]
    assert "by zero" in shown["last_error"]
    found = con.execute(f"SELECT * FROM ratios AS OF {int(str(time)) - 1}").fetchall()
    assert_rows(found, [(1, 10)], "what it held before")
    assert con.execute("SELECT count(*) FROM feed").fetchall() == [(3,)]
    assert (len(log(table)), len(_records(table))) == (commits, 1)
    assert not orphans(table)


def test_retry_fails_again_without_a_commit_and_skip_goes_on(con: Connection) -> None:
    """RETRY runs the body again; SKIP moves the upper to T + 1 and the next T runs."""
    table = _set_up(con)
    expect_error(con, "ALTER CONTINUAL TASK ratios SKIP", "TASK_NOT_FAILED")
    con.execute("ALTER CONTINUAL TASK ratios RETRY")  # nothing to do
    con.execute("INSERT INTO feed VALUES (2, 0); INSERT INTO feed VALUES (3, 4)")
    time = expect_error(con, "SELECT * FROM ratios", "TASK_FAILED").given["time"]
    before = len(log(table))
    expect_error(con, "ALTER CONTINUAL TASK ratios RETRY", "TASK_FAILED")
    assert len(log(table)) == before
    result = con.execute("ALTER CONTINUAL TASK ratios SKIP")
    assert result.status == f"ALTER CONTINUAL TASK (skipped T = {time})"
    skipping = log(table)[-1]
    assert transaction(skipping) == int(str(time)) + 1
    info = next(a["commitInfo"] for a in skipping if "commitInfo" in a)
    assert json.loads(info["userMetadata"])["skipped"] == [time]
    assert not any("add" in a or "remove" in a for a in skipping)
    assert _records(table)[-1]["removed"]
    assert_rows(con.execute("SELECT * FROM ratios").fetchall(), [(1, 10), (3, 25)], "goes on")
    assert _task(con)["state"] == "up to date"
    expect_error(con, "ALTER CONTINUAL TASK ratios SKIP", "TASK_NOT_FAILED")


def test_retry_succeeds_when_the_engine_has_changed(
    con: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is cleared by the commit that succeeds, and the Ts after it follow."""
    _set_up(con)
    with monkeypatch.context() as patch:

        def broken(*_: object, **__: object) -> bool:
            raise error("DATA_ERROR", message="not yet known", detail="", hint="")

        patch.setattr(SparkEngine, "stage", broken)
        con.execute("INSERT INTO feed VALUES (2, 5)")
        expect_error(con, "SELECT * FROM ratios", "TASK_FAILED")
    con.execute("INSERT INTO feed VALUES (3, 4)")
    expect_error(con, "SELECT * FROM ratios", "TASK_FAILED")
    con.execute("ALTER CONTINUAL TASK ratios RETRY")
    wanted = [(1, 10), (2, 20), (3, 25)]
    assert_rows(con.execute("SELECT * FROM ratios").fetchall(), wanted, "after RETRY")


def test_what_may_pass_is_not_recorded(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk stops nothing once it is over."""
    table = _set_up(con)
    with monkeypatch.context() as patch:

        def broken(*_: object, **__: object) -> bool:
            raise error("STORAGE_ERROR", message="the disk is full", detail="", hint="")

        patch.setattr(ct.TaskSink, "_stage", broken)
        con.execute("INSERT INTO feed VALUES (2, 5)")
        expect_error(con, "SELECT * FROM ratios", "STORAGE_ERROR")
    assert _records(table) == []
    assert con.execute("SELECT count(*) FROM ratios").fetchall() == [(2,)]


def test_a_time_whose_files_are_gone_is_left_out_by_skip(con: Connection) -> None:
    """The error names the T and the statement; later Ts are run, and nothing is recorded."""
    table = _set_up(con)
    before = data_files(folder(con, "feed"))
    con.execute("INSERT INTO feed VALUES (2, 5)")
    (gone,) = data_files(folder(con, "feed")) - before
    con.execute("INSERT INTO feed VALUES (3, 4)")
    (folder(con, "feed") / gone).unlink()
    con.close()
    con = connect_to(con.warehouse, master=TEST_MASTER)
    told = expect_error(con, "SELECT * FROM ratios", "HISTORY_LOST")
    skipped = con.execute("ALTER CONTINUAL TASK ratios SKIP").status
    time = int(str(skipped).removesuffix(")").rpartition(" ")[2])
    assert f"To leave out T = {time}: ALTER CONTINUAL TASK ratios SKIP" in str(told.hint)
    assert_rows(con.execute("SELECT * FROM ratios").fetchall(), [(1, 10), (3, 25)], "goes on")
    expect_error(con, "ALTER CONTINUAL TASK ratios SKIP", "TASK_NOT_FAILED")
    assert _records(table) == []


def test_readers_of_a_failed_task_name_it_and_others_go_on(con: Connection) -> None:
    """A view over the task fails by the task's name; its sibling is written."""
    _set_up(con)
    con.execute("CREATE MATERIALIZED VIEW total AS SELECT sum(r) AS s FROM ratios")
    con.execute("CREATE CONTINUAL TASK copy ON INPUT feed AS (INSERT INTO copy SELECT k FROM feed)")
    con.execute("INSERT INTO feed VALUES (2, 0)")
    assert expect_error(con, "SELECT * FROM total", "TASK_FAILED").given["name"] == "ratios"
    assert_rows(con.execute("SELECT * FROM copy").fetchall(), [(1,), (2,)], "the sibling")
