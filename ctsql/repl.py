"""The prompt: reads statements, completes, runs, prints.

A thread starts Spark while the user types; a statement waits for it. No statement ends the prompt;
Ctrl-C clears a line or cancels the running statement, Ctrl-D leaves. Enter runs a text only if it
is complete: inside ``AS ( ...; ...; )`` it begins the next line.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import platformdirs
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.patch_stdout import patch_stdout
from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped]
from pygments.token import Keyword  # type: ignore[import-untyped]

from ctsql.catalog.errors import CtsqlError, Error, error
from ctsql.catalog.spans import Source
from ctsql.commands import (
    Command,
    help_text,
    is_command,
    parse_command,
    parse_expanded,
    parse_limit,
    parse_switch,
    statement_of,
)
from ctsql.completion import ObjectInfo, complete
from ctsql.copying import copy_statement
from ctsql.planner.syntax import is_complete
from ctsql.planner.syntax.tokens.tokenizer import find_unclosed, tokenise
from ctsql.script import Runner, Settings
from ctsql.show import Format
from ctsql.work import Defect, Job, Worker

if TYPE_CHECKING:
    from ctsql.api import Connection

ROWS_SHOWN = 1000
PROMPT = "ctsql> "
PROMPT_OPEN = "ctsql*> "
"""While a transaction is open."""
_OPEN = {"a string": "'", "a quoted name": "`", "a comment": "*"}


class CtsqlLexer(SqlLexer):  # type: ignore[misc]  # pygments has no types
    """SQL's lexer with ctsql's keywords."""

    name = "ctsql"
    aliases = ()
    filenames = ()
    _OURS = frozenset(("continual", "materialized", "task", "tasks", "input", "refresh", "objects"))

    def get_tokens_unprocessed(self, text: str) -> Iterable[tuple[int, object, str]]:
        """SQL's tokens, with ctsql's keywords marked as such."""
        for start, kind, value in super().get_tokens_unprocessed(text):
            yield start, Keyword if value.lower() in self._OURS else kind, value


def wants_more(text: str) -> bool:
    """Whether Enter begins another line instead of running the text."""
    return not is_command(text) and not is_complete(text)


class Starter:
    """Starts Spark in the background; a statement waits for it."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self._worker = Worker()
        self._job: Job | None = None

    def begin(self) -> None:
        """Start without waiting, unless that is under way or done."""
        if self._job is None and not self._connection.started:
            self._job = self._worker.submit(self._connection.start)

    def wait(self) -> None:
        """Wait until Spark is started; after an error the next call tries again.

        Raises:
            CtsqlError: it could not be started. KeyboardInterrupt: Ctrl-C; the start continues.
        """
        self.begin()
        if self._job is None:
            return
        try:
            self._job.result()
        except (Error, OSError, Defect):
            self._job = None
            raise
        self._job = None


