"""Python values as SQL literals, for the ``?`` of a statement."""

import math
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal

from ctsql.catalog.errors import error


def literal(value: object) -> str:
    """A value as a literal of Spark SQL, whose strings have backslash escapes.

    Raises:
        INVALID_USAGE: its type has no literal.
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return _integer(value)
        case float():
            return _double(value)
        case Decimal():
            return f"{value:f}BD" if value.is_finite() else _double(float(value))
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case bytes() | bytearray() | memoryview():
            return f"X'{bytes(value).hex()}'"
        case datetime():
            kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
            return f"{kind} '{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case list() | tuple():
            return "array(" + ", ".join(literal(v) for v in value) + ")"
        case dict():
            pairs = (f"{literal(k)}, {literal(v)}" for k, v in value.items())
            return "map(" + ", ".join(pairs) + ")"
        case _:
            raise error(
                "INVALID_USAGE",
                message=f"a parameter of type {type(value).__name__} cannot be passed",
                detail="Parameters may be None, bool, int, float, Decimal, str, bytes, date, "
                "datetime, and lists and dicts of these.",
            )


def literals(values: Sequence[object]) -> tuple[str, ...]:
    """All values as literals."""
    return tuple(literal(v) for v in values)


def _integer(value: int) -> str:
    if -(2**31) < value < 2**31:
        return f"({value})" if value < 0 else str(value)
    if -(2**63) < value < 2**63:
        return f"({value}L)" if value < 0 else f"{value}L"
    return f"CAST('{value}' AS DECIMAL(38, 0))"


def _double(value: float) -> str:
    if math.isnan(value):
        return "double('NaN')"
    if math.isinf(value):
        return "double('Infinity')" if value > 0 else "double('-Infinity')"
    return f"double('{value!r}')"
