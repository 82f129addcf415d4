"""Errors as people read them, to the character."""

import io

import pytest
from rich.console import Console

from ctsql.catalog.errors import error
from ctsql.catalog.spans import Source, Span
from ctsql.rendering.errortext import error_text, print_error


def shown(text: str, piece: str) -> str:
    source = Source(text, "a.sql")
    start = text.index(piece)
    span = Span(source, start, start + len(piece))
    problem = error(
        "UNKNOWN_COLUMN",
        span=span,
        column="kye",
        detail="There are: key.",
        hint='Did you mean "key"?',
    )
    return error_text(problem).plain


def test_a_word_is_underlined() -> None:
    """Place, message, condition, line, carets, detail, hint."""
    assert shown("SELECT 1;\nSELECT kye FROM t;\n", "kye") == (
        'a.sql:2:8: error: column "kye" does not exist [UNKNOWN_COLUMN]\n'
        " 2 | SELECT kye FROM t;\n"
        "   |        ^^^\n"
        "DETAIL: There are: key.\n"
        'HINT: Did you mean "key"?'
    )


@pytest.mark.parametrize(
    ("text", "piece", "lines"),
    [
        ("\tx\ty", "y", [" 1 |     x    y", "   |          ^"]),
        ("'日本' kye", "kye", [" 1 | '日本' kye", "   |        ^^^"]),
        ("a 日本", "日本", [" 1 | a 日本", "   |   ^^^^"]),
        ("SELECT", "", [" 1 | SELECT", "   | ^"]),
        ("a (\r\n  b)\r\n", "(\r\n  b)", [" 1 | a (", "   |   ^", " 2 |   b)", "   |   ^^"]),
        ("1\n2\n3\n4\n5", "1\n2\n3\n4\n5", [" 1 | 1", "   | ^", " 2 | 2", "   | ^", " 3 | 3",
                                           "   | ^", "   | ... 2 more lines"]),
        ("a\x1b[31mb", "b", [" 1 | a\ufffd[31mb", "   |       ^"]),
    ],
)  # fmt: skip
def test_carets_stand_under_the_place(text: str, piece: str, lines: list[str]) -> None:
    """Tabs, wide letters, nothing, several lines, and characters that steer a terminal."""
    assert shown(text, piece).split("\n")[1:-2] == lines


def test_of_what_is_very_long_a_part_is_shown() -> None:
    """A line of megabytes, a span as long, and a message with a name as long."""
    long = "x" * 1_000_000
    lines = shown(f"{long} kye {long}", "kye").split("\n")
    assert lines[1] == f" 1 | ...{'x' * 59} kye {'x' * 96}..."
    assert lines[2] == f"   | {' ' * 63}^^^"
    assert shown(f"kye {long}", "kye").split("\n")[1] == f" 1 | kye {'x' * 156}..."
    assert shown(f"{long} kye", "kye").split("\n")[1] == f" 1 | ...{'x' * 156} kye"
    assert len(shown(f"SELECT `{long}`", f"`{long}`")) < 600
    problem = error("UNKNOWN_COLUMN", column=long, detail=long, hint=long)
    assert len(error_text(problem).plain) < 13_000
    assert "... 996000 more characters" in error_text(problem).plain


def test_a_place_at_the_very_end_has_a_caret() -> None:
    """As with a statement that is not finished."""
    source = Source("SELECT 1 +", "a.sql")
    problem = error("SYNTAX_ERROR", span=Span(source, 10, 10), message="m", detail="", hint="")
    assert error_text(problem).plain.split("\n")[1:] == [" 1 | SELECT 1 +", "   |           ^"]


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not with NO_COLOR."""
    problem = error("STATEMENT_CANCELLED")

    def printed(*, terminal: bool) -> str:
        out = io.StringIO()
        print_error(Console(file=out, force_terminal=terminal), problem)
        return out.getvalue()

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert printed(terminal=False) == "error: the statement was cancelled [STATEMENT_CANCELLED]\n"
    assert "\x1b[1;31m" in printed(terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in printed(terminal=True)


def test_debug_adds_the_trace_with_its_cause() -> None:
    """The cause comes first, as Python prints it."""
    problem = error("STATEMENT_CANCELLED", cause=KeyError("inner"))
    assert "KeyError: 'inner'" in error_text(problem, debug=True).plain
    assert "KeyError" not in error_text(problem).plain
