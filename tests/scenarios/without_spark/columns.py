"""PySpark's columns without a JVM: each is a text of Spark's SQL.

PySpark makes a ``Column`` by calls of the JVM and keeps what these give. Here Python answers the
calls, so what the product builds of columns, when it lowers a plan, becomes SQL and can be run by
another engine. Only what is called has an answer: anything else is an AttributeError.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

from pyspark import SparkContext
from pyspark.errors import utils
from pyspark.sql import SparkSession
from pyspark.sql.types import _parse_datatype_json_string

from ctsql.catalog.names import backtick
from ctsql.planner.literals import literal
from tests.scenarios.without_spark.kinds import kind_of

_BETWEEN = {
    "plus": "+", "minus": "-", "multiply": "*", "and": "AND", "or": "OR", "equalTo": "=",
    "notEqual": "<>", "eqNullSafe": "<=>", "gt": ">", "geq": ">=", "lt": "<", "leq": "<=",
}  # fmt: skip
_BEHIND = {"isNull": "IS NULL", "isNotNull": "IS NOT NULL"}


class Expression:
    """What a ``Column`` holds; ``tags`` are the metadata of the column that it makes."""

    def __init__(self, sql: str, name: str = "", tags: dict[str, str] | None = None) -> None:
        self.sql, self.name, self.tags = sql, name, tags

    def __getattr__(self, called: str) -> Any:
        """A method of Java's column, some of which are no names of Python's: ``as``, ``and``."""
        if called in _BETWEEN:
            return lambda other: Expression(f"({self.sql} {_BETWEEN[called]} {_sql(other)})")
        if called in _BEHIND:
            return lambda: Expression(f"({self.sql} {_BEHIND[called]})")
        if called == "as":
            return lambda name, tags=None: Expression(self.sql, name, tags)
        raise AttributeError(called)

    def cast(self, kind: str) -> "Expression":
        return Expression(f"CAST({self.sql} AS {kind})", self.name)

    def isin(self, values: Sequence[object]) -> "Expression":
        return Expression(f"({self.sql} IN ({', '.join(map(_sql, values))}))")

    def when(self, condition: "Expression", value: object) -> "Expression":
        return Expression(f"{self.sql[:-4]} WHEN {condition.sql} THEN {_sql(value)} END")

    def otherwise(self, value: object) -> "Expression":
        return Expression(f"{self.sql[:-4]} ELSE {_sql(value)} END")

    def over(self, window: "Expression") -> "Expression":
        return Expression(f"{self.sql} OVER ({window.sql})")

    @property
    def selected(self) -> str:
        return f"{self.sql} AS {backtick(self.name)}" if self.name else self.sql


def _sql(value: object) -> str:
    match value:
        case Expression():
            return value.sql
        case list():
            return ", ".join(map(_sql, value))
        case _:
            return literal(value)


class _Functions:
    """``org.apache.spark.sql.functions``: a function's name is its name in SQL."""

    def __getattr__(self, name: str) -> Any:
        return lambda *given: Expression(f"{name}({', '.join(map(_sql, given))})")

    def col(self, name: str) -> Expression:
        return Expression(name)

    column = col

    def expr(self, text: str) -> Expression:
        return Expression(text)

    def lit(self, value: object) -> Expression:
        return Expression(_sql(value))

    def negate(self, value: Expression) -> Expression:
        return Expression(f"(- {value.sql})")

    def to_json(self, value: Expression, _: object = None) -> Expression:
        return Expression(f"CAST(to_json({value.sql}) AS STRING)")

    def when(self, condition: Expression, value: object) -> Expression:
        return Expression("CASE END").when(condition, value)


_FUNCTIONS = _Functions()
_ANSWERS: dict[str, object] = {
    "functions": _FUNCTIONS,
    "org.apache.spark.sql.functions": _FUNCTIONS,
    "org.apache.spark.sql.types.Metadata": SimpleNamespace(fromJson=json.loads),
    "org.apache.spark.sql.expressions.Window": SimpleNamespace(
        partitionBy=lambda keys: Expression(f"PARTITION BY {', '.join(map(_sql, keys))}")
    ),
    "PythonUtils": SimpleNamespace(toList=list, toSeq=list),
}


class _Java:
    def __getattr__(self, name: str) -> Any:
        if name not in _ANSWERS:
            raise AttributeError(name)
        return _ANSWERS[name]


def _type_text(json_text: str) -> str:
    return _parse_datatype_json_string(json_text).simpleString()


@contextmanager
def columns_of_sql() -> Iterator[None]:
    """Inside, PySpark makes columns of texts, and types of their names; no JVM is started."""
    running = SparkContext._gateway
    context = SimpleNamespace(_jvm=_Java(), _parse_ddl=kind_of)
    session = SimpleNamespace(_jsparkSession=SimpleNamespace(parseDataType=_type_text))
    with (
        mock.patch.object(SparkContext, "_active_spark_context", context),
        mock.patch.object(SparkSession, "_getActiveSessionOrCreate", return_value=session),
        mock.patch.object(utils, "_enable_debugging_cache", False),  # else a session is asked
    ):
        yield
    assert SparkContext._gateway is running, "a JVM was started"
