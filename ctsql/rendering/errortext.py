"""Formats an error: where, what, the source line with the span underlined, what to do.

    upsert.sql:3:8: error: column "kye" does not exist [UNKNOWN_COLUMN]
     3 | SELECT kye FROM t
       |        ^^^
    DETAIL: The columns of "t" are: key, val.
    HINT: Did you mean "key"?

Carets count cells, not characters: a tab is shown as four blanks, and East Asian letters are two
cells wide. At most three lines of a span are shown, and of a long line what is around the span.
"""

import traceback

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.spans import Span

TAB_CELLS = 4
LINES_SHOWN = 3
LINE_CHARACTERS_SHOWN = 160
CHARACTERS_BEFORE = 60
"""The characters of a long line that are shown before the span, if enough follow it."""
TEXT_CHARACTERS_SHOWN = 4_000
"""The most characters shown of a message, detail or hint, which may hold a user's value."""


def error_text(problem: BaseException, *, debug: bool = False) -> Text:
    """The whole message, with styles; for other exceptions, their class and message.

    ``debug`` adds the Python traceback, causes included.
    """
    text = Text()
    if isinstance(problem, CtsqlError):
        _head(text, problem)
        if problem.span is not None:
            _excerpt(text, problem.span)
        for label, body in (("DETAIL", problem.detail), ("HINT", problem.hint)):
            if body:
                text.append(f"{label}: ", style="cyan").append(f"{_shown(body)}\n")
    else:
        name = type(problem).__name__
        text.append("error: ", style="bold red").append(f"{name}: {_shown(str(problem))}\n")
    if debug:
        text.append("".join(traceback.format_exception(problem)), style="dim")
    text.right_crop(1)
    return text


def print_error(console: Console, problem: BaseException, *, debug: bool = False) -> None:
    """Print it without wrapping lines, since a file must have whole ones."""
    console.print(error_text(problem, debug=debug), soft_wrap=True, highlight=False)


def _head(text: Text, problem: CtsqlError) -> None:
    if problem.span is not None:
        text.append(f"{problem.span.place()}: ", style="bold")
    text.append("error: ", style="bold red")
    text.append(_shown(problem.message), style="bold")
    text.append(f" [{problem.condition}]\n", style="dim")


def _excerpt(text: Text, span: Span) -> None:
    """The lines of the span, each with carets under the part that is in it."""
    begin = span.start - span.column + 1
    lines = span.source.text[begin:].split("\n")
    inside = span.text.rstrip().count("\n") + 1
    line_count = min(inside, LINES_SHOWN)
    gutter = len(str(span.line + line_count - 1))
    for number, raw in enumerate(lines[:line_count], start=span.line):
        line = raw.removesuffix("\r")
        first = max(span.start - begin, 0)
        last = min(span.stop - begin, len(line))
        if first == 0 and number > span.line:  # do not underline the indentation
            first = len(line) - len(line.lstrip())
        line, first, last = _around(line, first, last)
        before = cell_len(_cells(line[:first]))
        carets = max(cell_len(_cells(line[first:last])), 1)
        text.append(f" {number:>{gutter}} | ", style="dim").append(f"{_cells(line)}\n")
        text.append(f" {'':>{gutter}} | ", style="dim")
        text.append(f"{' ' * before}{'^' * carets}\n", style="bold red")
        begin += len(raw) + 1
    if inside > line_count:
        rest = inside - line_count
        text.append(f" {'':>{gutter}} | ... {rest} more line{'s' * (rest > 1)}\n", style="dim")


def _around(line: str, first: int, last: int) -> tuple[str, int, int]:
    """The shown part of a line: its bounds, and those of the span.

    >>> line, first, last = _around("x" * 500 + "y" + "x" * 500, 500, 501)
    >>> line[first:last], len(line)
    ('y', 166)
    """
    if len(line) <= LINE_CHARACTERS_SHOWN:
        return line, first, last
    start = max(min(first - CHARACTERS_BEFORE, len(line) - LINE_CHARACTERS_SHOWN), 0)
    stop = start + LINE_CHARACTERS_SHOWN
    before, behind = "..." * (start > 0), "..." * (stop < len(line))
    moved = len(before) - start
    return f"{before}{line[start:stop]}{behind}", first + moved, min(last, stop) + moved


def _shown(text: str) -> str:
    """A text of an error, cut if it is very long."""
    rest = len(text) - TEXT_CHARACTERS_SHOWN
    cut = f"... {rest} more characters" if rest > 0 else ""
    return printable(text[:TEXT_CHARACTERS_SHOWN]) + cut


def _cells(line: str) -> str:
    return printable(line.replace("\t", " " * TAB_CELLS))


def printable(text: str) -> str:
    """Text without a terminal's control characters; line breaks are kept."""
    return "".join(c if c == "\n" or c.isprintable() else "\ufffd" for c in text)
