"""Reads materialized views as Snowflake and Databricks spell them.

    CREATE DYNAMIC TABLE name TARGET_LAG = '5 minutes' REFRESH_MODE = AUTO AS query
    CREATE MATERIALIZED VIEW name SCHEDULE EVERY 1 HOUR AS query

What the clauses mean is said by options of ours; what cannot be honoured is refused by name.
"""

from dataclasses import dataclass

from ctsql.catalog.refreshes import At, Cron, Every, parse_every
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

_MODES = {"AUTO": "auto", "ADAPTIVE": "auto", "FULL": "full", "INCREMENTAL": "strict"}
_CUSTOM = "CUSTOM_INCREMENTAL"
_WHY_NOT = {
    "WAREHOUSE": "The Spark session computes it, whichever runs the statement.",
    "CLUSTER": "Its files are laid out by compaction.",
    "PARTITIONED": "Its files are laid out by compaction.",
    "TBLPROPERTIES": "Its table has properties that its refreshes rely on.",
    "TRIGGER": "Without a schedule it is refreshed at every commit.",
    "ROW": "Who may read is decided where the files lie.",
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
        _refuse(cursor.take("a clause or AS"))
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
    _refuse(token)
    cursor = Cursor(tokens, start=index)
    cursor.expect("SCHEDULE")
    cursor.accept("REFRESH")
    if cursor.at("CRON"):
        why = "A cron text has five fields here, in UTC."
        hint = "Type: WITH (REFRESH EVERY '0 3 * * *')"
        raise not_supported(cursor.here, "SCHEDULE CRON", why=why, hint=hint)
    cursor.expect("EVERY")
    number, unit = cursor.take("a number"), cursor.take("HOUR, DAY or WEEK")
    span = span_of(tokens[index : cursor.position])
    every = _every(f"{number.text} {unit.text}", span, "SCHEDULE")
    option = st.Option(name="REFRESH", value=every, span=span, value_span=span)
    first = st.Option(name="REFRESH", value=At(), span=span, value_span=span)
    return (*tokens[:index], *tokens[cursor.position :]), (first, option)


def _refuse(token: Token) -> None:
    why = _WHY_NOT.get(token.upper)
    if why is not None:
        raise not_supported(
            token.span, f"{token.upper} of a view", why=why, hint="Leave the clause out."
        )


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
