"""Reads statements about objects and settings: DROP, COMMENT, SHOW, SET, SUBSCRIBE and others.

    SUBSCRIBE [TO] name | (query) [AS OF t | FROM t] [UP TO t | UP TO NOW] [AS 'reader']
              [WITH (PROGRESS = true)]

The clauses of SUBSCRIBE may be in any order, each once.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from ctsql.catalog.errors import bad_option, error, invalid, not_supported
from ctsql.catalog.items import ObjectKind
from ctsql.catalog.refreshes import parse_interval
from ctsql.catalog.spans import Source, Span
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.ast import DropSubscription, Select, SqlText, Subscribe
from ctsql.planner.syntax.statements.alters import read_alter
from ctsql.planner.syntax.statements.body import read_body
from ctsql.planner.syntax.statements.options import read_boolean
from ctsql.planner.syntax.statements.queries import TIME_HINT, read_copy, read_instant, read_query
from ctsql.planner.syntax.statements.tests import read_test
from ctsql.planner.syntax.tokens.token_reader import TokenCursor, relation_ref, syntax_error
from ctsql.planner.syntax.tokens.tokenizer import Kind, Tokens, at_depth_0, span_of, tokenise

_AFTER_TARGET = ("AS", "FROM", "UP", "WITH")


def read_subscribe(cursor: TokenCursor) -> Subscribe:
    """Read what follows SUBSCRIBE."""
    cursor.accept("TO")
    if cursor.upper() in ("SELECT", "WITH", "VALUES") and cursor.upper(1) not in (
        "",
        *_AFTER_TARGET,
    ):
        cursor.fail("a name or a query in parentheses", hint="Type: SUBSCRIBE TO (SELECT ...)")
    target = query = None
    if cursor.at("("):
        query = _subscribed_query(cursor)
    else:
        target = cursor.relation("the name of what to follow")
    read = Subscribe(span=cursor.span, target=target, query=query)
    clauses: set[str] = set()
    while cursor.current is not None:
        here, clause = cursor.here, cursor.one_of("AS OF", "AS", "FROM", "UP TO", "WITH")
        if not clause:
            cursor.fail("AS OF, FROM, UP TO, AS, WITH or the end", words=_AFTER_TARGET)
        if clause in clauses or (clause in ("AS OF", "FROM") and clauses & {"AS OF", "FROM"}):
            raise syntax_error(here, f"found a second {clause}, but the beginning is given already")
        clauses.add(clause)
        match clause:
            case "AS":
                token = cursor.string("the reader's name in quotes")
                read = replace(read, reader=token.text, reader_span=token.span)
            case "WITH":
                read = replace(read, progress=_subscribe_options(cursor))
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
        why = "A position is stored with the named object that is followed."
        hint = "Type CREATE VIEW name AS the query, then SUBSCRIBE TO name AS the reader."
        place = read.reader_span or cursor.span
        raise not_supported(place, "a named reader of a query", why=why, hint=hint)
    return read


def _subscribed_query(cursor: TokenCursor) -> SqlText:
    inside = cursor.group("a query", filled=True)
    query = read_query(inside)
    if not isinstance(query, Select) or query.as_of_span is not None or query.query.parameters:
        message = "a subscription follows a query, which reads and takes no parameters"
        hint = "AS OF comes after the parenthesis."
        raise invalid(span_of(inside), message, hint=hint)
    return query.query


def _subscribe_options(cursor: TokenCursor) -> bool:
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


_SHOWN = (
    "TABLES", "VIEWS", "MATERIALIZED VIEWS", "CONTINUAL TASKS", "TASK OUTPUTS", "SCHEMAS",
    "OBJECTS", "FUNCTIONS", "DROPPED", "CREATE", "COLUMNS", "SUBSCRIPTIONS",
    "CONSTRAINTS", "PENDING", "RETENTION",
)  # fmt: skip
_MEANT = {
    **dict.fromkeys(("TASK", "TASKS", "CONTINUAL_TASKS", "FLOWS"), "CONTINUAL TASKS"),
    **dict.fromkeys(("MATERIALIZED_VIEWS", "MVIEWS", "MVS"), "MATERIALIZED VIEWS"),
    **dict.fromkeys(("OUTPUT", "OUTPUTS", "TASK_OUTPUTS"), "TASK OUTPUTS"),
    **dict.fromkeys(("SCHEMA", "DATABASE", "DATABASES"), "SCHEMAS"),
    **{f: f"{f}S" for f in ("TABLE", "VIEW", "OBJECT", "FUNCTION", "SUBSCRIPTION", "CONSTRAINT")},
}
"""Words that people type after SHOW, by the words that SHOW takes."""
_NOT_A_PREDICATE = (
    "GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "HAVING", "LIMIT", "OFFSET", "QUALIFY",
    "UNION", "EXCEPT", "INTERSECT", "MINUS", "WINDOW", "LATERAL", "|>",
)  # fmt: skip


def _drop(cursor: TokenCursor) -> st.Statement:
    if cursor.accept("SUBSCRIPTION"):
        return read_drop_subscription(cursor)
    flow = cursor.accept("FLOW")
    kind = ObjectKind.CONTINUAL_TASK if flow else cursor.expect_kind()
    if_exists = cursor.accept("IF", "EXISTS")
    target = cursor.relation("the name of what to drop")
    cascade = cursor.accept("CASCADE")
    if not cascade:
        cursor.accept("RESTRICT")
    purge = cursor.accept("PURGE")
    cursor.end()
    return st.DropObject(
        span=cursor.span,
        kind=kind,
        target=target,
        if_exists=if_exists,
        cascade=cascade,
        flow=flow,
        purge=purge,
    )


def _undrop(cursor: TokenCursor) -> st.Statement:
    flow = cursor.accept("FLOW")
    kind = ObjectKind.CONTINUAL_TASK if flow else cursor.expect_kind()
    target = cursor.relation("the name of what was dropped")
    cursor.end(hint="SHOW DROPPED lists what can be restored.")
    return st.UndropObject(span=cursor.span, kind=kind, target=target, flow=flow)


def _replay(cursor: TokenCursor) -> st.Statement:
    cursor.expect("CONTINUAL", "TASK")
    target = cursor.relation("the name of the task to replay")
    hint = f"Type: REPLAY CONTINUAL TASK {target.span.text} FROM <time>"
    cursor.expect("FROM", hint=hint)
    begin = read_instant(cursor, TIME_HINT)
    if not cursor.accept("AS"):
        cursor.end()
        return st.ReplayTask(span=cursor.span, target=target, begin=begin)
    start = cursor.here.start
    body = read_body(cursor, target.span.text)
    place = cursor.since(start)
    return st.ReplayTask(span=cursor.span, target=target, begin=begin, body=body, body_span=place)


def _comment(cursor: TokenCursor) -> st.Statement:
    cursor.expect("ON")
    column = None
    if cursor.accept("COLUMN"):
        kind = None
        parts = cursor.dotted_name("relation.column")
        if len(parts) == 1:
            cursor.fail('"." and the column\'s name')
        column = parts[-1].text
        target = relation_ref(parts[:-1], aliased=True)
    else:
        kind = cursor.expect_kind("COLUMN")
        target = cursor.relation("a name")
    cursor.expect("IS")
    comment = None
    if not cursor.accept("NULL"):
        comment = cursor.string("the comment in quotes, or NULL").text
    cursor.end()
    span = cursor.span
    return st.CommentOn(span=span, kind=kind, target=target, comment=comment, column=column)


def _show(cursor: TokenCursor) -> st.Statement:
    span = cursor.span
    if words := cursor.one_of(*_SHOWN):
        return _show_what(cursor, words.lower())
    if cursor.upper() in _MEANT:
        cursor.fail("what to show", hint=f"Type: SHOW {_MEANT[cursor.upper()]}")
    if cursor.at("ALL") and len(cursor.rest) == 1:
        return st.ShowSetting(span=span, name=None)
    if cursor.upper() in ("MATERIALIZED", "CONTINUAL"):
        view = cursor.take().upper == "MATERIALIZED"
        cursor.expect("VIEWS" if view else "TASKS")
    if cursor.current is None:
        cursor.fail("TABLES, VIEWS, MATERIALIZED VIEWS, CONTINUAL TASKS, SCHEMAS or a setting")
    name, name_span = _setting(cursor.rest)
    return st.ShowSetting(span=span, name=name, name_span=name_span)


def _kind_before_name(cursor: TokenCursor) -> ObjectKind | None:
    """The words of a kind, which are optional: ``view`` alone is a name."""
    return cursor.kind() if len(cursor.rest) > 1 and cursor.upper(1) != "." else None


def _show_what(cursor: TokenCursor, what: str) -> st.Show:
    target = kind = schema = like = None
    hint = ""
    match what:
        case "create":
            kind = _kind_before_name(cursor)
            target = cursor.relation("the name of what to show")
        case "retention":
            if cursor.current is not None:
                target = cursor.relation("the name of a stored object")
        case "constraints":
            hint = "Type: SHOW CONSTRAINTS [FOR name]"
            if cursor.accept("FOR"):
                target = cursor.relation("the name of a task, a view or a table")
        case "columns":
            if not cursor.accept("IN") and not cursor.accept("FROM"):
                cursor.fail("IN")
            target = cursor.relation("a relation")
            like = _like(cursor)
        case "pending" | "subscriptions":
            pass
        case _:
            takes_schema = what not in ("schemas", "functions")
            if takes_schema and (cursor.accept("IN") or cursor.accept("FROM")):
                schema = cursor.name("a schema")
            like = _like(cursor)
    cursor.end(hint)
    return st.Show(
        span=cursor.span,
        what=what,
        target=target,
        kind=kind,
        schema=schema.text if schema else None,
        schema_span=schema.span if schema else None,
        like=like,
    )


def _like(cursor: TokenCursor) -> str | None:
    return cursor.string("a pattern in quotes").text if cursor.accept("LIKE") else None


def _describe(cursor: TokenCursor) -> st.Statement:
    extended = _accept_extended(cursor)
    kind = _kind_before_name(cursor)
    extended = extended or _accept_extended(cursor)
    target = cursor.relation("the name of what to describe")
    cursor.end()
    return st.Describe(span=cursor.span, target=target, kind=kind, extended=extended)


def _accept_extended(cursor: TokenCursor) -> bool:
    if len(cursor.rest) < 2 or cursor.upper(1) == ".":
        return False
    return cursor.accept("EXTENDED")


def _refresh(cursor: TokenCursor) -> st.Statement:
    if not cursor.at("MATERIALIZED"):
        cursor.fail("MATERIALIZED VIEW", hint="Type: REFRESH MATERIALIZED VIEW <name>")
    cursor.expect("MATERIALIZED", "VIEW")
    target = cursor.relation("the view's name")
    full = cursor.accept("FULL")
    cursor.end()
    return st.RefreshView(span=cursor.span, target=target, full=full)


def _verify(cursor: TokenCursor) -> st.Statement:
    cursor.accept("MATERIALIZED", "VIEW")
    target = cursor.relation("the view's name")
    repair = cursor.accept("REPAIR")
    cursor.end()
    return st.VerifyView(span=cursor.span, target=target, repair=repair)


def _maintain(cursor: TokenCursor) -> st.Statement:
    span = cursor.span
    everything = cursor.at("ALL") and cursor.upper(1) != "." and cursor.accept("ALL")
    target = None
    named = cursor.current is not None and not (cursor.at("RETAIN") or cursor.at("DRY", "RUN"))
    if named and not everything:
        target = cursor.relation("ALL, a name, RETAIN or DRY RUN")
    retain_ms = _read_retention(cursor) if cursor.accept("RETAIN") else None
    dry_run = cursor.accept("DRY", "RUN")
    cursor.end(hint="Type: MAINTAIN [ALL | name] [RETAIN 'interval'] [DRY RUN]")
    return st.Maintain(
        span=span, target=target, everything=everything, retain_ms=retain_ms, dry_run=dry_run
    )


def _read_retention(cursor: TokenCursor) -> int:
    token = cursor.string("an interval in quotes", hint="Type for example: RETAIN '7 days'")
    length = parse_interval(token.text)
    if isinstance(length, str):
        hint = "Write for example '7 days' or '0 seconds'."
        raise bad_option(token.span, "RETAIN", length, value=f"'{token.text}'", hint=hint)
    return length


def _setting(tokens: Tokens) -> tuple[str, Span]:
    """A setting's name: words with dots; TIME ZONE is one name."""
    if [t.upper for t in tokens] == ["TIME", "ZONE"]:
        return "time zone", span_of(tokens)
    for before, token in pairwise(tokens):
        if before.stop != token.start:
            text = token.span.text
            raise syntax_error(token.span, f'found "{text}", expected "=" or the end of the name')
    if not tokens[0].is_name:
        raise syntax_error(tokens[0].span, f'found "{tokens[0].text}", expected a setting')
    span = span_of(tokens)
    return (tokens[0].text if len(tokens) == 1 else span.text), span


