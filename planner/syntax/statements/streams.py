"""Reads streaming tables and the flows that append to them, as Databricks spells them.

    CREATE [OR REFRESH] STREAMING TABLE [IF NOT EXISTS] x [(columns)]
        [COMMENT 'text'] [SCHEDULE [REFRESH] EVERY n HOUR] [AS query]
    CREATE [OR REPLACE] FLOW [IF NOT EXISTS] f AS INSERT INTO [ONCE] x [BY NAME] query

``STREAM(t)`` and ``STREAM t`` in the query are inputs: of them the rows that come are read, and at
the creation of a flow those that are there. All else is read whole, as of T.

Source: Databricks' references of CREATE STREAMING TABLE, CREATE FLOW and STREAM.
"""

import dataclasses
from collections.abc import Iterator

from ctsql.catalog.errors import invalid, not_supported
from ctsql.catalog.names import backtick, fold
from ctsql.catalog.spans import Source, Span
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.statements.body import QUERY_WORDS, read_body
from ctsql.planner.syntax.statements.columns import read_columns
from ctsql.planner.syntax.statements.dialects import read_every, read_unheeded, refuse_clause
from ctsql.planner.syntax.statements.static_reads import read_whole
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.rewrite import splice
from ctsql.planner.syntax.tokens.token_reader import Cursor, syntax_error
from ctsql.planner.syntax.tokens.tokenizer import Kind, Tokens, closing, span_of, tokenise, word_set

_CLAUSES = word_set("SELECT WHERE GROUP BY HAVING QUALIFY WINDOW LIMIT VALUES SET")
"""Words behind which no relation stands, up to the next FROM or JOIN."""
_NO_NAME = word_set("""
    AS ON WHERE JOIN INNER LEFT RIGHT FULL CROSS NATURAL GROUP ORDER HAVING LIMIT UNION EXCEPT
    INTERSECT MINUS QUALIFY WINDOW USING SEMI ANTI LATERAL PIVOT UNPIVOT SORT DISTRIBUTE CLUSTER
    TABLESAMPLE SELECT
""")
_FROM_FILES = "Type: CREATE TABLE t (column type, ...) FROM FILES 'folder/*.csv', then STREAM t"
_FILES = {
    "READ_FILES": _FROM_FILES,
    "CLOUD_FILES": _FROM_FILES,
    "READ_KAFKA": "Type: CREATE TABLE t (column type, ...) FROM KAFKA (...), then STREAM t",
}
NO_STREAM_HINT = (
    "Type FROM STREAM t for the rows that come; CREATE MATERIALIZED VIEW for a query that is kept "
    "up to date; INSERT INTO ONCE for what is there now."
)


def read_streaming_table(cursor: Cursor, *, or_refresh: bool) -> st.CreateStreamingTable:
    """Read what follows CREATE [OR REFRESH] STREAMING TABLE.

    Raises SYNTAX_ERROR, NOT_SUPPORTED, INVALID_OPTION, INVALID_STATEMENT.
    """
    if_not_exists = cursor.if_not_exists()
    target = cursor.relation("the name of the streaming table")
    columns: tuple[st.ColumnDef, ...] = ()
    column_list = ""
    if cursor.at("(") and cursor.upper(1) not in QUERY_WORDS:
        begin = cursor.here.start
        inside = cursor.group()
        refuse_expectations(inside)
        columns = read_columns(inside, target.span, typed=True, defaults=True)
        column_list = cursor.since(begin).text
    statement = st.CreateStreamingTable(
        span=cursor.span,
        target=target,
        columns=columns,
        column_list=column_list,
        or_refresh=or_refresh,
        if_not_exists=if_not_exists,
    )
    statement = _read_clauses(cursor, statement)
    if cursor.current is None:
        if statement.every is not None:
            message = "SCHEDULE goes with AS: a table that flows append to follows each of them"
            raise invalid(cursor.span, message, "", "Leave the clause out.")
        return statement
    if cursor.at("FLOW"):
        hint = f"Type: CREATE FLOW f AS INSERT INTO {target.span.text} ..., as a second statement"
        raise not_supported(cursor.here, "FLOW in CREATE STREAMING TABLE", hint=hint)
    cursor.expect("AS")
    appending = read_appending(cursor.rest, cursor.here, target)
    return dataclasses.replace(statement, appending=appending)


