"""Reads SUBSCRIBE and DROP SUBSCRIPTION.

    SUBSCRIBE [TO] name | (query) [AS OF t | FROM t] [UP TO t | UP TO NOW] [AS 'reader']
              [WITH (PROGRESS = true)]

The clauses may stand in any order, each once.
"""

from dataclasses import replace

from ctsql.catalog.errors import error, invalid, not_supported
from ctsql.planner.syntax.ast import DropSubscription, Select, SqlText, Subscribe
from ctsql.planner.syntax.statements.options import read_boolean
from ctsql.planner.syntax.statements.queries import TIME_HINT, read_instant, read_query
from ctsql.planner.syntax.tokens.token_reader import TokenCursor, syntax_error
from ctsql.planner.syntax.tokens.tokenizer import Kind, span_of

_CLAUSES = ("AS", "FROM", "UP", "WITH")


def read_subscribe(cursor: TokenCursor) -> Subscribe:
    """Read what follows SUBSCRIBE."""
    cursor.accept("TO")
    if cursor.upper() in ("SELECT", "WITH", "VALUES") and cursor.upper(1) not in ("", *_CLAUSES):
        message = f'found "{cursor.here.text}", expected a name or a query in parentheses'
        raise syntax_error(cursor.here, message, hint="Type: SUBSCRIBE TO (SELECT ...)")
    target = query = None
    if cursor.at("("):
        query = _query(cursor)
    else:
        target = cursor.relation("the name of what to follow")
    read = Subscribe(span=cursor.span, target=target, query=query)
    clauses: set[str] = set()
    while cursor.current is not None:
        here, clause = cursor.here, cursor.one_of("AS OF", "AS", "FROM", "UP TO", "WITH")
        if not clause:
            cursor.fail("AS OF, FROM, UP TO, AS, WITH or the end", words=_CLAUSES)
        if clause in clauses or (clause in ("AS OF", "FROM") and clauses & {"AS OF", "FROM"}):
            raise syntax_error(here, f"found a second {clause}, where it begins is said already")
        clauses.add(clause)
        match clause:
            case "AS":
                token = cursor.string("the reader's name in quotes")
                read = replace(read, reader=token.text, reader_span=token.span)
            case "WITH":
                read = replace(read, progress=_options(cursor))
            case "UP TO" if cursor.accept("NOW"):
                if cursor.accept("("):
                    cursor.expect(")")
                read = replace(read, up_to_now=True)
            case "UP TO":
                read = replace(read, up_to=read_instant(cursor, TIME_HINT))
            case "AS OF":
                read = replace(read, as_of=read_instant(cursor, TIME_HINT))
            case _:
                read = replace(read, begin=read_instant(cursor, TIME_HINT))
    reader = read.reader
    if reader is not None and not reader.strip():
        raise error("INVALID_NAME", span=read.reader_span, name=reader, detail="It is empty.")
    if reader is not None and query is not None:
        why = "Its position is kept with the definition of what it follows."
        hint = "Type CREATE VIEW name AS the query, then SUBSCRIBE TO name AS the reader."
        place = read.reader_span or cursor.span
        raise not_supported(place, "a named reader of a query", why=why, hint=hint)
    return read


def _query(cursor: TokenCursor) -> SqlText:
    inside = cursor.group("a query", filled=True)
    query = read_query(inside)
    if not isinstance(query, Select) or query.as_of_span is not None or query.query.parameters:
        message = "a subscription follows a query, which reads and takes no parameters"
        hint = "AS OF stands behind the parenthesis."
        raise invalid(span_of(inside), message, hint=hint)
    return query.query


def _options(cursor: TokenCursor) -> bool:
    """``(PROGRESS [= true | false])``."""
    cursor.expect("(", "PROGRESS")
    value = not cursor.accept("=") or read_boolean(cursor, "PROGRESS")
    cursor.expect(")")
    return value


def read_drop_subscription(cursor: TokenCursor) -> DropSubscription:
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
