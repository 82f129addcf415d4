"""Reads queries with their AS OF, DML, and COPY."""

from dataclasses import replace

from ctsql.catalog.errors import error, invalid, not_supported
from ctsql.catalog.names import fold
from ctsql.catalog.spans import Span
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.file_refs import file_ref, read_options
from ctsql.planner.syntax.tokens.sqltext import TIME_TRAVEL, analyse
from ctsql.planner.syntax.tokens.token_reader import TokenCursor, column_names, syntax_error
from ctsql.planner.syntax.tokens.tokenizer import Kind, Tokens, cut_at_commas, span_of, tokenise

DML_VERBS = ("INSERT", "UPDATE", "DELETE", "MERGE")
# What may follow a column that was given the alias "of".
_BEHIND_ALIAS = (
    ",", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT",
    "MINUS", "WINDOW", "QUALIFY", "SORT", "CLUSTER", "DISTRIBUTE", "LATERAL", "JOIN", "|>", "ON",
)  # fmt: skip
TIME_HINT = "A time is milliseconds since 1970 or a timestamp in quotes."
_AS_OF_HINT = "AS OF takes milliseconds since 1970 or a timestamp in quotes."


def read_query(tokens: Tokens) -> st.Select | st.Dml:
    """Read a query, or a DML statement that begins with WITH."""
    verb = verb_behind_with(tokens)
    if verb is not None:
        return read_dml(tokens, start=verb)
    place = next((i for i, _ in tk.at_depth_0(tokens) if _is_as_of(tokens, i)), None)
    query = tokens if place is None else tokens[:place]
    if not query:
        raise syntax_error(tokens[0].span, "found AS OF, expected a query in front of it")
    text = analyse(query, form="query")
    if place is None:
        return st.Select(span=span_of(tokens), query=text)
    cursor = TokenCursor(tokens, start=place + 2)
    time = read_instant(cursor, _AS_OF_HINT)
    if cursor.current is not None:
        cursor.fail("the end of the statement", hint="AS OF comes last.")
    return st.Select(span=span_of(tokens), query=text, as_of=time.value, as_of_span=time.span)


def verb_behind_with(tokens: Tokens) -> int | None:
    """The index of the verb of DML after a WITH clause; None if another statement follows."""
    if tokens[0].upper != "WITH":
        return None
    words = tk.at_depth_0(tokens)
    return next(
        (i for i, t in words if t.upper in DML_VERBS and tk.upper_at(tokens, i - 1) == ")"), None
    )


def _is_as_of(tokens: Tokens, index: int) -> bool:
    """Whether AS OF with a time follows, not an alias and not Spark's own clause."""
    if not tk.words_are(tokens, index, "AS", "OF"):
        return False
    if tk.upper_at(tokens, index - 1) in TIME_TRAVEL:
        return False
    if index + 2 == len(tokens):
        # SELECT 1 AS of: a column may be called so, a relation at the end is not.
        words = [token.upper for place, token in tk.at_depth_0(tokens) if place < index]
        return next((word for word in reversed(words) if word in ("SELECT", "FROM")), "") == "FROM"
    return tokens[index + 2].upper not in (*_BEHIND_ALIAS, ")")


def read_instant(cursor: TokenCursor, hint: str) -> st.Instant:
    """Read a time: milliseconds, or a timestamp in quotes."""
    begin = cursor.here.start
    typed = cursor.accept("TIMESTAMP")
    token = cursor.current
    if token is None or token.kind not in (Kind.NUMBER, Kind.STRING):
        cursor.fail("a time", hint=hint)
    cursor.take()
    span = Span(token.source, begin, token.stop)
    if token.kind is Kind.STRING:
        return st.Instant(value=token.text, span=span)
    if typed or not token.text.isdigit():
        raise syntax_error(span, f'found "{span.text}", expected a time', hint=hint)
    return st.Instant(value=int(token.text), span=span)


def read_dml(tokens: Tokens, *, start: int = 0) -> st.Dml:
    """Read INSERT, UPDATE, DELETE or MERGE, whose verb is at ``start``, after a WITH clause."""
    cursor = TokenCursor(tokens, start=start)
    verb = cursor.take().upper
    match verb:
        case "INSERT":
            target = _insert_target(cursor)
        case "UPDATE":
            target = cursor.relation("the table to update", aliased=False)
        case "DELETE":
            cursor.expect("FROM")
            target = cursor.relation("the table to delete from", aliased=False)
        case _:
            if cursor.at("WITH", "SCHEMA", "EVOLUTION"):
                cursor.position += 3
            cursor.expect("INTO")
            target = cursor.relation("the table to merge into", aliased=False)
    if verb != "INSERT":
        has_alias = cursor.is_at_name and cursor.upper() not in ("SET", "WHERE", "USING")
        target = replace(target, aliased=has_alias)
    if verb == "MERGE":
        _refuse_duplicates(tokens)
    text = analyse(tokens, form="statement", targets=[target])
    return st.Dml(span=span_of(tokens), verb=verb, target=target, text=text)


