"""``ctsql run --traces``: a span for each T, given to OpenTelemetry; the extra ``ctsql[otel]``.

Where spans go is said by OpenTelemetry's own variables of the environment, above all
``OTEL_EXPORTER_OTLP_ENDPOINT``. Its batch processor sends them by a thread of its own from a queue
of bounded length: while a collector is slow or dead, spans are dropped and no tick waits.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ctsql.catalog.errors import misuse
from ctsql.runtime.monitoring.traces import Trace, Traces
from ctsql.tell_once import tell_once

try:
    from opentelemetry.context import Context
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
    from opentelemetry.trace import (
        NonRecordingSpan,
        SpanContext,
        SpanKind,
        Status,
        StatusCode,
        TraceFlags,
        set_span_in_context,
    )
except ImportError as problem:
    raise misuse(
        "traces need OpenTelemetry, which is not installed",
        f"{problem}. Type: pip install 'ctsql[otel]'",
    ) from problem

if TYPE_CHECKING:
    from ctsql.runtime.service.events import Event

END_SECONDS = 5.0
"""How long the end of a service waits for the last spans to be taken."""
_NANOSECONDS = 1_000_000


class _GivenIds(IdGenerator):
    """Gives the ids that are set for the next span; random ones without."""

    def __init__(self) -> None:
        self.trace: int | None = None
        self.span: int | None = None
        self._random = RandomIdGenerator()

    def generate_trace_id(self) -> int:
        """The id of a trace."""
        return self._random.generate_trace_id() if self.trace is None else self.trace

    def generate_span_id(self) -> int:
        """The id of a span; one that was set is given once."""
        span_id, self.span = self.span, None
        return self._random.generate_span_id() if span_id is None else span_id


class _Complaints(logging.Handler):
    """Tells the first message of each kind: a dead collector gives one for every try."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell_once("traces", tell)

    def emit(self, record: logging.LogRecord) -> None:
        """Tell a message."""
        self._tell(record.msg, record.getMessage())


class Tracing:
    """Gives the traces of one service to a processor of OpenTelemetry's.

    Args:
        processor: by default one that sends batches by OTLP over HTTP.
        tell: is given what OpenTelemetry complains of.
    """

    def __init__(
        self,
        processor: SpanProcessor | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._complaints = _Complaints(tell)
        self._ids = _GivenIds()
        resource = Resource.create({SERVICE_NAME: "ctsql"})
        self._provider = TracerProvider(
            resource=resource, id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(processor or BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("ctsql")
        self._lock = threading.Lock()
        self._traces = Traces(self._emit)

    def note(self, event: "Event") -> None:
        """Take an event of the service."""
        with self._lock:
            if event.refresh is not None:
                self._traces.add_refresh(event.refresh, event.seconds or 0.0, event.origins)
            elif event.condition is not None and event.name and event.time is not None:
                reason = f"{event.condition}: {event.message}"
                self._traces.add_failure(event.name, event.time, event.at, reason)

    def reached(self, t: int) -> None:
        """Give on what happened at all Ts through one."""
        with self._lock:
            self._traces.reached(t)

    @contextmanager
    def opened(self) -> Iterator["Tracing"]:
        """Inside it is used; at the end the last spans are sent, if that takes no longer."""
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(self._complaints)
        logger.propagate = False
        try:
            yield self
        finally:
            with self._lock:
                self._traces.end()
            ending = threading.Thread(target=self._provider.shutdown, daemon=True)
            ending.start()
            ending.join(END_SECONDS)

    def _emit(self, trace: Trace) -> None:
        trace_id, span_id, parent_id = trace.ids
        if trace.is_first:
            self._ids.trace, self._ids.span = trace_id, span_id
            above = None if parent_id is None else _context(trace_id, parent_id)
            root = self._tracer.start_span(
                "T",
                above,
                SpanKind.CONSUMER,
                start_time=trace.t * _NANOSECONDS,
                attributes={
                    "ctsql.t": trace.t,
                    "ctsql.sources": [f"{o.table}@{o.version}" for o in trace.origins],
                },
            )
            root.end(trace.ended_ms * _NANOSECONDS)
        for step in trace.steps:
            span = self._tracer.start_span(
                step.name,
                _context(trace_id, span_id),
                start_time=step.begun_ms * _NANOSECONDS,
                attributes={"ctsql.t": trace.t, **step.attributes},
            )
            if step.failure is not None:
                span.set_status(Status(StatusCode.ERROR, step.failure))
            span.end(step.ended_ms * _NANOSECONDS)


def _context(trace_id: int, span_id: int) -> Context:
    """Where a span is the parent that another process, or an earlier call, gave."""
    parent = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(1))
    return set_span_in_context(NonRecordingSpan(parent))
