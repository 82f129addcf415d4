r"""The loop of the shell: reads statements and commands, runs them, prints.

A thread starts Spark while the user types; a statement waits for it. No statement ends the loop;
Ctrl-C clears a line or cancels the running statement, Ctrl-D leaves. Enter runs a text only if it
is complete: inside ``AS ( ...; ...; )`` it begins the next line.

``~/.ctsqlrc`` is run first, as if it were typed: ``\set``, ``\x on``, ``\timing`` and the like.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, TextIO

import click
from prompt_toolkit.patch_stdout import patch_stdout

from ctsql.catalog.errors import CtsqlError, Error, misuse
from ctsql.catalog.locations import location_fault
from ctsql.catalog.spans import Source
from ctsql.console.interruptible import Defect, Worker, result_of
from ctsql.console.script import OK, PROMPT_NAME, OutputSettings, Runner
from ctsql.rendering.output_file import OutputFile, check_output, user_path
from ctsql.shell import commands
from ctsql.shell.copying import copy_statement
from ctsql.shell.display_settings import ROWS_SHOWN, DisplaySettings
from ctsql.shell.prompt import CatalogCompleter, prompt_session, wants_more

if TYPE_CHECKING:
    from ctsql.api import Connection

WATCH_SECONDS = 2.0
SLOW_START_SECONDS = 3.0  # after a wait this long for Spark, the prompt suggests ``ctsql warm-up``
FAILURES_SHOWN = 3
FAILURE_CHARS = 150
PROMPT = "ctsql> "
PROMPT_OPEN = "ctsql*> "  # while a transaction is open


class Starter:
    """Starts Spark in the background; a statement waits for it."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self._worker = Worker()
        self._start: Future[object] | None = None

    def begin(self) -> None:
        """Start without waiting, unless started or starting."""
        if self._start is None and not self._connection.started:
            self._start = self._worker.submit(self._connection.start)

    def wait(self) -> None:
        """Wait until Spark is started; after an error the next call tries again.

        Raises:
            CtsqlError: it could not be started. KeyboardInterrupt: Ctrl-C; the start continues.
        """
        self.begin()
        if self._start is None:
            return
        try:
            result_of(self._start)
        except (Error, OSError, Defect):
            self._start = None
            raise
        self._start = None


