"""Values in PostgreSQL's text and binary formats.

Spark's ``array`` of scalars is an array; maps, structs, variants and arrays of arrays are ``json``.
An interval of months is a text.

Source: ``pg_type.dat`` of PostgreSQL 15 and the ``send`` and ``recv`` functions of its types.
"""

import re
import struct
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache, partial
from typing import Any

from ctsql.catalog.schemas import decimal_size, plain_type
from ctsql.results.values import inner_types, json_of, text_of

Encode = Callable[[Any], bytes]

_DAY, _LOCAL = date(2000, 1, 1), datetime(2000, 1, 1)
_INSTANT = _LOCAL.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NUMERIC_HEAD = struct.Struct("!hhHH")
_NEGATIVE, _NAN, _INFINITE, _MINUS_INFINITE = 0x4000, 0xC000, 0xD000, 0xF000
_NO_NUMBERS = {_NAN: "NaN", _INFINITE: "Infinity", _MINUS_INFINITE: "-Infinity"}
_TRUE = ("t", "true", "y", "yes", "on", "1")
_FALSE = ("f", "false", "n", "no", "off", "0")


@dataclass(frozen=True, slots=True)
class PgType:
    """A type of PostgreSQL, and the functions that write and read its values.

    Attributes:
        size: bytes of a value; -1 if they differ.
        sample: a value with which a statement's columns are found before its parameters are bound.
    """

    name: str
    oid: int
    array_oid: int
    size: int
    sample: object
    to_text: Callable[[Any], str] = str
    to_binary: Encode = str.encode
    of_text: Callable[[str], object] = str
    of_binary: Callable[[bytes], object] = bytes.decode
    category: str = "S"


@dataclass(frozen=True, slots=True)
class PgColumn:
    """A column of a result: its type, whether values are arrays of that, and its size."""

    type: PgType
    is_array: bool = False
    modifier: int = -1
    kind: str = ""  # Spark's name of the type

    @property
    def oid(self) -> int:
        """The number of the type."""
        return self.type.array_oid if self.is_array else self.type.oid

    @property
    def size(self) -> int:
        """The bytes of a value; -1 if values differ in size."""
        return -1 if self.is_array else self.type.size

    def encoder(self, *, binary: bool) -> Encode:
        """The function that writes a value that is not NULL."""
        one, kind = self.type, self.kind
        if one.name == "json":
            return lambda value: json_of(value, kind).encode()
        if self.is_array:
            if binary:
                return partial(_array_bytes, one)
            return lambda value: _array_text(one, value).encode()
        return one.to_binary if binary else lambda value: one.to_text(value).encode()


# ---- scalars


def _bool_of(text: str) -> bool:
    word = text.strip().lower()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError(text)
    return word in _TRUE


