"""How much longer ticks take while somebody watches: ``run --serve --metrics`` against ``run``.

    python -m benchmarks.overhead --rounds 3 --ticks 40

Services are started by turns, each on a warehouse of its own with the same objects: an upsert, and
a view over it. This process inserts the same rows into each at the same intervals. While one is
watched, a browser's stream of changes is open, the first page is read at each change, and the
metrics once a second. What is compared is what the service says that each of its commits took;
the first ticks of each service, in which its JVM warms up, do not count.
"""

import argparse
import json
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

import ctsql

MADE = """
CREATE TABLE feed (k INT, v INT);
CREATE CONTINUAL TASK latest (k INT, v INT) ON INPUT feed AS (
    DELETE FROM latest WHERE k IN (SELECT k FROM feed);
    INSERT INTO latest SELECT k, max(v) FROM feed GROUP BY k;
);
CREATE MATERIALIZED VIEW sums AS
    SELECT v % 10 AS d, count(*) AS n, sum(v) AS v FROM latest GROUP BY 1;
INSERT INTO feed SELECT id % 1000, id FROM range(10000);
SELECT count(*) FROM sums
"""
WARM_UP_TICKS = 15
INTERVAL_SECONDS = 0.5
ROWS = 100


@contextmanager
def served(warehouse: Path, *, watched: bool) -> Iterator[list[float]]:
    """A service; gives the seconds of its commits, which go on coming in."""
    more = ["--serve", "127.0.0.1:8481", "--metrics", "9465"] if watched else []
    command = [sys.executable, "-m", "ctsql", "-w", str(warehouse), "run", "--json", *more]
    seconds: list[float] = []
    started, stop = threading.Event(), threading.Event()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )

    def listen() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "started":
                started.set()
            elif event["event"] == "wrote":
                seconds.append(event["seconds"])

    threads = [threading.Thread(target=listen)]
    if watched:
        threads += [threading.Thread(target=_follow, args=(stop,)),
                    threading.Thread(target=_collect, args=(stop,))]  # fmt: skip
    for thread in threads:
        thread.start()
    try:
        started.wait(120)
        yield seconds
    finally:
        stop.set()
        process.terminate()
        process.wait(60)
        for thread in threads:
            thread.join(60)


def _follow(stop: threading.Event) -> None:
    """Read the first page at each change, as a browser does."""
    while not stop.is_set():
        try:
            with urllib.request.urlopen("http://127.0.0.1:8481/events", timeout=5) as stream:
                for line in stream:
                    if stop.is_set():
                        return
                    if line.startswith(b"event: changed"):
                        urllib.request.urlopen("http://127.0.0.1:8481/", timeout=5).read()
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)  # it is starting, or ends


def _collect(stop: threading.Event) -> None:
    while not stop.wait(1.0):
        try:
            urllib.request.urlopen("http://127.0.0.1:9465/metrics", timeout=5).read()
        except (urllib.error.URLError, OSError):
            continue  # it is starting, or ends


def run(warehouse: Path, ticks: int, *, watched: bool) -> list[float]:
    """The seconds of the commits of one service, without those of the first ticks."""
    with ctsql.connect(str(warehouse)) as con:
        con.execute(MADE)
        with served(warehouse, watched=watched) as seconds:
            warm = 0
            for n in range(WARM_UP_TICKS + ticks):
                if n == WARM_UP_TICKS:
                    warm = len(seconds)
                rows = ", ".join(f"({(n * 37 + i * 10) % 1000}, {n})" for i in range(ROWS))
                con.execute(f"INSERT INTO feed VALUES {rows}")
                time.sleep(INTERVAL_SECONDS)
            return seconds[warm:]


def main() -> None:
    """Run services by turns, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ticks", type=int, default=40)
    given = parser.parse_args()
    found: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(given.rounds):
            for watched in (False, True) if turn % 2 == 0 else (True, False):
                seconds = run(Path(folder) / f"{turn}{watched}", given.ticks, watched=watched)
                found[watched] += seconds
                shown = f"{statistics.median(seconds) * 1000:.0f} ms of {len(seconds)} commits"
                print(f"{'watched' if watched else 'alone':8} {shown}", flush=True)
    alone, watched_ms = (statistics.median(found[w]) * 1000 for w in (False, True))
    mean = statistics.mean(found[True]) / statistics.mean(found[False])
    print(
        f"medians {alone:.0f} and {watched_ms:.0f} ms: {watched_ms / alone:.3f}; means {mean:.3f}"
    )


if __name__ == "__main__":
    main()
