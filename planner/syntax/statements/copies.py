"""Reads COPY ... FROM and COPY ... TO."""

from ctsql.catalog.errors import invalid, not_supported
from ctsql.planner.syntax.ast import ColumnDef, CopyFrom, CopyTo, FileRef, Select, rows_of
from ctsql.planner.syntax.statements.queries import read_query
from ctsql.planner.syntax.tokens.file_refs import file_ref, read_options
from ctsql.planner.syntax.tokens.token_reader import TokenCursor, syntax_error
from ctsql.planner.syntax.tokens.tokenizer import cut_at_commas


def read_copy(cursor: TokenCursor) -> CopyFrom | CopyTo:
    """COPY table [(columns)] FROM 'file' ..., COPY table | (query) TO 'file' ...

    Raises SYNTAX_ERROR, INVALID_STATEMENT, INVALID_OPTION, FILE_FORMAT_UNKNOWN.
    """
    if cursor.at("("):
        place = cursor.here
        inside = cursor.group()
        select = read_query(inside) if inside else None
        if not isinstance(select, Select):
            raise syntax_error(place, "expected a query in the parentheses")
        return _copy_to(cursor, select)
    target = cursor.relation("a table, or a query in parentheses")
    columns = _columns(cursor) if cursor.at("(") else ()
    if columns or cursor.at("FROM"):
        cursor.expect("FROM")
        file, _ = _read_file(cursor, writes=False)
        cursor.end()
        return CopyFrom(span=cursor.span, target=target, columns=columns, file=file)
    if not cursor.at("TO"):
        cursor.fail("FROM or TO", words=("FROM", "TO"))
    return _copy_to(cursor, Select(span=target.span, query=rows_of(target)))


def _columns(cursor: TokenCursor) -> tuple[ColumnDef, ...]:
    names = []
    for group in cut_at_commas(cursor.group()):
        if len(group) != 1 or not group[0].is_name:
            cursor.fail("a list of columns, and FROM behind it")
        names.append(ColumnDef(name=group[0].text, span=group[0].span))
    return tuple(names)


def _copy_to(cursor: TokenCursor, select: Select) -> CopyTo:
    cursor.expect("TO")
    file, overwrite = _read_file(cursor, writes=True)
    cursor.end()
    return CopyTo(span=cursor.span, select=select, file=file, overwrite=overwrite)


def _read_file(cursor: TokenCursor, *, writes: bool) -> tuple[FileRef, bool]:
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
        raise invalid(place, "OVERWRITE is for COPY ... TO", "Rows are only added.")
    kind, overwrite = options.pop("format", None), options.pop("overwrite", "") == "true"
    return file_ref(path, kind, tuple(options.items())), overwrite
