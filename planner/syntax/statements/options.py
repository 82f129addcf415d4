"""Reads the options of WITH (...)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import takewhile

from ctsql.catalog.errors import CtsqlError, bad_option
from ctsql.catalog.names import did_you_mean
from ctsql.catalog.refreshes import At, Cron, Every, RefreshPart, parse_every
from ctsql.catalog.spans import Span
from ctsql.catalog.times import HOW_TO_WRITE, Time, parse_time
from ctsql.planner.syntax.ast import Option
from ctsql.planner.syntax.statements.refusals import ASSERT, refusal
from ctsql.planner.syntax.tokens.file_refs import check_location
from ctsql.planner.syntax.tokens.token_reader import TokenCursor, syntax_error
from ctsql.planner.syntax.tokens.tokenizer import Kind, Tokens, cut_at_commas, span_of

POLICY = "REFRESH POLICY"
POLICIES = ("auto", "incremental", "strict", "full")
_HOW_EVERY = "Write an interval ('1 day', '2 hours 30 minutes') or a cron text ('0 3 * * *'), UTC."
_HOW_MONTHS = "Write a cron text: '0 0 1 * *' is each first of the month, 00:00 UTC."
COALESCE, VECTORS, LOCATION = "COALESCE", "DELETION VECTORS", "LOCATION"
STORAGE_OPTIONS = (VECTORS, LOCATION)
"""Options about how and where an output is stored, which are fixed when it is created."""
KEPT_OPTIONS = (COALESCE, *STORAGE_OPTIONS)
"""Options that another definition of the same object must repeat."""
TASK_OPTIONS = (
    "SNAPSHOT", "ON ERROR", "ITERATIONS", "TRIM EVERY", COALESCE, *STORAGE_OPTIONS,
)  # fmt: skip
INTERVAL_MS_MIN = 1_000
FIXPOINT = "fixpoint"
ITERATIONS_MAX = 1_000  # the most ITERATIONS there may be, and where FIXPOINT gives up
VIEW_OPTIONS = (
    "REFRESH ON COMMIT",
    "REFRESH EVERY",
    "REFRESH AT",
    "REFRESH AT CREATION",
    POLICY,
    *STORAGE_OPTIONS,
)


def task_options(clauses: Iterable[Tokens]) -> tuple[Option, ...]:
    """The options of a continual task. Raises SYNTAX_ERROR, INVALID_OPTION."""
    return _read_options(clauses, TASK_OPTIONS)


def fixed_options(options: Iterable[Option]) -> dict[str, object]:
    """Those of :data:`KEPT_OPTIONS`, defaults left out."""
    values = {o.name: o.value for o in options if o.name in KEPT_OPTIONS}
    return {name: value for name, value in values.items() if value is not True}


def view_options(clauses: Iterable[Tokens]) -> tuple[Option, ...]:
    """The options of a materialized view."""
    options = _read_options(clauses, VIEW_OPTIONS)
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
        if _begins(name, ASSERT) and POLICY in known:
            raise refusal(span_of(group), ASSERT)
        if _begins(name, POLICY) and POLICY in known:
            option = _task_option(group, POLICY)
        elif _begins(name, "REFRESH") and POLICY in known:
            option = _refresh_option(group)
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


def _all_groups(clauses: Iterable[Tokens]) -> list[Tokens]:
    groups: list[Tokens] = []
    for clause in clauses:
        for group in cut_at_commas(clause) if clause else ():
            if not group:
                raise syntax_error(clause[0].span, "an option is missing in WITH (...)")
            groups.append(group)
    return groups


def _words(group: Tokens) -> str:
    """The option's name: its first words, in upper case."""
    words = [t.upper for t in takewhile(lambda t: t.kind is Kind.WORD, group)]
    if not words:
        raise syntax_error(group[0].span, f'found "{group[0].span.text}", expected an option')
    return " ".join(words)


def _begins(name: str, option: str) -> bool:
    return name == option or name.startswith(option + " ")


def _task_option(group: Tokens, name: str) -> Option:
    cursor = TokenCursor(group, of="option")
    cursor.expect(*name.split(), "=")
    read = _READERS.get(name, read_boolean)
    value = read(cursor, name)
    span = cursor.tokens[cursor.position - 1].span
    cursor.end()
    return Option(name=name, value=value, span=span_of(group), value_span=span)


def _interval(cursor: TokenCursor, name: str) -> Every:
    value = cursor.string("an interval such as '1 hour'")
    every = parse_every(value.text)
    if not isinstance(every, Every) or every.interval_ms < INTERVAL_MS_MIN:
        detail = "It takes an interval of a second or more."
        raise bad_option(value.span, name, detail, hint=f"Type: {name} = '1 hour'")
    return every


def _iterations(cursor: TokenCursor, name: str) -> int | str:
    value = cursor.take("a number or FIXPOINT")
    if value.upper == "FIXPOINT":
        return FIXPOINT
    count = int(value.text) if value.kind is Kind.NUMBER and value.text.isdigit() else 0
    if not 1 <= count <= ITERATIONS_MAX:
        detail = f"It takes a number from 1 to {ITERATIONS_MAX}, or FIXPOINT."
        raise bad_option(value.span, name, detail)
    return count


