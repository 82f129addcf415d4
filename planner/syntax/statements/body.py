"""Reads the body of a continual task: ``( statement; ... )``."""

import dataclasses

from ctsql.catalog.errors import invalid, not_supported
from ctsql.catalog.names import fold
from ctsql.catalog.spans import Span
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.statements.columns import read_columns
from ctsql.planner.syntax.statements.merges import read_assignments, read_merge
from ctsql.planner.syntax.statements.queries import verb_behind_with
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.name_scopes import source_of
from ctsql.planner.syntax.tokens.sqltext import analyse
from ctsql.planner.syntax.tokens.token_reader import TokenCursor
from ctsql.planner.syntax.tokens.tokenizer import Tokens, span_of, split_tokens

QUERY_WORDS = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(", "MAP", "REDUCE")


def read_body(cursor: TokenCursor, name: str) -> tuple[st.BodyStatement, ...]:
    """Read what follows AS in the definition of the task with this name, up to the end."""
    example = f"Type: AS (INSERT INTO {name} SELECT ...)"
    if not cursor.at("("):
        cursor.fail('"("', hint=example)
    begin = cursor.here.start
    statements = [group for group in split_tokens(cursor.group()) if group]
    cursor.end("Options stand in front of AS." if cursor.at("WITH") else "")
    if not statements:
        message = "the body of the continual task is empty"
        raise invalid(cursor.since(begin), message, hint=example)
    return tuple(one for group in statements for one in _overwritten(_statement(group, name)))


def _overwritten(statement: st.BodyStatement) -> tuple[st.BodyStatement, ...]:
    """INSERT OVERWRITE as a DELETE of all rows and an INSERT that does not read them."""
    if not isinstance(statement, st.InsertStatement) or not statement.overwrites:
        return (statement,)
    target = statement.target
    for read in statement.query.relations:
        if fold(read.parts[-1]) == fold(target.parts[-1]):
            message = "INSERT OVERWRITE may not read the table that it overwrites"
            hint = "Type: DELETE FROM ... WHERE the rows to remove; INSERT INTO ..."
            raise invalid(
                read.span, message, "Its rows are deleted before the query reads them.", hint
            )
    return st.ChangeStatement(span=statement.span, target=target), statement


def _statement(tokens: Tokens, name: str) -> st.BodyStatement:
    verb = verb_behind_with(tokens) or 0
    match tokens[verb].upper:
        case "INSERT":
            return _insert(tokens, verb)
        case "DELETE" | "UPDATE":
            return _delete_or_update(tokens, verb)
        case "MERGE":
            return read_merge(tokens, verb)
        case _:
            first = tokens[0].upper or tokens[0].span.text
            hint = f"Type: INSERT INTO {name} SELECT ..." if first in QUERY_WORDS else ""
            message = f"{first} is not allowed in the body of a continual task"
            detail = "A body has INSERT INTO, DELETE FROM, UPDATE and MERGE INTO statements."
            raise invalid(span_of(tokens), message, detail, hint)


def _insert(tokens: Tokens, verb: int) -> st.InsertStatement:
    cursor = TokenCursor(tokens, start=verb)
    overwrites = cursor.at("INSERT", "OVERWRITE")
    cursor.expect("INSERT", "OVERWRITE" if overwrites else "INTO")
    cursor.accept("TABLE")
    target = cursor.relation("the table to write")
    by_name = cursor.accept("BY", "NAME")
    for word in ("PARTITION", "REPLACE"):
        if cursor.at(word):
            raise not_supported(cursor.here, f"{word} in a continual task")
    columns: tuple[st.ColumnDef, ...] = ()
    if not by_name and cursor.at("(") and cursor.upper(1) not in QUERY_WORDS:
        place = cursor.here
        columns = read_columns(cursor.group(), place, typed=False)
    if cursor.upper() not in QUERY_WORDS:
        cursor.fail("SELECT or VALUES", words=QUERY_WORDS)
    rest = cursor.rest
    read = [*tokens[:verb], *rest]
    cut = st.Edit(span=span_of(tokens[verb : cursor.position]), text=" ") if verb else None
    query = analyse(read, form="query", exclusion=cut)
    return st.InsertStatement(
        span=span_of(tokens),
        target=target,
        query=query,
        columns=columns,
        by_name=by_name,
        overwrites=overwrites,
        defaults=_default_places(rest),
    )


def _default_places(tokens: Tokens) -> tuple[tuple[int, Span], ...]:
    """The values in VALUES that are the word DEFAULT, each with its column's index."""
    return tuple(
        (place, value[0].span)
        for row in tk.rows_of_values(tokens)
        for place, value in enumerate(row)
        if len(value) == 1 and value[0].upper == "DEFAULT"
    )


def _delete_or_update(tokens: Tokens, verb: int) -> st.ChangeStatement:
    ctes, cte_names = None, frozenset[str]()
    if verb:
        clause = tokens[:verb]
        ctes = analyse(clause, form="ctes")
        start = 2 if tokens[1].upper == "RECURSIVE" else 1
        commas = [i + 1 for i, t in tk.at_depth_0(clause) if t.upper == ","]
        cte_names = frozenset(clause[i].text.lower() for i in (start, *commas))
    cursor = TokenCursor(tokens, start=verb)
    is_delete = cursor.accept("DELETE")
    cursor.expect("FROM" if is_delete else "UPDATE")
    what = "the table to delete from" if is_delete else "the table to update"
    target = cursor.relation(what, aliased=False)
    alias = _alias(cursor, "WHERE" if is_delete else "SET")
    target = dataclasses.replace(target, aliased=alias is not None)
    written = source_of(target, alias)
    assignments: tuple[st.Assignment, ...] = ()
    if not is_delete:
        cursor.expect("SET")
        rest = cursor.rest
        stop = next((i for i, t in tk.at_depth_0(rest) if t.upper == "WHERE"), len(rest))
        group = cursor.until(stop, "a column")
        assignments = read_assignments(group, written, (written,), cte_names)
    where = None
    if cursor.current is not None:
        cursor.expect("WHERE")
        rest = cursor.until(len(cursor.tokens), "a condition")
        scopes = [(written,)]
        where = analyse(rest, form="predicate", cte_names=cte_names, outer=scopes)
    return st.ChangeStatement(
        span=span_of(tokens),
        target=target,
        assignments=assignments,
        alias=alias,
        where=where,
        ctes=ctes,
    )


def _alias(cursor: TokenCursor, following: str) -> str | None:
    """The alias in front of a word; None if there is none."""
    has_as = cursor.accept("AS")
    if cursor.current is None or (not has_as and cursor.at(following)):
        return None
    return cursor.name(f'"{following}"').text
