"""Traces: one for each T, with the ids that writers gave; a dead collector keeps nobody waiting."""

import logging
import socket
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ctsql import tracing
from ctsql.runtime.monitoring.traces import Origin
from ctsql.runtime.service.events import Event, EventKind
from ctsql.tracing import Tracing
from tests.frontdoors.test_watch import REFRESH


def wrote(name: str, t: int, at_ms: int, origins: tuple[Origin, ...] = ()) -> Event:
    made = replace(REFRESH, output=name, t=t, at=datetime.fromtimestamp(at_ms / 1000, UTC))
    return Event(
        kind=EventKind.WROTE, at=at_ms, name=name, time=t, seconds=0.5, refresh=made,
        origins=origins,
    )  # fmt: skip


def failed(name: str, t: int, at_ms: int) -> Event:
    return Event(
        kind=EventKind.FAILED, at=at_ms, name=name, time=t, condition="DATA_ERROR", message="bad"
    )


def _spans(events: list[Event | int]) -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    with Tracing(SimpleSpanProcessor(exporter)).opened() as made:
        for event in events:
            if isinstance(event, int):
                made.reached(event)
            else:
                made.note(event)
    return list(exporter.get_finished_spans())


def _ids(span: ReadableSpan) -> tuple[int, int, int | None]:
    assert span.context is not None
    parent = None if span.parent is None else span.parent.span_id
    return span.context.trace_id, span.context.span_id, parent


SOURCE = (Origin("feed", 3),)
WRITTEN = (Origin("feed", 3, (7, 8)),)


def test_a_trace_is_a_t_from_its_source_to_its_last_output() -> None:
    """Spans are given once T is reached; what comes later joins the same trace."""
    events: list[Event | int] = [wrote("a", 1_000, 1_900, SOURCE), wrote("b", 1_000, 2_500, SOURCE)]
    assert _spans(events) == []
    root, a, b = _spans([*events, 1_000])
    assert [s.name for s in (root, a, b)] == ["T", "a", "b"]
    trace, span, parent = _ids(root)
    assert parent is None
    assert [_ids(s)[::2] for s in (a, b)] == [(trace, span)] * 2
    assert (root.start_time, root.end_time) == (1_000_000_000, 2_500_000_000)
    assert (a.start_time, a.end_time) == (1_400_000_000, 1_900_000_000)
    attributes = dict(a.attributes or {})
    assert (attributes["ctsql.t"], attributes["ctsql.strategy"]) == (1_000, "incremental")
    assert dict(root.attributes or {})["ctsql.sources"] == ("feed@3",)
    again = _spans([*events, 1_000, wrote("late", 1_000, 9_000, SOURCE), 2_000])
    assert [s.name for s in again] == ["T", "a", "b", "late"]
    assert {_ids(s)[0] for s in again} == {trace}  # the ids of another process are the same
    assert _ids(again[3])[2] == span


def test_what_comes_later_waits_for_no_later_t() -> None:
    """As of an output that had failed, when it goes on: nothing else may be written for days."""
    exporter = InMemorySpanExporter()
    with Tracing(SimpleSpanProcessor(exporter)).opened() as made:
        made.note(wrote("a", 1_000, 1_900, SOURCE))
        made.reached(1_010)
        made.note(wrote("b", 1_000, 9_000, SOURCE))
        made.note(wrote("b", 1_005, 9_100, SOURCE))  # the first of that T: there may be others
        assert [s.name for s in exporter.get_finished_spans()] == ["T", "a", "b"]
        made.note(wrote("b", 1_020, 9_200, SOURCE))  # of a T that is not reached
    root, a, b, other, late = exporter.get_finished_spans()
    assert [s.name for s in (root, a, b, other, late)] == ["T", "a", "b", "T", "b"]
    assert _ids(b)[::2] == _ids(a)[::2]
    assert dict(late.attributes or {})["ctsql.t"] == 1_005


def test_the_trace_is_that_of_who_wrote_the_source() -> None:
    root, a = _spans([wrote("a", 1_000, 1_900, WRITTEN), 1_000])
    trace, span, parent = _ids(root)
    assert (trace, parent) == (7, 8)
    assert _ids(a)[::2] == (7, span)


def test_a_failure_is_a_span_with_an_error() -> None:
    _, a, bad = _spans([wrote("a", 1_000, 1_900, SOURCE), failed("bad", 1_000, 2_000), 1_000])
    assert a.status.is_ok
    assert (bad.status.is_ok, bad.status.description) == (False, "DATA_ERROR: bad")


def test_a_complaint_is_told_once() -> None:
    told: list[str] = []
    with Tracing(SimpleSpanProcessor(InMemorySpanExporter()), told.append).opened():
        for n in range(5):
            logging.getLogger("opentelemetry.exporter").warning("try %s of a dead collector", n)
    assert len(told) == 1
    assert "try 0 of a dead collector" in told[0]


def test_a_dead_collector_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither who notes nor who ends; what still tries then ends, too."""
    monkeypatch.setattr(tracing, "END_SECONDS", 0.5)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "4")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2048")
    told: list[str] = []
    before = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as dead:
        address = f"http://127.0.0.1:{dead.getsockname()[1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        with Tracing(tell=told.append).opened() as made:
            begun = time.monotonic()
            for t in range(1_000, 4_000):  # more than the processor's queue holds
                made.note(wrote("a", t, t + 10, SOURCE))
                made.reached(t)
            noted = time.monotonic() - begun
            ending = time.monotonic()
        ended = time.monotonic() - ending
        # A thread that tries again draws random numbers, in whatever test comes next.
        for thread in set(threading.enumerate()) - before:
            thread.join(30)
            assert not thread.is_alive()
    assert noted < 10
    assert ended < 3
    assert len(told) <= 3