def numeric_bytes(value: Decimal) -> bytes:
    """A decimal as digits to the base of 10,000.

    >>> numeric_bytes(Decimal("12.50")).hex()
    '0002000000000002000c1388'
    """
    if not value.is_finite():
        sign = _NAN if value.is_nan() else _MINUS_INFINITE if value.is_signed() else _INFINITE
        return _NUMERIC_HEAD.pack(0, 0, sign, 0)
    whole, _, fraction = f"{value.copy_abs():f}".partition(".")
    text = whole.zfill(-(-len(whole) // 4) * 4) + fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    weight = -(-len(whole) // 4) - 1
    digits = [int(text[at : at + 4]) for at in range(0, len(text), 4)]
    while digits and digits[0] == 0:
        digits.pop(0)
        weight -= 1
    while digits and digits[-1] == 0:
        digits.pop()
    sign = _NEGATIVE if value < 0 else 0
    head = _NUMERIC_HEAD.pack(len(digits), weight if digits else 0, sign, len(fraction))
    return head + struct.pack(f"!{len(digits)}H", *digits)


def numeric_of(data: bytes) -> Decimal:
    """The reverse of :func:`numeric_bytes`.

    >>> numeric_of(numeric_bytes(Decimal("-0.00120"))), numeric_of(numeric_bytes(Decimal(10000)))
    (Decimal('-0.00120'), Decimal('10000'))
    """
    count, weight, sign, scale = _NUMERIC_HEAD.unpack_from(data)
    if sign in _NO_NUMBERS:
        return Decimal(_NO_NUMBERS[sign])
    digits = struct.unpack_from(f"!{count}H", data, _NUMERIC_HEAD.size)
    by_weight = dict(zip(range(weight, weight - count, -1), digits, strict=True))
    whole = "".join(f"{by_weight.get(at, 0):04d}" for at in range(max(weight, 0), -1, -1))
    places = range(-1, -scale // 4 - 1, -1)
    fraction = "".join(f"{by_weight.get(at, 0):04d}" for at in places)[:scale]
    return Decimal(f"{'-' if sign == _NEGATIVE else ''}{whole}.{fraction}".rstrip("."))


def _interval(value: timedelta) -> str:
    sign, whole = ("-", -value) if value < timedelta(0) else ("", value)
    hours, rest = divmod(whole.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    fraction = f".{whole.microseconds:06d}".rstrip("0") if whole.microseconds else ""
    clock = f"{sign}{hours:02d}:{minutes:02d}:{seconds:02d}{fraction}"
    return f"{sign}{whole.days} days {clock}" if whole.days else clock


def _interval_bytes(value: timedelta) -> bytes:
    return struct.pack("!qii", (value - timedelta(days=value.days)) // _MICROSECOND, value.days, 0)


def _time_bytes(value: time) -> bytes:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return struct.pack("!q", seconds * 1_000_000 + value.microsecond)


def _instant_of(text: str) -> datetime:
    value = datetime.fromisoformat(text)
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _bytea_of(text: str) -> bytes:
    return bytes.fromhex(text[2:]) if text.startswith("\\x") else text.encode()


def _number(layout: str, of_text: Callable[[str], object] = int) -> tuple[Any, ...]:
    """The functions of a number of a fixed size."""
    packed = struct.Struct(layout)
    to_text = {"!f": partial(text_of, kind="float"), "!d": text_of}.get(layout, str)
    return to_text, packed.pack, of_text, lambda data: packed.unpack(data)[0], "N"


def _moment(epoch: Any, to_text: Callable[[Any], str], of_text: Callable[[str], object]) -> Any:
    """The functions of a time since an epoch."""
    return (
        to_text,
        lambda value: struct.pack("!q", (value - epoch) // _MICROSECOND),
        of_text,
        lambda data: epoch + timedelta(microseconds=struct.unpack("!q", data)[0]),
        "D",
    )


_TYPES = (
    PgType("bool", 16, 1000, 1, False, lambda v: "t" if v else "f",
           lambda v: b"\1" if v else b"\0", _bool_of, lambda data: data != b"\0", "B"),
    PgType("bytea", 17, 1001, -1, b"", lambda v: "\\x" + v.hex(), bytes, _bytea_of, bytes, "U"),
    PgType("int8", 20, 1016, 8, 0, *_number("!q")),
    PgType("int2", 21, 1005, 2, 0, *_number("!h")),
    PgType("int4", 23, 1007, 4, 0, *_number("!i")),
    PgType("oid", 26, 1028, 4, 0, *_number("!I")),
    PgType("float4", 700, 1021, 4, 0.0, *_number("!f", float)),
    PgType("float8", 701, 1022, 8, 0.0, *_number("!d", float)),
    PgType("numeric", 1700, 1231, -1, Decimal(0), text_of, numeric_bytes, Decimal, numeric_of, "N"),
    PgType("date", 1082, 1182, 4, _DAY, str, lambda v: struct.pack("!i", (v - _DAY).days),
           date.fromisoformat, lambda d: _DAY + timedelta(struct.unpack("!i", d)[0]), "D"),
    PgType("time", 1083, 1183, 8, "00:00:00", str, _time_bytes, str,
           lambda d: str((_LOCAL + timedelta(microseconds=struct.unpack("!q", d)[0])).time()), "D"),
    PgType("timestamp", 1114, 1115, 8, _LOCAL,
           *_moment(_LOCAL, lambda v: v.isoformat(" "), datetime.fromisoformat)),
    PgType("timestamptz", 1184, 1185, 8, _INSTANT,
           *_moment(_INSTANT, lambda v: v.astimezone(UTC).isoformat(" ")[:-3], _instant_of)),
    PgType("interval", 1186, 1187, 16, "0", _interval, _interval_bytes, category="T"),
    PgType("uuid", 2950, 2951, 16, "", to_binary=lambda v: uuid.UUID(v).bytes,
           of_binary=lambda data: str(uuid.UUID(bytes=data)), category="U"),
    PgType("text", 25, 1009, -1, ""),
    PgType("json", 114, 199, -1, "", category="U"),
    PgType("name", 19, 1003, 64, ""),
    PgType("bpchar", 1042, 1014, -1, ""),
    PgType("varchar", 1043, 1015, -1, ""),
    PgType("unknown", 705, 0, -2, ""),
)  # fmt: skip
BY_NAME = {one.name: one for one in _TYPES}
_BY_OID = {one.oid: one for one in _TYPES}
_BY_ARRAY_OID = {one.array_oid: one for one in _TYPES}
TEXT = BY_NAME["text"]
_OF_SPARK = {
    "boolean": "bool", "tinyint": "int2", "smallint": "int2", "int": "int4", "bigint": "int8",
    "float": "float4", "double": "float8", "decimal": "numeric", "string": "text",
    "binary": "bytea", "date": "date", "timestamp": "timestamptz", "timestamp_ntz": "timestamp",
    "time": "time",
}  # fmt: skip


@cache
def column_of(kind: str) -> PgColumn:
    """The column that PostgreSQL's clients see for a type of Spark, by its name.

    >>> [column_of(kind).oid for kind in ("decimal(10,2)", "ARRAY<INT>", "map<int,int>")]
    [1700, 1007, 114]
    """
    kind = plain_type(kind).lower()  # a task's columns have types as typed
    outer = re.split(r"[(<]", kind, maxsplit=1)[0]
    if outer in _OF_SPARK:
        size = decimal_size(kind)
        modifier = -1 if size is None else (size[0] << 16 | size[1] & 0x7FF) + 4
        return PgColumn(BY_NAME[_OF_SPARK[outer]], modifier=modifier, kind=kind)
    if kind.startswith(("interval day", "interval hour", "interval minute", "interval second")):
        return PgColumn(BY_NAME["interval"], kind=kind)
    if outer == "array":
        item = column_of(inner_types(kind)[0])
        if not item.is_array and item.type.name != "json":
            return PgColumn(item.type, is_array=True, kind=kind)
    if outer in ("array", "map", "struct", "variant"):
        return PgColumn(BY_NAME["json"], kind=kind)
    return PgColumn(TEXT, kind=kind)


# ---- arrays


def _array_text(one: PgType, values: Sequence[Any]) -> str:
    return "{" + ",".join("NULL" if v is None else _quoted(one.to_text(v)) for v in values) + "}"


def _quoted(text: str) -> str:
    if text and text.upper() != "NULL" and not re.search(r'[{}",\\\s]', text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _array_bytes(one: PgType, values: Sequence[Any]) -> bytes:
    head = struct.pack("!iiI", 1 if values else 0, int(None in values), one.oid)
    if not values:
        return head
    return head + struct.pack("!ii", len(values), 1) + b"".join(map(sized, _encoded(one, values)))


def _encoded(one: PgType, values: Sequence[Any]) -> Iterator[bytes | None]:
    return (None if value is None else one.to_binary(value) for value in values)


def sized(data: bytes | None) -> bytes:
    """A value with its length in front; NULL has the length -1."""
    return b"\xff\xff\xff\xff" if data is None else struct.pack("!i", len(data)) + data


_ITEM = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^",{}]*))\s*([,}])', re.DOTALL)


def _array_of_text(one: PgType, text: str) -> list[object]:
    """An array of one dimension."""
    if not text.startswith("{"):
        raise ValueError(text)
    if text.strip() == "{}":
        return []
    values: list[object] = []
    position, end = 1, ","
    while end == ",":
        match = _ITEM.match(text, position)
        if match is None:
            raise ValueError(text)
        quoted, bare, end = match.groups()
        if quoted is not None:
            values.append(one.of_text(re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)))
        else:
            values.append(None if bare.strip().upper() == "NULL" else one.of_text(bare.strip()))
        position = match.end()
    return values


def _array_of_binary(one: PgType, data: bytes) -> list[object]:
    dimensions, _, _ = struct.unpack_from("!iiI", data)
    if dimensions == 0:
        return []
    if dimensions > 1:
        raise ValueError("an array of several dimensions")
    count, _ = struct.unpack_from("!ii", data, 12)
    values: list[object] = []
    position = 20
    for _ in range(count):
        (size,) = struct.unpack_from("!i", data, position)
        position += 4
        values.append(None if size < 0 else one.of_binary(data[position : position + size]))
        position += max(size, 0)
    return values


# ---- parameters


def parameter(data: bytes | None, oid: int, *, binary: bool) -> object:
    """The value of a parameter.

    Raises ValueError, ArithmeticError or struct.error for data that is not of its type, KeyError
    for a binary value of a type that is not listed here.
    """
    if data is None:
        return None
    item = _BY_ARRAY_OID.get(oid) if oid else None
    if item is not None:
        return _array_of_binary(item, data) if binary else _array_of_text(item, data.decode())
    if binary:
        return (_BY_OID[oid] if oid else TEXT).of_binary(data)
    return _BY_OID.get(oid, TEXT).of_text(data.decode())


def sample(oid: int) -> object:
    """A sample value of a type; NULL for an unknown type."""
    if oid in _BY_ARRAY_OID and oid:
        return [_BY_ARRAY_OID[oid].sample]
    return _BY_OID[oid].sample if oid in _BY_OID else None
