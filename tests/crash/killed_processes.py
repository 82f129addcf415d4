"""Processes of a crash test: started, killed with SIGKILL at random moments, and listened to.

``CTSQL_SEED`` repeats a run's draws (the moments are not the same to the microsecond), and
``CTSQL_CRASH_SECONDS`` is how long each test goes on; without it the test's own time holds. The
test's own process starts no JVM, so that three others have room.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, QueryBuilder

from tests.conftest import SHORT_LIVED_JVM

SECONDS_TO_START = 240
SECONDS_TO_END = 240
SECONDS_QUIET = 5
"""So long after others said something the service may have nothing to do."""
Event = list[Any]


def seed() -> str:
    """The seed of this run, printed so that it can be repeated."""
    found = os.environ.get("CTSQL_SEED") or str(random.randrange(1 << 30))
    print(f"CTSQL_SEED={found}")
    return found


def seconds(otherwise: float) -> float:
    """How long to go on."""
    return float(os.environ.get("CTSQL_CRASH_SECONDS") or otherwise)


class Child:
    """A process; its events are read as they come."""

    def __init__(self, *command: str, log: Path) -> None:
        self.events: list[Event] = []
        self.log = log
        self.heard_at = time.monotonic()
        with log.open("ab") as problems:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                stdout=subprocess.PIPE,
                stderr=problems,
                text=True,
                env={**os.environ, "JDK_JAVA_OPTIONS": SHORT_LIVED_JVM},
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                if line.startswith("[") and line.endswith("]\n"):
                    self.heard_at = time.monotonic()
                    self.events.append(json.loads(line))

    def wait_for(self, event: str, most: float = SECONDS_TO_START) -> None:
        """Return once it has said it."""
        until = time.monotonic() + most
        while not any(e[0] == event for e in self.events):
            assert self.process.poll() is None or self._drained(event), self.said()
            assert time.monotonic() < until, f"no {event!r}: {self.said()}"
            time.sleep(0.05)

    def _drained(self, event: str) -> bool:
        self._listener.join(10)
        return any(e[0] == event for e in self.events)

    def is_up(self) -> bool:
        """Has it come so far that it works, and not only starts?"""
        return any(e[0] != "ready" for e in self.events) or self.log.stat().st_size > 0

    def is_within(self) -> bool:
        """Has it begun something of which it did not say that it ended? After its end only."""
        said = Counter(e[0] for e in self.events)
        return said["try"] + said["given"] > said["ack"] + said["lost"] + said["taken"]

    def is_running(self) -> bool:
        """Has it not ended?"""
        return self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL, and wait until its JVM, which reads a pipe of its, has ended too."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(SECONDS_TO_END)
        self._listener.join(SECONDS_TO_END)
        assert not self._listener.is_alive(), "what it started goes on"

    def stop(self) -> None:
        """SIGTERM, as a service manager does; it must end well, unless it had not begun."""
        was_up = self.is_up()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(SECONDS_TO_END)
        assert self.process.returncode == 0 or not was_up, self.said()

    def finish(self, most: float) -> None:
        """Wait for its own end, which must be a good one."""
        self.process.wait(most)
        self._listener.join(SECONDS_TO_END)
        assert self.process.returncode == 0, self.said()

    def said(self) -> str:
        """The end of what it wrote to stderr."""
        return self.log.read_text()[-6000:]


class Crew:
    """The processes of one test on one warehouse."""

    def __init__(self, warehouse: Path, logs: Path, drawn: str) -> None:
        self.warehouse = warehouse
        self.logs = logs
        self.seed = drawn
        self.children: list[Child] = []
        self.kills: Counter[str] = Counter()

    def kill(self, child: Child) -> None:
        """Kill one of the processes, and note what it was at."""
        _, name = child.log.stem.split("-")
        beside = max((c.heard_at for c in self.children if c is not child), default=0.0)
        is_quiet = time.monotonic() - beside > SECONDS_QUIET
        was_up = child.is_up()
        child.kill()
        if not was_up:
            self.kills["starting"] += 1
        elif name == "service":
            self.kills["service, idle" if is_quiet else "service, others writing"] += 1
        else:
            self.kills[f"{name}, {'within' if child.is_within() else 'between'}"] += 1

    def report(self) -> Counter[str]:
        """What was done and killed; printed, and given."""
        said = Counter(e[0] for e in self.events)
        done = Counter({n: said[n] for n in ("try", "ack", "lost", "cut", "taken", "seen")})
        print(f"done: {dict(+done)}; killed: {dict(self.kills)}")
        return self.kills

    def start(self, name: str, *command: str) -> Child:
        """Start a process, whose log has the name."""
        log = self.logs / f"{len(self.children)}-{name}.log"
        self.children.append(Child(*command, log=log))
        return self.children[-1]

    def program(self, name: str, *more: object, lasting: float = 0, place: str = "") -> Child:
        """Start a program of :mod:`tests.crash.programs`."""
        at = place or str(self.warehouse)
        drawn = f"{self.seed}/{len(self.children)}"
        told = [str(m) for m in more]
        return self.start(name, "-m", "tests.crash.programs", name, at, drawn, str(lasting), *told)

    def run(
        self, name: str, *more: object, within: float = SECONDS_TO_START + SECONDS_TO_END
    ) -> list[Event]:
        """Run a program to its end, within so many seconds; gives its events."""
        child = self.program(name, *more)
        child.finish(within)
        return child.events

    def service(self, *more: str) -> Child:
        """Start ``ctsql run``, with further arguments."""
        where = ("-w", str(self.warehouse), "--master", "local[1]")
        return self.start("service", "-m", "ctsql", *where, "run", *more)

    @property
    def events(self) -> Iterator[Event]:
        """What all of them have said."""
        return (event for child in self.children for event in child.events)

    def end(self) -> None:
        """Kill what still runs."""
        for child in self.children:
            if child.is_running():
                child.kill()


@contextmanager
def crew_of(warehouse: Path, logs: Path) -> Iterator[Crew]:
    """A crew that is gone at the end."""
    found = Crew(warehouse, logs, seed())
    try:
        yield found
    finally:
        found.end()


# ---- what is stored, by delta-rs


def table_of(warehouse: Path, name: str) -> Path:
    """The folder of a stored object."""
    (found,) = (p for p in (warehouse / "default").glob(f"{name}-????????") if p.is_dir())
    return found


def stored(
    table: Path, columns: str, version: int | None = None, *, by: str = ""
) -> list[tuple[Any, ...]]:
    """Rows of a Delta table as delta-rs reads them, or of its groups by some columns."""
    held = DeltaTable(table, version=version)
    query = f"SELECT {columns} FROM t" + (f" GROUP BY {by}" if by else "")
    batches = QueryBuilder().register("t", held).execute(query).read_all()
    return [tuple(row[c] for c in batches.column_names) for row in _rows(batches)]


def _rows(batches: Any) -> list[dict[str, Any]]:
    import pyarrow as pa

    return pa.table(batches).to_pylist()
