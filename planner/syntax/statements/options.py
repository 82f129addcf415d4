"""Reads the options of WITH (...)."""

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from ctsql.catalog.errors import CtsqlError, bad_option
from ctsql.catalog.names import did_you_mean
from ctsql.catalog.refreshes import Every, parse_every
from ctsql.catalog.spans import Span
from ctsql.planner.syntax.ast import Option
from ctsql.planner.syntax.statements.refreshes import POLICY, refresh_option
from ctsql.planner.syntax.tokens.file_refs import check_location
from ctsql.planner.syntax.tokens.token_reader import Cursor, column_names, syntax_error
from ctsql.planner.syntax.tokens.tokenizer import Kind, Tokens, cut_at_commas, span_of

COALESCE, VECTORS, LOCATION = "COALESCE", "DELETION VECTORS", "LOCATION"
STORAGE_OPTIONS = (VECTORS, LOCATION)
"""How and where an output is stored: decided when it is created."""
TASK_OPTIONS = (
    "SNAPSHOT", "ON ERROR", "ITERATIONS", "TRIM EVERY", COALESCE, *STORAGE_OPTIONS,
)  # fmt: skip
INTERVAL_MS_MIN = 1_000
FIXPOINT = "fixpoint"
ITERATIONS_MAX = 1_000
"""The most ITERATIONS there may be, and where FIXPOINT gives up."""
_ON_ERROR = ("halt", "skip", "quarantine")
NOT_NULL = "ASSERT NOT NULL"
_VIEW_KNOWN = (
    "REFRESH ON COMMIT",
    "REFRESH EVERY",
    "REFRESH AT",
    "REFRESH AT CREATION",
    POLICY,
    NOT_NULL,
    *STORAGE_OPTIONS,
)


def task_options(clauses: Iterable[Tokens]) -> tuple[Option, ...]:
    """The options of a continual task. Raises SYNTAX_ERROR, INVALID_OPTION."""
    return _read_options(clauses, TASK_OPTIONS)


def storage_options(options: Iterable[Option]) -> dict[str, object]:
    """What options say of how and where the output is stored, defaults left out."""
    values = {o.name: o.value for o in options if o.name in STORAGE_OPTIONS}
    return {name: value for name, value in values.items() if value is not True}


def view_options(clauses: Iterable[Tokens]) -> tuple[Option, ...]:
    """The options of a materialized view."""
    options = _read_options(clauses, _VIEW_KNOWN)
    times = [o for o in options if o.name == "REFRESH"]
    on_commit = [o for o in times if o.value == "ON COMMIT"]
    if on_commit and len(times) > 1:
        detail = "A view that is refreshed at every commit has no other refresh times."
        hint = "Leave REFRESH ON COMMIT out, or the others."
        value = "ON COMMIT together with other times"
        span = max(times[1], on_commit[0], key=lambda o: o.span.start).span
        raise bad_option(span, "REFRESH", detail, value=value, hint=hint)
    return options


def _read_options(clauses: Iterable[Tokens], known: Sequence[str]) -> tuple[Option, ...]:
    result: list[Option] = []
    for group in _all_groups(clauses):
        name = _words(group)
        if _begins(name, NOT_NULL) and NOT_NULL in known:
            result += _not_null(group)
            continue
        if _begins(name, "REFRESH") and POLICY in known:
            option = refresh_option(group)
        elif name in known:
            option = _task_option(group, name)
        else:
            raise unknown_option(span_of(group[: len(name.split())]), name, known)
        same = [o for o in result if o.name == option.name]
        if option.name == "REFRESH":  # several times are several values
            same = [o for o in same if o.value == option.value]
        if same:
            detail = "It was given before."
            raise bad_option(span_of(group), option.name, detail, value="two values")
        result.append(option)
    return tuple(result)


def _not_null(group: Tokens) -> list[Option]:
    """ASSERT NOT NULL a, or [=] (a, b, ...): one option for each column."""
    cursor = Cursor(group, of="option")
    cursor.expect("ASSERT", "NOT", "NULL")
    cursor.accept("=")
    names = column_names(cursor)
    cursor.end()
    span = span_of(group)
    return [Option(name=NOT_NULL, value=n.text, span=span, value_span=n.span) for n in names]


def _all_groups(clauses: Iterable[Tokens]) -> list[Tokens]:
    groups: list[Tokens] = []
    for clause in clauses:
        for group in cut_at_commas(clause) if clause else ():
            if not group:
                raise syntax_error(clause[0].span, "an option is missing in WITH (...)")
            groups.append(group)
    return groups


def _words(group: Tokens) -> str:
    """The option's name: the words it begins with, in upper case."""
    words = [t.upper for t in takewhile(lambda t: t.kind is Kind.WORD, group)]
    if not words:
        raise syntax_error(group[0].span, f'found "{group[0].span.text}", expected an option')
    return " ".join(words)


def _begins(name: str, option: str) -> bool:
    return name == option or name.startswith(option + " ")


def _task_option(group: Tokens, name: str) -> Option:
    cursor = Cursor(group, of="option")
    cursor.expect(*name.split(), "=")
    read = _READERS.get(name, _boolean)
    value = read(cursor, name)
    span = cursor.tokens[cursor.position - 1].span
    cursor.end()
    return Option(name=name, value=value, span=span_of(group), value_span=span)


def _interval(cursor: Cursor, name: str) -> Every:
    value = cursor.string("an interval such as '1 hour'")
    every = parse_every(value.text)
    if not isinstance(every, Every) or every.interval_ms < INTERVAL_MS_MIN:
        detail = "It takes an interval of a second or more."
        raise bad_option(value.span, name, detail, hint=f"Type: {name} = '1 hour'")
    return every


def _iterations(cursor: Cursor, name: str) -> int | str:
    value = cursor.take("a number or FIXPOINT")
    if value.upper == "FIXPOINT":
        return FIXPOINT
    count = int(value.text) if value.kind is Kind.NUMBER and value.text.isdigit() else 0
    if not 1 <= count <= ITERATIONS_MAX:
        detail = f"It takes a number from 1 to {ITERATIONS_MAX}, or FIXPOINT."
        raise bad_option(value.span, name, detail)
    return count


def _boolean(cursor: Cursor, name: str) -> bool:
    value = cursor.take("true or false")
    if value.upper not in ("TRUE", "FALSE"):
        raise bad_option(value.span, name, "It takes true or false.")
    return value.upper == "TRUE"


def _on_error(cursor: Cursor, name: str) -> str:
    value = cursor.string("'halt', 'skip' or 'quarantine'")
    value_text = value.text.lower()
    if value_text not in _ON_ERROR:
        hint = did_you_mean(value_text, _ON_ERROR)
        raise bad_option(value.span, name, "It takes 'halt', 'skip' or 'quarantine'.", hint=hint)
    return value_text


def _location(cursor: Cursor, _name: str) -> str:
    return check_location(cursor.string("a folder in quotes"))


_READERS: dict[str, Callable[[Cursor, str], int | str | bool | Every]] = {
    "ON ERROR": _on_error,
    "ITERATIONS": _iterations,
    "TRIM EVERY": _interval,
    COALESCE: _interval,
    LOCATION: _location,
}


def unknown_option(span: Span, name: str, options: Iterable[str]) -> CtsqlError:
    """An INVALID_OPTION for an option that there is not; the caller raises it."""
    detail = f"There is no such option. The options are: {', '.join(options)}."
    hint = did_you_mean(name, options)
    return bad_option(span, name, detail, value="any value here", hint=hint)
