"""Reads CREATE statements."""

import dataclasses

from ctsql.catalog.errors import not_supported
from ctsql.catalog.names import check_new_schema, fold
from ctsql.catalog.spans import Span
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.statements.body import QUERY_WORDS, read_body
from ctsql.planner.syntax.statements.columns import column_text, read_columns, type_edits
from ctsql.planner.syntax.statements.constraints import check_of_table, with_names
from ctsql.planner.syntax.statements.header import read_header
from ctsql.planner.syntax.statements.options import task_options, view_options
from ctsql.planner.syntax.statements.refusals import refusal
from ctsql.planner.syntax.statements.short_forms import read_flow, read_task_form
from ctsql.planner.syntax.tokens.file_refs import check_location
from ctsql.planner.syntax.tokens.sqltext import analyse
from ctsql.planner.syntax.tokens.token_reader import TokenCursor, syntax_error
from ctsql.planner.syntax.tokens.tokenizer import Kind, Token, Tokens, cut_at_commas, span_of

_KNOWN = (
    "TABLE", "VIEW", "MATERIALIZED", "CONTINUAL", "SCHEMA", "OR", "TEMPORARY", "EXTERNAL",
    "FLOW",
)  # fmt: skip
_EXPECTED = "TABLE, VIEW, MATERIALIZED VIEW, CONTINUAL TASK or SCHEMA"
_DEFAULTS = "delta.feature.allowColumnDefaults"
"""The property without which Delta refuses a table with defaults."""


def read_create(tokens: Tokens) -> st.Statement:
    """Read a CREATE statement; raises SYNTAX_ERROR, NOT_SUPPORTED and as its parts do."""
    cursor = TokenCursor(tokens)
    cursor.expect("CREATE")
    or_replace = cursor.accept("OR")
    if or_replace:
        cursor.expect("REPLACE")
    word = cursor.upper()
    if cursor.at("REPLACEMENT") and or_replace:
        hint = "Drop the replacement first, then create it again."
        raise not_supported(cursor.here, "OR REPLACE of a replacement", hint=hint)
    if cursor.accept("FLOW"):
        return read_flow(cursor, or_replace=or_replace)
    replacement = cursor.accept("REPLACEMENT")
    if cursor.accept("MATERIALIZED", "VIEW"):
        return _materialized_view(cursor, or_replace=or_replace, replacement=replacement)
    if cursor.accept("CONTINUAL", "TASK"):
        form = None if replacement else read_task_form(TokenCursor(tokens, start=cursor.position))
        if form is not None:
            cursor = TokenCursor(form, start=3)
        return _task(cursor, or_replace=or_replace, replacement=replacement)
    if replacement:
        cursor.fail("MATERIALIZED VIEW or CONTINUAL TASK", words=("MATERIALIZED", "CONTINUAL"))
    if cursor.accept("TABLE"):
        table = _table(cursor)
        return _replacing_table(table, tokens) if or_replace else table
    if cursor.accept("VIEW"):
        return _view(cursor, or_replace=or_replace)
    if word in ("MATERIALIZED", "CONTINUAL"):
        cursor.take()
        cursor.expect("VIEW" if word == "MATERIALIZED" else "TASK")
    if or_replace or not cursor.accept("SCHEMA"):
        cursor.fail(_EXPECTED, words=_KNOWN)
    return _schema(cursor)


def _schema(cursor: TokenCursor) -> st.CreateSchema:
    if_not_exists = cursor.if_not_exists()
    name = cursor.name("the schema's name")
    check_new_schema(name.text, name.span)
    cursor.end()
    return st.CreateSchema(
        span=cursor.span, name=name.text, name_span=name.span, if_not_exists=if_not_exists
    )


