"""Reads REFRESH options of a materialized view: ON COMMIT, EVERY, AT, POLICY."""

from dataclasses import replace

from ctsql.catalog.errors import bad_option
from ctsql.catalog.names import did_you_mean
from ctsql.catalog.refreshes import At, Cron, Every, RefreshPart, parse_every
from ctsql.catalog.times import HOW_TO_WRITE, Time, parse_time
from ctsql.planner.syntax.ast import Option
from ctsql.planner.syntax.tokens.token_reader import Cursor
from ctsql.planner.syntax.tokens.tokenizer import Kind, Tokens, span_of

POLICY = "REFRESH POLICY"
POLICIES = ("auto", "incremental", "strict", "full")
_HOW_EVERY = "Write an interval ('1 day', '2 hours 30 minutes') or a cron text ('0 3 * * *'), UTC."
_HOW_MONTHS = "Write a cron text: '0 0 1 * *' is each first of the month, 00:00 UTC."


def refresh_option(group: Tokens) -> Option:
    """One REFRESH option; its value is "ON COMMIT", a part of a schedule, or a policy.

    Raises SYNTAX_ERROR, INVALID_OPTION.
    """
    cursor = Cursor(group, of="option")
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
    elif cursor.accept("POLICY"):
        return _policy(cursor, group)
    else:
        words = ("ON", "EVERY", "AT", "POLICY")
        cursor.fail("ON COMMIT, EVERY, AT or POLICY", words=words)
    cursor.end()
    value_span = span_of(group[start:])
    return Option(name="REFRESH", value=value, span=span_of(group), value_span=value_span)


def _policy(cursor: Cursor, group: Tokens) -> Option:
    cursor.expect("=")
    token = cursor.take(f"one of {', '.join(POLICIES)}")
    value_text = token.text.lower()
    if token.kind not in (Kind.WORD, Kind.STRING) or value_text not in POLICIES:
        detail = f"It takes one of {', '.join(POLICIES)}."
        raise bad_option(token.span, POLICY, detail, hint=did_you_mean(value_text, POLICIES))
    cursor.end()
    return Option(name=POLICY, value=value_text, span=span_of(group), value_span=token.span)


def _every(cursor: Cursor) -> Every | Cron:
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


def _no_alignment(cursor: Cursor) -> None:
    if cursor.at("ALIGNED"):
        detail = "Only EVERY with an interval can be aligned to a time."
        hint = "Type: REFRESH EVERY '1 day' ALIGNED TO '2026-01-01 03:00:00'"
        raise bad_option(span_of(cursor.rest), "ALIGNED TO", detail, value="this place", hint=hint)


def _time(cursor: Cursor, option: str) -> Time:
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
