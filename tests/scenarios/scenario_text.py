"""Reads scenarios: text files in the style of sqllogictest, one warehouse each.

A file begins with comments that say what it shows, if its name does not, and a line ``tags:``.
Then come records, with a blank line between two:

    # Why it is refused, if that is not plain.
    statement ok
    INSERT INTO t VALUES (1, 'one'), (2, NULL)

    statement error OBJECT_EXISTS
    CREATE TABLE t (k INT)

    query
    SELECT * FROM t
    ----
    1  one
    2  NULL

    statement error UNKNOWN_RELATION
    SELECT * FROM gone
    ----
    UNDROP TABLE gone

    restart

    connection other

    remember before

    query
    SELECT * FROM t AS OF $before
    ----

    sleep 0.5

    clock 2 hours

    # Why what comes means something else before.
    require spark 4.1

``statement ok`` may hold several statements; after ``----`` comes the status of the last one.
``statement error`` must be refused by an error of ours; with a condition, by that one; each line
after ``----`` is part of its text. ``query`` names its rows in any order, with their copies; two
spaces or more, or a tab, stand between two values. A value is a number, ``true``, ``false``,
``NULL``, or a text as it is; a text that looks like one of these, is empty, begins or ends with a
space, or holds two spaces, is written in single quotes, as in SQL. Dates, times and what consists
of several values are the text that Python prints of them. ``restart`` closes the connection and
opens another one. ``connection`` goes on as another process would, which opens the warehouse the
first time; the one of the beginning is ``first``. ``remember`` gives the newest T a name. ``clock``
moves the wall clock on to so long after now: seconds, minutes, hours or days. An older Spark does
not go on after ``require``.

A file in one of the folders runs by itself, and twice: ``test_scenarios.py`` plays it on Spark,
``test_without_spark.py`` in this process on DuckDB, in a second, unless it is listed there.

Source: sqllogictest's ``statement ok``, ``statement error``, ``query``, ``connection`` and
``----``; its letters for the types of columns are left out, because a value says itself what it is.
``require`` is DuckDB's.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from itertools import takewhile
from pathlib import Path

from ctsql.runtime.spark.versions import VersionNumber, parse

Value = int | Decimal | bool | str | None
Row = tuple[Value, ...]

_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_QUOTED = re.compile(r"'((?:[^']|'')*)'")
_WORDS: dict[str, Value] = {"NULL": None, "true": True, "false": False}
_UNITS = {"second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
_CONDITION = re.compile(r"[A-Z][A-Z_]*")


@dataclass(frozen=True)
class Statement:
    """Statements that must succeed, the last one with a status."""

    sql: str
    status: str | None = None


@dataclass(frozen=True)
class Query:
    """A query with its rows."""

    sql: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Refusal:
    """A statement that must be refused; ``about`` tells readers why."""

    sql: str
    condition: str | None
    about: str
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Restart:
    """Close, and connect again."""


@dataclass(frozen=True)
class Connect:
    """Go on by the connection of a name."""

    name: str


@dataclass(frozen=True)
class Remember:
    """Give the newest T a name."""

    name: str


@dataclass(frozen=True)
class Sleep:
    """Wait."""

    seconds: float


@dataclass(frozen=True)
class Ahead:
    """Let the wall clock be so long after what it is."""

    ms: int


@dataclass(frozen=True)
class Require:
    """What follows is for this release of Spark and newer ones."""

    spark: VersionNumber


Step = Statement | Query | Refusal | Restart | Connect | Remember | Sleep | Ahead | Require


@dataclass(frozen=True)
class Scenario:
    """A named list of steps; ``lines`` says where each begins."""

    name: str
    note: str
    tags: frozenset[str]
    steps: tuple[Step, ...]
    lines: tuple[int, ...]


def load(folder: Path) -> list[Scenario]:
    """The scenarios of a folder, in order of name."""
    found = [read(path.stem, path.read_text()) for path in sorted(folder.glob("*.slt"))]
    assert found, f"no scenarios in {folder}"
    return found


def read(name: str, text: str) -> Scenario:
    """A scenario.

    Raises:
        ValueError: a record is none; with its line.
    """
    note, tags = "", frozenset[str]()
    steps: list[Step] = []
    lines: list[int] = []
    for first, block in _blocks(text):
        comments = list(takewhile(lambda line: line.startswith("#"), block))
        comment = " ".join(line[1:].strip() for line in comments)
        record = block[len(comments) :]
        if record and record[0].startswith("tags:") and not steps:
            tags = frozenset(record.pop(0).removeprefix("tags:").split())
        if not record and not steps:
            note = comment
        if record:
            lines.append(first + len(block) - len(record))
            try:
                steps.append(_step(record, comment))
            except ValueError as wrong:
                raise ValueError(f"{name}.slt:{lines[-1]}: {wrong}") from None
    return Scenario(name, note, tags, tuple(steps), tuple(lines))


def _blocks(text: str) -> list[tuple[int, list[str]]]:
    """What stands between blank lines, each with the number of its first line."""
    found: list[tuple[int, list[str]]] = []
    held: list[str] = []
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if line.strip():
            held.append(line)
        elif held:
            found.append((number - len(held), held))
            held = []
    return found


def _step(record: list[str], comment: str) -> Step:
    head, *body = record
    cut = body.index("----") if "----" in body else len(body)
    sql, told = body[:cut], tuple(body[cut + 1 :])
    match head.split():
        case ["statement", "ok"] if len(told) <= 1:
            return Statement(_sql(sql), *told)
        case ["statement", "error"]:
            return Refusal(_sql(sql), None, comment, told)
        case ["statement", "error", condition] if _CONDITION.fullmatch(condition):
            return Refusal(_sql(sql), condition, comment, told)
        case ["query"] if "----" in body:
            return Query(_sql(sql), tuple(map(row, told)))
        case ["query"]:
            raise ValueError("the rows of a query come after a line of four dashes")
        case ["restart"] if not body:
            return Restart()
        case ["connection", name] if not body:
            return Connect(name)
        case ["remember", name] if not body:
            return Remember(name)
        case ["clock", count, unit] if not body and unit.rstrip("s") in _UNITS:
            return Ahead(int(count) * _UNITS[unit.rstrip("s")])
        case ["sleep", seconds] if not body:
            return Sleep(float(seconds))
        case ["require", "spark", release] if not body:
            return Require(parse(release))
        case _:
            raise ValueError(f"{head!r} begins no record")


def _sql(lines: list[str]) -> str:
    if not lines:
        raise ValueError("there is no SQL")
    return "\n".join(lines)


def row(line: str) -> Row:
    """The values of a line.

    >>> row("7  it's  '  '''  NULL  'NULL'  1.50")
    (7, "it's", "  '", None, 'NULL', Decimal('1.50'))
    """
    values: list[Value] = []
    rest = line.strip()
    while rest:
        quoted = _QUOTED.match(rest)
        if quoted is not None and re.match(r"\s\s|\t|$", rest[quoted.end() :]):
            values.append(quoted[1].replace("''", "'"))
            rest = rest[quoted.end() :].lstrip()
        else:
            word, *others = re.split(r"\s{2,}|\t", rest, maxsplit=1)
            values.append(_value(word))
            rest = others[0].lstrip() if others else ""
    return tuple(values)


def as_written(value: object) -> Value:
    """A value of a result as a file would have it.

    >>> as_written(0.1), as_written(-0.0), as_written(float("nan"))
    (Decimal('0.1'), '-0.0', 'nan')
    """
    match value:
        case bool() | int() | str() | Decimal() | None:
            return value
        case float():
            told = repr(value)
            exact = Decimal(told)
            return exact if exact.is_finite() and (exact or told[0] != "-") else told
        case _:
            return str(value)


def _value(word: str) -> Value:
    if word in _WORDS:
        return _WORDS[word]
    if _NUMBER.fullmatch(word):
        if "." not in word:
            return int(word)
        return word if word.startswith("-0") and not Decimal(word) else Decimal(word)
    if word.startswith("'"):
        raise ValueError(f"no quote ends {word}")
    return word
