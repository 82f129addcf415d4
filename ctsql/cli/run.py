"""``ctsql run``: the service, its log, its metrics, its page and its hook."""

import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from ctsql.cli import options
from ctsql.cli.performing import perform
from ctsql.cli.serve import ADDRESS, serving
from ctsql.console.interruptible import handle_signals
from ctsql.console.script import STOP_SECONDS, OutputSettings, Runner
from ctsql.rendering.output_file import publish_if_file

if TYPE_CHECKING:
    from ctsql.runtime.service.events import Event

SIGNALLED = 128  # plus the signal's number, as in a shell


def _hook(text: str) -> "Callable[[Event], object]":
    """The function of a text; modules of the current folder are found, too."""
    module_name, _, name = text.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        hook = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError, ValueError) as problem:
        raise ValueError(f"takes MODULE:FUNCTION; {problem}") from problem
    if not callable(hook):
        raise ValueError(f"takes MODULE:FUNCTION; {text} is no function")
    return hook  # type: ignore[no-any-return]


@click.command()
@click.option("--once", is_flag=True, help="Advance everything to now, then end.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.01),
    metavar="SECONDS",
    help="The longest wait between two polls of the tables; 1 by default.",
)
@options.count("--workers", "How many outputs are refreshed in parallel; 1 by default.")
@click.option(
    "--metrics",
    type=options.ADDRESS,
    metavar="[HOST:]PORT",
    help="Serve metrics for Prometheus at http://HOST:PORT/metrics; HOST is 127.0.0.1 by default.",
)
@click.option(
    "--on-event",
    type=options.Value(_hook),
    metavar="MODULE:FUNCTION",
    help="Call this Python function with each event, for example a commit or a failure.",
)
@click.option(
    "--serve",
    type=options.ADDRESS,
    is_flag=False,
    flag_value=ADDRESS,
    metavar="[HOST:PORT]",
    help=f"Serve the status page as well, by default at {ADDRESS}.",
)
@options.as_json("Write events to standard output, one JSON object a line.")
@options.output
@options.common()
def run(
    once: bool,
    interval: float | None,
    workers: int | None,
    metrics: tuple[str, int] | None,
    on_event: "Callable[[Event], object] | None",
    serve: tuple[str, int] | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Keep every task and view up to date, until it is stopped."""

    def work(runner: Runner) -> int:
        stop = threading.Event()
        publish_if_file(runner.settings.out)

        def follow() -> None:
            with ExitStack() as stack:
                observers, pulse = [_reporter(runner.settings, as_json=as_json)], None
                if on_event is not None:
                    observers.insert(0, on_event)
                if metrics is not None:
                    from ctsql.export.metrics_server import Metrics

                    kept = Metrics(runner.connection)
                    address = stack.enter_context(kept.served(*metrics))
                    runner.settings.note(f"metrics at {address}")
                    observers.insert(0, kept.note)
                    pulse = kept.pulse
                if serve is not None:
                    page = stack.enter_context(serving(runner.connection, *serve))
                    for line in page.notes:
                        runner.settings.note(line)

                def note(event: "Event") -> None:
                    for observe in observers:
                        observe(event)

                runner.connection.run(
                    once=once,
                    stop=stop,
                    interval=interval,
                    workers=workers,
                    on_event=note,
                    pulse=pulse,
                )

        return _until_stopped(runner, follow, stop)

    perform(work, create=False, is_short=once, **given)


def _reporter(settings: OutputSettings, *, as_json: bool) -> "Callable[[Event], object]":
    """The function that reports events, as JSON on standard output or in the log."""

    def report(event: "Event") -> None:
        if as_json:
            with settings.progress.hide():
                settings.out.write(event.to_json() + "\n")
                settings.out.flush()
        elif not settings.quiet:
            settings.note(event.line())

    return report


def _until_stopped(runner: Runner, follow: Callable[[], None], stop: threading.Event) -> int:
    """Run until SIGINT or SIGTERM, which end it between two commits, without failure.

    A second signal ends the process at once, with 128 and the signal's number.
    """

    def end(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            # A second signal. The current write is not committed, and Spark ends when it notices
            # that this process is gone.
            os.write(sys.stderr.fileno(), b"stopped at once\n")
            os._exit(SIGNALLED + number)
        stop.set()
        # The current commit gets this long; then nothing of it is written.
        timer = threading.Timer(STOP_SECONDS, runner.connection.cancel)
        timer.daemon = True
        timer.start()

    with handle_signals(end, signal.SIGTERM, signal.SIGINT):
        return runner.guard(follow, idle="")