def _refuse_duplicates(merge: Tokens) -> None:
    """Refuse an INSERT of a MERGE that names a column twice: Delta would drop a value."""
    for index, _ in tk.at_depth_0(merge):
        if not tk.words_are(merge, index, "THEN", "INSERT", "("):
            continue
        seen: set[str] = set()
        for group in _groups(merge[index + 3 : tk.closing(merge, index + 2)]):
            if group and fold(group[-1].text) in seen:
                raise error("DUPLICATE_COLUMN", span=span_of(group), column=group[-1].text)
            seen.update(fold(token.text) for token in group[-1:])


def parameters_inserted(statement: st.Dml) -> tuple[list[str], list[str]] | None:
    """The columns and parameters of ``INSERT INTO t (columns) VALUES (?, ...)``; None for others.

    The name of ``?`` is empty; without a column list there are no columns.
    """
    tokens = tokenise(statement.span)
    index = next((i for i, t in tk.at_depth_0(tokens) if t.upper == "VALUES"), len(tokens))
    rows = tk.rows_of_values(tokens[index:])
    if len(rows) != 1 or not tk.words_are(tokens, 0, "INSERT", "INTO"):
        return None
    head = [t for t in tokens[2:index] if t.start >= statement.target.span.stop]
    columns = tk.in_parentheses(head) if head else ()
    if columns is None or not all(len(g) == 1 and g[0].is_name for g in _groups(columns)):
        return None
    values = [span_of(value).text for value in rows[0]]
    if values != [place.text for place in statement.text.parameters]:
        return None
    return [g[0].text for g in _groups(columns)], [value.strip("?:") for value in values]


def _groups(tokens: Tokens) -> list[Tokens]:
    return tk.cut_at_commas(tokens) if tokens else []


def _insert_target(cursor: TokenCursor) -> st.RelationRef:
    if not cursor.accept("INTO") and not cursor.accept("OVERWRITE"):
        cursor.fail("INTO or OVERWRITE", words=("INTO", "OVERWRITE"))
    if cursor.at("DIRECTORY") or cursor.at("LOCAL", "DIRECTORY"):
        hint = "Type: COPY (query) TO 'a/file.parquet'"
        raise not_supported(cursor.here, "INSERT OVERWRITE DIRECTORY", hint=hint)
    cursor.accept("TABLE")
    target = cursor.relation("the table to write")
    if cursor.at("REPLACE"):
        raise not_supported(cursor.here, "INSERT INTO ... REPLACE WHERE")
    return target


def read_copy(cursor: TokenCursor) -> st.CopyFrom | st.CopyTo:
    """COPY table [(columns)] FROM 'file' ..., COPY table | (query) TO 'file' ..."""
    if cursor.at("("):
        place = cursor.here
        inside = cursor.group()
        select = read_query(inside) if inside else None
        if not isinstance(select, st.Select):
            raise syntax_error(place, "expected a query in the parentheses")
        return _copy_to(cursor, select)
    target = cursor.relation("a table, or a query in parentheses")
    names = column_names(cursor) if cursor.at("(") else ()
    columns = tuple(st.ColumnDef(name=name.text, span=name.span) for name in names)
    if columns or cursor.at("FROM"):
        cursor.expect("FROM")
        file, _ = _read_file(cursor, writes=False)
        cursor.end()
        return st.CopyFrom(span=cursor.span, target=target, columns=columns, file=file)
    if not cursor.at("TO"):
        cursor.fail("FROM or TO", words=("FROM", "TO"))
    return _copy_to(cursor, st.Select(span=target.span, query=st.rows_of(target)))


def _copy_to(cursor: TokenCursor, select: st.Select) -> st.CopyTo:
    cursor.expect("TO")
    file, overwrite = _read_file(cursor, writes=True)
    cursor.end()
    return st.CopyTo(span=cursor.span, select=select, file=file, overwrite=overwrite)


def _read_file(cursor: TokenCursor, *, writes: bool) -> tuple[st.FileRef, bool]:
    """Read ``'path' [[WITH] (options)]``: the file, and whether it may be overwritten."""
    for name in ("STDIN", "STDOUT"):
        if cursor.at(name):
            hint = rf"Type: ctsql -c '\copy t {'TO' if writes else 'FROM'} {name}'"
            raise not_supported(cursor.here, f"{name} in COPY", hint=hint)
    path = cursor.string("the file in quotes")
    cursor.accept("WITH")
    groups = cut_at_commas(cursor.group()) if cursor.at("(") else []
    options = read_options(groups, path.span, of_copy=True)
    if "overwrite" in options and not writes:
        place = next(group[0].span for group in groups if group[0].upper == "OVERWRITE")
        raise invalid(place, "OVERWRITE is for COPY ... TO", "COPY FROM only appends rows.")
    kind, overwrite = options.pop("format", None), options.pop("overwrite", "") == "true"
    return file_ref(path, kind, tuple(options.items())), overwrite
