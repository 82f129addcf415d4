"""Reads materialized views as Snowflake and Databricks spell them.

    CREATE DYNAMIC TABLE name TARGET_LAG = '5 minutes' REFRESH_MODE = AUTO AS query
    CREATE MATERIALIZED VIEW name SCHEDULE EVERY 1 HOUR AS query

What the clauses mean is said by options of ours; what cannot be honoured is refused by name.
"""

import re
from dataclasses import dataclass

from ctsql.catalog.refreshes import At, Cron, Every, interval_text, parse_every
from ctsql.catalog.spans import Span
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.statements.refreshes import POLICY
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.token_reader import (
    Cursor,
    bad_option,
    invalid,
    not_supported,
)
from ctsql.planner.syntax.tokens.tokenizer import Token, Tokens, span_of

_UTC = ("UTC", "ETC/UTC", "GMT", "Z", "+00:00")
_QUARTZ_FIELDS = 6
_QUARTZ_DAYS = re.compile(r"[LW]")
_QUARTZ_WEEKDAYS = re.compile(r"#|^L$|\dL|[A-Z]{3}L")
_MODES = {"AUTO": "auto", "ADAPTIVE": "auto", "FULL": "full", "INCREMENTAL": "strict"}
_CUSTOM = "CUSTOM_INCREMENTAL"
_WHY_NOT = {  # the clauses that cannot be honoured, by their first word
    "WAREHOUSE": "The Spark session computes it, whichever runs the statement.",
    "CLUSTER": "Its files are laid out by compaction.",
    "PARTITIONED": "Its files are laid out by compaction.",
    "TBLPROPERTIES": "Its table has properties that its refreshes rely on.",
    "TRIGGER": "Without a schedule it is refreshed at every commit.",
    "ROW": "Who may read is decided where the files lie.",
    "PRIVATE": "Who may read is decided where the files lie.",
    "DEFAULT": "Texts are compared by their bytes.",
    "LOCATION": "Type it as an option: WITH (LOCATION = 'uri').",
    "USING": "Tables are Delta tables.",
    "BACKFILL": "An object begins with what its definition gives.",
    "IMMUTABLE": "Rows are those of the query, whenever that changes.",
    "COPY": "ctsql has no users.",
    "REQUIRE": "ctsql has no users.",
    "INITIALIZATION_WAREHOUSE": "The Spark session computes it, whichever runs the statement.",
    "SCHEDULER": "Reads and ctsql run bring it up.",
    "DATA_RETENTION_TIME_IN_DAYS": "MAINTAIN takes RETAIN for all objects.",
    "MAX_DATA_EXTENSION_TIME_IN_DAYS": "MAINTAIN takes RETAIN for all objects.",
}


@dataclass(slots=True)
class DynamicClauses:
    """What stands between a dynamic table's columns and AS or REFRESH USING.

    Attributes:
        options: those of a materialized view.
        lag: the literal of TARGET_LAG; None for DOWNSTREAM.
        mode: REFRESH_MODE, where it is one of a view's.
        custom: REFRESH_MODE, where it is the one of REFRESH USING.
        on_schedule: INITIALIZE = ON_SCHEDULE, where it is given.
    """

    options: tuple[st.Option, ...] = ()
    comment: str | None = None
    lag: Span | None = None
    mode: Span | None = None
    custom: Span | None = None
    on_schedule: Span | None = None