def _set(cursor: TokenCursor) -> st.Statement:
    span = cursor.span
    if cursor.at("TIME", "ZONE") and len(cursor.rest) > 2:
        cut, value = 2, cursor.rest[2:]
        if value[0].upper in ("=", "TO"):
            value = value[1:]
    else:
        rest = cursor.rest
        cut = next((i for i, t in enumerate(rest) if t.upper in ("=", "TO")), len(rest))
        value = rest[cut + 1 :]
    if cut == 0:
        cursor.fail("a setting")
    name, name_span = _setting(cursor.rest[:cut])
    if not value:
        has_sign = cut < len(cursor.rest)
        cursor.position = len(cursor.tokens)
        cursor.fail("a value" if has_sign else '"=" and a value', hint=f"Type: SHOW {name}")
    value_span = span_of(value)
    is_string = len(value) == 1 and value[0].kind is Kind.STRING
    text = value[0].text if is_string else value_span.text
    return st.SetSetting(
        span=span, name=name, name_span=name_span, value=text, value_span=value_span
    )


def _reset(cursor: TokenCursor) -> st.Statement:
    span = cursor.span
    if cursor.at("ALL") and len(cursor.rest) == 1:
        return st.ResetSetting(span=span, name=None)
    if cursor.current is None:
        cursor.fail("a setting or ALL")
    name, name_span = _setting(cursor.rest)
    return st.ResetSetting(span=span, name=name, name_span=name_span)


