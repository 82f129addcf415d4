"""``ctsql run``: the service, its log, its metrics, its traces and its lineage."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING

from ctsql.output_file import publish_if_file
from ctsql.script import STOP_SECONDS, Runner
from ctsql.signals import handle_signals

if TYPE_CHECKING:
    from ctsql.runtime.monitoring.pulse import Pulse
    from ctsql.runtime.service.events import Event

SIGNALLED = 128  # plus the signal's number, as a shell says it


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the command line says.

    Attributes:
        interval, workers: None for the default. as_json: events go to standard output as JSON.
        metrics: host and port of the metrics' page; None for none. serve: of the status page.
        traces: whether spans are given to OpenTelemetry. lineage: whether runs to OpenLineage.
    """

    once: bool = False
    interval: float | None = None
    workers: int | None = None
    as_json: bool = False
    metrics: tuple[str, int] | None = None
    traces: bool = False
    lineage: bool = False
    serve: tuple[str, int] | None = None


def follow(runner: Runner, options: RunOptions) -> int:
    """Run until SIGINT or SIGTERM, which end it between two commits, without failure.

    A second signal ends the process at once, with 128 and the signal's number.
    """
    settings, connection = runner.settings, runner.connection
    stop = threading.Event()
    publish_if_file(settings.out)

    def tell(event: "Event") -> None:
        if options.as_json:
            with settings.progress.hide():
                settings.out.write(event.to_json() + "\n")
                settings.out.flush()
        elif not settings.quiet:
            settings.log(event.line, event.to_log)

    def run() -> None:
        with _observed(runner, options) as observers:

            def on_event(event: "Event") -> None:
                for observe in observers.events:
                    observe(event)
                tell(event)

            connection.run(
                once=options.once,
                stop=stop,
                interval=options.interval,
                workers=options.workers,
                on_event=on_event,
                pulse=observers.pulse,
                on_time=observers.on_time,
            )

    def end(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            # A second signal. The current write is not committed, and Spark ends when it notices
            # that this process is gone.
            os.write(sys.stderr.fileno(), b"stopped at once\n")
            os._exit(SIGNALLED + number)
        stop.set()
        # The current commit gets this long; then nothing of it is written.
        timer = threading.Timer(STOP_SECONDS, connection.cancel)
        timer.daemon = True
        timer.start()

    with handle_signals(end, signal.SIGTERM, signal.SIGINT):
        return runner.guard(run, idle="")


@dataclass(slots=True)
class _Observers:
    """What looks at the service besides the log: its pulse, and who is told of events and Ts."""

    pulse: "Pulse | None" = None
    events: "list[Callable[[Event], None]]" = field(default_factory=list)
    on_time: Callable[[int], None] | None = None


@contextmanager
def _observed(runner: Runner, options: RunOptions) -> Iterator[_Observers]:
    """What the options ask for."""
    observers = _Observers()
    with ExitStack() as stack:
        if options.metrics is not None:
            from ctsql.metrics_server import Metrics

            metrics = Metrics(runner.connection)
            address = stack.enter_context(metrics.served(*options.metrics))
            runner.settings.note(f"metrics at {address}")
            observers.pulse = metrics.pulse
            observers.events.append(metrics.note)
        if options.traces:
            from ctsql.tracing import Tracing

            tracing = stack.enter_context(Tracing(tell=runner.settings.note).opened())
            observers.events.append(tracing.note)
            observers.on_time = tracing.reached
        if options.lineage:
            from ctsql.lineage import lineage_of

            lineage = lineage_of(runner.connection, runner.settings.note)
            observers.events.append(stack.enter_context(lineage.opened()).note)
        if options.serve is not None:
            from ctsql.serve_command import serving

            page = stack.enter_context(serving(runner.connection, *options.serve))
            for line in page.notes:
                runner.settings.note(line)
        yield observers
