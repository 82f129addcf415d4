"""The cost of clients of ``run --serve --metrics``: ticks with and without them.

    python -m benchmarks.watched --rounds 2 --ticks 120 --objects 200

A service runs an upsert, and a view over it. Another writer appends rows to the input, half a
second after both outputs have processed the last ones. For ten ticks a browser's stream of changes
is open, the overview is read at each change, and the metrics once a second; for the next ten there
is no client. Both kinds of ticks run in the same process, so differences between processes do not
matter.

Compared are the seconds of each commit in the outputs' logs. The first ticks are a warm-up. The
other objects are views over a table that does not change; the page and the metrics show them too.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from ctsql.runtime.log_reader import LocalLogReader
from ctsql.runtime.monitoring.refreshes import Refresh
from ctsql.runtime.monitoring.system_tables import system_rows

MADE = """
CREATE TABLE feed LOCATION '{feed}';
CREATE CONTINUAL TASK latest (k BIGINT, v BIGINT) ON INPUT feed AS (
    DELETE FROM latest WHERE k IN (SELECT k FROM feed);
    INSERT INTO latest SELECT k, max(v) FROM feed GROUP BY k;
);
CREATE MATERIALIZED VIEW sums AS
    SELECT v % 10 AS d, count(*) AS n, sum(v) AS v FROM latest GROUP BY 1;
CREATE TABLE quiet (k BIGINT);
"""
ANOTHER = "CREATE MATERIALIZED VIEW another_{number} AS SELECT k + {number} AS k FROM quiet;\n"
READ = "SELECT count(*) FROM sums;\n"
OBJECTS, OUTPUTS = 4, 2
WARM_UP_TICKS = 20
BLOCK_TICKS = 10
PAUSE_SECONDS = 0.5
TIMEOUT_SECONDS = 60.0
KEYS, ROWS = 1_000, 100
PAGE, METRICS = "127.0.0.1:8481", "127.0.0.1:9465"


@contextmanager
def service(warehouse: Path) -> Iterator[None]:
    """Run a service on a warehouse, with its page and its metrics."""
    more = ["--serve", PAGE, "--metrics", METRICS]
    command = [sys.executable, "-m", "ctsql", "-w", str(warehouse), "run", "--quiet", *more]
    with subprocess.Popen(command) as process:
        try:
            yield
        finally:
            process.terminate()


@contextmanager
def watched() -> Iterator[None]:
    """Read the page and the metrics inside the block."""
    stop = threading.Event()
    watchers = [threading.Thread(target=w, args=(stop,)) for w in (_follow, _collect)]
    for thread in watchers:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in watchers:
            thread.join()


def _follow(stop: threading.Event) -> None:
    """Read the overview at each change, as a browser does."""
    while not stop.wait(0.5):
        try:
            with urllib.request.urlopen(f"http://{PAGE}/events", timeout=5) as stream:
                for line in stream:
                    if stop.is_set():
                        return
                    if line.startswith(b"event: changed"):
                        urllib.request.urlopen(f"http://{PAGE}/", timeout=5).read()
        except (urllib.error.URLError, OSError):
            continue  # it is starting, or ends


def _collect(stop: threading.Event) -> None:
    while not stop.wait(1.0):
        try:
            urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=5).read()
        except (urllib.error.URLError, OSError):
            continue  # it is starting, or ends


def _append(feed: Path, tick: int) -> None:
    keys = [(tick * 37 + i * 10) % KEYS for i in range(ROWS)]
    write_deltalake(feed, pa.table({"k": keys, "v": [tick] * ROWS}), mode="append")


def _refreshes(warehouse: Path) -> list[Refresh]:
    """The refreshes with rows, from the outputs' logs."""
    rows = system_rows(LocalLogReader(str(warehouse), read_only=True), "refreshes")
    return [r for r in rows if r.seconds is not None]


def _count_commits(warehouse: Path) -> int:
    """The number of commits in the outputs' logs; lists files only, not to disturb the service."""
    return sum(1 for _ in warehouse.glob("default/*/_delta_log/*.json"))


def _tick(feed: Path, warehouse: Path, tick: int) -> None:
    """Append rows, and wait until both outputs have processed them."""
    before = _count_commits(warehouse)
    _append(feed, tick)
    until = time.monotonic() + TIMEOUT_SECONDS
    while _count_commits(warehouse) < before + OUTPUTS:
        if time.monotonic() > until:
            raise SystemExit(f"Tick {tick} has not come in within {TIMEOUT_SECONDS} s.")
        time.sleep(0.05)
    time.sleep(PAUSE_SECONDS)


def measure(folder: Path, ticks: int, objects: int) -> dict[bool, list[float]]:
    """The seconds of the outputs' commits after the warm-up, with (True) and without clients."""
    feed, warehouse = folder / "feed", folder / "warehouse"
    _append(feed, 0)
    more = "".join(ANOTHER.format(number=n) for n in range(objects - OBJECTS))
    script = MADE.format(feed=feed) + more + READ
    subprocess.run([sys.executable, "-m", "ctsql", "-w", str(warehouse)],
                   input=script, text=True, check=True, capture_output=True)  # fmt: skip
    with service(warehouse):
        for tick in range(1, WARM_UP_TICKS + 1):
            _tick(feed, warehouse, tick)
        for block in range(ticks // BLOCK_TICKS):
            with watched() if block % 2 else nullcontext():
                for tick in range(BLOCK_TICKS):
                    _tick(feed, warehouse, WARM_UP_TICKS + block * BLOCK_TICKS + tick + 1)
    by_time: dict[int, float] = {}
    for one in _refreshes(warehouse):
        assert one.seconds is not None
        assert one.t is not None  # the outputs are not closed
        by_time[one.t] = by_time.get(one.t, 0.0) + one.seconds
    count = ticks // BLOCK_TICKS * BLOCK_TICKS
    seconds = [by_time[t] for t in sorted(by_time)[-count:]]
    times: dict[bool, list[float]] = {False: [], True: []}
    for place, took in enumerate(seconds):
        times[place // BLOCK_TICKS % 2 == 1].append(took)
    return times


def main() -> None:
    """Run services, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--ticks", type=int, default=120)
    parser.add_argument("--objects", type=int, default=200)
    options = parser.parse_args()
    times: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory(prefix="ctsql-bench-") as root:
        for turn in range(options.rounds):
            folder = Path(root) / str(turn)
            folder.mkdir()
            round_times = measure(folder, options.ticks, options.objects)
            medians = [statistics.median(round_times[w]) * 1000 for w in (False, True)]
            print("alone {:.0f} ms, watched {:.0f} ms".format(*medians), flush=True)
            for who, seconds in round_times.items():
                times[who] += seconds
    alone_ms, watched_ms = (statistics.median(times[w]) * 1000 for w in (False, True))
    mean = statistics.mean(times[True]) / statistics.mean(times[False])
    ratio = watched_ms / alone_ms
    print(f"medians {alone_ms:.0f} and {watched_ms:.0f} ms: {ratio:.3f}; means {mean:.3f}")


if __name__ == "__main__":
    main()
