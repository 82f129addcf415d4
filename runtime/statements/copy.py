"""COPY: from files into tables, and from queries into files."""

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog import schemas
from ctsql.catalog.errors import error
from ctsql.catalog.items import Item
from ctsql.catalog.names import backtick, fold, quote
from ctsql.catalog.schemas import Column, check_unique, plain_type
from ctsql.planner.syntax.ast import CopyFrom, CopyTo
from ctsql.runtime.engine import Engine
from ctsql.runtime.spark.errors import translate_spark_errors
from ctsql.runtime.statements.dml import append_rows, target_table
from ctsql.runtime.statements.transaction import OpenTransaction
from ctsql.runtime.warehouse.external import read_file
from ctsql.runtime.warehouse.written_files import write_file

_TEXTS = ("csv", "json")
_TYPING = ("schema", "inferschema")


def copy_from(
    engine: Engine, statement: CopyFrom, search_schema: str, *, within: OpenTransaction | None
) -> int:
    """COPY t FROM: append a file's rows in one commit; returns their number.

    Raises:
        FILE_NOT_FOUND, FILE_UNREADABLE. UNKNOWN_COLUMN, COLUMN_COUNT_MISMATCH: the file's columns
        are not those to be filled. DATA_ERROR: a value is not of its column's type.
    """
    item = target_table(engine, statement.target, search_schema)
    file = statement.file
    with translate_spark_errors(None, file.span):
        rows = _rows(engine, statement, _wanted(engine, statement, item))
    return append_rows(engine, item, rows, within=within, span=file.span)


def _wanted(engine: Engine, statement: CopyFrom, item: Item) -> tuple[Column, ...]:
    """The table's columns that are to be filled."""
    there = engine.relations.columns_now(item)
    known = f'"{item.name}" has the columns'
    listed = [schemas.get(there, c.name, span=c.span, known=known) for c in statement.columns]
    return check_unique(listed, [c.span for c in statement.columns]) if listed else there


def _rows(engine: Engine, statement: CopyFrom, wanted: Sequence[Column]) -> DataFrame:
    """The file's rows under the names of the columns to be filled.

    A file of texts says nothing of types, so it is read with those of the table: what is guessed
    from the texts would lose the zeros of 007. A value that is not of the type is an error.
    """
    file = statement.file
    given = dict(file.options)
    untyped = file.format in _TEXTS and not given.keys() & set(_TYPING)
    if untyped and file.format == "csv":
        file = replace(file, options=(*file.options, ("inferschema", "false")))
    rows = read_file(engine.gateway, file)
    filled = _fill(statement, rows.columns, wanted)
    if untyped:
        types = {name: plain_type(c.type) for name, c in filled.items()}
        schema = ", ".join(f"{backtick(n)} {types.get(n, 'STRING')}" for n in rows.columns)
        typed = (("mode", "FAILFAST"), *statement.file.options, ("schema", schema))
        rows = read_file(engine.gateway, replace(file, options=typed))
    return rows.select(*(F.col(backtick(n)).alias(c.name) for n, c in filled.items()))


def _fill(statement: CopyFrom, found: Sequence[str], wanted: Sequence[Column]) -> dict[str, Column]:
    """Which column of the file fills which one of the table: by name, where the file has names."""
    file = statement.file
    if file.format == "csv" and dict(file.options).get("header") == "false":
        if len(found) != len(wanted):
            raise error(
                "COLUMN_COUNT_MISMATCH",
                span=file.span,
                message=f"the file has {len(found)} column(s), {len(wanted)} are to be filled",
                detail=f"To be filled: {', '.join(c.name for c in wanted)}.",
            )
        return dict(zip(found, wanted, strict=True))
    by_name = {fold(name): name for name in found}
    names = {fold(c.name) for c in wanted}
    table = statement.target.span.text
    both = ", ".join(quote(name) for name in found if fold(name) in names)
    hint = f"Name the columns to be filled: COPY {table} ({both}) FROM ..." if both else ""
    for column in wanted:
        if fold(column.name) not in by_name:
            detail = f"The file has the columns {', '.join(found)}."
            raise error(
                "UNKNOWN_COLUMN", span=file.span, column=column.name, detail=detail, hint=hint
            )
    more = [name for name in found if fold(name) not in names]
    if more and not statement.columns:
        raise error(
            "COLUMN_COUNT_MISMATCH",
            span=file.span,
            message=f'the file has columns that "{table}" has not: {", ".join(more)}',
            hint=hint,
        )
    return {by_name[fold(c.name)]: c for c in wanted}


def copy_to(engine: Engine, rows: DataFrame, statement: CopyTo) -> int:
    """COPY ... TO: write rows into a new file or folder; returns their number.

    Raises:
        FILE_EXISTS: something is there, and OVERWRITE is not given, or it is no file of rows.
    """
    with translate_spark_errors(None, statement.file.span):
        return write_file(engine.gateway, rows, statement.file, overwrite=statement.overwrite)
