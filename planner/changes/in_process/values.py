"""Values of an expression for DuckDB: texts with types, numbers and dates that are written out."""

import re
from dataclasses import dataclass
from datetime import date

from sqlglot import exp

from ctsql.planner.changes.in_process.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INT,
    NULL,
    STRING,
    OnlySpark,
    Type,
    as_decimal,
)
from ctsql.planner.changes.nodes import PREFIX

DIVIDE = f"{PREFIX}divide"
"""The start of the names of functions that divide decimals as Spark does."""

_INTEGER = re.compile(r"\d+")
_FRACTION = re.compile(r"\d*\.\d*")
_SHORT_MAX = 18
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression's text for DuckDB, in parentheses where it needs them, and its type.

    Attributes:
        digits: of a whole number that is written out, how many it has; else 0.
    """

    sql: str
    type: Type
    digits: int = 0

    def cast(self, kind: Type) -> str:
        """The text with another type."""
        return self.sql if self.type == kind else cast_text(self.sql, kind)


@dataclass(frozen=True, slots=True)
class Division:
    """A function that DuckDB calls to divide decimals; the result's type is ``made``."""

    left: Type
    right: Type
    made: Type

    @property
    def name(self) -> str:
        """What it is called."""
        kinds = (self.left, self.right, self.made)
        return DIVIDE + "".join(f"_{t.digits}_{t.places}" for t in kinds)


def cast_text(sql: str, kind: Type) -> str:
    """A text with another type."""
    return f"CAST({sql} AS {kind.sql})"


def roomy(value: Typed) -> str:
    """A decimal for arithmetic whose result may have more than the 18 digits that DuckDB gives it.

    It widens a result of two such no further by itself; of a wider operand it does.
    """
    if value.type.digits > _SHORT_MAX:
        return value.sql
    return cast_text(value.sql, Type("decimal", _SHORT_MAX + 1, value.type.places))


def number(text: str, sign: str = "") -> Typed:
    """A number that is written out, with the type that Spark gives it."""
    if _INTEGER.fullmatch(text):
        value = int(sign + text)
        digits = len(text.lstrip("0")) or 1
        if -(2**31) <= value < 2**31:
            return Typed(f"CAST({value} AS INTEGER)", INT, digits)
        if -(2**63) <= value < 2**63:
            return Typed(f"CAST({value} AS BIGINT)", BIGINT, digits)
    elif _FRACTION.fullmatch(text) and text != ".":
        whole, _, places = text.partition(".")
        digits = max(len((whole + places).lstrip("0")), len(places), 1)
        if digits <= 38:
            kind = Type("decimal", digits, len(places))
            return Typed(f"CAST('{sign}{whole or '0'}.{places or '0'}' AS {kind.sql})", kind)
    raise OnlySpark(f"the number {sign}{text}")


def decimal_of(value: Typed) -> Typed:
    """A number as a decimal; one that is written out has the digits that it has."""
    kind = Type("decimal", value.digits, 0) if value.digits else as_decimal(value.type)
    return Typed(value.cast(kind), kind)


def date_of(value: Typed) -> Typed:
    """A date, also one that is written as a text in full."""
    if value.type != STRING:
        return value
    text = value.sql[1:-1]
    if not (value.sql.startswith("'") and _ISO_DATE.fullmatch(text)):
        raise OnlySpark("a text as a date")
    try:
        date.fromisoformat(text)
    except ValueError as problem:
        raise OnlySpark("no date") from problem
    return Typed(f"CAST('{text}' AS DATE)", DATE)


def written(tree: exp.Expression | None) -> int | None:
    """A whole number that is written out; None if it is not."""
    if isinstance(tree, exp.Literal) and not tree.is_string and _INTEGER.fullmatch(tree.name):
        return int(tree.name)
    return None


def is_cast_alike(given: Type, wanted: Type) -> bool:
    """Is every value cast to the same by both, or an error to both?"""
    if given in (wanted, NULL):
        return True
    if given.is_integer:
        return wanted.is_integer or wanted.is_decimal or wanted == DOUBLE
    return given.is_decimal and wanted.is_decimal