def _use(cursor: TokenCursor) -> st.Statement:
    if len(cursor.rest) > 1:
        cursor.accept("SCHEMA")
    name = cursor.name("a schema")
    if cursor.at("."):
        span = span_of(cursor.tokens[1:])
        detail = "A schema's name has one part."
        raise error("INVALID_NAME", span=span, name=span.text, detail=detail)
    cursor.end()
    return st.UseSchema(span=cursor.span, name=name.text, name_span=name.span)


def named_object(cursor: TokenCursor) -> tuple[ObjectKind, st.RelationRef] | None:
    """A kind and a name, such as ``MATERIALIZED VIEW name``, if nothing else follows."""
    start = cursor.position
    kind = cursor.kind()
    if kind is None or kind is ObjectKind.TABLE:  # TABLE t is a query
        cursor.position = start
        return None
    target = cursor.relation("a name")
    cursor.end()
    return kind, target


def _transact(cursor: TokenCursor) -> st.Statement:
    word = cursor.tokens[0].upper
    if word == "START":
        cursor.expect("TRANSACTION")
        word = "BEGIN"
    elif not cursor.accept("TRANSACTION"):
        cursor.accept("WORK")
    if word == "ROLLBACK" and cursor.at("TO"):
        raise not_supported(cursor.here, "ROLLBACK TO", why="There are no savepoints.")
    if word == "BEGIN" and cursor.upper() in ("ISOLATION", "READ", "NOT", "DEFERRABLE"):
        raise not_supported(
            cursor.here, f"BEGIN {cursor.upper()}", why="A transaction reads one snapshot."
        )
    cursor.end()
    return st.Transact(span=cursor.span, verb=word)


