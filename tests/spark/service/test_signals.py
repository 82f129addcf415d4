"""SIGINT and SIGTERM to a real ``ctsql run``: a clean end, idle and in a long tick."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ctsql.api import Connection
from ctsql.console.script import STOP_SECONDS
from tests.helpers.table_folder import folder, log, orphans

STARTED_SECONDS = 90
MARGIN_SECONDS = 10
"""Time for Python and the JVM to end, beside the seconds that a commit is given."""


@contextmanager
def running(warehouse: Path) -> Iterator["subprocess.Popen[str]"]:
    """A ``ctsql run`` in a process group of its own; it has reached a T when this returns."""
    program = "from ctsql.cli.main import main; main()"
    arguments = ["-w", str(warehouse), "--master", "local[1]", "--json", "run"]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        events = [json.loads(process.stdout.readline())["event"] for _ in range(2)]
        assert events[0] == "started"
        assert events[1] in ("reached", "wrote")
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _set_up(con: Connection) -> Path:
    """A task that is quick for small numbers and takes hours for large ones."""
    con.execute(
        "CREATE TABLE feed (n BIGINT);"
        "CREATE CONTINUAL TASK sums (s BIGINT) ON INPUT feed AS ("
        " INSERT INTO sums SELECT max(hash(n, id)) FROM"
        " (SELECT n, explode(sequence(1, n)) AS a FROM feed), range(1000000000) WHERE a > 1)"
    )
    con.execute("INSERT INTO feed VALUES (1)")
    return folder(con, "sums")


def _ended(process: "subprocess.Popen[str]", within: float) -> int:
    begun = time.monotonic()
    status = process.wait(timeout=STARTED_SECONDS)
    took = time.monotonic() - begun
    assert took < within, f"{took:.1f} s"
    return status


def test_sigterm_in_a_long_tick_ends_it_cleanly(con: Connection, warehouse: Path) -> None:
    """The commit gets its seconds; then nothing of it is written; status 0; the T is left to do."""
    table = _set_up(con)
    with running(warehouse) as process:
        commits = len(log(table))
        con.execute("INSERT INTO feed VALUES (1000)")
        time.sleep(4.0)  # it works on it
        process.send_signal(signal.SIGTERM)
        assert _ended(process, STOP_SECONDS + MARGIN_SECONDS) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
    assert len(log(table)) == commits
    assert not orphans(table)


@pytest.mark.slow
@pytest.mark.parametrize(
    "send",
    [
        pytest.param(lambda p: p.send_signal(signal.SIGINT), id="SIGINT"),
        pytest.param(lambda p: os.killpg(p.pid, signal.SIGINT), id="SIGINT to all, as Ctrl-C"),
        pytest.param(lambda p: os.killpg(p.pid, signal.SIGTERM), id="SIGTERM to all, the JVM too"),
    ],
)
def test_idle_it_ends_at_once(
    con: Connection, warehouse: Path, send: Callable[["subprocess.Popen[str]"], None]
) -> None:
    """Status 0, nothing said but the events."""
    _set_up(con)
    with running(warehouse) as process:
        time.sleep(2.0)
        send(process)
        assert _ended(process, MARGIN_SECONDS) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
