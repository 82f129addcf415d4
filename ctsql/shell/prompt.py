"""The prompt itself: colours, completion, history, keys, and what a text leaves open."""

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped]
from pygments.token import Keyword  # type: ignore[import-untyped]

from ctsql.catalog.errors import CtsqlError, Error
from ctsql.catalog.spans import Source
from ctsql.connection.completion import Vocabulary, complete
from ctsql.planner.syntax import is_complete
from ctsql.planner.syntax.tokens.tokenizer import find_unclosed, tokenise
from ctsql.shell.commands import SPELLINGS, is_command, split_ending, takes

if TYPE_CHECKING:
    from ctsql.api import Connection

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
    if is_command(text) or is_complete(text):
        return False
    try:
        return split_ending(text) is None
    except CtsqlError:
        return False


class CatalogCompleter(Completer):
    """Completion from the catalog, which is read again after each statement."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self._what_is_known = Vocabulary()
        self._paths = PathCompleter(expanduser=True)
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
            if not blank:
                yield from (
                    Completion(spelling, start_position=-len(verb))
                    for spelling in SPELLINGS
                    if spelling.startswith(verb)
                )
                return
            argument = takes(verb)
            if "FILE" in argument:
                yield from self._paths.get_completions(Document(word), complete_event)
            if "NAME" not in argument:
                return
            text = f"DESCRIBE {word}"
        for candidate in complete(text, self._names_to_offer(), document.text_after_cursor):
            yield Completion(
                candidate.text, start_position=-candidate.length, display_meta=candidate.kind
            )

    def _names_to_offer(self) -> Vocabulary:
        if self.stale and self._connection.started:
            with suppress(Error):  # the next statement raises the error, too
                self._what_is_known = self._connection.known()
            self.stale = False
        return self._what_is_known


def continued(text: str, line: int) -> str:
    """The prompt of a further line: it shows what the lines before it leave open.

    >>> continued("SELECT (1", 1), continued("SELECT 'a", 1), continued("SELECT 1", 1)
    ('    (> ', "    '> ", '    -> ')
    """
    before = "\n".join(text.split("\n")[:line])
    opening = find_unclosed(before)
    if opening is not None:
        return f"    {_OPEN[opening[1]]}> "
    depth = sum((t.upper == "(") - (t.upper == ")") for t in tokenise(Source(before, "").whole()))
    return f"    {'(' if depth > 0 else '-'}> "


def prompt_session(completer: Completer) -> "PromptSession[str]":
    """A session that asks for a text, which may have several lines."""
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
    folder = Path(platformdirs.user_state_dir("ctsql"))
    path = folder / "history"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError as problem:
        sys.stderr.write(f"history is not kept: {problem.strerror}: {path}\n")
        return InMemoryHistory()
    return FileHistory(str(path))
