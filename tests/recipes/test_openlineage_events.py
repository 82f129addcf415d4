"""The example that turns events into OpenLineage's runs."""

import importlib
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ctsql.runtime.monitoring.refreshes import Refresh
from ctsql.runtime.service.events import Event, EventKind

T = 1_767_225_600_000
REFRESH = Refresh(
    object="orders_per_day", output="orders_per_day", kind="materialized view", t=T,
    at=datetime.fromtimestamp(T / 1000, UTC), version=7, strategy="incremental", reason=None,
    detail=None, changed=("orders", "customers"), changed_rows=2,
    expected_seconds=0.5, rows_inserted=2, rows_deleted=1,
    files_written=1, bytes_written=900, rows_read=2, bytes_read=800, jobs=3, seconds=0.5, phases={},
    delay_seconds=1.0, times=1, process=None,
)  # fmt: skip


def test_commits_and_failures_become_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run for each, with what was read and written, or the error; other events are none."""
    log = tmp_path / "events.jsonl"
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(log))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    example = importlib.import_module("examples.openlineage_events")
    wrote = Event(
        kind=EventKind.WROTE, at=T + 1_000, name="orders_per_day", time=T, refresh=REFRESH
    )
    failed = Event(
        kind=EventKind.FAILED, at=T + 2_000, name="clean", time=T,
        condition="TASK_FAILED", message="division by zero",
    )  # fmt: skip
    for event in (
        Event(kind=EventKind.STARTED, at=T, message="2 objects"),
        wrote,
        Event(kind=EventKind.REACHED, at=T, time=T),
        failed,
        Event(kind=EventKind.FAILED, at=T, condition="STORAGE_ERROR", message="of the service"),
    ):
        example.send(event)
    example.waiting.join()
    commit, failure = (json.loads(line) for line in log.read_text().splitlines())
    assert (commit["eventType"], failure["eventType"]) == ("COMPLETE", "FAIL")
    assert commit["job"]["name"] == "orders_per_day"
    assert [i["name"] for i in commit["inputs"]] == ["orders", "customers"]
    assert [o["name"] for o in commit["outputs"]] == ["orders_per_day"]
    assert commit["eventTime"] == "2026-01-01T00:00:01+00:00"
    assert commit["run"]["facets"]["nominalTime"]["nominalStartTime"] == "2026-01-01T00:00:00+00:00"
    message = failure["run"]["facets"]["errorMessage"]["message"]
    assert message == "TASK_FAILED: division by zero"
    example.send(wrote)
    example.waiting.join()
    again = json.loads(log.read_text().splitlines()[-1])
    assert again["run"]["runId"] == commit["run"]["runId"]
