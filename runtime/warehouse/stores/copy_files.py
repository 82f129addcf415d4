"""Reads and writes the files of COPY.

Rows of files go into a table by the names of its columns, with its types. Rows of a query are
written by Spark's writers: a target with a file's name, such as ``out.csv``, becomes one file, for
which Spark writes a folder with one part next to it, and the part is moved. Any other target is the
folder that Spark writes.
"""

import re
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeVar

from pyspark.sql import DataFrame, Observation, functions as F

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.names import backtick, backtick_all, fold, quote, table_at
from ctsql.catalog.schemas import Column, plain_type
from ctsql.catalog.spans import Span
from ctsql.planner.lowering.context import temporary_view
from ctsql.planner.syntax.ast import FileRef
from ctsql.planner.syntax.tokens.file_refs import ending_of
from ctsql.runtime.delta.stores.file_stores import pattern_of
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
            message=f'the file has columns that "{table}" lacks: {", ".join(more)}',
            hint=hint,
        )
    return {by_name[fold(c.name)]: c for c in columns}


def insert_rows(location: str, rows: DataFrame, span: Span | None, run: Callable[[str], T]) -> T:
    """Run Spark's INSERT of rows, whose columns are some of the table's; returns its result."""
    columns = ", ".join(backtick_all(rows.columns))
    with translate_spark_errors(None, span), temporary_view(rows) as name:
        return run(f"INSERT INTO {table_at(location)} ({columns}) SELECT * FROM {name}")


_TIMES = {  # Spark's own defaults cut microseconds
    "timestampformat": f"yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][{3 * 'X'}]",  # +01:00, or Z
    "timestampntzformat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
}
_DEFAULTS = {
    "csv": {
        "header": "true",
        "escape": '"',
        "ignoreleadingwhitespace": "false",
        "ignoretrailingwhitespace": "false",
        **_TIMES,
    },
    "json": _TIMES,
}
"""Chosen so that reading the file with the defaults returns the written values."""
_CODECS = {"gz": "gzip", "bz2": "bzip2", "zst": "zstd"}
_CODEC = re.compile(r"\.(gz|bz2|zst|lz4|snappy|deflate)$", re.IGNORECASE)
_MARK = "_SUCCESS"  # Spark's marker of a completely written folder


def write_file(gateway: Gateway, rows: DataFrame, file: FileRef, *, overwrite: bool) -> int:
    """Write rows into a new file or folder; returns their number.

    ``overwrite`` replaces a file, or a folder that Spark wrote. Raises FILE_EXISTS for anything
    else.
    """
    target = gateway.qualify(file.path)
    is_file = bool(ending_of(file.path)) and not file.path.endswith("/")
    _check_free(gateway, target, file, is_file=is_file, overwrite=overwrite)
    observation = Observation()
    rows = rows.observe(observation, F.count(F.lit(1)).alias("n"))
    writer = rows.coalesce(1).write if is_file else rows.write
    options = _DEFAULTS.get(file.format, {}) | dict(file.options)
    codec = _CODEC.search(file.path)
    if is_file and codec is not None:
        name = codec.group(1).lower()
        options.setdefault("compression", _CODECS.get(name, name))
    writer = writer.format(file.format).options(**options)
    target = target.rstrip("/")
    temporary = f"{target.rpartition('/')[0]}/_ctsql-{uuid.uuid4().hex}"
    try:
        writer.save(temporary)
        if is_file:
            (part,) = gateway.glob(f"{pattern_of(temporary)}/part-*")
            gateway.move_file(part, target)
        else:
            _put_folder(gateway, temporary, target)
    finally:
        gateway.delete_tree(temporary)
    return int(observation.get["n"])


def _put_folder(gateway: Gateway, new: str, target: str) -> None:
    """Replace a folder by another; the old one is deleted last."""
    replaced = f"{new}-replaced"
    with ExitStack() as undo:
        if gateway.path_exists(target):
            gateway.move_file(target, replaced)
            undo.callback(gateway.move_file, replaced, target)
        gateway.move_file(new, target)
        undo.pop_all()
    gateway.delete_tree(replaced)


def _check_free(
    gateway: Gateway, target: str, file: FileRef, *, is_file: bool, overwrite: bool
) -> None:
    """Raise FILE_EXISTS unless the target is free or may be replaced."""
    names = gateway.entries(target)
    if names == [] and not gateway.path_exists(target):
        return
    if not overwrite:
        raise _exists(file, "", "Give another name, or type (OVERWRITE true).")
    if is_file and names is not None:
        raise _exists(file, "It is a folder.", "Give another name.")
    if not is_file and (names is None or (names and _MARK not in names)):
        detail = "It is a file." if names is None else "Spark did not write what is in the folder."
        raise _exists(file, detail, "Give another name.")


def _exists(file: FileRef, detail: str, hint: str) -> CtsqlError:
    return error("FILE_EXISTS", span=file.span, path=file.path, detail=detail, hint=hint)
