"""The time of a typical query of each system table, over a warehouse with a long history.

    python -m benchmarks.observing --objects 200 --ticks 10000 --rounds 3

The objects are real: one table, and tasks and views over it, advanced to two Ts by Spark. The rest
of the history are copies of the last commits, written directly into the logs, so ten thousand ticks
take seconds. At each T the table, the timeline and one output in turn get a commit; at the last T
each output does. No row of them is read. ``--warehouse`` names a folder to create it in, or to
reuse.

Each query runs by SQL in a started session, first without cached logs and then again. ``without
Spark`` is the same by a log reader.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ctsql
from ctsql.api import Connection
from ctsql.runtime.log_reader import LocalLogReader
from ctsql.runtime.monitoring.system_tables import system_rows

TICK_MS = 1_000
QUESTIONS = {
    "lag": "SELECT * FROM system.lag ORDER BY lag_seconds DESC",
    "failures": "SELECT * FROM system.failures WHERE state = 'open'",
    "objects": "SELECT kind, count(*) FROM system.objects GROUP BY kind",
    "dependencies": "SELECT * FROM system.dependencies WHERE reads = 'feed'",
    "storage": "SELECT object, bytes FROM system.storage ORDER BY bytes DESC LIMIT 20",
    "refreshes of one object": "SELECT * FROM system.refreshes WHERE object = 'v1' "
    "ORDER BY t DESC LIMIT 100",
    "newest refreshes": "SELECT * FROM system.refreshes ORDER BY at DESC LIMIT 100",
    "refreshes of a minute": "SELECT object, sum(seconds) FROM system.refreshes "
    "WHERE t BETWEEN {middle} AND {middle} + 60000 GROUP BY object",
    "all refreshes": "SELECT object, count(*), sum(seconds) FROM system.refreshes GROUP BY object",
}


def make(con: Connection, objects: int) -> None:
    """Create a table, and tasks and views over it in turn, with rows at two Ts."""
    con.execute("CREATE TABLE feed (k INT, v INT)")
    for n in range(objects):
        if n % 2:
            con.execute(
                f"CREATE MATERIALIZED VIEW v{n} AS SELECT k, sum(v) AS v FROM feed GROUP BY k"
            )
        else:
            con.execute(
                f"CREATE CONTINUAL TASK t{n} ON INPUT feed AS (INSERT INTO t{n} SELECT * FROM feed)"
            )
    con.execute("INSERT INTO feed VALUES (1, 2), (2, 3)")
    con.run(once=True)


class Log:
    """The log of one table, to which commits like its last one are added."""

    def __init__(self, table: Path) -> None:
        self.folder = table / "_delta_log"
        self.version = max(int(p.stem) for p in self.folder.glob("*.json"))
        self._actions = [json.loads(line) for line in self._name("json").read_text().splitlines()]
        self._checksum = json.loads(self._name("crc").read_text())

    def _name(self, suffix: str) -> Path:
        return self.folder / f"{self.version:020d}.{suffix}"

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the last commit."""
        return dict(json.loads(self._actions[0]["commitInfo"].get("userMetadata", "{}")))

    def add(
        self, at: int, upper: int | None, metadata: dict[str, Any], domains: dict[str, Any]
    ) -> None:
        """Add a commit; its files are those of the last one."""
        self.version += 1
        info = self._actions[0]["commitInfo"]
        info |= {"inCommitTimestamp": at, "timestamp": at, "userMetadata": json.dumps(metadata)}
        for action in self._actions:
            if "txn" in action:
                action["txn"]["version"] = upper
            if "domainMetadata" in action:
                action["domainMetadata"]["configuration"] = json.dumps(domains)
        self._name("json").write_text("\n".join(map(json.dumps, self._actions)) + "\n")
        for transaction in self._checksum.get("setTransactions", ()):
            transaction["version"] = upper
        for domain in self._checksum.get("domainMetadata", ()):
            domain["configuration"] = json.dumps(domains)

    def end(self) -> None:
        """Write the checksum file of the last commit."""
        self._name("crc").write_text(json.dumps(self._checksum))


def lengthen(warehouse: Path, ticks: int) -> int:
    """Add Ts to the history of a warehouse; returns one in the middle."""
    folders = sorted((warehouse / "default").iterdir())
    feed = Log(next(f for f in folders if f.name.startswith("feed-")))
    timeline = Log(warehouse / "_ctsql" / "timeline")
    ((_, source, _),) = timeline.metadata["bindings"]
    start = int(time.time() * 1000) - ticks * TICK_MS
    times = [start + n * TICK_MS for n in range(1, ticks + 1)]
    for t in times:
        feed.add(t, None, {}, {})
        metadata = {**timeline.metadata, "bindings": [[t, source, feed.version]], "upper": t + 1}
        timeline.add(t + 5, t + 1, metadata, {source: feed.version})
    logs = [Log(f) for f in folders if not f.name.startswith("feed-")]
    for i, log in enumerate(logs):
        first = log.metadata
        for t in dict.fromkeys((*times[i :: len(logs)], times[-1])):
            log.add(t + 300, t + 1, {**first, "t": t, "upper": t + 1}, {})
    for log in (feed, timeline, *logs):
        log.end()
    return times[ticks // 2]


def made(warehouse: Path, objects: int, ticks: int) -> int:
    """Create a warehouse with a history, unless it exists; returns a T in its middle."""
    middle_file = warehouse / "middle"
    if not middle_file.exists():
        con = ctsql.connect(str(warehouse))
        make(con, objects)
        con.close()
        middle = lengthen(warehouse, ticks)
        middle_file.write_text(str(middle))
        print(f"{objects} objects, {ticks:,} ticks")
    return int(middle_file.read_text())


def timed(ask: Callable[[], object]) -> float:
    """The seconds of a call."""
    start = time.perf_counter()
    ask()
    return time.perf_counter() - start


def measured(warehouse: Path, middle: int, rounds: int) -> Iterator[tuple[str, list[float]]]:
    """Each query, with the seconds of the first run, of the next ones, and without Spark."""
    con = ctsql.connect(str(warehouse), read_only=True)
    con.execute("SELECT * FROM system.objects WHERE false").fetchall()
    for name, text in QUESTIONS.items():
        engine = con._engine
        assert engine is not None
        engine._system_rows._local = None
        seconds = []
        for _ in range(rounds + 1):
            query = text.format(middle=middle)
            seconds.append(timed(lambda query=query: con.execute(query).fetchall()))
        times = [seconds[0], statistics.median(seconds[1:])]
        if " " not in name:
            reader = LocalLogReader(str(warehouse), read_only=True)
            times.append(timed(lambda r=reader, t=name: system_rows(r, t)))
        yield name, times
    con.close()


def main() -> None:
    """Create a warehouse and run the queries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=20)
    parser.add_argument("--ticks", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warehouse", type=Path, help="a folder for it, or one that is there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        warehouse = options.warehouse or Path(folder) / "warehouse"
        middle = made(warehouse, options.objects, options.ticks)
        print(f"{'question':26}{'first':>9}{'again':>9}{'without Spark':>15}")
        for name, seconds in measured(warehouse, middle, options.rounds):
            cells = "".join(f"{s:{w}.2f}" for s, w in zip(seconds, (9, 9, 15), strict=False))
            print(f"{name:26}{cells}")


if __name__ == "__main__":
    main()
