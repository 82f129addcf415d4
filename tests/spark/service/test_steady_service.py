"""A ``ctsql run`` that goes on: memory, file descriptors and threads of its Python do not grow.

``CTSQL_SOAK_SECONDS`` is how long it goes on. Its first third is for what a process loads, caches
and fills once. The tables are written by delta-rs, which needs no second JVM, and keep their size.
"""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

SECONDS = 1_800
SAMPLES = 60
RSS_GROWS_MAX = 1.1
"""The largest RSS after the first third, by that at its end."""
COMMITS_APART_SECONDS = 1
ROWS = 20
ROWS_KEPT = 2_000
KEYS = 500
TABLES = ("orders", "items")
DEFINITIONS = """
CREATE CONTINUAL TASK newest_order (k BIGINT NOT NULL, id BIGINT) ON INPUT orders AS (
    DELETE FROM newest_order WHERE k IN (SELECT k FROM orders);
    INSERT INTO newest_order SELECT k, max(id) FROM orders GROUP BY k);
CREATE CONTINUAL TASK newest_item (k BIGINT NOT NULL, id BIGINT) ON INPUT items AS (
    DELETE FROM newest_item WHERE k IN (SELECT k FROM items);
    INSERT INTO newest_item SELECT k, max(id) FROM items GROUP BY k);
CREATE MATERIALIZED VIEW sums WITH (REFRESH POLICY = incremental) AS
    SELECT k, sum(amount) AS amount, count(*) AS c FROM orders GROUP BY k;
CREATE MATERIALIZED VIEW large WITH (REFRESH POLICY = incremental) AS
    SELECT id, k, amount FROM items WHERE amount > 500;
CREATE MATERIALIZED VIEW both WITH (REFRESH POLICY = incremental) AS
    SELECT o.k, o.id, i.id AS item
    FROM newest_order AS o JOIN newest_item AS i ON o.k = i.k;
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a process has: resident bytes of memory, open file descriptors, threads."""

    rss: int
    descriptors: int
    threads: int

    @staticmethod
    def of(pid: int) -> "Sample":
        """That of a process now."""
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        )
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
        return Sample(int(status["VmRSS"].split()[0]) * 1024, descriptors, int(status["Threads"]))


class Feed:
    """Writes two tables in turn: appends, deletes what is old, and compacts."""

    def __init__(self, folder: Path) -> None:
        self.places = [str(folder / name) for name in TABLES]
        self.count = 0
        for place in self.places:
            write_deltalake(place, self._rows())

    def _rows(self) -> pa.Table:
        ids = range(self.count * ROWS, (self.count + 1) * ROWS)
        columns = {"id": list(ids), "k": [i * 7 % KEYS for i in ids]}
        return pa.table({**columns, "amount": [i * 13 % 1_000 for i in ids]})

    def commit(self) -> None:
        """Make the next commit, or two."""
        self.count += 1
        place, turn = self.places[self.count % 2], self.count // 2
        write_deltalake(place, self._rows(), mode="append")
        if turn % 10 == 0:
            DeltaTable(place).delete(f"id < {self.count * ROWS - ROWS_KEPT}")
        if turn % 25 == 0:
            DeltaTable(place).optimize.compact()


def _last_versions(warehouse: Path) -> dict[str, int]:
    logs = warehouse.rglob("_delta_log")
    return {str(log): len(list(log.glob("*.json"))) for log in logs}


@pytest.mark.slow
@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="what a process has stands in /proc")
def test_a_service_stays_as_large_as_it_is(tmp_path: Path) -> None:
    """After its first third its RSS is flat within 10 %; descriptors and threads are, too."""
    seconds = float(os.environ.get("CTSQL_SOAK_SECONDS") or SECONDS)
    warehouse, feed = tmp_path / "warehouse", Feed(tmp_path)
    ctsql = [sys.executable, "-m", "ctsql", "-w", str(warehouse), "--master", "local[2]"]
    tables = "".join(
        f"CREATE TABLE {name} LOCATION '{place}';"
        for name, place in zip(TABLES, feed.places, strict=True)
    )
    subprocess.run([*ctsql, "-c", tables + DEFINITIONS], check=True)
    with (tmp_path / "said").open("wb") as said:
        service = subprocess.Popen([*ctsql, "run"], stdout=said, stderr=said)
    samples: list[Sample] = []
    try:
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            assert service.poll() is None, (tmp_path / "said").read_text()[-4_000:]
            feed.commit()
            if passed >= seconds * len(samples) / SAMPLES:
                samples.append(Sample.of(service.pid))
                print(f"{passed:.0f} s, {feed.count} commits: {samples[-1]}", flush=True)
            time.sleep(max(0, began + passed + COMMITS_APART_SECONDS - time.monotonic()))
        service.send_signal(signal.SIGINT)
        service.wait(120)
    finally:
        service.kill()
    logs = _last_versions(warehouse)
    print(logs)
    assert sum(logs.values()) > feed.count, "the outputs are not brought up"
    steady, later = samples[SAMPLES // 3], samples[SAMPLES // 3 :]
    assert max(s.rss for s in later) <= steady.rss * RSS_GROWS_MAX
    assert max(s.descriptors for s in later) <= steady.descriptors + 4
    assert max(s.threads for s in later) <= steady.threads + 2
