"""Metrics in Prometheus' format: the work of a service, its state, and the lag of objects.

Work is counted from the service's events, in its own thread. The rest is read on request, in the
collector's thread: the service's pulse, the JVM's memory, and the lag of each object, by a separate
reader of the logs. So a slow collector delays no tick, and a lag grows while a tick hangs.

Names and units are those of Prometheus' conventions: base units, ``_total`` for counters.

Source: Prometheus, "Metric and label naming", "Writing client libraries".
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.delta.log.local_log import NeedsSpark
from ctsql.runtime.monitoring.objects import LagRow
from ctsql.runtime.monitoring.refreshes import Refresh
from ctsql.runtime.monitoring.status import Pulse, State

SAMPLE_SECONDS = 5.0  # how long lags are cached for all collectors


@dataclass(frozen=True, slots=True)
class JvmMemory:
    """Bytes of one area of the JVM; ``most`` is None without a limit."""

    area: str
    used: int
    committed: int
    most: int | None


@dataclass(slots=True)
class _ObjectCounts:
    """The counts of one object."""

    strategies: "defaultdict[str, int]" = field(default_factory=lambda: defaultdict(int))
    numbers: "defaultdict[str, int]" = field(default_factory=lambda: defaultdict(int))
    phases: "defaultdict[str, float]" = field(default_factory=lambda: defaultdict(float))
    failures: "defaultdict[str, int]" = field(default_factory=lambda: defaultdict(int))
    delay_seconds: float | None = None
    quarantined_rows: int | None = None


_COUNTED = {
    "rows_inserted": "Rows that commits inserted, as far as their statistics say.",
    "rows_deleted": "Rows that commits deleted, as far as their statistics say.",
    "rows_read": "Rows that Spark's jobs read.",
    "bytes_read": "Bytes that Spark's jobs read.",
    "bytes_written": "Bytes of new files with rows.",
    "files_written": "New files with rows.",
    "jobs": "Spark jobs.",
}
"""The numbers of a refresh that are added up, with their meaning."""


class Counts:
    """The work of a service, by object; safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, _ObjectCounts] = {}

    def _of(self, name: str | None) -> _ObjectCounts:
        return self._counts.setdefault(name or "", _ObjectCounts())

    def add_refresh(self, refresh: Refresh, seconds: float | None) -> None:
        """Count a commit.

        Args:
            seconds: since the one before of the same output; time outside of phases is the phase
                ``rest``: binding times, reading logs, and the commit itself.
        """
        with self._lock:
            counts = self._of(refresh.object)
            counts.strategies[refresh.strategy] += 1
            for name in _COUNTED:
                counts.numbers[name] += getattr(refresh, name) or 0
            for name, phase_seconds in refresh.phases.items():
                counts.phases[name] += phase_seconds
            if seconds is not None:
                counts.phases["rest"] += max(seconds - sum(refresh.phases.values()), 0.0)
            counts.delay_seconds = refresh.delay_seconds

    def add_failure(self, name: str | None, condition: str) -> None:
        """Count a failure; None is the service itself."""
        with self._lock:
            self._of(name).failures[condition] += 1

    def add_quarantined(self, name: str, rows: int) -> None:
        """Count rows that were set aside; an object without any is shown with 0."""
        with self._lock:
            counts = self._of(name)
            counts.quarantined_rows = (counts.quarantined_rows or 0) + rows

    def families(self) -> Iterator[Metric]:
        """The counters."""
        set_aside = "Rows in quarantine, by task or view."
        quarantined_rows = _counter("quarantined_rows", set_aside, "object")
        refreshes = _counter("refreshes", "Commits of tasks and views.", "object", "strategy")
        phases = _counter("phase_seconds", "Seconds by phase.", "object", "phase")
        about_failures = 'Failures; the object "" is the service itself.'
        failures = _counter("failures", about_failures, "object", "condition")
        delays = _gauge("delay_seconds", "From T to the last commit at T.", "object")
        counters = {name: _counter(name, about, "object") for name, about in _COUNTED.items()}
        with self._lock:
            for name, counts in self._counts.items():
                for strategy, count in counts.strategies.items():
                    refreshes.add_metric((name, strategy), count)
                for phase, seconds in counts.phases.items():
                    phases.add_metric((name, phase), seconds)
                for condition, count in counts.failures.items():
                    failures.add_metric((name, condition), count)
                for key, count in counts.numbers.items():
                    counters[key].add_metric((name,), count)
                if counts.quarantined_rows is not None:
                    quarantined_rows.add_metric((name,), counts.quarantined_rows)
                if counts.delay_seconds is not None:
                    delays.add_metric((name,), counts.delay_seconds)
        yield from (refreshes, *counters.values(), quarantined_rows, phases, failures, delays)


