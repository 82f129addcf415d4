"""Reads the rows of files that go into a table: by the names of its columns, with its types."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.errors import error
from ctsql.catalog.names import backtick, backtick_all, fold, quote, table_at
from ctsql.catalog.schemas import Column, plain_type
from ctsql.catalog.spans import Span
from ctsql.planner.lowering.context import temporary_view
from ctsql.planner.syntax.ast import FileRef
from ctsql.runtime.delta.table import Gateway
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.warehouse.stores.external import read_file

_TEXTS = ("csv", "json")
_TYPING = ("schema", "inferschema")

T = TypeVar("T")


def rows_to_load(
    gateway: Gateway,
    file: FileRef,
    columns: Sequence[Column],
    table: str,
    *,
    may_have_more: bool = False,
) -> DataFrame:
    """The rows of files under the names of the table's columns that they fill.

    Text files are read with the table's types: guessed types would lose the zeros of 007. A value
    of another type is an error, and so is a CSV file whose columns are in another order than the
    first's.

    Args:
        columns: the columns to be filled. table: its name, as a statement spells it.
        may_have_more: whether columns of the files may be left out.
    """
    options = dict(file.options)
    untyped = file.format in _TEXTS and not options.keys() & set(_TYPING)
    if file.format not in _TEXTS:  # else a column of a later file would be lost silently
        file = replace(file, options=(("mergeschema", "true"), *file.options))
    elif untyped and file.format == "csv":
        # For its header alone; and for that Spark takes a bracket in a file's name for a pattern
        # where texts may have line breaks.
        header = (("inferschema", "false"), ("multiline", "false"))
        file = replace(file, options=(*file.options, *header))
    rows = read_file(gateway, file)
    by_name = _fill(file, rows.columns, columns, table, may_have_more=may_have_more)
    if untyped:
        types = {name: plain_type(c.type) for name, c in by_name.items()}
        schema = ", ".join(f"{backtick(n)} {types.get(n, 'STRING')}" for n in rows.columns)
        checks = (("mode", "FAILFAST"), ("enforceschema", "false"))
        all_options = (*checks, *options.items(), ("schema", schema))
        rows = read_file(gateway, replace(file, options=all_options))
    return rows.select(*(F.col(backtick(n)).alias(c.name) for n, c in by_name.items()))


def _fill(
    file: FileRef,
    file_columns: Sequence[str],
    columns: Sequence[Column],
    table: str,
    *,
    may_have_more: bool,
) -> dict[str, Column]:
    """The file's column for each of the table: by name, if the files have names, else by place."""
    if file.format == "csv" and dict(file.options).get("header") == "false":
        if len(file_columns) != len(columns):
            message = f"the file has {len(file_columns)} column(s), {len(columns)} are to be filled"
            detail = f"To be filled: {', '.join(c.name for c in columns)}."
            raise error("COLUMN_COUNT_MISMATCH", span=file.span, message=message, detail=detail)
        return dict(zip(file_columns, columns, strict=True))
    by_name = {fold(name): name for name in file_columns}
    names = {fold(c.name) for c in columns}
    both = ", ".join(quote(name) for name in file_columns if fold(name) in names)
    hint = f"Name the columns to be filled: COPY {table} ({both}) FROM ..." if both else ""
    for column in columns:
        if fold(column.name) not in by_name:
            detail = f"The file has the columns {', '.join(file_columns)}."
            raise error(
                "UNKNOWN_COLUMN", span=file.span, column=column.name, detail=detail, hint=hint
            )
    more = [name for name in file_columns if fold(name) not in names]
    if more and not may_have_more:
        raise error(
            "COLUMN_COUNT_MISMATCH",
            span=file.span,
            message=f'the file has columns that "{table}" has not: {", ".join(more)}',
            hint=hint,
        )
    return {by_name[fold(c.name)]: c for c in columns}


def insert_rows(location: str, rows: DataFrame, span: Span | None, run: Callable[[str], T]) -> T:
    """Run Spark's INSERT of rows, whose columns are some of the table's; returns its result."""
    columns = ", ".join(backtick_all(rows.columns))
    with translate_spark_errors(None, span), temporary_view(rows) as name:
        return run(f"INSERT INTO {table_at(location)} ({columns}) SELECT * FROM {name}")
