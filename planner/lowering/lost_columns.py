"""Finds texts that read a column which its relation has lost.

A foreign writer may drop or rename a column of a table. Spark refuses a text that names it, unless
another relation or item of the SELECT has the name. Then the rows would silently be wrong.

So a text over such a relation is analysed a second time, with all columns that it was bound to. If
the lost column is in Spark's optimized plan, or there is no plan, the text reads it. Columns of
``*`` count if they are used.
"""

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, functions as F, types as T

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.names import fold, quote
from ctsql.catalog.spans import Span

_MARK = "__ct_lost_"
_KNOWN_MAX = 1000
_known_keys: dict[Hashable, None] = {}  # texts that read no lost column


@dataclass(frozen=True, slots=True)
class RelationRows:
    """The rows of a relation that a text reads."""

    frame: DataFrame
    name: str = ""  # the object's name
    lost_columns: tuple[str, ...] = ()  # its columns when the text was bound


def run_on(
    relations: Sequence[RelationRows],
    run: Callable[[Sequence[DataFrame]], DataFrame],
    span: Span,
    text: Hashable,
    optimized_text: Callable[[DataFrame], str],
) -> DataFrame:
    """Give Spark a text, and refuse one that reads a column which a relation has lost.

    Args:
        run: gives Spark the text over frames for the relations. text: a key of the text.

    Raises UNKNOWN_COLUMN, and Spark's errors.
    """
    frames = [relation.frame for relation in relations]
    if not any(relation.lost_columns for relation in relations):
        return run(frames)

    def check_names() -> None:
        key = text, tuple((r.frame.schema.json(), r.name, r.lost_columns) for r in relations)
        if key in _known_keys:
            return
        lost_column = _lost_and_read(relations, run, optimized_text)
        if lost_column:
            raise _lost_column(span, *lost_column)
        if len(_known_keys) >= _KNOWN_MAX:
            _known_keys.clear()
        _known_keys[key] = None

    try:
        rows = run(frames)
    except CtsqlError as problem:
        if problem.condition != "UNKNOWN_COLUMN":  # which names the column, at its place
            check_names()
        raise
    check_names()
    return rows


def _lost_and_read(
    relations: Sequence[RelationRows],
    run: Callable[[Sequence[DataFrame]], DataFrame],
    optimized_text: Callable[[DataFrame], str],
) -> tuple[str, str] | None:
    """The name of a relation and of a lost column that the text reads; None for none."""
    columns = [(r.name, column) for r in relations for column in r.lost_columns]
    try:
        plan = optimized_text(run([_as_bound(r, columns) for r in relations]))
    except CtsqlError as problem:
        columns_named = [one for one in columns if fold(one[1]) in fold(problem.message)]
        return (columns_named or columns)[0]
    match = re.search(_MARK + r"(\d+)", plan)
    return None if match is None else columns[int(match.group(1))]


def _as_bound(relation: RelationRows, columns: Sequence[tuple[str, str]]) -> DataFrame:
    """A relation whose rows Spark does not know, with its lost columns, which have no type."""
    frame = relation.frame
    nothing = frame.sparkSession.sparkContext.emptyRDD()
    rows = frame.sparkSession.createDataFrame(nothing, T.StructType(frame.schema.fields))
    marks = [
        F.raise_error(F.lit(f"{_MARK}{columns.index((relation.name, c))}")).alias(c)
        for c in relation.lost_columns
    ]
    return rows.select("*", *marks)


def _lost_column(span: Span, relation: str, column: str) -> CtsqlError:
    return error(
        "UNKNOWN_COLUMN",
        span=span,
        column=column,
        detail=f'"{relation}" had it when this was defined, and has lost it. What is called '
        f"{quote(column)} here now, or all that * stands for, is something else, so nothing is "
        "computed.",
        hint=f"Give {quote(relation)} the column again, or define this anew without it.",
    )
