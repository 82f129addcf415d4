"""Reads the options of WITH (...)."""

from collections.abc import Iterable

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.names import did_you_mean
from ctsql.catalog.refreshes import Every, parse_every
from ctsql.planner.syntax.ast import Option
from ctsql.planner.syntax.statements.refreshes import POLICY, refresh_option
from ctsql.planner.syntax.tokens.token_reader import Cursor, syntax_error
from ctsql.planner.syntax.tokens.tokenizer import Kind, Token, Tokens, groups, span_of

TASK_OPTIONS = ("SNAPSHOT", "ON ERROR", "ITERATIONS", "TRIM EVERY", "COALESCE")
INTERVAL_MS_MIN = 1_000
FIXPOINT = "fixpoint"
ITERATIONS_MAX = 1_000
"""The most ITERATIONS there may be, and where FIXPOINT gives up."""
_ON_ERROR = ("halt", "skip")
NOT_NULL = "ASSERT NOT NULL"
_VIEW_KNOWN = (
    "REFRESH ON COMMIT",
    "REFRESH EVERY",
    "REFRESH AT",
    "REFRESH AT CREATION",
    POLICY,
    NOT_NULL,
)
_BOOLEANS = {"TRUE": True, "FALSE": False}


def task_options(clauses: Iterable[Tokens]) -> tuple[Option, ...]:
    """The options of a continual task.

    Raises:
        INVALID_OPTION: unknown, given twice, or with a value it does not take.
        SYNTAX_ERROR: it does not have the form.
    """
    found: dict[str, Option] = {}
    for group in _all_groups(clauses):
        name = _words(group)
        if name not in TASK_OPTIONS:
            raise _unknown(group, name, TASK_OPTIONS)
        if name in found:
            raise _twice(group, name)
        found[name] = _task_option(group, name)
    return tuple(found.values())


def view_options(clauses: Iterable[Tokens]) -> tuple[Option, ...]:
    """The options of a materialized view; raises as :func:`task_options` does."""
    found: list[Option] = []
    for group in _all_groups(clauses):
        name = _words(group)
        if _begins(name, NOT_NULL):
            found += _not_null(group)
            continue
        if not _begins(name, "REFRESH"):
            raise _unknown(group, name, _VIEW_KNOWN)
        option = refresh_option(group)
        if option.name == POLICY:
            if any(o.name == POLICY for o in found):
                raise _twice(group, POLICY)
            found.append(option)
            continue
        refreshes = [o for o in found if o.name == "REFRESH"]
        if any(option.value == other.value for other in refreshes):
            raise _twice(group, "REFRESH")
        found.append(option)
        refreshes.append(option)
        if len(refreshes) > 1 and any(o.value == "ON COMMIT" for o in refreshes):
            raise error(
                "INVALID_OPTION",
                span=option.span,
                option="REFRESH",
                value="ON COMMIT together with other times",
                detail="A view that is refreshed at every commit has no other refresh times.",
                hint="Leave REFRESH ON COMMIT out, or the others.",
            )
    return tuple(found)


def _not_null(group: Tokens) -> list[Option]:
    """ASSERT NOT NULL a, or [=] (a, b, ...): one option for each column."""
    cursor = Cursor(group, of="option")
    cursor.expect("ASSERT", "NOT", "NULL")
    cursor.accept("=")
    listed = cursor.accept("(")
    names = [cursor.name("a column")]
    while listed and cursor.accept(","):
        names.append(cursor.name("a column"))
    if listed:
        cursor.expect(")")
    cursor.end()
    span = span_of(group)
    return [Option(name=NOT_NULL, value=n.text, span=span, value_span=n.span) for n in names]


def _all_groups(clauses: Iterable[Tokens]) -> list[list[Token]]:
    found: list[list[Token]] = []
    for clause in clauses:
        made = groups(clause, ",")
        for group in made:
            if not group and clause:
                raise syntax_error(clause[0].span, "an option is missing in WITH (...)")
        found.extend(group for group in made if group)
    return found