def _read_clauses(cursor: Cursor, statement: st.CreateStreamingTable) -> st.CreateStreamingTable:
    while cursor.current is not None and not cursor.at("AS") and not cursor.at("FLOW"):
        here = cursor.here
        clause = read_unheeded(cursor)
        if clause is not None:
            statement = dataclasses.replace(
                statement, unheeded_clauses=(*statement.unheeded_clauses, clause)
            )
            continue
        refuse_clause(cursor.current, "streaming table")
        if cursor.at("COMMENT") and statement.comment is None:
            cursor.take()
            comment = cursor.string("the comment in quotes").text
            statement = dataclasses.replace(statement, comment=comment)
        elif cursor.at("SCHEDULE") and statement.every is None:
            cursor.take()
            cursor.accept("REFRESH")
            if cursor.at("CRON"):
                why = "A streaming table runs after so much time, not at times of the day."
                hint = "Type: SCHEDULE EVERY 1 HOUR"
                raise not_supported(cursor.here, "SCHEDULE CRON", why=why, hint=hint)
            statement = dataclasses.replace(statement, every=read_every(cursor, here))
        else:
            cursor.fail("COMMENT, SCHEDULE or AS", words=("COMMENT", "SCHEDULE", "AS"))
    return statement


def refuse_expectations(columns: Tokens) -> None:
    """Raise NOT_SUPPORTED for CONSTRAINT name EXPECT (condition) ON VIOLATION ..."""
    for group in tk.cut_at_commas(columns, are_columns=True):
        for index, token in enumerate(group):
            if token.upper == "EXPECT" and tk.upper_at(group, index + 1) == "(":
                condition = span_of(group[index + 1 : closing(group, index + 1) + 1]).text
                hint = f"Type: CHECK {condition} ON VIOLATION DROP, WARN, FAIL or QUARANTINE"
                what = "CONSTRAINT ... EXPECT"
                why = "Constraints of materialized views and continual tasks are standard SQL."
                raise not_supported(token.span, what, why=why, hint=hint)


def read_append_flow(
    cursor: Cursor, name: st.RelationRef, *, or_replace: bool, if_not_exists: bool
) -> st.CreateAppendFlow:
    """Read from INSERT on: INSERT INTO [ONCE] target [BY NAME] query.

    Raises SYNTAX_ERROR, NOT_SUPPORTED, INVALID_STATEMENT.
    """
    cursor.expect("INSERT")
    once = cursor.accept("ONCE")
    cursor.expect("INTO")
    if not once and cursor.at("ONCE") and tk.upper_at(cursor.tokens, cursor.position + 1) not in (
        ".", "BY", *QUERY_WORDS,
    ):  # fmt: skip
        once = cursor.accept("ONCE")
    target = cursor.relation("the streaming table")
    by_name = cursor.accept("BY", "NAME")
    appending = read_appending(cursor.rest, cursor.here, target, by_name=by_name, once=once)
    return st.CreateAppendFlow(
        span=cursor.span,
        name=name,
        target=target,
        appending=appending,
        once=once,
        if_not_exists=if_not_exists,
        or_replace=or_replace,
    )


def read_appending(
    tokens: Tokens,
    place: Span,
    target: st.RelationRef,
    *,
    by_name: bool = False,
    once: bool = False,
) -> st.Appending:
    """The query of a flow; errors in it are shown in the INSERT that it is compiled to.

    Raises SYNTAX_ERROR, NOT_SUPPORTED; INVALID_STATEMENT where STREAM is missing, or too much.
    """
    if not tokens or tokens[0].upper not in QUERY_WORDS:
        raise syntax_error(place, "found no query, expected SELECT ... FROM STREAM t")
    marked_text = splice(span_of(tokens), _marks(tokens)).text
    words = f"INSERT INTO {target.span.text}{' BY NAME' if by_name else ''} "
    source = Source(f"({words}{marked_text})", f"{target.span.source.name} (compiled)")
    (statement, *more) = read_body(tokenise(source.whole()), source.whole(), target.span.text)
    assert isinstance(statement, st.InsertStatement)  # it begins with INSERT
    if more:
        raise syntax_error(more[0].span, "found a second statement, expected one query")
    streams = [r for r in statement.query.relations if r.change is st.ChangeKind.INSERTS]
    if once and streams:
        message = "ONCE reads what is there now, and no stream"
        raise invalid(span_of(tokens), message, "", "Leave STREAM out, or ONCE.")
    if not once and not streams:
        message = "the query of a streaming table reads no STREAM"
        raise invalid(span_of(tokens), message, "Nothing says when it is to run.", NO_STREAM_HINT)
    whole = list(read_whole(statement))
    inserts = splice(statement.span, [*whole, *_rename_edits(streams, "{}")]).text
    fills = splice(statement.span, [*whole, *_rename_edits(streams, "contents({})")]).text
    bare = (dataclasses.replace(r, change=None, span=r.name_span, inner=None) for r in streams)
    sources = {tuple(fold(p) for p in r.parts): r for r in bare}
    return st.Appending(
        query=statement.query, inserts=inserts, fills=fills, sources=tuple(sources.values())
    )