class _TableClauses:
    """The clauses after a table's name, in any order, each at most once."""

    def __init__(self, cursor: TokenCursor) -> None:
        self.cursor = cursor
        self.columns: Tokens | None = None
        self.columns_span = cursor.here
        self.columns_list: Span | None = None  # with its parentheses
        self.location: Token | None = None
        self.comment: str | None = None
        self.layout: Span | None = None  # the first clause about how to store the table
        self.properties: Tokens = ()  # those of TBLPROPERTIES
        self.partitions: tuple[str, ...] = ()
        self._clauses: set[str] = set()

    def read(self) -> None:
        cursor = self.cursor
        if cursor.at("(") and cursor.upper(1) not in QUERY_WORDS:
            self.columns_span = cursor.here
            self.columns = cursor.group()
            self.columns_list = cursor.since(self.columns_span.start)
        while cursor.current is not None and not cursor.at("AS"):
            if cursor.upper() in QUERY_WORDS:
                _refuse_source(cursor)
                return
            self._clause()

    def _clause(self) -> None:
        cursor = self.cursor
        here, word = cursor.here, cursor.upper()
        if word and word in self._clauses:
            raise syntax_error(here, f"{word} is given twice")
        self._clauses.add(word)
        if cursor.accept("USING"):
            if cursor.name("the format, delta").text.lower() != "delta":
                span = cursor.tokens[cursor.position - 1].span
                hint = "Read files in a query: CREATE TABLE t AS SELECT * FROM 'file'"
                why = "Tables are Delta tables."
                raise not_supported(span, f"USING {span.text}", why=why, hint=hint)
        elif cursor.accept("LOCATION"):
            self.location = cursor.string("the location in quotes")
            check_location(self.location)
        elif cursor.accept("COMMENT"):
            self.comment = cursor.string("the comment in quotes").text
        elif cursor.accept("TBLPROPERTIES"):
            self.properties = cursor.group("properties")
        elif cursor.accept("CLUSTER", "BY"):
            cursor.group()
        elif cursor.accept("PARTITIONED", "BY"):
            listed = cut_at_commas(cursor.group())
            self.partitions = tuple("".join(t.text for t in one) for one in listed)
        elif word in ("LIKE", "CLONE", "SHALLOW", "DEEP", "OPTIONS", "CLUSTERED", "STORED", "ROW"):
            raise not_supported(here, f"CREATE TABLE ... {word}")
        else:
            cursor.fail(
                'a column list, "AS" or "LOCATION"',
                words=("USING", "LOCATION", "COMMENT", "PARTITIONED", "CLUSTER", "TBLPROPERTIES"),
            )
        if word not in ("LOCATION", "COMMENT", "USING"):
            self.layout = self.layout or here


def _replacing_table(table: st.CreateTable, tokens: Tokens) -> st.CreateTable:
    """CREATE OR REPLACE TABLE ... AS; Spark's OR REPLACE would make another table."""
    if table.query is None or table.if_not_exists:
        hint = "Other columns: ALTER TABLE. Other rows, too: CREATE OR REPLACE TABLE ... AS SELECT"
        what = "CREATE OR REPLACE TABLE without AS"
        what = "OR REPLACE together with IF NOT EXISTS" if table.if_not_exists else what
        raise not_supported(span_of(tokens[:4]), what, hint=hint)
    edit = st.Edit(span=span_of(tokens[1:3]), text="")
    text = dataclasses.replace(table.text, edits=(edit, *table.text.edits))
    return dataclasses.replace(table, or_replace=True, text=text)


def _refuse_source(cursor: TokenCursor) -> None:
    """Raise NOT_SUPPORTED for FROM FILES 'path' and FROM KAFKA (...), which are not queries."""
    behind = cursor.rest[2:3]
    if cursor.at("FROM", "FILES") and behind and behind[0].kind is Kind.STRING:
        raise refusal(cursor.here, "FROM FILES")
    if cursor.at("FROM", "KAFKA", "("):
        raise refusal(cursor.here, "FROM KAFKA")


def _table(cursor: TokenCursor) -> st.CreateTable:
    if_not_exists = cursor.if_not_exists()
    target = cursor.relation("the table's name")
    clauses = _TableClauses(cursor)
    clauses.read()
    span = cursor.span
    edits: list[st.Edit] = []
    columns, constraints = _columns(clauses.columns, clauses.columns_span, typed=True)
    if clauses.columns is not None:
        for one in constraints:
            check_of_table(one, target.span.text)
        edits = type_edits(clauses.columns)
        if constraints and clauses.columns_list is not None:
            column_list = ", ".join(map(column_text, columns))
            edits = [st.Edit(span=clauses.columns_list, text=f"({column_list})")]
        if any(column.default is not None for column in columns):
            edits += _turn_defaults_on(clauses)
    query: st.SqlText | None = None
    if cursor.current is not None:
        cursor.accept("AS")
        query = _query(cursor)
    location = clauses.location
    if location is not None and (clauses.columns is not None or query or clauses.layout):
        hint = f"Type: CREATE TABLE {target.span.text} LOCATION {location.span.text}"
        what = "LOCATION together with columns, a query or a layout"
        raise not_supported(location.span, what, hint=hint)
    if location is None and clauses.columns is None and query is None:
        cursor.fail("a column list, AS or LOCATION")
    if clauses.columns is not None and query is not None:
        hint = "Leave the column list out and name the columns in the query."
        raise not_supported(clauses.columns_span, "a column list together with AS", hint=hint)
    text = query or st.SqlText(span=span)
    text = dataclasses.replace(text, span=span, edits=(*edits, *text.edits))
    return st.CreateTable(
        span=span,
        target=target,
        text=text,
        if_not_exists=if_not_exists,
        location=location.text if location else None,
        location_span=location.span if location else None,
        comment=clauses.comment,
        columns=columns,
        columns_span=clauses.columns_list,
        query=query,
        constraints=constraints,
        partitions=clauses.partitions,
    )


