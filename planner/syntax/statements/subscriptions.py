"""Reads SUBSCRIBE and DROP SUBSCRIPTION.

    SUBSCRIBE [TO] name [AS OF t | FROM t] [UP TO t | UP TO NOW] [AS 'reader']
              [WITH (PROGRESS = true)]

The clauses behind the name may stand in any order, each once.
"""

from ctsql.catalog.errors import error
from ctsql.planner.syntax.ast import DropSubscription, Instant, Subscribe
from ctsql.planner.syntax.statements.queries import read_instant
from ctsql.planner.syntax.tokens.token_reader import Cursor, bad_option, not_yet, syntax_error
from ctsql.planner.syntax.tokens.tokenizer import Kind

_CLAUSES = ("AS", "FROM", "UP", "WITH")
_TIME_HINT = "A time is milliseconds since 1970 or a timestamp in quotes."


def read_subscribe(cursor: Cursor) -> Subscribe:
    """Read what follows SUBSCRIBE.

    Raises SYNTAX_ERROR, INVALID_OPTION, NOT_SUPPORTED_YET for a query.
    """
    cursor.accept("TO")
    if cursor.at("(") or cursor.upper() in ("SELECT", "WITH"):
        hint = "Type CREATE VIEW name AS the query, then SUBSCRIBE TO name."
        raise not_yet(cursor.here, "SUBSCRIBE TO a query", hint)
    target = cursor.relation("the name of what to follow")
    found: dict[str, Instant | None] = {}
    reader, reader_span, progress = None, None, False
    seen: set[str] = set()
    while cursor.current is not None:
        here, clause = cursor.here, _clause(cursor)
        if clause in seen or (clause in ("AS OF", "FROM") and seen & {"AS OF", "FROM"}):
            raise syntax_error(here, f"found a second {clause}, where it begins is said already")
        seen.add(clause)
        if clause == "AS":
            token = cursor.string("the reader's name in quotes")
            reader, reader_span = token.text, token.span
        elif clause == "WITH":
            progress = _options(cursor)
        elif clause == "UP TO" and cursor.accept("NOW"):
            if cursor.accept("("):
                cursor.expect(")")
            found[clause] = None
        else:
            found[clause] = read_instant(cursor, _TIME_HINT)
    if reader is not None and not reader.strip():
        raise error("INVALID_NAME", span=reader_span, name=reader, detail="It is empty.")
    return Subscribe(
        span=cursor.span,
        target=target,
        as_of=found.get("AS OF"),
        begin=found.get("FROM"),
        up_to=found.get("UP TO"),
        up_to_now="UP TO" in found and found["UP TO"] is None,
        reader=reader,
        reader_span=reader_span,
        progress=progress,
    )


def _clause(cursor: Cursor) -> str:
    clauses = (("AS", "OF"), ("AS",), ("FROM",), ("UP", "TO"), ("WITH",))
    words = next((w for w in clauses if cursor.accept(*w)), None)
    if words is None:
        cursor.fail("AS OF, FROM, UP TO, AS, WITH or the end", known=_CLAUSES)
    return " ".join(words)


def _options(cursor: Cursor) -> bool:
    """``(PROGRESS [= true | false])``."""
    cursor.expect("(", "PROGRESS")
    value = True
    if cursor.accept("="):
        if cursor.upper() not in ("TRUE", "FALSE"):
            value_text = cursor.here.text or "nothing"
            detail = "It takes true or false."
            raise bad_option(cursor.here, "PROGRESS", detail, value=value_text)
        value = cursor.take().upper == "TRUE"
    cursor.expect(")")
    return value


def read_drop_subscription(cursor: Cursor) -> DropSubscription:
    """Read what follows DROP SUBSCRIPTION: ``[IF EXISTS] 'reader'``."""
    if_exists = cursor.accept("IF", "EXISTS")
    token = cursor.current
    if token is None or not (token.is_name or token.kind is Kind.STRING):
        cursor.fail("the reader's name in quotes")
    cursor.take()
    cursor.end()
    return DropSubscription(
        span=cursor.span, name=token.text, name_span=token.span, if_exists=if_exists
    )
