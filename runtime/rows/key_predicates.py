"""Conditions with the values of a few keys, so that Delta skips files and row groups.

A semi join has no literals, by which Delta skips files. A condition may let through more rows than
have a key, and never fewer.
"""

from collections.abc import Sequence
from decimal import Decimal
from functools import reduce
from operator import and_, or_
from typing import Any

from pyspark.sql import Column as SparkColumn, DataFrame, functions as F, types as T

from ctsql.catalog.names import backtick
from ctsql.runtime.rows.types import has_order

LISTED_MAX = 500  # the most numbers that are listed; of more only the bounds are used
TEXTS_MAX = 50  # the same for other values: each is a call into the JVM

_LOST = "\ufffd"  # PySpark's character for bytes that are not UTF-8: the text is unknown

KeyValue = int | str | Decimal


def may_equal(rows: DataFrame, keys: DataFrame, pairs: Sequence[tuple[str, str]]) -> SparkColumn:
    """A condition that holds for each row that equals a key, NULL equal to NULL.

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
    """The pairs whose values Python can compare."""
    return [
        (mine, theirs)
        for mine, theirs in pairs
        if has_order(rows[mine].dataType) and rows[mine].dataType == keys[theirs].dataType
    ]


def _comparable(column: str, kind: T.DataType) -> SparkColumn:
    """A column for the comparison: dates as days, because Python lacks some dates.

    No file is skipped by days: Delta misreads statistics of dates outside of the years 1 to 9999.
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


def _place(value: KeyValue) -> Any:
    """Strings are ordered by their bytes in UTF-8, as in Spark."""
    return value.encode() if isinstance(value, str) else value
