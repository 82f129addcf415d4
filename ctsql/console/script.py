"""Runs one source (a file, standard input, ``-c``), statement by statement.

The text is split first: an unclosed string or parenthesis is reported before anything runs. The
first statement that fails ends the script, with a note on the number of statements not run. Results
go to standard output, all else to standard error.
"""

import io
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TextIO

import click
from rich.console import Console

from ctsql.catalog.errors import CtsqlError, Error
from ctsql.catalog.spans import Source, Span
from ctsql.console.interruptible import Defect, Worker
from ctsql.console.progress import Progress
from ctsql.console.variables import substitute
from ctsql.planner.syntax import split
from ctsql.rendering.errortext import print_error
from ctsql.rendering.show import Format, write_result
from ctsql.results.result import Live
from ctsql.results.values import NULL
from ctsql.runtime.spark.failures.storage_errors import os_error

if TYPE_CHECKING:
    from ctsql.api import Connection

OK, FAILED, INTERRUPTED = 0, 1, 130
PROMPT_NAME = "<prompt>"  # the source name of typed text
STOP_SECONDS = 5.0
"""How long a stopped service or subscription may continue with a T before it is cancelled."""


@dataclass(slots=True, kw_only=True)
class OutputSettings:
    """How results and messages are written."""

    out: TextIO
    messages: Console
    format: Format = Format.TABLE
    quiet: bool = False
    echo: bool = False
    debug: bool = False
    limit: int | None = None
    expanded: bool = False
    null: str = NULL
    pager: bool = False
    variables: dict[str, str] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)

    def note(self, text: str) -> None:
        """Print a line on standard error, without styles."""
        with self.progress.hide():
            self.messages.print(text, markup=False, highlight=False, soft_wrap=True)

    def fail(self, problem: BaseException) -> None:
        """Show an error."""
        self.progress.pause()
        print_error(self.messages, problem, debug=self.debug)


