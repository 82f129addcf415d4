"""``ctsql run``: the service, its log, its metrics, its page and its hook."""

import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING

from ctsql.console.script import STOP_SECONDS, Runner
from ctsql.console.signals import handle_signals
from ctsql.rendering.output_file import publish_if_file

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
        on_event: is called with each event, before it is logged.
    """

    once: bool = False
    interval: float | None = None
    workers: int | None = None
    as_json: bool = False
    metrics: tuple[str, int] | None = None
    on_event: "Callable[[Event], object] | None" = None
    serve: tuple[str, int] | None = None


def load_hook(text: str) -> "Callable[[Event], object]":
    """The function that ``module:function`` names; modules of the current folder are found, too.

    Raises:
        ValueError: there is none, or its module cannot be imported.
    """
    module_name, _, name = text.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        hook = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError, ValueError) as problem:
        raise ValueError(str(problem)) from problem
    if not callable(hook):
        raise ValueError(f"{text} is no function")
    return hook  # type: ignore[no-any-return]


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
    """The service's pulse, and the functions that are called with its events."""

    pulse: "Pulse | None" = None
    events: "list[Callable[[Event], object]]" = field(default_factory=list)


@contextmanager
def _observed(runner: Runner, options: RunOptions) -> Iterator[_Observers]:
    """What the options ask for."""
    observers = _Observers()
    with ExitStack() as stack:
        if options.metrics is not None:
            from ctsql.export.metrics_server import Metrics

            metrics = Metrics(runner.connection)
            address = stack.enter_context(metrics.served(*options.metrics))
            runner.settings.note(f"metrics at {address}")
            observers.pulse = metrics.pulse
            observers.events.append(metrics.note)
        if options.on_event is not None:
            observers.events.append(options.on_event)
        if options.serve is not None:
            from ctsql.cli.serve import serving

            page = stack.enter_context(serving(runner.connection, *options.serve))
            for line in page.notes:
                runner.settings.note(line)
        yield observers