class Lags:
    """The lag of each object, read at most every :data:`SAMPLE_SECONDS`."""

    def __init__(self, look_up: Callable[[], Sequence[LagRow]]) -> None:
        self._look_up = look_up
        self._lock = threading.Lock()
        self._rows: Sequence[LagRow] = ()
        self._until = 0.0
        self.failure_count = 0

    def rows(self) -> Sequence[LagRow]:
        """The rows; the last ones if they cannot be read now."""
        with self._lock:
            if time.monotonic() >= self._until:
                try:
                    self._rows = self._look_up()
                except (CtsqlError, NeedsSpark):
                    self.failure_count += 1  # the service reports it
                self._until = time.monotonic() + SAMPLE_SECONDS
            return self._rows


class ServiceMetrics(Collector):
    """All metrics of one service."""

    def __init__(
        self,
        counts: Counts,
        pulse: Pulse,
        lags: Lags,
        memory: Callable[[], Sequence[JvmMemory]],
    ) -> None:
        self._counts, self._pulse, self._lags, self._memory = counts, pulse, lags, memory

    def collect(self) -> Iterator[Metric]:
        """All metrics."""
        yield from self._counts.families()
        yield from _of_pulse(self._pulse)
        yield from _of_lags(self._lags)
        yield from _of_memory(self._memory())


def _counter(name: str, about: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"ctsql_{name}", about, labels=labels)


def _gauge(name: str, about: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"ctsql_{name}", about, labels=labels)


def _of_pulse(pulse: Pulse) -> Iterator[Metric]:
    now = time.monotonic()
    looked_at, ticking = pulse.looked_at, pulse.ticking_since
    running = "Time that the running tick has taken; 0 between ticks."
    families: list[tuple[CounterMetricFamily | GaugeMetricFamily, float]] = [
        (_counter("looks", "Polls of the logs."), pulse.looks),
        (_counter("ticks", "Polls that found work."), pulse.ticks),
        (_counter("tick_seconds", "All ticks together."), pulse.tick_seconds),
        (_gauge("running_tick_seconds", running), 0.0 if ticking is None else now - ticking),
        (_gauge("queue_objects", "Outputs that the tick has still to advance."), pulse.queue),
    ]
    if looked_at is not None:
        since = _gauge("since_last_look_seconds", "Time since the last poll of the logs.")
        families.append((since, now - looked_at))
    for family, value in families:
        family.add_metric((), value)
        yield family


def _of_lags(lags: Lags) -> Iterator[Metric]:
    labels = ("object", "kind")
    missing = "Time since the first commit that an object waits for was due."
    behind = _gauge("lag_seconds", missing, *labels)
    waiting = _gauge("lag_commits", "Commits that an object waits for.", *labels)
    complete = "The object's rows are stored for every T up to this one."
    through = _gauge("complete_through_timestamp_seconds", complete, *labels)
    states = _gauge("object_state", "1 for the state in which an object is.", *labels, "state")
    for row in lags.rows():
        label_values = (row.object, row.kind)
        behind.add_metric(label_values, row.lag_seconds)
        waiting.add_metric(label_values, row.lag_versions)
        if row.complete_through is not None:
            through.add_metric(label_values, row.complete_through / 1000)
        for state in State:
            states.add_metric((*label_values, state.value), float(row.state == state.value))
    lookup_failures = _counter("lag_lookup_failures", "Lags that could not be read.")
    lookup_failures.add_metric((), lags.failure_count)
    yield from (behind, waiting, through, states, lookup_failures)


def _of_memory(areas: Sequence[JvmMemory]) -> Iterator[Metric]:
    used_bytes = _gauge("jvm_memory_used_bytes", "In use.", "area")
    committed_bytes = _gauge("jvm_memory_committed_bytes", "Taken from the system.", "area")
    max_bytes = _gauge("jvm_memory_max_bytes", "The limit.", "area")
    for area in areas:
        used_bytes.add_metric((area.area,), area.used)
        committed_bytes.add_metric((area.area,), area.committed)
        if area.most is not None:
            max_bytes.add_metric((area.area,), area.most)
    yield from (used_bytes, committed_bytes, max_bytes)