class Repl:
    """The loop; ``run`` ends when the user leaves."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.settings: OutputSettings = runner.settings
        self._starter = Starter(runner.connection)
        self._completer = CatalogCompleter(runner.connection)
        self._display = DisplaySettings(self.settings)
        self._terminal_out: TextIO = self.settings.out
        self._terminal_limit: int | None = ROWS_SHOWN  # of rows, while they are written to a file
        self._last = ""  # the last text that was run
        self._prefill = ""  # the initial text of the next prompt
        self._actions: dict[str, Callable[[str], None]] = {
            **self._display.actions,
            "copy": self._copy,
            "read": self._read_file,
            "output": self._set_output,
            "shell": self._run_system_command,
            "help": lambda _: self._say(commands.help_text()),
        }

    def run(self, *, rc_file: Path | None = None) -> int:
        """Read and run until the user leaves; returns 0. ``rc_file`` is run first, if it exists."""
        session = prompt_session(self._completer)
        self._starter.begin()
        Thread(target=self._report_failures, daemon=True).start()
        mode = ", read-only" if self.runner.connection.read_only else ""
        self._say(f"ctsql on {self.runner.connection.warehouse}{mode}. Type \\? for help.")
        if rc_file is not None and not self._feed_settings(rc_file):
            return OK
        while True:
            try:
                with patch_stdout(raw=True):
                    is_open = self.runner.connection.in_transaction
                    default, self._prefill = self._prefill, ""
                    text = session.prompt(PROMPT_OPEN if is_open else PROMPT, default=default)
            except KeyboardInterrupt:
                continue
            except EOFError:
                break
            if not self.feed(text):
                break
        if self.runner.connection.in_transaction:
            self._say("The open transaction is rolled back.")
        self._close_output()
        return OK

    def feed(self, text: str) -> bool:
        """Run a text; returns False if it asks to leave."""
        if not text.strip():
            return True
        start = time.monotonic()
        try:
            command = commands.parse_command(text)
            if command is not None and command.name == "quit":
                return False
            self._do(text, command)
        except KeyboardInterrupt:
            self._say("cancelled")
        except (Error, OSError) as problem:
            self.settings.fail(problem)
        except Defect as defect:
            self.settings.fail(defect.__cause__ or defect)
        if self._display.timing and command_is_timed(text):
            self._say(f"Time: {time.monotonic() - start:.3f} s")
        return True

    def _feed_settings(self, path: Path) -> bool:
        """Run the lines of a file as if they were typed; returns False if one asks to leave."""
        if not path.is_file():
            return True
        try:
            lines = _read(str(path)).split("\n")
        except CtsqlError as problem:
            self.settings.fail(problem)
            return True
        text = ""
        for line in lines:
            text += line + "\n"
            if not wants_more(text):
                if not self.feed(text):
                    return False
                text = ""
        return self.feed(text)

    def _do(self, text: str, command: commands.Command | None) -> None:
        ending = (self._last, command) if command is not None else commands.split_ending(text)
        if ending is None:
            self._last = text
            self._run_text(text, PROMPT_NAME)
        elif ending[1].name in commands.ENDING:
            self._end(*ending)
        else:
            command = ending[1]
            statement = commands.statement_of(command)
            if statement is None:
                self._actions[command.name](command.argument)
                return
            self._wait_for_spark(statement)
            self.runner.run_span(Source(statement, PROMPT_NAME).whole())

    def _end(self, text: str, command: commands.Command) -> None:
        """Run a command at the end of a text, or for the last text."""
        if command.name == "reset":
            return
        if command.name == "edit":
            self._edit(text, command.argument)
            return
        if not text:
            raise misuse("no statement was run yet")
        if command.name == "print":
            self._say(text)
            self._prefill = text if text != self._last else ""
            return
        self._last = text
        if command.name == "watch":
            self._watch(text, command.argument)
            return
        before = self.settings.expanded
        if command.name == "run_expanded":
            self.settings.expanded = True
        try:
            with self._rows_to(command.argument) as file:
                code = self._run_text(text, PROMPT_NAME)
                if file is not None and code == OK:
                    file.publish()
        finally:
            self.settings.expanded = before

    def _edit(self, text: str, file: str) -> None:
        try:
            if file:
                click.edit(filename=str(user_path(file)))
                text = _read(file)
            else:
                text = click.edit(text, extension=".sql") or text
        except click.ClickException as problem:
            message = "the editor ended with an error, or there is none"
            detail = f"{problem.message}. EDITOR says which one is used."
            raise misuse(message, detail) from problem
        self._prefill = text.rstrip()

    def _watch(self, text: str, argument: str) -> None:
        seconds = commands.parse_seconds(argument) if argument else WATCH_SECONDS
        while True:
            self._say(f"{time.strftime('%H:%M:%S')}, every {seconds:g} s until Ctrl-C")
            if self._run_text(text, PROMPT_NAME) != OK:
                return
            time.sleep(seconds)

    def _run_text(self, text: str, name: str) -> int:
        source = Source(text, name)
        self._wait_for_spark(text)
        try:
            return self.runner.run_source(source)
        finally:
            self._completer.stale = True

    def _wait_for_spark(self, text: str) -> None:
        """Wait until a text can run: some need only logs, and run before Spark has started."""
        from ctsql.connection.log_answers import (
            is_logged,  # imported late: it imports much, and the prompt comes first
        )

        if self.runner.connection.started or (text and is_logged(text)):
            return
        start = time.monotonic()
        with self.settings.progress.running(lambda: "starting Spark..."):
            self._starter.wait()
        seconds = time.monotonic() - start
        if seconds >= SLOW_START_SECONDS and not self.settings.quiet:
            from ctsql.console.warm_up import would_help

            if would_help(self.runner.connection.spark):
                self._say(f"waited {seconds:.0f} s for Spark; `ctsql warm-up` makes starts faster")

    def _say(self, text: str) -> None:
        self.settings.note(text)

    def _report_failures(self) -> None:
        """List the failed objects; unreadable ones are left to the statements that read them."""
        with suppress(Error, OSError):
            for line in failure_lines(self.runner.connection.status().to_dicts()):
                self._say(line)

    def _run_system_command(self, argument: str) -> None:
        subprocess.run(argument or os.environ.get("SHELL", "sh"), shell=True, check=False)  # noqa: S602  the user's own

    # ---- files

    def _copy(self, argument: str) -> None:
        self._wait_for_spark("")
        with copy_statement(argument, sys.stdin, self.settings.out) as statement:
            self.runner.run_span(Source(statement, PROMPT_NAME).whole())

    def _read_file(self, argument: str) -> None:
        self._run_text(_read(argument), argument)

    def _set_output(self, argument: str) -> None:
        stream = self._open_output(argument) if argument else None
        self._close_output()
        if stream is not None:
            self._terminal_limit = self.settings.limit
            self.settings.out, self.settings.limit = stream, None
        self._say(f"Rows go to {argument or 'the terminal'}.")

    def _open_output(self, file: str) -> OutputFile:
        fault = location_fault(file)
        if fault is not None:
            raise misuse(f"{file} {fault}")
        path = user_path(file)
        check_output(path, self.runner.connection.warehouse)
        try:
            return OutputFile(path)
        except OSError as problem:
            message = f"{file} cannot be written: {problem.strerror}"
            raise misuse(message) from problem

    def _close_output(self) -> None:
        out = self.settings.out
        if out is not self._terminal_out:
            assert isinstance(out, OutputFile)  # only a terminal is asked
            if not out.is_empty:  # if there were only errors, the file is unchanged
                out.publish()
            out.close()
            self.settings.out, self.settings.limit = self._terminal_out, self._terminal_limit

    @contextmanager
    def _rows_to(self, file: str) -> Iterator[OutputFile | None]:
        """Write the rows of the block to a file; without one, to the usual output."""
        if not file:
            yield None
            return
        out, limit = self.settings.out, self.settings.limit
        with self._open_output(file) as stream:
            self.settings.out, self.settings.limit = stream, None
            try:
                yield stream
            finally:
                self.settings.out, self.settings.limit = out, limit


def failure_lines(status: Sequence[Mapping[str, Any]]) -> list[str]:
    """The shell's message at its start: a line for each of the first failed objects."""
    failures = [row for row in status if row["state"] == "failed"]
    lines = []
    for row in failures[:FAILURES_SHOWN]:
        reason = " ".join(row["error_message"].split())
        line = f"{row['kind']} {row['schema']}.{row['name']} has failed: {reason}"
        lines.append(line if len(line) <= FAILURE_CHARS else f"{line[:FAILURE_CHARS]}...")
    if len(failures) > FAILURES_SHOWN:
        lines.append(
            f"{len(failures) - FAILURES_SHOWN} more object(s) have failed; ctsql status lists them"
        )
    return lines


def _read(file: str) -> str:
    """The text of a file; raises INVALID_USAGE if it cannot be read."""
    try:
        return user_path(file).read_text("utf-8-sig")
    except UnicodeDecodeError as problem:
        message = f"{file} is not UTF-8 text"
        raise misuse(message) from problem
    except OSError as problem:
        message = f"{file} cannot be read: {problem.strerror}"
        raise misuse(message) from problem


def command_is_timed(text: str) -> bool:
    r"""Whether \timing applies to a text: statements and files, not settings."""
    try:
        command = commands.parse_command(text)
    except CtsqlError:
        return False
    return (
        command is None
        or command.name in ("read", "copy")
        or commands.statement_of(command) is not None
    )
