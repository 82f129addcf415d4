"""Metrics in Prometheus' format: the work of a service, its state, and the lag of objects.

Work is counted from the service's events, in its own thread. The rest is read on request, in the
collector's thread: the service's pulse, the JVM's memory, and the lag of each object, by a separate
reader of the logs. So a slow collector delays no tick, and a lag grows while a tick hangs.

Names and units are those of Prometheus' conventions: base units, ``_total`` for counters.

Source: Prometheus, "Metric and label naming", "Writing client libraries".
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.delta.log.local_log import NeedsSpark
from ctsql.runtime.monitoring.objects import LagRow
from ctsql.runtime.monitoring.refreshes import Refresh
from ctsql.runtime.monitoring.status import Pulse, State

SAMPLE_SECONDS = 5.0  # how long lags are cached for all collectors


JvmMemory = Mapping[str, tuple[int, int, int]]
"""The bytes in use, those taken, and the limit, of each area; the limit is negative without one."""
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
        self._registry = CollectorRegistry()
        self._lock = threading.Lock()  # the counts of a commit are shown together

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(f"ctsql_{name}", about, ("object", *labels), registry=self._registry)

        self._refreshes = counter("refreshes", "Commits of tasks and views.", "strategy")
        self._numbers = {name: counter(name, about) for name, about in _COUNTED.items()}
        set_aside = "Rows in quarantine, by task or view."
        self._quarantined_rows = counter("quarantined_rows", set_aside)
        self._phases = counter("phase_seconds", "Seconds by phase.", "phase")
        about_failures = 'Failures; the object "" is the service itself.'
        self._failures = counter("failures", about_failures, "condition")
        delay = "From T to the last commit at T."
        self._delays = Gauge("ctsql_delay_seconds", delay, ("object",), registry=self._registry)

    def add_refresh(self, refresh: Refresh, seconds: float | None) -> None:
        """Count a commit.

        Args:
            seconds: since the one before of the same output; time outside of phases is the phase
                ``rest``: binding times, reading logs, and the commit itself.
        """
        name, phases = refresh.object, dict(refresh.phases)
        if seconds is not None:
            phases["rest"] = max(seconds - sum(phases.values()), 0.0)
        with self._lock:
            self._refreshes.labels(name, refresh.strategy).inc()
            for number, counter in self._numbers.items():
                counter.labels(name).inc(getattr(refresh, number) or 0)
            for phase, phase_seconds in phases.items():
                self._phases.labels(name, phase).inc(phase_seconds)
            if refresh.delay_seconds is not None:
                self._delays.labels(name).set(refresh.delay_seconds)
            else:
                with suppress(KeyError):  # it had none
                    self._delays.remove(name)

    def add_failure(self, name: str | None, condition: str) -> None:
        """Count a failure; None is the service itself."""
        self._failures.labels(name or "", condition).inc()

    def add_quarantined(self, name: str, rows: int) -> None:
        """Count rows that were set aside; an object without any is shown with 0."""
        self._quarantined_rows.labels(name).inc(rows)

    def families(self) -> Iterator[Metric]:
        """The counters, without the times at which they were made."""
        with self._lock:
            families = list(self._registry.collect())
        for family in families:
            family.samples = [s for s in family.samples if not s.name.endswith("_created")]
            yield family


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
        memory: Callable[[], JvmMemory],
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


def _of_memory(areas: JvmMemory) -> Iterator[Metric]:
    used_bytes = _gauge("jvm_memory_used_bytes", "In use.", "area")
    committed_bytes = _gauge("jvm_memory_committed_bytes", "Taken from the system.", "area")
    max_bytes = _gauge("jvm_memory_max_bytes", "The limit.", "area")
    for area, (used, committed, most) in areas.items():
        used_bytes.add_metric((area,), used)
        committed_bytes.add_metric((area,), committed)
        if most >= 0:
            max_bytes.add_metric((area,), most)
    yield from (used_bytes, committed_bytes, max_bytes)