def read_dynamic_clauses(cursor: Cursor) -> DynamicClauses:
    """The clauses of a dynamic table, in any order, each at most once.

    Raises SYNTAX_ERROR, INVALID_OPTION, INVALID_STATEMENT, NOT_SUPPORTED.
    """
    made = DynamicClauses()
    found: dict[str, tuple[st.Option, ...]] = {}
    while cursor.current is not None and not (cursor.at("AS") or cursor.at("REFRESH", "USING")):
        start, word = cursor.position, cursor.upper()
        refuse_clause(cursor.take("a clause or AS"))
        cursor.expect("=")
        value = cursor.take("a value")
        span = span_of(cursor.tokens[start : cursor.position])
        if word in found:
            raise bad_option(span, word, "It is given twice.")
        found[word] = ()
        if word == "TARGET_LAG":
            found[word] = _lag(value, span_of([value]), span)
            made.lag = value.span if found[word] else None
        elif word == "REFRESH_MODE" and value.upper in _MODES:
            mode = _MODES[value.upper]
            found[word] = (st.Option(name=POLICY, value=mode, span=span, value_span=value.span),)
            made.mode = span
        elif word == "REFRESH_MODE" and value.upper == _CUSTOM:
            made.custom = span
        elif word == "INITIALIZE" and value.upper in ("ON_CREATE", "ON_SCHEDULE"):
            made.on_schedule = span if value.upper == "ON_SCHEDULE" else None
        elif word == "COMMENT":
            made.comment = value.text
        else:
            raise bad_option(span, word, _takes(word))
    if "TARGET_LAG" not in found:
        hint = "Type: TARGET_LAG = '5 minutes', or TARGET_LAG = DOWNSTREAM"
        raise invalid(cursor.here, "a dynamic table needs a TARGET_LAG", "", hint)
    lag = found["TARGET_LAG"]
    if lag and made.on_schedule is None:
        first = st.Option(
            name="REFRESH", value=At(), span=lag[0].span, value_span=lag[0].value_span
        )
        found["INITIALIZE"] = (first,)
    if made.custom is not None and not cursor.at("REFRESH", "USING"):
        raise bad_option(made.custom, "REFRESH_MODE", f"{_CUSTOM} goes with REFRESH USING (...).")
    made.options = tuple(option for options in found.values() for option in options)
    return made


def split_schedule(tokens: Tokens) -> tuple[Tokens, tuple[st.Option, ...]]:
    """The header of a materialized view without Databricks' clauses, and what they say.

    Raises INVALID_OPTION, NOT_SUPPORTED, SYNTAX_ERROR.
    """
    cursor = Cursor(tokens)
    cursor.expect("CREATE")
    cursor.accept("OR", "REPLACE")
    cursor.expect("MATERIALIZED", "VIEW")
    cursor.if_not_exists()
    cursor.dotted_name("the view's name")
    begin = cursor.position
    stop = next(
        (i for i, t in tk.at_depth_0(tokens) if i >= begin and t.upper == "AS"), len(tokens)
    )
    for index, token in tk.at_depth_0(tokens[:stop]):
        if index >= begin and token.upper in (*_WHY_NOT, "SCHEDULE"):
            break
    else:
        return tokens, ()
    refuse_clause(token)
    cursor = Cursor(tokens, start=index)
    cursor.expect("SCHEDULE")
    cursor.accept("REFRESH")
    every: Every | Cron
    if cursor.at("CRON"):
        span, every = _read_cron(cursor)
    else:
        span, every = _read_every(cursor, token.span)
    option = st.Option(name="REFRESH", value=every, span=span, value_span=span)
    first = st.Option(name="REFRESH", value=At(), span=span, value_span=span)
    return (*tokens[:index], *tokens[cursor.position :]), (first, option)


def refuse_clause(token: Token, of: str = "view") -> None:
    """Raise NOT_SUPPORTED where a clause begins that cannot be honoured."""
    why = _WHY_NOT.get(token.upper)
    if why is not None:
        hint = "Leave the clause out."
        raise not_supported(token.span, f"{token.upper} of a {of}", why=why, hint=hint)


def read_every(cursor: Cursor, begin: Span) -> str:
    """``EVERY number unit`` as the text of an interval; ``begin`` is where the clause begins.

    Raises SYNTAX_ERROR, INVALID_OPTION.
    """
    _, every = _read_every(cursor, begin)
    return interval_text(every.interval_ms)


