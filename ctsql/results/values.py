"""One value as text, and as JSON.

- Decimals keep every digit and their scale; in JSON they are number literals.
- Floating-point numbers have the fewest digits that are read back as the same number, so one tenth
  is 0.1 as a ``float`` and as a ``double``. NaN and the infinities are strings in JSON.
- Dates and times are ISO 8601: a ``timestamp`` in UTC with its offset, a ``timestamp_ntz`` without.
- Binary values are hexadecimal digits in upper case (what ``unhex`` reads).
- Arrays, maps and structs are JSON. A map is an object whose names are its keys as text, those of
  arrays and structs as JSON.

Source: our choice; the hexadecimal follows Spark's own ``hex`` and ``unhex``.
"""

import datetime
import json
import math
import re
import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

_INSTANT = re.compile(r"\btimestamp\b")
_NO_KEYS = re.compile(r"\b(?:array|binary)\b")
_PIECES = re.compile(r"`(?:[^`]|``)*`|[^`,:<>()]+|.", re.DOTALL)
NULL = "NULL"
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def is_number(kind: str) -> bool:
    """Whether a Spark type name is a number's."""
    return kind.split("(")[0] in NUMBERS


def text_of(value: object, kind: str = "") -> str:
    """A value that is not NULL as plain text; ``kind`` is its Spark type name, if known."""
    if isinstance(value, str):
        return value
    scalar = _scalar(value, kind, separator=" ")
    return json_of(value, kind) if scalar is None else scalar


def json_of(value: object, kind: str = "") -> str:
    """A value as JSON text; exact for decimals and integers of any size."""
    if value is None:
        return "null"
    if isinstance(value, (bool, int, Decimal)):
        text = _scalar(value, kind, separator="T") or ""
        return text if isinstance(value, (bool, int)) or value.is_finite() else json.dumps(text)
    if isinstance(value, float):
        text = _scalar(value, kind, separator="T") or ""
        return text if math.isfinite(value) else json.dumps(text)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    scalar = _scalar(value, kind, separator="T")
    if scalar is not None:
        return json.dumps(scalar, ensure_ascii=False)
    return _format_nested(value, kind)


def _format_nested(value: object, kind: str) -> str:
    inner = inner_types(kind)
    if isinstance(value, Mapping):
        key_kind, item_kind = inner if len(inner) == 2 else ("", "")
        pairs = [(text_of(k, key_kind), json_of(v, item_kind)) for k, v in value.items()]
        return _object(pairs)
    fields = getattr(value, "__fields__", None)  # a pyspark Row, that is a struct
    if fields is not None and isinstance(value, tuple):
        kinds = inner if len(inner) == len(value) else [""] * len(value)
        items = zip(fields, value, kinds, strict=True)
        return _object([(name, json_of(item, item_kind)) for name, item, item_kind in items])
    if isinstance(value, Sequence):
        item_kind = inner[0] if len(inner) == 1 else ""
        return "[" + ", ".join(json_of(item, item_kind) for item in value) + "]"
    return str(value) if kind == "variant" else json.dumps(str(value), ensure_ascii=False)


def _object(pairs: list[tuple[str, str]]) -> str:
    items = (f"{json.dumps(name, ensure_ascii=False)}: {item}" for name, item in pairs)
    return "{" + ", ".join(items) + "}"


def holds_instants(kind: str) -> bool:
    """Whether a type contains a ``timestamp``.

    >>> holds_instants("array<timestamp>"), holds_instants("array<timestamp_ntz>")
    (True, False)
    """
    return "<" in kind and _INSTANT.search(kind) is not None


def holds_entries(kind: str) -> bool:
    """Whether a type contains a map whose keys, as PySpark returns them, cannot be a dict's.

    >>> holds_entries("array<map<struct<a:binary>,int>>"), holds_entries("map<int,array<int>>")
    (True, False)
    """
    inner = inner_types(kind)
    if kind.startswith("map<") and _NO_KEYS.search(inner[0]):
        return True
    return any(map(holds_entries, inner))