class CatalogCompleter(Completer):
    """Completion from the catalog, which is read again after each statement."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self._objects: Sequence[ObjectInfo] = ()
        self.stale = True

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,
    ) -> Iterable[Completion]:
        """The completions at the cursor."""
        text = document.text_before_cursor
        if is_command(text):
            verb, blank, word = text.partition(" ")
            if not blank or verb not in (r"\d", r"\sc", ".schema"):
                return
            text = f"DESCRIBE {word}"
        for found in complete(text, self._known(), document.text_after_cursor):
            yield Completion(found.text, start_position=-found.length, display_meta=found.kind)

    def _known(self) -> Sequence[ObjectInfo]:
        if self.stale and self._connection.started:
            with suppress(Error):  # the next statement raises it, too
                self._objects = self._connection.objects()
            self.stale = False
        return self._objects


class Repl:
    """The loop; ``run`` ends when the user leaves."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._settings: Settings = runner.settings
        self._settings.limit = ROWS_SHOWN
        self._starter = Starter(runner.connection)
        self._completer = CatalogCompleter(runner.connection)
        self._timing = False
        self._terminal_out: TextIO = self._settings.out
        self._actions: dict[str, Callable[[str], None]] = {
            "expanded": self._set_expanded,
            "timing": self._set_timing,
            "format": self._set_format,
            "copy": self._copy,
            "read": self._read_file,
            "output": self._set_output,
            "set": self._set_limit,
            "help": lambda _: self._say(help_text()),
        }

    def run(self) -> int:
        """Read and run until the user leaves; returns 0."""
        session = _session(self._completer)
        self._starter.begin()
        mode = ", read-only" if self._runner.connection.read_only else ""
        self._say(f"ctsql on {self._runner.connection.warehouse}{mode}. Type \\? for help.")
        while True:
            try:
                with patch_stdout(raw=True):
                    is_open = self._runner.connection.in_transaction
                    text = session.prompt(PROMPT_OPEN if is_open else PROMPT)
            except KeyboardInterrupt:
                continue
            except EOFError:
                break
            if not self.feed(text):
                break
        self._close_output()
        return 0

    def feed(self, text: str) -> bool:
        """Run a text; returns False if it asks to leave."""
        if not text.strip():
            return True
        begun = time.monotonic()
        try:
            command = parse_command(text)
            if command is not None and command.name == "quit":
                return False
            if command is not None:
                self._do(command)
            else:
                self._run_text(text, "<prompt>")
        except KeyboardInterrupt:
            self._say("cancelled")
        except (Error, OSError) as problem:
            self._settings.fail(problem)
        except Defect as defect:
            self._settings.fail(defect.__cause__ or defect)
        if self._timing and command_is_timed(text):
            self._say(f"Time: {time.monotonic() - begun:.3f} s")
        return True

    def _do(self, command: Command) -> None:
        statement = statement_of(command)
        if statement is None:
            self._actions[command.name](command.argument)
            return
        self._wait_for_spark()
        self._runner.run_span(Source(statement, "<prompt>").whole())

    def _run_text(self, text: str, name: str) -> None:
        source = Source(text, name)
        self._wait_for_spark()
        try:
            self._runner.run_source(source)
        finally:
            self._completer.stale = True

    def _wait_for_spark(self) -> None:
        if self._runner.connection.started:
            return
        with self._settings.progress.running(lambda: "starting Spark..."):
            self._starter.wait()

    def _say(self, text: str) -> None:
        self._settings.note(text)

    def _set_expanded(self, argument: str) -> None:
        self._settings.expanded = parse_expanded(self._settings.expanded, argument)
        kept = self._settings.expanded
        self._say(f"Expanded display is {'auto' if kept is None else _on(kept)}.")

    def _set_timing(self, argument: str) -> None:
        self._timing = parse_switch(self._timing, argument)
        self._say(f"Timing is {_on(self._timing)}.")

    def _set_format(self, argument: str) -> None:
        names = [f.value for f in Format]
        if argument and argument not in names:
            hint = f"Type one of: {', '.join(names)}."
            raise error("INVALID_OPTION", option="format", value=argument, hint=hint)
        if argument:
            self._settings.format = Format(argument)
        self._say(f"Output format is {self._settings.format.value}.")

    def _set_limit(self, argument: str) -> None:
        self._settings.limit = parse_limit(argument)
        limit = self._settings.limit
        self._say("A table shows all rows." if limit is None else f"A table shows {limit} rows.")

    def _read_file(self, argument: str) -> None:
        path = Path(argument).expanduser()
        try:
            text = path.read_text("utf-8-sig")
        except UnicodeDecodeError as problem:
            message = f"{argument} is not UTF-8 text"
            raise error("INVALID_STATEMENT", message=message, cause=problem) from problem
        self._run_text(text, argument)

    def _copy(self, argument: str) -> None:
        self._wait_for_spark()
        with copy_statement(argument, sys.stdin, self._settings.out) as statement:
            self._runner.run_span(Source(statement, "<prompt>").whole())

    def _set_output(self, argument: str) -> None:
        stream = Path(argument).expanduser().open("w", encoding="utf-8") if argument else None
        self._close_output()
        if stream is not None:
            self._settings.out = stream
            self._settings.limit = None
        self._say(f"Rows go to {argument or 'the terminal'}.")

    def _close_output(self) -> None:
        if self._settings.out is not self._terminal_out:
            self._settings.out.close()
            self._settings.out = self._terminal_out
            self._settings.limit = ROWS_SHOWN


def command_is_timed(text: str) -> bool:
    r"""Whether \timing applies to a text: statements and files, not settings."""
    try:
        command = parse_command(text)
    except CtsqlError:
        return False
    return command is None or command.name in ("read", "copy") or statement_of(command) is not None


def _on(switch: bool) -> str:
    return "on" if switch else "off"


def continued(text: str, line: int) -> str:
    """The prompt of a further line: what the lines in front of it leave open.

    >>> continued("SELECT (1", 1), continued("SELECT 'a", 1), continued("SELECT 1", 1)
    ('    (> ', "    '> ", '    -> ')
    """
    before = "\n".join(text.split("\n")[:line])
    unclosed = find_unclosed(before)
    if unclosed is not None:
        return f"    {_OPEN[unclosed[1]]}> "
    depth = sum((t.upper == "(") - (t.upper == ")") for t in tokenise(Source(before, "").whole()))
    return f"    {'(' if depth > 0 else '-'}> "


def _session(completer: Completer) -> "PromptSession[str]":
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        state = buffer.complete_state
        if state is not None and state.current_completion is not None:
            buffer.complete_state = None
        elif wants_more(buffer.text):
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    return PromptSession(
        multiline=True,
        key_bindings=keys,
        prompt_continuation=lambda _, line, __: continued(get_app().current_buffer.text, line),
        lexer=PygmentsLexer(CtsqlLexer) if "NO_COLOR" not in os.environ else None,
        completer=completer,
        complete_in_thread=True,
        complete_while_typing=False,
        history=_history(),
    )


def _history() -> History:
    """The history file; a history in memory if it cannot be written."""
    folder = Path(platformdirs.user_state_dir("ctsql"))
    path = folder / "history"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError as problem:
        sys.stderr.write(f"history is not kept: {problem.strerror}: {path}\n")
        return InMemoryHistory()
    return FileHistory(str(path))
