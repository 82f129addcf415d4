"""Conditions with the values of a few keys, so that files and row groups can be skipped.

A semi join says to Spark only what a row must equal once the keys are read; Delta skips files by
literals. The condition may let through more rows than have a key, and never fewer.
"""

from collections.abc import Sequence
from decimal import Decimal
from functools import reduce
from operator import and_, or_
from typing import Any

from pyspark.sql import Column as SparkColumn, DataFrame, functions as F, types as T

from ctsql.catalog.names import backtick
from ctsql.runtime.rows.types import has_order

LISTED_MAX = 500
"""So many different numbers are listed; of more only the least and the greatest count."""
TEXTS_MAX = 50
"""The same of other values: each is handed to Spark by itself."""

_LOST = "\ufffd"
"""What PySpark gives for bytes that are not UTF-8: the text is not known then."""

Value = int | str | Decimal


def may_equal(rows: DataFrame, keys: DataFrame, pairs: Sequence[tuple[str, str]]) -> SparkColumn:
    """A condition that every row meets which equals a key, NULL equal to NULL.

    Args:
        keys: few rows, held by the driver: they are read without a job.
        pairs: a column of ``rows`` and the keys' column; only equal types are compared.
    """
    key_pairs = comparable(rows.schema, keys.schema, pairs)
    if not key_pairs:
        return F.lit(True)
    kinds = [rows.schema[mine].dataType for mine, _ in key_pairs]
    key_rows = keys.select(*map(_comparable, (theirs for _, theirs in key_pairs), kinds)).collect()
    if not key_rows:
        return F.lit(False)
    tests = (
        _among(mine, [row[i] for row in key_rows], kind)
        for i, ((mine, _), kind) in enumerate(zip(key_pairs, kinds, strict=True))
    )
    return reduce(and_, tests)


def comparable(
    rows: T.StructType, keys: T.StructType, pairs: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """The pairs whose values can be compared as Python has them."""
    return [
        (mine, theirs)
        for mine, theirs in pairs
        if has_order(rows[mine].dataType) and rows[mine].dataType == keys[theirs].dataType
    ]


def _comparable(column: str, kind: T.DataType) -> SparkColumn:
    """How a column is compared, here and in Spark: dates as days, since Python lacks some dates.

    No file is skipped by days: Delta misreads the statistics of a file with dates that are not of
    the years 1 to 9999, and would skip rows that are there.
    """
    value = F.col(backtick(column))
    return F.unix_date(value) if isinstance(kind, T.DateType) else value


def _among(column: str, values: list[Any], kind: T.DataType) -> SparkColumn:
    distinct = sorted({v for v in values if v is not None}, key=_place)
    mine = _comparable(column, kind)
    if any(isinstance(v, str) and _LOST in v for v in distinct):
        return F.lit(True)
    conditions = []
    if distinct:
        within = mine.between(distinct[0], distinct[-1])
        if isinstance(kind, T.IntegralType) and len(distinct) <= LISTED_MAX:
            literals = ", ".join(f"{v}L" for v in distinct)
            within &= F.expr(f"{backtick(column)} IN ({literals})")
        elif len(distinct) <= TEXTS_MAX:
            within &= mine.isin(distinct)
        conditions.append(within)
    if len(distinct) < len(values) and any(v is None for v in values):
        conditions.append(mine.isNull())
    return reduce(or_, conditions)


def _place(value: Value) -> Any:
    """Strings by their bytes in UTF-8, as Spark has them."""
    return value.encode() if isinstance(value, str) else value
