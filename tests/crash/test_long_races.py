"""Two and three real processes on one warehouse for minutes: tasks, views, schedules, INSERTs."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ctsql.api import Connection
from tests.helpers import sample_warehouse as kept
from tests.helpers.table_folder import folder, log
from tests.scenarios.runner import assert_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECONDS = float(os.environ.get("CTSQL_RACE_SECONDS", "60"))
SECONDS_TO_END = 120
# Each writes batches of its own numbers, and reads the outputs that all of them keep.
WRITER = """
import random, sys, time
from ctsql.api import connect
warehouse, number, seconds, seed = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
draw = random.Random(seed + sys.argv[2])
con = connect(warehouse, master="local[1]")
con.start()
until, batch = time.monotonic() + seconds, 0
while time.monotonic() < until:
    batch += 1
    keys = [draw.randrange(20) for _ in range(draw.randrange(1, 6))]
    values = ", ".join(f"({k}, {number * 1_000_000 + batch})" for k in keys)
    con.execute("INSERT INTO feed VALUES " + values)
    print(batch, flush=True)
    for name in draw.sample(["latest", "copy", "summed", "often"], 2):
        con.execute(f"SELECT * FROM {name}").fetchall()
    if draw.random() < 0.1:
        con.execute("REFRESH MATERIALIZED VIEW summed FULL")
"""
SERVICE = "from ctsql.cli.main import main; main()"


@pytest.fixture
def start() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Starts a program in a process of its own; what still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def run(program: str, *arguments: str) -> "subprocess.Popen[str]":
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", program, *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        return started[-1]

    yield run
    for process in started:
        with process:
            process.kill()


@pytest.mark.parametrize("writers", [1, 2])
def test_race(
    writers: int,
    warehouse: Path,
    connect: Callable[[], Connection],
    start: Callable[..., "subprocess.Popen[str]"],
) -> None:
    """A service and one or two writers; then the service is killed and another goes on."""
    seed = os.environ.get("CTSQL_RACE_SEED", str(random.randrange(1 << 30)))
    print(f"CTSQL_RACE_SEED={seed}")
    con = connect()
    kept.set_up(con)
    con.execute(
        "CREATE MATERIALIZED VIEW often WITH (REFRESH EVERY '3 seconds')"
        " AS SELECT k, count(*) AS n FROM feed GROUP BY k"
    )
    service = start(SERVICE, "-w", str(warehouse), "--master", "local[1]", "run")
    racing = [
        start(WRITER, str(warehouse), str(n), str(SECONDS), seed) for n in range(2, writers + 2)
    ]
    time.sleep(SECONDS / 2)
    assert service.poll() is None, service.communicate()[0]
    service.send_signal(signal.SIGKILL)
    service.communicate(timeout=SECONDS_TO_END)  # its JVM ends too
    service = start(SERVICE, "-w", str(warehouse), "--master", "local[1]", "run")
    written = {1}
    for number, process in enumerate(racing, start=2):
        said, _ = process.communicate(timeout=SECONDS + SECONDS_TO_END)
        assert process.returncode == 0, said
        lines = said.split()
        assert lines, "a writer that wrote nothing shows nothing"
        written |= {number * 1_000_000 + int(line) for line in lines}
    service.send_signal(signal.SIGTERM)
    told, _ = service.communicate(timeout=SECONDS_TO_END)
    assert service.returncode == 0, told
    assert "Traceback" not in told
    kept.forget(con)
    latest = kept.latest_by_commits(con)
    kept.check(con, f"after {SECONDS} s with seed {seed}", latest=latest)
    assert kept.batches(con) == written, "every batch that was acknowledged, and no other"
    con.execute("REFRESH MATERIALIZED VIEW often")
    counted = con.execute("SELECT k, count(*) FROM feed GROUP BY k").fetchall()
    assert_rows(con.execute("SELECT * FROM often").fetchall(), counted, "often")
    tokens = [
        a["commitInfo"]["userMetadata"]
        for c in log(folder(con, "latest"))
        for a in c
        if "userMetadata" in a.get("commitInfo", {})
    ]
    assert len(tokens) == len(set(tokens))
    kept.check_clean(con)