def of_python(value: Any, kind: str) -> Any:
    """A nested value with instants or entries, as callers get it.

    PySpark's instants in the machine's zone get the offset of UTC. A map that was fetched as a list
    of entries becomes a dict. Raises OverflowError or ValueError for an instant that Python lacks.
    """
    if value is None or not (_INSTANT.search(kind) or holds_entries(kind)):
        return value
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC) if kind == "timestamp" else value
    inner = inner_types(kind)
    if kind.startswith("map<"):
        pairs = value.items() if isinstance(value, Mapping) else value
        return {_key(of_python(k, inner[0])): of_python(v, inner[1]) for k, v in pairs}
    if isinstance(value, tuple):
        values = [of_python(v, one) for v, one in zip(value, inner, strict=True)]
        fields = getattr(value, "__fields__", None)
        if fields is None:
            return tuple(values)
        row_type: Any = type(value)(*fields)  # a pyspark Row, which is called with its values
        return row_type(*values)
    return [of_python(v, inner[0]) for v in value] if isinstance(value, list) else value


def _key(value: Any) -> Any:
    """A value as a key of a dict: lists become tuples, bytearrays bytes."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list):
        return tuple(map(_key, value))
    if isinstance(value, tuple):
        row_type: Any = type(value)(*value.__fields__)  # type: ignore[attr-defined]  # of a struct
        return row_type(*map(_key, value))
    return value


def _scalar(value: object, kind: str, *, separator: str) -> str | None:
    """The text of a value that is not nested and not a string; None for all others."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _float(value, kind)
        case Decimal():
            return format(value, "f") if value.is_finite() else _float(float(value))
        case bytes() | bytearray():
            return bytes(value).hex().upper()
        case datetime.datetime():
            instant = value.astimezone(datetime.UTC) if kind == "timestamp" else value
            return instant.isoformat(sep=separator)
        case datetime.date() | datetime.time():
            return value.isoformat()
        case datetime.timedelta():
            return _duration(value)
        case _:
            return None


def _float(value: float, kind: str = "") -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(_short(value) if kind == "float" else value)


def _short(value: float) -> float:
    """The number with the fewest digits that is equal in 32 bits.

    >>> _short(0.10000000149011612), _short(16777216.0), _short(0.1)
    (0.1, 16777216.0, 0.1)
    """
    whole = struct.pack("f", value)
    near = (float(f"{value:.{digits}g}") for digits in range(6, 9))
    return next((one for one in near if struct.pack("f", one) == whole), float(f"{value:.9g}"))


def _duration(value: datetime.timedelta) -> str:
    """An ISO 8601 duration: ``P1DT2H3M4.5S``, ``-PT1S``, ``PT0S``."""
    sign, whole = ("-", -value) if value < datetime.timedelta(0) else ("", value)
    hours, rest = divmod(whole.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    fraction = f".{whole.microseconds:06d}".rstrip("0") if whole.microseconds else ""
    day = f"{whole.days}D" if whole.days else ""
    clock = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    clock += f"{seconds}{fraction}S" if seconds or fraction else ""
    if not day and not clock:
        return "PT0S"
    return f"{sign}P{day}" + (f"T{clock}" if clock else "")


def inner_types(kind: str) -> list[str]:
    """The types inside a nested type name; a field's name may be in backticks.

    >>> inner_types("map<int,array<date>>"), inner_types("struct<a:int,`b,:`:decimal(3,1)>")
    (['int', 'array<date>'], ['int', 'decimal(3,1)'])
    """
    outer, bracket, rest = kind.partition("<")
    if not bracket or not rest.endswith(">"):
        return []
    parts, depth = [""], 0
    for piece in _PIECES.findall(rest[:-1]):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(piece, 0)
        if piece == "," and depth == 0:
            parts.append("")
        elif piece == ":" and depth == 0 and outer == "struct":
            parts[-1] = ""  # skip the field's name
        else:
            parts[-1] += piece
    return parts


def bytes_text(size: float, unit: str = "bytes") -> str:
    """A number of bytes as readable text, in units of 1000.

    >>> bytes_text(0), bytes_text(1_500), bytes_text(2_000_000_000), bytes_text(12, "B")
    ('0 bytes', '1.5 kB', '2.0 GB', '12 B')
    """
    if size < 1_000:
        return f"{size:.0f} {unit}"
    power = min(int(math.log10(size) / 3), 5)
    return f"{size / 1_000**power:.1f} {' kMGTP'[power]}B"


def texts(row: Sequence[Any], kinds: Sequence[str], null: str = NULL) -> list[str]:
    """The values of a row as texts, for formats that show NULL."""
    pairs = zip(row, kinds, strict=True)
    return [null if value is None else text_of(value, kind) for value, kind in pairs]
