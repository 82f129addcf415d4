"""Reads the short forms of continual tasks: FROM TRANSFORM, FROM RETAIN and AUTO CDC.

    CREATE CONTINUAL TASK [IF NOT EXISTS] x [(columns)] FROM TRANSFORM t USING (query) [WITH (...)]
    CREATE CONTINUAL TASK [IF NOT EXISTS] x FROM RETAIN t WHILE (predicate) [WITH (...)]

are compiled to ON INPUT t AS (INSERT INTO x query), and to

    ON INPUT t AS (
        INSERT INTO x SELECT * FROM t WHERE (predicate);
        DELETE FROM x AS t WHERE (predicate) IS NOT TRUE)

docs/reference/short-forms.md has the grammar of AUTO CDC. Source: Databricks' reference of AUTO CDC
INTO, and Apache Spark's grammar rule of that name; here the clauses may have any order, and their
other clauses are refused by name.
"""

from dataclasses import replace

from ctsql.catalog.errors import invalid, not_supported
from ctsql.catalog.names import quote
from ctsql.catalog.spans import Source, Span
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.statements.auto_cdc import comment_above
from ctsql.planner.syntax.statements.refusals import refusal
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.token_reader import TokenCursor, column_names, syntax_error

_CLAUSES = (
    "KEYS", "IGNORE NULL UPDATES", "APPLY AS DELETE WHEN", "APPLY AS TRUNCATE WHEN", "SEQUENCE BY",
    "SYSTEM SEQUENCE BY", "COLUMNS", "STORED AS", "TRACK HISTORY ON",
)  # fmt: skip
_FLOW_HINT = (
    "Type: CREATE FLOW f AS AUTO CDC INTO target FROM source KEYS (k) SEQUENCE BY n "
    "STORED AS SCD TYPE 1"
)


def read_task_form(cursor: TokenCursor) -> tk.Tokens | None:
    """Read a short form after CREATE CONTINUAL TASK: the compiled task's tokens; None for none.

    Errors show the text of the compiled statement.
    """
    begin = cursor.here.start
    cursor.if_not_exists()
    if not cursor.is_at_name:
        return None
    target = cursor.relation("the task's name").span.text
    if cursor.at("("):
        cursor.group()
    head = cursor.since(begin).text
    options = _options(cursor) if cursor.at("WITH", "(") else ""
    if not cursor.at("FROM") or cursor.upper(1) not in ("TRANSFORM", "RETAIN"):
        return None
    cursor.take()
    retain = cursor.take().upper == "RETAIN"
    source = cursor.relation("the table it follows")
    options = options or _options(cursor)
    cursor.expect("WHILE" if retain else "USING")
    what = "the predicate" if retain else "the query"
    inner = tk.span_of(cursor.group(what, filled=True)).text
    options = options or _options(cursor)
    cursor.end()
    source_text = source.span.text
    body = f"INSERT INTO {target} {inner}"
    if retain:
        body = (
            f"INSERT INTO {target} SELECT * FROM {source_text} WHERE ({inner});\n"
            f"DELETE FROM {target} AS {quote(source.parts[-1])} WHERE ({inner}) IS NOT TRUE"
        )
    body = comment_above(cursor.span.text, body)
    text = f"CREATE CONTINUAL TASK {head} ON INPUT {source_text}{options} AS (\n{body}\n)"
    return tk.tokenise(Source(text, f"{cursor.span.source.name} (compiled)").whole())


def _options(cursor: TokenCursor) -> str:
    if not cursor.at("WITH"):
        return ""
    begin = cursor.take().start
    cursor.group()
    return " " + cursor.since(begin).text


def read_flow(cursor: TokenCursor, *, or_replace: bool) -> st.CreateFlow:
    """Read what follows FLOW; raises SYNTAX_ERROR, INVALID_OPTION, NOT_SUPPORTED."""
    if_not_exists = cursor.if_not_exists()
    name = cursor.relation("the flow's name")
    cursor.expect("AS", hint=_FLOW_HINT)
    if cursor.at("INSERT"):
        raise refusal(cursor.here, "FLOW ... AS INSERT")
    cursor.expect("AUTO", "CDC", hint=_FLOW_HINT)
    if cursor.at("ONCE"):
        raise not_supported(cursor.here, "AUTO CDC ONCE")
    cursor.expect("INTO")
    target = cursor.relation("the target's name")
    cursor.expect("FROM")
    source = _source(cursor)
    flow = st.CreateFlow(
        span=cursor.span,
        name=name,
        target=target,
        source=source,
        keys=(),
        keys_span=cursor.here,
        sequence=cursor.here,
        if_not_exists=if_not_exists,
        or_replace=or_replace,
    )
    clauses: set[str] = set()
    while cursor.current is not None:
        here, clause = cursor.here, cursor.one_of(*_CLAUSES)
        if not clause:
            cursor.fail("a clause of AUTO CDC", words=[words.split()[0] for words in _CLAUSES])
        if clause in clauses:
            raise syntax_error(here, f"{clause} is given twice")
        clauses.add(clause)
        flow = _with_clause(cursor, flow, clause, here)
    for clause in ("KEYS", "SEQUENCE BY"):
        if clause not in clauses:
            raise syntax_error(cursor.here, f"{clause} is missing", hint=_FLOW_HINT)
    if flow.tracked_columns is not None and flow.scd_type == 1:
        message = "TRACK HISTORY ON needs STORED AS SCD TYPE 2"
        raise invalid(flow.tracked_columns.span, message, "With SCD type 1 no history is kept.")
    return flow


