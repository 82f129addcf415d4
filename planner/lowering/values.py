"""Values as an output's columns store them."""

import re

from pyspark.sql import Column as SparkColumn, functions as F

from ctsql.catalog.schemas import Column
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.queries import rewritten_text
from ctsql.planner.nodes import Query

_SIZED = re.compile(r"(var)?char\((\d+)\)", re.IGNORECASE)


_WHOLE = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*_WHOLE, "float", "double", "decimal")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_PLAIN = (*_NUMBERS, *_TIMES, "boolean", "binary")


def _head(type_: str) -> str:
    """A type without its size; texts of a size are texts."""
    return "string" if _SIZED.fullmatch(type_) else type_.split("(")[0].split("<")[0].lower()


def may_store(given: str, stored: str) -> bool:
    """Does a value of a type go into a column without a CAST? As an INSERT of Spark has it.

    What is nested is not looked into.

    >>> may_store("double", "int"), may_store("int", "string"), may_store("string", "int")
    (True, True, False)
    """
    source, target = _head(given), _head(stored)
    if source == target or target == "string":
        return True
    if target in _PLAIN and (source in _PLAIN or source == "string"):
        return any(source in kinds and target in kinds for kinds in (_NUMBERS, _TIMES))
    return True


def is_exact(given: str, stored: str) -> bool:
    """Is a value of a type, cast to another one, the same value or else an error?

    >>> is_exact("bigint", "int"), is_exact("double", "bigint"), is_exact("string", "varchar(3)")
    (True, False, True)
    >>> is_exact("decimal(12,2)", "decimal(10,2)"), is_exact("decimal(12,4)", "decimal(10,2)")
    (True, False)
    """
    source, target = _head(given), _head(stored)
    if source == target == "decimal":
        return _places(given) <= _places(stored)
    if source in _WHOLE and target in _WHOLE:
        return True
    return given == stored or source == target == "string"


def _places(decimal: str) -> int:
    return int(decimal.rstrip(")").split(",")[1])


def as_stored(value: SparkColumn, column: Column) -> SparkColumn:
    """A value as a column of an output stores it; one that does not fit is an error on the row."""
    sized = _SIZED.fullmatch(column.type)
    if sized is None:
        return value.cast(column.type)
    text, length = value.cast("string"), int(sized.group(2))
    message = F.lit(f'a value is longer than {column.type} of column "{column.name}"')
    checked = F.when(F.length(text) > length, F.raise_error(message).cast("string")).otherwise(text)
    return checked if sized.group(1) else F.rpad(checked, length, " ")


def cast_type(column: Column) -> str:
    """The type to which values of several clauses are cast before :func:`as_stored`."""
    return "string" if _SIZED.fullmatch(column.type) else column.type


def value_text(value: Query, context: Context) -> str:
    """A value that reads no relation, as Spark is given it."""
    return rewritten_text(value.sql, {}, context).text
