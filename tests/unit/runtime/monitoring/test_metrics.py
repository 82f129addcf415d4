"""Metrics in Prometheus' format: their names, and what they count."""

import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from ctsql.catalog.errors import error
from ctsql.runtime.monitoring import metrics
from ctsql.runtime.monitoring.metrics import Counts, Lags, ServiceMetrics
from ctsql.runtime.monitoring.objects import LagRow
from ctsql.runtime.monitoring.refreshes import Refresh
from ctsql.runtime.monitoring.status import Pulse, State

DOCS = Path(__file__).resolve().parents[4] / "docs" / "observing"
REFRESH = Refresh(
    object="m", output="m", kind="materialized view", t=5, at=datetime.fromtimestamp(1, UTC),
    version=3, strategy="incremental", reason=None, detail=None, changed=(),
    changed_rows=None, expected_seconds=None, rows_inserted=4,
    rows_deleted=None, files_written=1, bytes_written=10, rows_read=7, bytes_read=70, jobs=2,
    seconds=1.5, phases={"compute": 1.0, "state": 0.25}, delay_seconds=0.5, times=1, process="h:1",
)  # fmt: skip
LAG = LagRow(
    object="m", kind="materialized view", state="behind", upper=6, complete_through=5_000,
    lag_seconds=2.5, lag_versions=3, error_condition=None, error_t=None, error_message=None,
)  # fmt: skip


def _page(service: ServiceMetrics) -> dict[tuple[str, str], float]:
    registry = CollectorRegistry()
    registry.register(service)
    text = generate_latest(registry).decode()
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name
        for sample in family.samples:
            labels = ",".join(v for k, v in sorted(sample.labels.items()))
            found[sample.name, labels] = sample.value
    return found


def test_what_the_page_has() -> None:
    """Counters of what was done, gauges of what is; base units."""
    counts, pulse = Counts(), Pulse(looks=9, ticks=2, tick_seconds=3.0, queue=4)
    counts.add_refresh(REFRESH, 2.0)
    counts.add_refresh(REFRESH, None)
    counts.add_failure("f", "DATA_ERROR")
    counts.add_failure(None, "STORAGE_ERROR")
    for name, rows in (("m", 2), ("m", 3), ("none", 0)):
        counts.add_quarantined(name, rows)
    pulse.ticking_since = time.monotonic() - 60
    memory = {"heap": (10, 20, -1), "nonheap": (1, 2, 3)}
    page = _page(ServiceMetrics(counts, pulse, Lags(lambda: [LAG]), lambda: memory))
    expected = {
        ("ctsql_refreshes_total", "m,incremental"): 2,
        ("ctsql_rows_inserted_total", "m"): 8,
        ("ctsql_rows_deleted_total", "m"): 0,
        ("ctsql_bytes_read_total", "m"): 140,
        ("ctsql_jobs_total", "m"): 4,
        ("ctsql_phase_seconds_total", "m,compute"): 2.0,
        ("ctsql_phase_seconds_total", "m,rest"): 0.75,
        ("ctsql_delay_seconds", "m"): 0.5,
        ("ctsql_quarantined_rows_total", "m"): 5,
        ("ctsql_quarantined_rows_total", "none"): 0,
        ("ctsql_failures_total", "DATA_ERROR,f"): 1,
        ("ctsql_failures_total", "STORAGE_ERROR,"): 1,
        ("ctsql_looks_total", ""): 9,
        ("ctsql_ticks_total", ""): 2,
        ("ctsql_tick_seconds_total", ""): 3.0,
        ("ctsql_queue_objects", ""): 4,
        ("ctsql_lag_seconds", "materialized view,m"): 2.5,
        ("ctsql_lag_commits", "materialized view,m"): 3,
        ("ctsql_complete_through_timestamp_seconds", "materialized view,m"): 5.0,
        ("ctsql_object_state", "materialized view,m,behind"): 1,
        ("ctsql_object_state", "materialized view,m,failed"): 0,
        ("ctsql_jvm_memory_used_bytes", "heap"): 10,
        ("ctsql_jvm_memory_max_bytes", "nonheap"): 3,
    }
    assert {key: page.get(key) for key in expected} == expected
    assert page["ctsql_running_tick_seconds", ""] >= 60
    assert ("ctsql_jvm_memory_max_bytes", "heap") not in page
    assert ("ctsql_since_last_look_seconds", "") not in page


def test_lags_are_looked_up_once_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two looks the same is given; when one fails the last answer stays, and is counted."""
    asked = []

    def look_up() -> list[LagRow]:
        asked.append(1)
        if len(asked) == 2:
            raise error("STORAGE_ERROR", message="gone")
        return [LAG]

    lags = Lags(look_up)
    assert [lags.rows(), lags.rows(), len(asked)] == [[LAG], [LAG], 1]
    monkeypatch.setattr(metrics, "SAMPLE_SECONDS", 0.0)
    lags._until = 0.0
    assert (lags.rows(), lags.failure_count) == ([LAG], 1)
    assert (lags.rows(), lags.failure_count, len(asked)) == ([LAG], 1, 3)


def test_dashboard_and_rules_name_metrics_that_are_there() -> None:
    """What docs/observing has for Grafana and Prometheus asks for what the page gives."""
    counts, pulse = Counts(), Pulse(looked_at=0.0)
    counts.add_refresh(REFRESH, 2.0)
    counts.add_failure("f", "DATA_ERROR")
    counts.add_quarantined("m", 1)
    memory = {"heap": (10, 20, 30)}
    page = _page(ServiceMetrics(counts, pulse, Lags(lambda: [LAG]), lambda: memory))
    given = {name for name, _ in page}
    states = {state.value for state in State}
    for name in ("grafana.json", "alerts.yml"):
        text = (DOCS / name).read_text()
        asked = set(re.findall(r"\bctsql_[a-z_]+", text))
        assert asked, name
        assert asked <= given, name
        assert set(re.findall(r'state=\\?"([a-z ]+)\\?"', text)) <= states
    panels = json.loads((DOCS / "grafana.json").read_text())["panels"]
    assert len({p["id"] for p in panels}) == len(panels) > 10
