"""Two and three real processes on one warehouse for minutes: tasks, views, schedules, INSERTs."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection
from tests.crash.killed_processes import crew_of, seconds
from tests.helpers import sample_warehouse as kept
from tests.helpers.table_folder import folder, log
from tests.scenarios.runner import assert_rows

pytestmark = pytest.mark.slow

SECONDS_TO_END = 120
# Each writes batches of its own numbers, and reads the outputs that all of them keep.
WRITER = """
import json, random, sys, time
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
    print(json.dumps(["ack", batch]), flush=True)
    for name in draw.sample(["latest", "copy", "summed", "often"], 2):
        con.execute(f"SELECT * FROM {name}").fetchall()
    if draw.random() < 0.1:
        con.execute("REFRESH MATERIALIZED VIEW summed FULL")
"""


@pytest.mark.parametrize("writers", [1, 2])
def test_race(
    writers: int, warehouse: Path, tmp_path: Path, connect: Callable[[], Connection]
) -> None:
    """A service and one or two writers; then the service is killed and another goes on."""
    con = connect()
    kept.set_up(con)
    con.execute(
        "CREATE MATERIALIZED VIEW often WITH (REFRESH EVERY '3 seconds')"
        " AS SELECT k, count(*) AS n FROM feed GROUP BY k"
    )
    lasting = seconds(60)
    with crew_of(warehouse, tmp_path) as crew:
        service = crew.service()
        program = ("-c", WRITER, str(warehouse))
        racing = {
            number: crew.start("writer", *program, str(number), str(lasting), crew.seed)
            for number in range(2, writers + 2)
        }
        time.sleep(lasting / 2)
        assert service.is_running(), service.said()
        service.kill()
        service = crew.service()
        written = {1}
        for number, writer in racing.items():
            writer.finish(lasting + SECONDS_TO_END)
            assert writer.events, "a writer that wrote nothing shows nothing"
            written |= {number * 1_000_000 + batch for _, batch in writer.events}
        service.stop()
        assert "Traceback" not in service.said()
    kept.forget(con)
    latest = kept.latest_by_commits(con)
    kept.check(con, f"after {lasting} s with seed {crew.seed}", latest=latest)
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