def _turn_defaults_on(clauses: _TableClauses) -> list[st.Edit]:
    """The property that Delta needs for defaults, unless the user gave it."""
    properties = clauses.properties
    if any(fold(token.text) == fold(_DEFAULTS) for token in properties):
        return []
    text = f"'{_DEFAULTS}' = 'supported'"
    if properties:
        return [st.Edit(span=properties[-1].span.behind, text=f", {text}")]
    assert clauses.columns_list is not None  # defaults stand in it
    return [st.Edit(span=clauses.columns_list.behind, text=f" TBLPROPERTIES ({text})")]


def _view(cursor: TokenCursor, *, or_replace: bool) -> st.CreateView:
    header = read_header(cursor, task=False, replacement=False)
    if header.options_span is not None:
        raise not_supported(header.options_span, "CREATE VIEW ... WITH")
    listed = header.columns
    return st.CreateView(
        span=cursor.span,
        target=header.target,
        query=_query(cursor),
        columns=() if listed is None else read_columns(listed, header.target.span, typed=False),
        or_replace=or_replace,
        if_not_exists=header.if_not_exists,
        comment=header.comment,
    )


def _query(cursor: TokenCursor) -> st.SqlText:
    if cursor.upper() not in QUERY_WORDS:
        cursor.fail("a query", words=("SELECT", "WITH", "VALUES", "FROM", "TABLE"))
    return analyse(cursor.rest, form="query")


def _materialized_view(
    cursor: TokenCursor, *, or_replace: bool, replacement: bool
) -> st.CreateMaterializedView:
    header = read_header(cursor, task=False, replacement=replacement)
    columns, constraints = _columns(header.columns, header.target.span, typed=False)
    for one in constraints:
        if one.predicate is not None and one.predicate.clocks:
            clock = one.predicate.clocks[0].span
            why = "Rows of a view would break it as time passes, without a change."
            raise not_supported(clock, "the clock in a CHECK of a view", why=why)
    return st.CreateMaterializedView(
        span=cursor.span,
        target=header.target,
        constraints=constraints,
        options=view_options(header.options),
        query=_query(cursor),
        columns=columns,
        or_replace=or_replace,
        if_not_exists=header.if_not_exists,
        comment=header.comment,
        replaces=header.replaces,
    )


def _task(
    cursor: TokenCursor, *, or_replace: bool = False, replacement: bool = False
) -> st.CreateContinualTask:
    header = read_header(cursor, task=True, replacement=replacement)
    columns, constraints = _columns(header.columns, header.target.span, typed=True)
    outputs = tuple(_output(name, inside) for name, inside in header.outputs)
    target_text = (outputs[0].target if outputs else header.target).span.text
    options = task_options(header.options)
    as_span, begin = cursor.tokens[cursor.position - 1].span, cursor.here.start
    body = read_body(cursor, target_text)
    return st.CreateContinualTask(
        span=cursor.span,
        target=header.target,
        inputs=header.inputs,
        body=body,
        body_span=cursor.since(begin),
        as_span=as_span,
        options_span=header.options_span,
        columns=columns,
        constraints=constraints,
        columns_span=header.columns_span,
        outputs=outputs,
        comment=header.comment,
        options=options,
        or_replace=or_replace,
        if_not_exists=header.if_not_exists,
        backfill=header.backfill,
        replaces=header.replaces,
        begin=header.begin,
        beginning_span=header.beginning_span,
    )


def _output(name: st.RelationRef, inside: Tokens) -> st.OutputDef:
    columns, constraints = _columns(inside, name.span, typed=True)
    return st.OutputDef(target=name, columns=columns, constraints=constraints)


_Listed = tuple[tuple[st.ColumnDef, ...], tuple[st.ConstraintDef, ...]]


def _columns(inside: Tokens | None, place: Span, *, typed: bool) -> _Listed:
    """The columns of a list, and its constraints, each with a name; none without a list."""
    if inside is None:
        return (), ()
    constraints: list[st.ConstraintDef] = []
    columns = read_columns(inside, place, typed=typed, defaults=typed, constraints=constraints)
    return columns, with_names(constraints)