def _words(group: Tokens) -> str:
    """The option's name: the words it begins with, in upper case."""
    words = []
    for token in group:
        if token.kind is not Kind.WORD:
            break
        words.append(token.upper)
    if not words:
        raise syntax_error(group[0].span, f'found "{group[0].span.text}", expected an option')
    return " ".join(words)


def _begins(name: str, known: str) -> bool:
    return name == known or name.startswith(known + " ")


def _task_option(group: Tokens, name: str) -> Option:
    match name:
        case "ON ERROR":
            return _on_error(group)
        case "ITERATIONS":
            return _iterations(group)
        case "TRIM EVERY" | "COALESCE":
            return _interval(group, name)
        case _:
            return _boolean(group, name)


def _interval(group: Tokens, name: str) -> Option:
    cursor = Cursor(group, of="option")
    cursor.expect(*name.split())
    cursor.expect("=")
    value = cursor.string("an interval such as '1 hour'")
    every = parse_every(value.text)
    if not isinstance(every, Every) or every.interval_ms < INTERVAL_MS_MIN:
        raise error(
            "INVALID_OPTION",
            span=value.span,
            option=name,
            value=value.span.text,
            detail="It takes an interval of a second or more.",
            hint=f"Type: {name} = '1 hour'",
        )
    cursor.end()
    return Option(name=name, value=every, span=span_of(group), value_span=value.span)


def _iterations(group: Tokens) -> Option:
    cursor = Cursor(group, of="option")
    cursor.expect("ITERATIONS")
    cursor.expect("=")
    if cursor.current is None:
        cursor.fail("a number or FIXPOINT")
    value = cursor.take()
    made: int | str | None = None
    if value.kind is Kind.WORD and value.upper == "FIXPOINT":
        made = FIXPOINT
    elif value.kind is Kind.NUMBER and value.text.isdigit():
        made = int(value.text)
    if made is None or (isinstance(made, int) and not 1 <= made <= ITERATIONS_MAX):
        raise error(
            "INVALID_OPTION",
            span=value.span,
            option="ITERATIONS",
            value=value.span.text,
            detail=f"It takes a number from 1 to {ITERATIONS_MAX}, or FIXPOINT.",
        )
    cursor.end()
    return Option(name="ITERATIONS", value=made, span=span_of(group), value_span=value.span)


def _boolean(group: Tokens, name: str) -> Option:
    cursor = Cursor(group, of="option")
    for word in name.split():
        cursor.expect(word)
    cursor.expect("=")
    if cursor.current is None:
        cursor.fail("true or false")
    value = cursor.take()
    literal = _BOOLEANS.get(value.text.upper()) if value.kind is Kind.WORD else None
    if literal is None:
        raise error(
            "INVALID_OPTION",
            span=value.span,
            option=name,
            value=value.span.text,
            detail="It takes true or false.",
        )
    cursor.end()
    return Option(name=name, value=literal, span=span_of(group), value_span=value.span)


def _on_error(group: Tokens) -> Option:
    cursor = Cursor(group, of="option")
    cursor.expect("ON", "ERROR")
    cursor.expect("=")
    value = cursor.string("'halt' or 'skip'")
    wanted = value.text.lower()
    if wanted not in _ON_ERROR:
        raise error(
            "INVALID_OPTION",
            span=value.span,
            option="ON ERROR",
            value=value.span.text,
            detail="It takes 'halt' or 'skip'.",
            hint=did_you_mean(wanted, _ON_ERROR),
        )
    cursor.end()
    return Option(name="ON ERROR", value=wanted, span=span_of(group), value_span=value.span)


def _unknown(group: Tokens, name: str, known: Iterable[str]) -> CtsqlError:
    listed = ", ".join(known)
    return error(
        "INVALID_OPTION",
        span=span_of(group[: len(name.split())]),
        option=name,
        value="any value here",
        detail=f"There is no such option. The options are: {listed}.",
        hint=did_you_mean(name, known),
    )


def _twice(group: Tokens, name: str) -> CtsqlError:
    return error(
        "INVALID_OPTION",
        span=span_of(group),
        option=name,
        value="two values",
        detail="It was given before.",
    )