def _rename_edits(streams: list[st.RelationRef], form: str) -> Iterator[st.Edit]:
    for ref in streams:
        alias = "" if ref.aliased or form == "{}" else f" AS {backtick(ref.parts[-1])}"
        yield st.Edit(span=ref.span, text=form.format(ref.name_span.text) + alias)


def _marks(tokens: Tokens) -> Iterator[st.Edit]:
    """``STREAM(t)`` and ``STREAM t`` as ``inserts(t)``.

    Raises NOT_SUPPORTED for what else may stand there in Databricks.
    """
    for index, token in enumerate(tokens):
        if token.upper == "WATERMARK" and _has_delay(tokens[index + 1 :]):
            why = "State is a table here; what is late is not left out."
            raise not_supported(token.span, "WATERMARK", why=why, hint="Leave the clause out.")
        if (
            token.kind is not Kind.WORD
            or token.upper != "STREAM"
            or not _is_relation(tokens, index)
        ):
            continue
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        if following is None or not (following.upper == "(" or following.is_name):
            continue
        if following.upper == "(":
            stop = closing(tokens, index + 1)
            inside = tokens[index + 2 : stop]
        elif following.kind is Kind.WORD and following.upper in _NO_NAME:
            continue  # a table that is called stream
        else:
            chain = tk.name_chain(tokens, index + 1)
            stop = index + 2 * len(chain) - 1
            inside = tokens[index + 1 : stop + 1]
            if tk.upper_at(tokens, stop + 1) == "(":
                inside = tokens[index + 1 : stop + 2]
        if not inside or any(t.upper == "(" for t in inside):
            raise _no_name(token.span, inside)
        if tk.upper_at(tokens, stop + 1) == "WITH":
            hint = "Leave the clause out: a task sees the net change of each commit."
            raise not_supported(tokens[stop + 1].span, "STREAM ... WITH (...)", hint=hint)
        span = Span(token.source, token.start, tokens[stop].stop)
        yield st.Edit(span=span, text=f"inserts({span_of(inside).text})")


def _has_delay(tokens: Tokens) -> bool:
    """Whether DELAY OF comes, which WATERMARK has behind it where it is no column."""
    return any(tk.words_are(tokens, i, "DELAY", "OF") for i in range(1, len(tokens)))


def _is_relation(tokens: Tokens, index: int) -> bool:
    """Whether a relation may begin at a token: behind FROM or JOIN, or further on in their list."""
    place = index - 1
    while tk.upper_at(tokens, place) == "(":
        place -= 1
    if tk.upper_at(tokens, place) != ",":
        is_test = tk.words_are(tokens, place - 1, "DISTINCT", "FROM")
        return tk.upper_at(tokens, place) in ("FROM", "JOIN") and not is_test
    depth = 0  # of parentheses that are open, seen from their end
    while place > 0:
        place -= 1
        word = tokens[place].upper
        depth += (word == ")") - (word == "(")
        if depth < 0:
            return _is_relation(tokens, place)  # FROM (a, b)
        if not depth and (word in _CLAUSES or word in ("FROM", "JOIN")):
            return word not in _CLAUSES
    return False


def _no_name(place: Span, inside: Tokens) -> Exception:
    word = inside[0].upper if inside else ""
    hint = _FILES.get(word, "Type: STREAM t; make a table or a view of anything else.")
    what = f"STREAM of {word.lower()}()" if word in _FILES else "STREAM of anything but a name"
    return not_supported(place, what, hint=hint)