def _source(cursor: TokenCursor) -> st.RelationRef:
    """``t``, ``STREAM t`` or ``STREAM(t)``; all mean the same, because a task follows changes."""
    stream = cursor.at("STREAM") and cursor.upper(1) not in ("", ".", "KEYS")
    if stream:
        cursor.take()
    if cursor.at("(") and not stream:
        hint = "Type CREATE MATERIALIZED VIEW name AS the query, and FROM name here."
        raise not_supported(cursor.here, "AUTO CDC FROM a query", hint=hint)
    inner = stream and cursor.accept("(")
    source = cursor.relation("the table that holds the events")
    if inner:
        cursor.expect(")")
    return source


def _with_clause(
    cursor: TokenCursor, flow: st.CreateFlow, clause: str, here: Span
) -> st.CreateFlow:
    """Read a clause after its words, which are at ``here``, into the flow."""
    match clause:
        case "KEYS":
            keys = column_names(cursor)
            return replace(flow, keys=tuple(t.text for t in keys), keys_span=tk.span_of(keys))
        case "IGNORE NULL UPDATES":
            return replace(flow, ignore_nulls=True)
        case "APPLY AS DELETE WHEN":
            return replace(flow, delete_when=_expression(cursor, "a condition"))
        case "SEQUENCE BY":
            return replace(flow, sequence=_sequence(cursor))
        case "COLUMNS":
            return replace(flow, columns=_column_list(cursor))
        case "STORED AS":
            return replace(flow, scd_type=_scd_type(cursor))
        case "TRACK HISTORY ON":
            return replace(flow, tracked_columns=_column_list(cursor))
        case _:
            raise not_supported(here, clause)


def _sequence(cursor: TokenCursor) -> Span:
    """One expression; NOT_SUPPORTED: several, or a sequence for each column."""
    begin = cursor.position
    sequence = _expression(cursor, "an expression")
    for _, token in tk.at_depth_0(cursor.tokens[begin : cursor.position]):
        if token.upper == "FOR":
            hint = "Create a flow for each sequence, and a view that joins their targets."
            raise not_supported(token.span, "SEQUENCE BY ... FOR", hint=hint)
        if token.upper == ",":
            hint = "Type SEQUENCE BY struct(a, b)."
            raise not_supported(token.span, "several expressions in SEQUENCE BY", hint=hint)
    return sequence


def _scd_type(cursor: TokenCursor) -> int:
    cursor.expect("SCD")
    if cursor.at("TYPE", "BITEMPORAL") or cursor.at("BITEMPORAL"):
        raise not_supported(cursor.here, "SCD TYPE BITEMPORAL")
    cursor.expect("TYPE")
    if cursor.current is None or cursor.current.text not in ("1", "2"):
        cursor.fail("1 or 2")
    return int(cursor.take().text)


def _column_list(cursor: TokenCursor) -> st.ColumnList:
    """``(a, b)``, ``a, b`` or ``* EXCEPT (a, b)``."""
    begin = cursor.here.start
    without = cursor.accept("*", "EXCEPT")
    if not without and cursor.accept("*"):
        return st.ColumnList(span=cursor.since(begin), names=(), without=True)
    names = tuple(t.text for t in column_names(cursor))
    return st.ColumnList(span=cursor.since(begin), names=names, without=without)


def _expression(cursor: TokenCursor, what: str) -> Span:
    """Everything up to the next clause."""
    rest = cursor.rest
    clauses = [clause.split() for clause in _CLAUSES]
    starts = (
        i
        for i, _ in tk.at_depth_0(rest, brackets=True)
        if i and any(tk.words_are(rest, i, *words) for words in clauses)
    )
    return tk.span_of(cursor.until(next(starts, len(rest)), what))