class Runner:
    """Runs statements of one connection in a worker thread; Ctrl-C cancels them."""

    def __init__(self, connection: "Connection", settings: OutputSettings) -> None:
        self.connection = connection
        self.settings = settings
        self.abandoned = False  # whether a statement may still be running
        self._live: Live | None = None  # the running subscription
        self._timer: threading.Timer | None = None
        self.stopped = False  # Ctrl-C ended a subscription
        self._worker = Worker()
        self._pages: Pages | None = None
        self._reported_new = False

    def guard(
        self,
        work: Callable[[], int | None],
        idle: str = "running",
        code_of: Callable[[Error], int] = lambda _: FAILED,
    ) -> int:
        """Run ``work`` in the worker thread, show its progress, and show its errors.

        Ctrl-C ends a subscription, which is no failure. It cancels any other statement; the result
        is then 130 even if the statement has finished.

        Args:
            work: returns an exit code; None stands for 0.
            idle: the label while Spark runs no job; empty for no line.
            code_of: the exit code of an error.

        Raises:
            BrokenPipeError: the reader of the results has ended.
        """
        settings = self.settings
        cancelled = False

        def cancel_statement() -> None:
            nonlocal cancelled
            if self.stop_live():
                return
            cancelled = True
            self.connection.cancel()

        def label() -> str:
            if not self.connection.started:
                return "starting Spark..."
            from ctsql.runtime.spark.job_metrics import running_jobs  # it exists now

            jobs = running_jobs()
            return idle if jobs is None else jobs.line()

        try:
            with settings.progress.running(label):
                code = self._worker.run(work, cancel_statement)
        except KeyboardInterrupt:
            self.abandoned = True
            settings.note("interrupted; the statement may still be running")
            return INTERRUPTED
        except BrokenPipeError:
            raise
        except OSError as problem:
            name = problem.filename or getattr(settings.out, "name", "<stdout>")
            settings.fail(os_error(str(name), problem))
            return INTERRUPTED if cancelled else FAILED
        except Error as problem:
            was_cancelled = (
                isinstance(problem, CtsqlError) and problem.condition == "STATEMENT_CANCELLED"
            )
            if was_cancelled and self.stopped:
                return OK
            settings.fail(problem)
            return INTERRUPTED if cancelled or was_cancelled else code_of(problem)
        except Defect as defect:
            settings.fail(defect.__cause__ or defect)
            settings.note("This is a defect of ctsql; --debug shows where it comes from.")
            return INTERRUPTED if cancelled else FAILED
        return INTERRUPTED if cancelled else code or OK

    def run_span(self, span: Span) -> int:
        """Run one statement and write its result; returns 0, 1 or 130."""
        if self.settings.echo:
            self.settings.note(span.text)
        self.stopped = False
        try:
            code = self.guard(partial(self._execute, span))
            if code == OK and self._pages is not None:
                show_pages(self._pages, self.settings.out)
            return code
        finally:
            self._pages = None
            self._live = None
            if self._timer is not None:
                self._timer.cancel()  # otherwise it would cancel the next statement
                self._timer = None

    def stop_live(self) -> bool:
        """End a subscription between two Ts; returns whether one was running."""
        live = self._live
        if live is None:
            return False
        self.stopped = True
        live.stop()
        # The computation of the next T gets this long.
        self._timer = threading.Timer(STOP_SECONDS, self.connection.cancel)
        self._timer.daemon = True
        self._timer.start()
        return True

    def _execute(self, span: Span) -> None:
        settings = self.settings
        try:
            result = self.connection.run_statement(span)
        finally:
            self._report_new()
        if result.live is not None:
            self._live = result.live
            settings.progress.pause()
            if settings.out.isatty() and not settings.quiet:
                settings.note("Changes are shown as they happen; Ctrl-C ends it.")
            write_result(result, settings.format, settings.out)
        elif result.has_rows:
            is_paged = settings.pager and settings.format is Format.TABLE and settings.out.isatty()
            self._pages = Pages() if is_paged else None
            writer = _Pausing(self._pages or settings.out, settings.progress)
            write_result(
                result,
                settings.format,
                writer,  # type: ignore[arg-type]  # the part of TextIO that is used
                limit=settings.limit,
                expanded=settings.expanded,
                null=settings.null,
            )
        elif not settings.quiet:
            settings.note(result.status)
        for notice in result.notices:
            settings.note(f"NOTICE: {notice}")

    def _report_new(self) -> None:
        """Print once that this connection created the warehouse: its name may be misspelt."""
        if self.connection.is_new and not self._reported_new and not self.settings.quiet:
            self._reported_new = True
            self.settings.note(f"created a new warehouse at {self.connection.warehouse}")

    def run_source(self, source: Source) -> int:
        """Run all statements of a source; returns 0, 1 or 130."""
        source = Source(substitute(source.text, self.settings.variables), source.name)
        try:
            spans = list(split(source))
        except Error as problem:
            self.settings.fail(problem)
            return FAILED
        for number, span in enumerate(spans, start=1):
            code = self.run_span(span)
            if code != OK or self.stopped:
                if count := len(spans) - number:
                    what = "statement was" if count == 1 else "statements were"
                    self.settings.note(f"stopped; {count} more {what} not run")
                return code
        return OK


class _Pausing:
    """A text stream that removes the spinner before the first write."""

    def __init__(self, out: TextIO, progress: Progress) -> None:
        self._out = out
        self._progress = progress

    def write(self, text: str) -> int:
        self._progress.pause()
        return self._out.write(text)

    @property
    def buffer(self) -> object:
        self._progress.pause()
        return getattr(self._out, "buffer", None)

    def __getattr__(self, name: str) -> object:
        return getattr(self._out, name)


LESS = "-SFX"
"""No folded lines, quit at once if it fits the screen, no alternate screen."""


class Pages(io.StringIO):
    """Stores a text that is written as for a terminal."""

    def isatty(self) -> bool:
        """Return True: the text is drawn for a terminal."""
        return True


def show_pages(pages: Pages, out: TextIO) -> None:
    """Write the stored text; in a pager if it has more lines than the terminal."""
    text = pages.getvalue()
    if text.count("\n") < shutil.get_terminal_size().lines or not sys.stdin.isatty():
        out.write(text)
        out.flush()
        return
    os.environ.setdefault("LESS", LESS)
    # Ctrl-C is the pager's while it is open.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        click.echo_via_pager(text)
    finally:
        signal.signal(signal.SIGINT, before)
