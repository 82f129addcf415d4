"""A named reader that is killed again and again is told every change, each T whole."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ctsql.api import Connection

pytestmark = pytest.mark.slow

KILLS = 3
SECONDS_TO_START_MAX = 120
Told = list[tuple[int, str]]


def reader(warehouse: Path, into: Path, until: str = "") -> "subprocess.Popen[bytes]":
    """A process that writes what ``nightly`` is told into a file, as a shell would."""
    statement = f"SUBSCRIBE TO audit FROM 0 {until} AS 'nightly'"
    command = [sys.executable, "-m", "ctsql", "-w", str(warehouse), "--format", "jsonl"]
    with into.open("wb") as file:
        return subprocess.Popen(
            [*command, "-c", statement], stdout=file, stderr=subprocess.PIPE, env={**os.environ}
        )


def told_in(path: Path) -> Told:
    """(T, the rest of the row) of each whole line."""
    lines = path.read_text().splitlines(keepends=True)
    rows = [json.loads(line) for line in lines if line.endswith("\n")]
    return [(row.pop("t"), json.dumps(row, sort_keys=True)) for row in rows]


def by_time(told: Sequence[tuple[int, str]]) -> dict[int, list[str]]:
    """The rows of each T, in order."""
    found: dict[int, list[str]] = defaultdict(list)
    for t, row in told:
        found[t].append(row)
    return {t: sorted(rows) for t, rows in found.items()}


def test_killed_at_any_moment(
    warehouse: Path, tmp_path: Path, connect: Callable[[], Connection]
) -> None:
    """Kill -9 while a writer goes on: no T is missing, and what comes again comes the same."""
    con = connect()
    con.execute("""
        CREATE TABLE feed (k INT, v INT);
        CREATE CONTINUAL TASK audit (k INT, v INT) ON INPUT feed AS (
            INSERT INTO audit SELECT k, v FROM feed)""")
    stop = threading.Event()

    def write() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            con.execute(f"INSERT INTO feed SELECT {n}, id FROM range({1 + n % 40})")

    writer = threading.Thread(target=write)
    writer.start()
    chance = random.Random(11)
    runs: list[Told] = []
    try:
        for kill in range(KILLS):
            into = tmp_path / f"told-{kill}.jsonl"
            process = reader(warehouse, into)
            deadline = time.monotonic() + SECONDS_TO_START_MAX
            while len(told_in(into)) < 20:
                assert process.poll() is None, process.communicate()[1]
                assert time.monotonic() < deadline
                time.sleep(0.05)
            time.sleep(chance.uniform(0, 4))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            runs.append(told_in(into))
    finally:
        stop.set()
        writer.join()
    last = reader(warehouse, tmp_path / "rest.jsonl", "UP TO NOW")
    _, problems = last.communicate(timeout=SECONDS_TO_START_MAX)
    assert last.returncode == 0, problems
    runs.append(told_in(tmp_path / "rest.jsonl"))
    rows = con.execute("SUBSCRIBE TO audit FROM 0 UP TO NOW").fetchall()
    wanted = by_time(
        [(t, json.dumps({"diff": d, "k": k, "v": v}, sort_keys=True)) for t, d, k, v in rows]
    )
    times = sorted(wanted)
    position = 0
    for run in runs:
        found = by_time(run)
        first = min(found)
        assert times.index(first) <= position, "nothing was left out"
        last = max(found)
        assert all(found[t] == wanted[t] for t in found if t != last)
        # A T that was told whole may have been noted before the kill, and does not come again.
        position = times.index(last) + (found[last] == wanted[last])
    assert position == len(times), "all of it"
