"""The cost of replicas: processes that race on one output, and one that is idle.

    make bench                                  python -m benchmarks.replicas --ticks 15

Race: small commits wait in an upsert task's input. Then 1, 2 or 3 warm processes start to process
them at once, until the first one has the output up to date. Every T is written by one process; the
number of each is printed. The rival is one process alone: two and three must reach at least half
of its ticks per second.

Idle: one ``ctsql run`` that is up to date, with unchanged sources, for a minute: the CPU seconds of
the process and its JVM.

Processes share the machine's cores, so on few cores three of them always slow each other down.
Numbers are medians; read them as ratios of one run.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ctsql
from ctsql.runtime.spark.internals.sessions import active

REPLICAS = (1, 2, 3)
KEYS = 1_000
CHANGED = 50
RATIO_WANTED = 0.5
SET_UP = """
CREATE TABLE feed (k BIGINT, v BIGINT);
CREATE CONTINUAL TASK latest (k BIGINT, v BIGINT) ON INPUT feed AS (
    DELETE FROM latest WHERE k IN (SELECT k FROM feed);
    INSERT INTO latest SELECT k, max(v) FROM feed GROUP BY k;
);
"""
# For each line of input it advances everything, and prints the number of its own commits.
REPLICA = """
import sys
from ctsql.api import connect
con = connect(sys.argv[1], master="local[1]")
con.start()
print("ready", flush=True)
for line in sys.stdin:
    wrote = []
    con.run(once=True, on_event=wrote.append)
    print(sum(e.kind.value == "wrote" for e in wrote), flush=True)
"""


class Replica:
    """A process with the warehouse open."""

    def __init__(self, warehouse: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", REPLICA, warehouse],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def said(self) -> str:
        """Wait for its next line."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a replica ended: see what it wrote above")
        return line.strip()

    def go(self) -> None:
        """Let it advance everything."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class Race:
    """One warehouse, its feed, and the processes that race."""

    def __init__(self, folder: str) -> None:
        self._con = ctsql.connect(folder, master="local[1]")
        self._con.execute(SET_UP)
        self._con.execute(f"INSERT INTO feed SELECT id % {KEYS}, 0 FROM range({KEYS})")
        self._con.run(once=True)
        self._turn = 0
        self.replicas = [Replica(folder) for _ in range(max(REPLICAS))]
        for replica in self.replicas:
            replica.said()

    def run(self, count: int, ticks: int) -> tuple[float, list[int]]:
        """Let processes race through waiting commits; returns the seconds and each commit count."""
        self._fill(ticks)
        racing = self.replicas[:count]
        start = time.perf_counter()
        for replica in racing:
            replica.go()
        seconds = self._until_written(start)
        return seconds, [int(replica.said()) for replica in racing]

    def _fill(self, ticks: int) -> None:
        engine = self._con._engine
        assert engine is not None
        feed = next(i for i in engine.catalog if i.name.name == "feed")
        with active(engine.session):
            for _ in range(ticks):
                self._turn += 1
                step = KEYS // CHANGED
                rows = [(self._turn % step + step * i, self._turn) for i in range(CHANGED)]
                frame = engine.session.createDataFrame(rows, "k BIGINT, v BIGINT").coalesce(1)
                frame.write.format("delta").mode("append").save(str(feed.location))
        engine.mint()
        self._until = engine.timeline.now

    def _until_written(self, start: float) -> float:
        engine = self._con._engine
        assert engine is not None
        latest = next(i for i in engine.catalog if i.name.name == "latest")
        while engine.versions.stored_upper(latest) <= self._until:
            time.sleep(0.02)
        return time.perf_counter() - start

    def close(self) -> None:
        """End the processes."""
        for replica in self.replicas:
            replica.end()
        self._con.close()


def bench_race(folder: str, ticks: int, rounds: int) -> bool:
    """Print ticks per second by number of processes; whether racing costs less than half."""
    race = Race(folder)
    try:
        for _ in range(2):  # warm up: every process runs the body many times
            race.run(len(race.replicas), ticks)
        rates: dict[int, list[float]] = {n: [] for n in REPLICAS}
        shares: dict[int, list[list[int]]] = {n: [] for n in REPLICAS}
        for _ in range(rounds):
            for count in REPLICAS:
                seconds, wrote = race.run(count, ticks)
                rates[count].append(ticks / seconds)
                shares[count].append(wrote)
    finally:
        race.close()
    alone = statistics.median(rates[1])
    print(f"Race: {ticks} ticks of {CHANGED} keys, {rounds} rounds, {os.cpu_count()} cores")
    print(f"  {'processes':<12}{'ticks/s':>8}{'ratio':>8}   ticks each wrote")
    for count in REPLICAS:
        rate = statistics.median(rates[count])
        each = "  ".join("+".join(map(str, wrote)) for wrote in shares[count])
        print(f"  {count:<12}{rate:>8.2f}{rate / alone:>8.2f}   {each}")
    worst = min(statistics.median(rates[n]) for n in REPLICAS) / alone
    print(f"lowest ratio {worst:.2f}    (aim: at least {RATIO_WANTED})")
    return worst >= RATIO_WANTED


def _cpu_seconds(process: int) -> float:
    """The CPU seconds of a process and its children so far, from /proc."""
    used = 0.0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        if process in (int(path.parent.name), int(fields[2])):
            used += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


@contextmanager
def service(folder: str, log: Path) -> Iterator[int]:
    """Run ``ctsql run`` in a new process group; yields its id once it is up to date."""
    program = "from ctsql.cli.main import main; main()"
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", program, "-w", folder, "--json", "run"],
            stdout=out,
            start_new_session=True,
        )
    try:
        while "{" not in log.read_text():
            if process.poll() is not None:
                raise SystemExit("ctsql run ended")
            time.sleep(0.2)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def bench_idle(folder: str, seconds: float) -> None:
    """Print the CPU seconds a minute of an idle service."""
    with ctsql.connect(folder, master="local[1]") as con:
        con.execute(SET_UP + "INSERT INTO feed VALUES (1, 1)")
    with service(folder, Path(folder, "..", "service.log")) as process:
        time.sleep(10)  # the JVM compiles and collects what the start left
        before, start = _cpu_seconds(process), time.perf_counter()
        time.sleep(seconds)
        cpu, wall = _cpu_seconds(process) - before, time.perf_counter() - start
    print(f"Idle: {cpu / wall * 60:.2f} CPU seconds a minute, over {wall:.0f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ticks", type=int, default=15, help="commits in the backlog")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--idle", type=float, default=60.0, help="seconds to watch")
    parser.add_argument("--only", choices=["race", "idle"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ctsql-bench-") as folder:
        warehouse = f"{folder}/warehouse"
        good = True
        if options.only != "idle":
            good = bench_race(warehouse, options.ticks, options.rounds)
        if options.only != "race":
            bench_idle(f"{folder}/idle", options.idle)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