def read_boolean(cursor: TokenCursor, name: str) -> bool:
    """Read true or false, the value of an option; raises SYNTAX_ERROR, INVALID_OPTION."""
    value = cursor.take("true or false")
    if value.upper not in ("TRUE", "FALSE"):
        raise bad_option(value.span, name, "It takes true or false.")
    return value.upper == "TRUE"


def _one_of(*choices: str) -> Callable[[TokenCursor, str], str]:
    """The reader of a value that is one of some words, typed as a word or a text."""

    def read(cursor: TokenCursor, name: str) -> str:
        token = cursor.take(f"one of {', '.join(choices)}")
        if token.kind not in (Kind.WORD, Kind.STRING) or token.text.lower() not in choices:
            hint = did_you_mean(token.text.lower(), choices)
            raise bad_option(token.span, name, f"It takes one of {', '.join(choices)}.", hint=hint)
        return token.text.lower()

    return read


def _location(cursor: TokenCursor, _name: str) -> str:
    return check_location(cursor.string("a folder in quotes"))


_READERS: dict[str, Callable[[TokenCursor, str], int | str | bool | Every]] = {
    "ON ERROR": _one_of("halt", "skip", "quarantine"),
    "ITERATIONS": _iterations,
    "TRIM EVERY": _interval,
    COALESCE: _interval,
    LOCATION: _location,
    POLICY: _one_of(*POLICIES),
}


def unknown_option(span: Span, name: str, options: Iterable[str]) -> CtsqlError:
    """An INVALID_OPTION for an unknown option; the caller raises it."""
    detail = f"There is no such option. The options are: {', '.join(options)}."
    hint = did_you_mean(name, options)
    return bad_option(span, name, detail, value="any value here", hint=hint)


# ---- REFRESH ON COMMIT, EVERY, AT, POLICY


def _refresh_option(group: Tokens) -> Option:
    """One REFRESH option; its value is "ON COMMIT" or a part of a schedule."""
    cursor = TokenCursor(group, of="option")
    cursor.expect("REFRESH")
    cursor.accept("=")
    start = cursor.position
    value: str | RefreshPart
    if cursor.accept("ON", "COMMIT"):
        value = "ON COMMIT"
    elif cursor.accept("EVERY"):
        value = _every(cursor)
    elif cursor.accept("AT"):
        value = At() if cursor.accept("CREATION") else At(_time(cursor, "REFRESH AT"))
        _no_alignment(cursor)
    elif cursor.at("ALIGNED"):
        _no_alignment(cursor)
    else:
        words = ("ON", "EVERY", "AT", "POLICY")
        cursor.fail("ON COMMIT, EVERY, AT or POLICY", words=words)
    cursor.end()
    value_span = span_of(group[start:])
    return Option(name="REFRESH", value=value, span=span_of(group), value_span=value_span)


def _every(cursor: TokenCursor) -> Every | Cron:
    start = cursor.position
    if cursor.accept("INTERVAL"):
        words = []
        while cursor.current is not None and not cursor.at("ALIGNED"):
            words.append(cursor.take().text)
        if not words:
            cursor.fail("an interval such as '1 day'", hint=_HOW_EVERY)
        text = " ".join(words)
    else:
        text = cursor.string("an interval such as '1 day'", hint=_HOW_EVERY).text
    span = span_of(cursor.tokens[start : cursor.position])
    every = parse_every(text)
    if isinstance(every, str):
        hint = _HOW_MONTHS if "no fixed length" in every else _HOW_EVERY
        raise bad_option(span, "REFRESH EVERY", every, hint=hint)
    if isinstance(every, Cron):
        _no_alignment(cursor)
        return every
    if not cursor.at("ALIGNED"):
        return every
    cursor.expect("ALIGNED", "TO")
    return replace(every, aligned_to=_time(cursor, "ALIGNED TO"))


def _no_alignment(cursor: TokenCursor) -> None:
    if cursor.at("ALIGNED"):
        detail = "Only EVERY with an interval can be aligned to a time."
        hint = "Type: REFRESH EVERY '1 day' ALIGNED TO '2026-01-01 03:00:00'"
        raise bad_option(span_of(cursor.rest), "ALIGNED TO", detail, value="this place", hint=hint)


def _time(cursor: TokenCursor, option: str) -> Time:
    detail = "It takes one literal time" + (", or CREATION." if option == "REFRESH AT" else ".")
    if cursor.current is None:
        cursor.fail("a time", hint=HOW_TO_WRITE)
    if cursor.at("(", "SELECT"):
        raise bad_option(span_of(cursor.rest), option, detail, value="a query", hint=HOW_TO_WRITE)
    begin = cursor.position
    if cursor.at("TIMESTAMP") and len(cursor.rest) > 1:
        cursor.take()
    token = cursor.take()
    ends = cursor.current is None or cursor.at("ALIGNED")
    if token.kind not in (Kind.STRING, Kind.NUMBER) or not ends:
        raise bad_option(span_of(cursor.tokens[begin:]), option, detail, hint=HOW_TO_WRITE)
    return parse_time(token.text, span=token.span, option=option)