def _read_every(cursor: Cursor, begin: Span) -> tuple[Span, Every]:
    cursor.expect("EVERY")
    number, unit = cursor.take("a number"), cursor.take("HOUR, DAY or WEEK")
    span = Span(cursor.source, begin.start, unit.stop)
    return span, _every(f"{number.text} {unit.text}", span, "SCHEDULE")


def _read_cron(cursor: Cursor) -> tuple[Span, Cron]:
    """``CRON 'text' [AT TIME ZONE 'UTC']``, with a text of Quartz."""
    begin = cursor.take().start
    text = cursor.string("a cron text in quotes")
    if cursor.accept("AT", "TIME", "ZONE"):
        zone = cursor.string("a time zone in quotes")
        if zone.text.upper() not in _UTC:
            what = f"SCHEDULE CRON in the time zone {zone.text}"
            hint = "Type AT TIME ZONE 'UTC', and the hours of UTC."
            raise not_supported(zone.span, what, why="Times are UTC, everywhere.", hint=hint)
    made = from_quartz(text.text)
    found = parse_every(made) if made is not None else "It is none of Quartz that is known here."
    if not isinstance(found, Cron):
        hint = "It has six fields, as '0 0 3 * * ?' for each day at 3:00."
        told = found if isinstance(found, str) else "It is no cron text."
        raise bad_option(text.span, "SCHEDULE CRON", told, hint=hint)
    return Span(cursor.source, begin, cursor.tokens[cursor.position - 1].stop), found


def from_quartz(text: str) -> str | None:
    """A cron text of Quartz as one of ours; None where it has no such. Pure.

    Quartz counts days of the week from 1, which is Sunday, has ``?`` for "any", and may have a
    year. ``L``, ``W`` and ``#`` are left to nobody.

    >>> from_quartz("0 0 3 ? * 2-6"), from_quartz("0 30 1 * * ? *"), from_quartz("0 0 0 L * ?")
    ('0 0 3 * * 1-5', '0 30 1 * * *', None)
    """
    fields = text.upper().split()
    if len(fields) == _QUARTZ_FIELDS + 1 and fields[-1] == "*":
        fields.pop()  # any year
    if len(fields) != _QUARTZ_FIELDS:
        return None
    *rest, weekday = ("*" if f == "?" else f for f in fields)
    if _QUARTZ_DAYS.search(rest[3]) or _QUARTZ_WEEKDAYS.search(weekday):
        return None
    parts = []
    for part in weekday.split(","):
        days, slash, step = part.partition("/")
        ours = re.sub(r"\d+", lambda d: str(int(d[0]) - 1), days)
        parts.append(ours + slash + step)
    return " ".join([*rest, ",".join(parts)])


def read_lag(cursor: Cursor) -> tuple[st.Option, ...]:
    """``= 'interval'`` or ``= DOWNSTREAM`` behind TARGET_LAG; no option for the second.

    Raises SYNTAX_ERROR, INVALID_OPTION.
    """
    cursor.expect("=")
    value = cursor.take("an interval, or DOWNSTREAM")
    return _lag(value, value.span, value.span)


def _lag(value: Token, value_span: Span, span: Span) -> tuple[st.Option, ...]:
    if value.upper == "DOWNSTREAM":
        return ()  # refreshed when what reads it needs it, as every view is
    every = _every(value.text, span, "TARGET_LAG")
    return (st.Option(name="REFRESH", value=every, span=span, value_span=value_span),)


def _every(text: str, span: Span, option: str) -> Every:
    every = parse_every(text)
    if isinstance(every, str):
        raise bad_option(span, option, every)
    if isinstance(every, Cron):
        raise bad_option(span, option, _takes(option))
    return every


def _takes(word: str) -> str:
    values = {
        "TARGET_LAG": "It takes an interval such as '5 minutes', or DOWNSTREAM.",
        "REFRESH_MODE": f"It takes one of {', '.join(_MODES)}.",
        "INITIALIZE": "It takes ON_CREATE or ON_SCHEDULE.",
    }
    return values.get(word, "The clauses are TARGET_LAG, REFRESH_MODE, INITIALIZE and COMMENT.")
