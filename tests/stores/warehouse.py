"""A warehouse in a store, the processes on it, and what must hold after whatever they did."""

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.crash.killed_processes import SECONDS_TO_END, SECONDS_TO_START, Child, seed
from tests.stores.programs import ROWS

KILLS = 4


class Store:
    """A warehouse in the bucket, and the processes on it."""

    def __init__(self, uri: str, logs: Path) -> None:
        self.uri = uri
        self.logs = logs
        self.children: list[Child] = []

    def start(self, name: str, *more: object) -> Child:
        """Start a program of :mod:`tests.stores.programs`."""
        log = self.logs / f"{len(self.children)}-{name}.log"
        told = [str(one) for one in more]
        child = Child("-m", "tests.stores.programs", name, self.uri, *told, log=log)
        self.children.append(child)
        return child

    def run(self, name: str, *more: object) -> list[list[Any]]:
        """Run a program to its end; its events."""
        child = self.start(name, *more)
        child.finish(SECONDS_TO_START + SECONDS_TO_END)
        return child.events


@contextmanager
def warehouse(uri: str, logs: Path) -> Iterator[Store]:
    """A warehouse; what still runs on it at the end is killed."""
    found = Store(uri, logs)
    try:
        yield found
    finally:
        for child in found.children:
            if child.is_running():
                child.kill()


def kill_writers(store: Store) -> None:
    """One writer after the other, killed with SIGKILL at random moments, and a last one."""
    draw = random.Random(seed())
    store.run("set_up")
    for number in range(KILLS):
        child = store.start("write", 1, 1000 * number, 1000 * number + 999)
        child.wait_for("ack")
        time.sleep(draw.uniform(0, 8))
        child.kill()
    store.run("write", 1, 1000 * KILLS, 1000 * KILLS + 2)
    check(store)


def race_processes(store: Store, batches: int) -> None:
    """Two processes at once: for every version of every log one comes first."""
    store.run("set_up")
    children = [store.start("write", w, 0, batches) for w in (1, 2)]
    for child in children:
        child.finish(SECONDS_TO_START + SECONDS_TO_END)
    check(store)


def compare_with_local_disk(store: Store, tmp_path: Path) -> None:
    """Spark has no more jobs than on a local disk, as this process reads and writes few rows."""
    said = []
    for place in (store, Store(str(tmp_path / "warehouse"), tmp_path / "local")):
        place.logs.mkdir(exist_ok=True)
        place.run("set_up")
        said.append({e[0]: e[1:] for e in place.run("jobs") if e[0] in ("store", "jobs")})
    there, here = said
    assert here["store"] == ["LocalDisk"]
    assert there == {"store": ["ConnectorStore"], "jobs": here["jobs"]}
    check(store)


def examine(store: Store) -> None:
    """``ctsql doctor`` writes there as a commit does, and finds nothing wrong."""
    command = [sys.executable, "-m", "ctsql", "-w", store.uri, "doctor"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{store.uri}: files are written, renamed, listed and deleted" in run.stdout


def check(store: Store) -> None:
    """What was acknowledged is in, whole and once, and outputs are what the feed makes of them."""
    said = store.run("tell")
    rows = {e[1]: Counter(map(tuple, e[2])) for e in said if e[0] == "rows"}
    events = [e for child in store.children for e in child.events]
    tried = {(e[1], e[2]) for e in events if e[0] == "try"}
    acked = {(e[1], e[2]) for e in events if e[0] == "ack"}
    there = {(w, n) for w, n, _ in rows["feed"]}
    assert acked, "nothing was written"
    assert acked <= there <= tried
    assert rows["feed"] == Counter((w, n, i) for w, n in there for i in range(ROWS))
    assert rows["copy"] == rows["feed"]
    newest = {w: max(n for v, n in there if v == w) for w, _ in there}
    assert rows["newest"] == Counter(newest.items())
    assert rows["per_writer"] == Counter((w, n, ROWS, sum(range(ROWS))) for w, n in there)
    assert [e[1] for e in said if e[0] == "wrong"] == [[]]
