"""Python values as SQL literals, for the ``?`` and ``:name`` of a statement."""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal

from ctsql.catalog.errors import CtsqlError, check_text, error, misuse
from ctsql.catalog.schemas import quote_text
from ctsql.catalog.spans import Span

_DIGITS_MAX = 38


def literal(value: object) -> str:
    """A value as a literal of Spark SQL; INVALID_USAGE: its type has no literal."""
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
            return _decimal(value)
        case str():
            return quote_text(value)
        case bytes() | bytearray() | memoryview():
            return f"X'{bytes(value).hex()}'"
        case datetime() if value != value:  # pandas' NaT
            return "NULL"
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
        case _ if _is_numpy_number(value):
            return literal(value.item())  # type: ignore[attr-defined]  # as it was asked
        case _:
            message = f"a parameter of type {type(value).__name__} cannot be passed"
            detail = (
                "Parameters may be None, bool, int, float, Decimal, str, bytes, date, "
                "datetime, and lists and dicts of these."
            )
            raise misuse(message, detail)


Parameters = Sequence[object] | Mapping[str, object]
"""Values for the ``?`` of a statement, in order, or for its ``:name``, by name."""


def literals(places: Sequence[Span], parameters: Parameters | None) -> tuple[str, ...]:
    """The values for the parameters at these places, as literals; PARAMETER_MISMATCH."""
    names = [place.text.removeprefix("?").removeprefix(":") for place in places]
    values = in_order(names, () if parameters is None else parameters)
    if len(values) != len(places):
        span = places[0] if places else None
        raise error("PARAMETER_MISMATCH", span=span, wanted=len(places), given=len(values))
    return tuple(
        _literal_of(value, f":{name}" if name else f"number {number}")
        for number, (name, value) in enumerate(zip(names, values, strict=True), start=1)
    )


def _literal_of(value: object, which: str) -> str:
    try:
        text = literal(value)
    except RecursionError as problem:
        raise misuse(f"parameter {which} is nested too deeply") from problem
    check_text(text, f"parameter {which}")
    return text


def list_of(parameters: object) -> list[object]:
    """The parameters as a list, for a dict its names; raises INVALID_USAGE if they are neither."""
    if parameters is None:
        return []
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Iterable):
        raise _no_parameters()
    return list(parameters)


def _no_parameters() -> CtsqlError:
    return misuse("parameters are a list, or a dict for :name")


def in_order(names: Sequence[str], parameters: Parameters) -> tuple[object, ...]:
    """Values in the order of a statement's parameters, whose names are empty for ``?``.

    Raises INVALID_USAGE: a dict for ``?``, a list for ``:name``, or no value for a name.
    """
    named = any(names)
    if not isinstance(parameters, Mapping):
        values = list_of(parameters)
        if named and values:
            raise _no_parameters()
        if named:
            raise misuse(f"no value is given for :{next(filter(None, names))}")
        return tuple(values)
    missing = next((name for name in names if name not in parameters), None)
    if missing == "" or "" in names:
        raise misuse("a dict gives values for :name, not for ?")
    if missing is not None:
        detail = f"Given are: {', '.join(map(str, parameters))}."
        raise misuse(f"no value is given for :{missing}", detail)
    return tuple(parameters[name] for name in names)


def _integer(value: int) -> str:
    if -(2**31) < value < 2**31:
        return f"({value})" if value < 0 else str(value)
    if -(2**63) < value < 2**63:
        return f"({value}L)" if value < 0 else f"{value}L"
    if abs(value) >= 10**_DIGITS_MAX:
        raise _too_long("an int")
    return f"CAST('{value}' AS DECIMAL({_DIGITS_MAX}, 0))"


def _too_long(what: str) -> CtsqlError:
    detail = f"A DECIMAL has at most {_DIGITS_MAX} digits."
    return misuse(f"{what} with so many digits cannot be passed", detail)


def _is_numpy_number(value: object) -> bool:
    """Whether it is one number or truth value of NumPy, as columns of pandas give them."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return kind in ("b", "i", "u", "f") and getattr(value, "shape", None) == ()


def _decimal(value: Decimal) -> str:
    if value.is_nan():
        return _double(math.nan)
    if not value.is_finite():
        return _double(float(value))
    places = max(0, -int(value.as_tuple().exponent))
    if max(value.adjusted() + 1, 0) + places > _DIGITS_MAX:
        raise _too_long("a Decimal")
    # After a minus another one would begin a comment.
    return f"({value:f}BD)" if value.is_signed() else f"{value:f}BD"


def _double(value: float) -> str:
    if math.isnan(value):
        return "double('NaN')"
    if math.isinf(value):
        return "double('Infinity')" if value > 0 else "double('-Infinity')"
    return f"double('{float.__repr__(value)}')"  # not that of a class of NumPy's
