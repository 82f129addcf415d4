"""Reads materialized views as Snowflake and Databricks spell them.

    CREATE DYNAMIC TABLE name TARGET_LAG = '5 minutes' REFRESH_MODE = AUTO AS query
    CREATE MATERIALIZED VIEW name SCHEDULE EVERY 1 HOUR AS query

What the clauses mean is said by options of ours. What would change rows, or who sees them, and
cannot be honoured is refused by name. What says only where they are computed, or how files are laid
out, is taken, and the author is told that it has no effect
(docs/decisions/0103-clauses-without-effect.md).
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ctsql.catalog.errors import bad_option, invalid, not_supported
from ctsql.catalog.refreshes import At, Cron, Every, interval_text, parse_every
from ctsql.catalog.spans import Span
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.statements.refreshes import POLICY
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.token_reader import Cursor
from ctsql.planner.syntax.tokens.tokenizer import Token, Tokens, span_of

_UTC = ("UTC", "ETC/UTC", "GMT", "Z", "+00:00")
_QUARTZ_FIELDS = 6
_QUARTZ_DAYS = re.compile(r"[LW]")
_QUARTZ_WEEKDAYS = re.compile(r"#|^L$|\dL|[A-Z]{3}L")
_MODES = {"AUTO": "auto", "ADAPTIVE": "auto", "FULL": "full", "INCREMENTAL": "strict"}
_CUSTOM = "CUSTOM_INCREMENTAL"
_WHY_NOT = {  # the clauses that cannot be honoured, by their first word
    "PARTITIONED": "Its files are laid out by compaction.",
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
    "TRANSIENT": "What is dropped can be had back until MAINTAIN removes it.",
    "SCHEDULER": "Reads and ctsql run bring it up.",
    "DATA_RETENTION_TIME_IN_DAYS": "MAINTAIN takes RETAIN for all objects.",
    "MAX_DATA_EXTENSION_TIME_IN_DAYS": "MAINTAIN takes RETAIN for all objects.",
}
_COMPUTED = "the Spark session computes it, whichever runs the statement"
_UNHEEDED = {  # the clauses that change no row, by their first word: how they read, and why
    "WAREHOUSE": ("WAREHOUSE", _COMPUTED),
    "INITIALIZATION_WAREHOUSE": ("INITIALIZATION_WAREHOUSE", _COMPUTED),
    "IN": ("IN CLUSTER", _COMPUTED),
    "CLUSTER": ("CLUSTER BY", "its files are laid out by compaction"),
    "TBLPROPERTIES": ("TBLPROPERTIES", "nothing reads these"),
}
_MEANT = ("DELTA.", "PIPELINES.")
"""How properties begin that are more than labels."""


@dataclass(slots=True)
class DynamicClauses:
    """What stands between a dynamic table's columns and AS or REFRESH USING.

    Attributes:
        options: those of a materialized view.
        lag: the literal of TARGET_LAG; None for DOWNSTREAM.
        mode: REFRESH_MODE, where it is one of a view's.
        custom: REFRESH_MODE, where it is the one of REFRESH USING.
        on_schedule: INITIALIZE = ON_SCHEDULE, where it is given.
        unheeded_clauses: the clauses without effect.
    """

    options: tuple[st.Option, ...] = ()
    comment: str | None = None
    lag: Span | None = None
    mode: Span | None = None
    custom: Span | None = None
    on_schedule: Span | None = None
    unheeded_clauses: tuple[st.UnheededClause, ...] = ()


def read_dynamic_clauses(cursor: Cursor) -> DynamicClauses:
    """The clauses of a dynamic table, in any order, each at most once.

    Raises SYNTAX_ERROR, INVALID_OPTION, INVALID_STATEMENT, NOT_SUPPORTED.
    """
    clauses = DynamicClauses()
    options_by_word: dict[str, tuple[st.Option, ...]] = {}
    while cursor.current is not None and not (cursor.at("AS") or cursor.at("REFRESH", "USING")):
        start, word = cursor.position, cursor.upper()
        clause = read_unheeded(cursor)
        if clause is not None:
            if word in options_by_word:
                raise bad_option(clause.span, word, "It is given twice.")
            options_by_word[word] = ()
            clauses.unheeded_clauses = (*clauses.unheeded_clauses, clause)
            continue
        refuse_clause(cursor.take("a clause or AS"))
        cursor.expect("=")
        value = cursor.take("a value")
        span = span_of(cursor.tokens[start : cursor.position])
        if word in options_by_word:
            raise bad_option(span, word, "It is given twice.")
        options_by_word[word] = ()
        if word == "TARGET_LAG":
            options_by_word[word] = _lag(value, span_of([value]), span)
            clauses.lag = value.span if options_by_word[word] else None
        elif word == "REFRESH_MODE" and value.upper in _MODES:
            mode = _MODES[value.upper]
            options_by_word[word] = (
                st.Option(name=POLICY, value=mode, span=span, value_span=value.span),
            )
            clauses.mode = span
        elif word == "REFRESH_MODE" and value.upper == _CUSTOM:
            clauses.custom = span
        elif word == "INITIALIZE" and value.upper in ("ON_CREATE", "ON_SCHEDULE"):
            clauses.on_schedule = span if value.upper == "ON_SCHEDULE" else None
        elif word == "COMMENT":
            clauses.comment = value.text
        else:
            raise bad_option(span, word, _takes(word))
    if "TARGET_LAG" not in options_by_word:
        hint = "Type: TARGET_LAG = '5 minutes', or TARGET_LAG = DOWNSTREAM"
        raise invalid(cursor.here, "a dynamic table needs a TARGET_LAG", "", hint)
    lag = options_by_word["TARGET_LAG"]
    if lag and clauses.on_schedule is None:
        first = st.Option(
            name="REFRESH", value=At(), span=lag[0].span, value_span=lag[0].value_span
        )
        options_by_word["INITIALIZE"] = (first,)
    if clauses.custom is not None and not cursor.at("REFRESH", "USING"):
        raise bad_option(
            clauses.custom, "REFRESH_MODE", f"{_CUSTOM} goes with REFRESH USING (...)."
        )
    clauses.options = tuple(option for options in options_by_word.values() for option in options)
    return clauses


@dataclass(frozen=True, slots=True)
class SplitHeader:
    """A header without the clauses of other systems, and what these say.

    Attributes:
        tokens: of the statement without them.
    """

    tokens: Tokens
    options: tuple[st.Option, ...] = ()
    unheeded_clauses: tuple[st.UnheededClause, ...] = ()


def split_view(tokens: Tokens) -> SplitHeader:
    """The header of a materialized view, as Databricks and Materialize spell it.

    Raises INVALID_OPTION, NOT_SUPPORTED, SYNTAX_ERROR.
    """
    split = SplitHeader(tokens)
    while (index := _next_clause(split.tokens, "VIEW", (*_WHY_NOT, *_UNHEEDED, "SCHEDULE"))) >= 0:
        cursor = Cursor(split.tokens, start=index)
        clause = read_unheeded(cursor)
        options = split.options
        if clause is None:
            refuse_clause(split.tokens[index])
            if options:
                cursor.fail("AS")
            options = _read_schedule(cursor)
        split = SplitHeader(
            (*split.tokens[:index], *split.tokens[cursor.position :]),
            options,
            split.unheeded_clauses if clause is None else (*split.unheeded_clauses, clause),
        )
    return split


def split_task(tokens: Tokens) -> SplitHeader:
    """The header of a continual task without IN CLUSTER, which Materialize takes."""
    if not any(tk.words_are(tokens, i, "IN", "CLUSTER") for i in range(len(tokens))):
        return SplitHeader(tokens)
    index = _next_clause(tokens, "TASK", ("IN",))
    if index < 0:
        return SplitHeader(tokens)
    cursor = Cursor(tokens, start=index)
    clause = read_unheeded(cursor)
    assert clause is not None  # one begins there
    return SplitHeader((*tokens[:index], *tokens[cursor.position :]), unheeded_clauses=(clause,))


def _next_clause(tokens: Tokens, kind: str, words: Sequence[str]) -> int:
    """Where the first clause of some stands behind the name, in front of AS; -1 for none."""
    cursor = Cursor(tokens)
    while cursor.current is not None and not cursor.accept(kind):
        cursor.take()
    cursor.if_not_exists()
    cursor.dotted_name(f"the {kind.lower()}'s name")
    for index, token in tk.at_depth_0(tokens):
        if index < cursor.position:
            continue
        if token.upper == "AS":
            break
        is_other = token.upper == "IN" and tk.upper_at(tokens, index + 1) != "CLUSTER"
        if token.upper in words and not is_other:
            return index
    return -1


def read_unheeded(cursor: Cursor) -> st.UnheededClause | None:
    """Read a clause that changes no row and has no effect here; None where none begins.

    Raises NOT_SUPPORTED for a property that is more than a label.
    """
    start, word = cursor.position, cursor.upper()
    if word not in _UNHEEDED or (word == "IN" and cursor.upper(1) != "CLUSTER"):
        return None
    cursor.take()
    if word == "TBLPROPERTIES":
        for key in tk.cut_at_commas(cursor.group("properties in parentheses")):
            property_name = "".join(
                t.text for t in itertools.takewhile(lambda t: t.upper != "=", key)
            )
            if property_name.upper().startswith(_MEANT):
                why = "Its table has the properties that its refreshes rely on."
                what = f"the property {property_name}"
                raise not_supported(key[0].span, what, why=why, hint="Leave it out.")
    elif word == "CLUSTER":
        cursor.expect("BY")
        if cursor.at("("):
            cursor.group()
        else:
            cursor.take("columns in parentheses, or AUTO")
    elif word == "IN":
        cursor.expect("CLUSTER")
        cursor.name("the name of a cluster")
    else:
        cursor.expect("=")
        cursor.take("the name of a warehouse")
    clause, why = _UNHEEDED[word]
    span = span_of(cursor.tokens[start : cursor.position])
    return st.UnheededClause(clause=clause, why=why, span=span)


def _read_schedule(cursor: Cursor) -> tuple[st.Option, ...]:
    begin = cursor.here
    cursor.expect("SCHEDULE")
    cursor.accept("REFRESH")
    every: Every | Cron
    if cursor.at("CRON"):
        span, every = _read_cron(cursor)
    else:
        span, every = _read_every(cursor, begin)
    option = st.Option(name="REFRESH", value=every, span=span, value_span=span)
    return st.Option(name="REFRESH", value=At(), span=span, value_span=span), option


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
    cron_text = from_quartz(text.text)
    every = (
        parse_every(cron_text)
        if cron_text is not None
        else "It is none of Quartz that is known here."
    )
    if not isinstance(every, Cron):
        hint = "It has six fields, as '0 0 3 * * ?' for each day at 3:00."
        detail = every if isinstance(every, str) else "It is no cron text."
        raise bad_option(text.span, "SCHEDULE CRON", detail, hint=hint)
    return cursor.since(begin), every


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
    return values.get(
        word, "The clauses are TARGET_LAG, REFRESH_MODE, INITIALIZE, WAREHOUSE and COMMENT."
    )
