"""The costs of a contestant: seconds, Spark jobs, rows that Spark read, commits, files and bytes.

Jobs and rows read are Spark's counts, from its status store. Commits, files and bytes written are
counted on disk, so they include change data, deletion vectors and a query's checkpoints. A commit
is a new version of a Delta log; files and bytes are those below the contestant's folders without
Delta logs. The seconds do not include the counting.
"""

import os
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from pyspark.sql import SparkSession

_COMMIT = re.compile(r"\d{20}\.json")


@dataclass(frozen=True, slots=True)
class Cost:
    """The costs of one act, or (as medians) of several."""

    seconds: float
    jobs: float
    rows_read: float
    commits: float
    files: float
    bytes_written: float


@dataclass
class Series:
    """A contestant: its name, the folders that it writes to, and its costs."""

    session: SparkSession
    name: str
    folders: Sequence[str]
    costs: list[Cost] = field(default_factory=list)

    def measure(self, act: Callable[[], object]) -> Cost:
        """Run it once and record the costs."""
        before, read_before = self._written(), _rows_read(self.session)
        jobs = jobs_started(self.session)
        start = time.perf_counter()
        act()
        seconds = time.perf_counter() - start
        jobs = jobs_started(self.session) - jobs
        commits, files, size = (b - a for a, b in zip(before, self._written(), strict=True))
        read = _rows_read(self.session) - read_before
        cost = Cost(seconds, jobs, read, commits, files, size)
        self.costs.append(cost)
        return cost

    @property
    def median(self) -> Cost:
        """The median of each cost."""
        return Cost(*(statistics.median(getattr(c, f.name) for c in self.costs) for f in COLUMNS))

    def _written(self) -> tuple[int, int, int]:
        """The present commits, files and bytes below the folders."""
        commits = files = size = 0
        for top in self.folders:
            for folder, _, names in os.walk(top):
                if os.path.basename(folder) == "_delta_log":
                    commits += sum(bool(_COMMIT.fullmatch(n)) for n in names)
                    continue
                whole = [n for n in names if not n.endswith(".crc")]
                files += len(whole)
                size += sum(os.path.getsize(os.path.join(folder, n)) for n in whole)
        return commits, files, size


COLUMNS = fields(Cost)


def delta_properties(configuration: Mapping[str, str]) -> str:
    """A table's Delta properties as TBLPROPERTIES, for the tables of a rival."""
    items = configuration.items()
    return ", ".join(f"'{key}' = '{value}'" for key, value in items if key.startswith("delta."))


def jobs_started(session: SparkSession) -> int:
    """The number of Spark jobs that this process has started."""
    return int(_context(session).dagScheduler().numTotalJobs())


def _rows_read(session: SparkSession) -> int:
    """The rows that the stages in Spark's status store have read from files."""
    context = _context(session)
    context.listenerBus().waitUntilEmpty()
    store = context.statusStore()
    defaults = (getattr(store, f"stageList$default${i}")() for i in range(2, 6))
    stages = store.stageList(None, *defaults)
    return sum(int(stages.apply(i).inputRecords()) for i in range(stages.size()))


def _context(session: SparkSession) -> Any:
    return session.sparkContext._jsc.sc()


def table(title: str, series: Sequence[Series]) -> None:
    """Print the medians of contestants; the first one is 1.00."""
    base = series[0].median.seconds
    print(f"\n{title}")
    print(
        f"  {'':<34}{'median':>10}{'fastest':>10}{'ratio':>7}"
        f"{'jobs':>6}{'rows read':>12}{'commits':>8}{'files':>6}{'written':>9}"
    )
    for one in series:
        m, fastest = one.median, min(c.seconds for c in one.costs)
        print(
            f"  {one.name:<34}{m.seconds * 1000:>7.0f} ms{fastest * 1000:>7.0f} ms"
            f"{m.seconds / base:>7.2f}{m.jobs:>6.0f}{m.rows_read:>12,.0f}"
            f"{m.commits:>8.0f}{m.files:>6.0f}{_size(m.bytes_written):>9}"
        )


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
