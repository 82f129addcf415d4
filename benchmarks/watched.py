"""How much longer ticks take while somebody watches: ``run --serve --metrics`` against ``run``.

    python -m benchmarks.watched --rounds 4 --ticks 60

Services are started by turns, each on a warehouse of its own with the same objects: an upsert, and
a view over it. Another writer appends rows to the input, each time when both outputs have taken in
what came before, and half a second later. While a service is watched, a browser's stream of changes
is open, the first page is read at each change, and the metrics are read once a second.

What is compared is what the service itself says of each commit in the outputs' logs: the seconds
that it took. The first ticks, in which the JVM warms up, do not count.
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
from contextlib import contextmanager
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
SELECT count(*) FROM sums
"""
OUTPUTS = 2
WARM_UP_TICKS = 20
PAUSE_SECONDS = 0.5
TIMEOUT_SECONDS = 60.0
KEYS, ROWS = 1_000, 100
PAGE, METRICS = "127.0.0.1:8481", "127.0.0.1:9465"


@contextmanager
def service(warehouse: Path, *, watched: bool) -> Iterator[None]:
    """A service on a warehouse, maybe with somebody who watches it."""
    more = ["--serve", PAGE, "--metrics", METRICS] if watched else []
    command = [sys.executable, "-m", "ctsql", "-w", str(warehouse), "run", "--quiet", *more]
    stop = threading.Event()
    watchers = [threading.Thread(target=w, args=(stop,)) for w in (_follow, _collect) if watched]
    with subprocess.Popen(command) as process:
        for thread in watchers:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            process.terminate()
            for thread in watchers:
                thread.join()


def _follow(stop: threading.Event) -> None:
    """Read the first page at each change, as a browser does."""
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


def _commits(warehouse: Path) -> list[Refresh]:
    """What the outputs' logs say of the commits that took in rows."""
    found = system_rows(LocalLogReader(str(warehouse), read_only=True), "refreshes")
    return [r for r in found if r.seconds is not None]


def measure(folder: Path, ticks: int, *, watched: bool) -> list[float]:
    """The seconds of the outputs' commits at each tick, but the first ones."""
    feed, warehouse = folder / "feed", folder / "warehouse"
    _append(feed, 0)
    made = MADE.format(feed=feed)
    subprocess.run([sys.executable, "-m", "ctsql", "-w", str(warehouse), "-c", made],
                   check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    known = len(_commits(warehouse))
    with service(warehouse, watched=watched):
        for tick in range(1, WARM_UP_TICKS + ticks + 1):
            _append(feed, tick)
            until = time.monotonic() + TIMEOUT_SECONDS
            while len(_commits(warehouse)) < known + tick * OUTPUTS:
                if time.monotonic() > until:
                    raise SystemExit(f"Tick {tick} has not come in within {TIMEOUT_SECONDS} s.")
                time.sleep(0.1)
            time.sleep(PAUSE_SECONDS)
    by_time: dict[int, float] = {}
    for one in _commits(warehouse):
        assert one.seconds is not None
        assert one.t is not None  # the outputs are not closed
        by_time[one.t] = by_time.get(one.t, 0.0) + one.seconds
    return [by_time[t] for t in sorted(by_time)[-ticks:]]


def main() -> None:
    """Run services by turns, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--ticks", type=int, default=60)
    given = parser.parse_args()
    found: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory(prefix="ctsql-bench-") as root:
        for turn in range(given.rounds):
            for watched in (False, True) if turn % 2 == 0 else (True, False):
                folder = Path(root) / f"{turn}{watched}"
                folder.mkdir()
                seconds = measure(folder, given.ticks, watched=watched)
                found[watched] += seconds
                median = statistics.median(seconds) * 1000
                print(f"{'watched' if watched else 'alone':8}{median:8.0f} ms", flush=True)
    alone, seen = (statistics.median(found[w]) * 1000 for w in (False, True))
    mean = statistics.mean(found[True]) / statistics.mean(found[False])
    print(f"medians {alone:.0f} and {seen:.0f} ms: {seen / alone:.3f}; means {mean:.3f}")


if __name__ == "__main__":
    main()