def _ask_about_rows(cursor: TokenCursor) -> st.Statement:
    verb = cursor.tokens[0].upper
    hint = f"Type: {verb} name WHERE k = 1"
    target = cursor.relation("the name of a table, a task or a view", aliased=False)
    if verb == "WHY" and not cursor.at("WHERE"):
        cursor.fail("WHERE", hint=hint)
    if cursor.current is not None and not cursor.at("WHERE") and not cursor.at("AS", "OF"):
        cursor.fail("WHERE, AS OF or the end", words=("WHERE", "AS"), hint=hint)
    for _, token in at_depth_0(cursor.rest):
        if token.upper in _NOT_A_PREDICATE:
            raise syntax_error(
                token.span, f"found {token.upper}, expected a predicate over one row", hint=hint
            )
    last = span_of(cursor.tokens)
    rest = Span(last.source, target.span.start, last.stop).text
    inner = read_query(tokenise(Source(f"SELECT * FROM {rest}", "what is asked for").whole()))
    assert isinstance(inner, st.Select)  # it begins with SELECT
    return st.RowQuestion(span=cursor.span, verb=verb, target=target, select=inner)


COMMANDS: dict[str, Callable[[TokenCursor], st.Statement]] = {
    "ALTER": read_alter,
    "BEGIN": _transact,
    "BLAME": _ask_about_rows,
    "COMMENT": _comment,
    "COMMIT": _transact,
    "COPY": read_copy,
    "DESC": _describe,
    "DESCRIBE": _describe,
    "DROP": _drop,
    "MAINTAIN": _maintain,
    "REFRESH": _refresh,
    "RESET": _reset,
    "ROLLBACK": _transact,
    "SET": _set,
    "SHOW": _show,
    "START": _transact,
    "SUBSCRIBE": read_subscribe,
    "TEST": read_test,
    "REPLAY": _replay,
    "UNDROP": _undrop,
    "USE": _use,
    "VERIFY": _verify,
    "WHY": _ask_about_rows,
}
