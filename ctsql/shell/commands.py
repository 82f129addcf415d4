r"""The prompt's own commands: ``\d`` and the like. Pure.

Most are queries on the catalog (``statement``); the others change how results are shown.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from ctsql.catalog.errors import error
from ctsql.catalog.names import did_you_mean
from ctsql.catalog.spans import Source
from ctsql.catalog.switches import read_switch
from ctsql.planner.literals import literal
from ctsql.planner.syntax.tokens.tokenizer import find_unclosed


@dataclass(frozen=True, slots=True)
class Command:
    """A command as typed: ``name`` is its canonical name, ``argument`` the rest of the line."""

    name: str
    argument: str = ""


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    spellings: tuple[str, ...]
    argument: str  # as in the help; in brackets if optional; empty for none
    text: str
    statement: Callable[[str], str] | None = None


def _pattern(argument: str) -> str:
    r"""The clauses for ``schema.pattern``; each part is optional.

    >>> _pattern("a*"), _pattern("s."), _pattern("s.a*"), _pattern("")
    (" LIKE 'a*'", ' IN s', " IN s LIKE 'a*'", '')
    """
    schema, dot, pattern = argument.rpartition(".")
    within = f" IN {schema}" if dot else ""
    return within + (f" LIKE {literal(pattern)}" if pattern else "")


def _lists(what: str) -> Callable[[str], str]:
    return lambda argument: f"SHOW {what}{_pattern(argument)}"


def _list_or_describe(name: str) -> str:
    if not name or set(name) & set("*?%|") or name.endswith("."):
        return f"SHOW OBJECTS{_pattern(name)}"
    return f"DESCRIBE {name}"


_ROWS = (
    _Row("describe", (r"\d",), "[NAME]", "all objects, or one object's columns", _list_or_describe),
    _Row(
        "details",
        (r"\d+",),
        "NAME",
        "an object's columns, location, readers, upper",
        lambda name: f"DESCRIBE EXTENDED {name}",
    ),
    _Row("tables", (r"\dt",), "[PATTERN]", "tables; a pattern is a*, s.a* or s.", _lists("TABLES")),
    _Row("views", (r"\dv",), "[PATTERN]", "views", _lists("VIEWS")),
    _Row(
        "materialized", (r"\dm",), "[PATTERN]", "materialized views", _lists("MATERIALIZED VIEWS")
    ),
    _Row("tasks", (r"\dc",), "[PATTERN]", "continual tasks", _lists("CONTINUAL TASKS")),
    _Row("schemas", (r"\dn",), "[PATTERN]", "schemas", _lists("SCHEMAS")),
    _Row("functions", (r"\df",), "[PATTERN]", "Spark's functions", _lists("FUNCTIONS")),
    _Row(
        "schema",
        (r"\sc",),
        "NAME",
        "the CREATE statement of an object",
        lambda name: f"SHOW CREATE {name}",
    ),
    _Row("edit", (r"\e",), "[FILE]", "edit the last statement, or a file; Enter runs it"),
    _Row("print", (r"\p",), "", "print the last statement"),
    _Row("run", (r"\g",), "[FILE]", "run the last statement again, rows to a file"),
    _Row("run_expanded", (r"\gx",), "", "run it again, one line a value"),
    _Row("watch", (r"\watch",), "[SECONDS]", "run it repeatedly until Ctrl-C"),
    _Row("reset", (r"\r",), "", r"discard what is typed; \e \p \g \watch may end a text, too"),
    _Row("expanded", (r"\x",), "[on|off]", "one line a value"),
    _Row("timing", (r"\timing",), "[on|off]", "how long each statement took"),
    _Row("format", (r"\format",), "[FORMAT]", "table, csv, json or jsonl"),
    _Row("display", (r"\pset",), "NAME VALUE", "null: its text; pager: on or off"),
    _Row("copy", (r"\copy",), "T FROM|TO FILE", "COPY with a file here, STDIN or STDOUT"),
    _Row("read", (r"\i",), "FILE", "run the statements of a file"),
    _Row("output", (r"\o",), "[FILE]", "write rows to a file; without FILE: here"),
    _Row("set", (r"\set",), "[NAME VALUE]", "set a variable for :name, or limit: rows shown"),
    _Row("unset", (r"\unset",), "NAME", "remove a variable"),
    _Row("shell", (r"\!",), "[COMMAND]", "run a command of the operating system"),
    _Row("help", (r"\?", r"\h"), "", "this list"),
    _Row("quit", (r"\q",), "", "quit; exit, quit and Ctrl-D do the same"),
)
WATCH_SECONDS_MAX = 86_400.0
ENDING = ("edit", "print", "run", "run_expanded", "watch", "reset")
"""The commands that may end a typed text."""
_BY_SPELLING = {spelling: row for row in _ROWS for spelling in row.spellings}
_BY_NAME = {row.name: row for row in _ROWS}
SPELLINGS = tuple(sorted(_BY_SPELLING))
_LEAVING = ("exit", "quit")
_ASKING = ("help", "?")


def is_command(text: str) -> bool:
    r"""Whether a first line is a command and so needs no semicolon: ``\d``, ``exit``."""
    line = text.strip()
    return line.startswith("\\") or line.rstrip(";").strip().lower() in (*_LEAVING, *_ASKING)


def parse_command(text: str) -> Command | None:
    """The command of a line, None for SQL; INVALID_STATEMENT: unknown, or a wrong argument."""
    if not is_command(text):
        return None
    source = Source(text.strip(), "<prompt>")
    line = source.text.rstrip(";").strip()
    if line.lower() in _LEAVING:
        return Command("quit")
    if line.lower() in _ASKING:
        return Command("help")
    spelling, *rest = line.split(maxsplit=1)
    argument = rest[0] if rest else ""
    row = _BY_SPELLING.get(spelling)
    span = source.whole().part(0, len(spelling))
    if row is None:
        hint = did_you_mean(spelling, SPELLINGS, otherwise=r"Type \? for the list.")
        message = f"{spelling} is not a command"
        raise error("INVALID_STATEMENT", span=span, message=message, hint=hint)
    wanted = row.argument and not row.argument.startswith("[")
    if (wanted and not argument) or (argument and not row.argument):
        raise error(
            "INVALID_STATEMENT",
            span=span,
            message=f"{spelling} {'needs an' if wanted else 'takes no'} argument",
            hint=f"Type: {spelling} {row.argument}".rstrip(),
        )
    return Command(row.name, argument)


def statement_of(command: Command) -> str | None:
    """The SQL of a command; None for a setting."""
    row = _BY_NAME[command.name]
    return row.statement(command.argument) if row.statement else None


def parse_switch(current: bool, argument: str) -> bool:
    r"""The value of a switch after ``\x``, ``\x on`` or ``\x off``; else INVALID_OPTION."""
    value = read_switch(argument) if argument else not current
    if value is None:
        raise error("INVALID_OPTION", option="switch", value=argument, hint="Type on or off.")
    return value


def parse_limit(value: str) -> int | None:
    """The most rows of a table, a whole number, else INVALID_OPTION; None (all rows) for 0."""
    if value.strip().isdecimal():
        return int(value) or None
    hint = r"Type: \set limit 1000 (0 for all). Settings of SQL: SET name = value;"
    raise error("INVALID_OPTION", option="limit", value=value or "nothing", hint=hint)


def parse_seconds(value: str) -> float:
    r"""The seconds between two runs of ``\watch``: above 0, at most a day; else INVALID_OPTION."""
    with suppress(ValueError):
        seconds = float(value)
        if 0 < seconds <= WATCH_SECONDS_MAX:  # false for NaN
            return seconds
    raise error("INVALID_OPTION", option="watch", value=value, hint=r"Type: \watch 5")


def split_ending(text: str) -> tuple[str, Command] | None:
    r"""A text and the command at its end, ``SELECT 1 \g``; None for none."""
    before, backslash, after = text.rpartition("\\")
    spelling = backslash + after.split(maxsplit=1)[0] if after.strip() else ""
    row = _BY_SPELLING.get(spelling)
    if row is None or row.name not in ENDING or not before.strip():
        return None
    if row.name not in ("reset", "edit", "print") and find_unclosed(before) is not None:
        return None
    command = parse_command(backslash + after)
    assert command is not None  # it begins with a backslash
    return before.rstrip(), command


def takes(spelling: str) -> str:
    """The argument of a command, from the help; empty for an unknown command."""
    row = _BY_SPELLING.get(spelling)
    return row.argument if row else ""


def help_text() -> str:
    """The list of commands."""
    heads = [" ".join((", ".join(row.spellings), row.argument)).strip() for row in _ROWS]
    width = max(map(len, heads))
    lines = [f"  {head:<{width}}  {row.text}" for head, row in zip(heads, _ROWS, strict=True)]
    return "\n".join(
        [
            "Statements end with a semicolon and may take several lines; the prompt shows what is",
            "open: ( a parenthesis, ' a string, ` a name, * a comment, - only the semicolon.",
            "Ctrl-C clears the line or cancels the statement; Ctrl-D quits.",
            "",
            *lines,
        ]
    )
