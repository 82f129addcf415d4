"""Values at the edges of their types, in files with every pair of them, as ctsql writes files.

Of each table there is a twin: the same rows in the same files, without any statistics. What a
reader finds in one it must find in the other.
"""

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

from ctsql.runtime.delta.parquet.parquet_writer import write
from ctsql.runtime.delta.stores.file_stores import LOCAL

DAYS = [
    (dt.date(*day) - dt.date(1970, 1, 1)).days
    for day in (
        (1, 1, 1),
        (1582, 10, 4),
        (1582, 10, 15),
        (1900, 1, 1),
        (1970, 1, 1),
        (9999, 12, 31),
    )
]
BEYOND = [DAYS[0] - 1_000_000, DAYS[-1] + 1]
"""Days of the years -2737 and 10000."""
DAY_US = 86_400_000_000
INSTANTS = [day * DAY_US + 1 for day in (*DAYS, *BEYOND)] + [0, -1, 999]
LONG = "x" * 5_000
TEXTS = ["", " ", "a", "a\0b", "x" * 32, "x" * 33, LONG, LONG + "y", "\uffff", "\U0001f600",
         "\U0010ffff" * 40]  # fmt: skip
NUMBERS = [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1.0, -1.5, 1e-40]


@dataclass(frozen=True)
class Kind:
    """A type, with values as Arrow stores them, and a text of SQL that makes one in a reader."""

    sql: str
    arrow: pa.DataType
    values: list[Any]
    spark: str
    rust: str

    @property
    def column(self) -> str:
        """The name of its column."""
        return "v_" + "".join(c if c.isalnum() else "_" for c in self.sql.lower())


def _whole(sql: str, arrow: pa.DataType, bits: int) -> Kind:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    rust = f"arrow_cast({{}}, '{str(arrow).capitalize()}')"
    return Kind(sql, arrow, [low, low + 1, -1, 0, 1, high], f"CAST('{{}}' AS {sql})", rust)


def _decimal(digits: int, places: int) -> Kind:
    with localcontext(prec=digits):
        most = Decimal("9" * digits)
        numbers = [-most, Decimal(-1), Decimal(0), Decimal(1), most]
        values = [number.scaleb(-places) for number in numbers]
    sql = f"DECIMAL({digits}, {places})"
    told = f"CAST('{{}}' AS {sql})"
    return Kind(sql, pa.decimal128(digits, places), values, told, told)


KINDS = [
    _whole("TINYINT", pa.int8(), 8),
    _whole("SMALLINT", pa.int16(), 16),
    _whole("INT", pa.int32(), 32),
    _whole("BIGINT", pa.int64(), 64),
    _decimal(5, 0), _decimal(9, 9), _decimal(18, 2), _decimal(38, 0), _decimal(38, 18),
    Kind("DOUBLE", pa.float64(), NUMBERS, "double('{}')", "CAST('{}' AS DOUBLE)"),
    Kind("FLOAT", pa.float32(), NUMBERS, "float('{}')", "CAST('{}' AS REAL)"),
    Kind("BOOLEAN", pa.bool_(), [False, True], "{}", "{}"),
    Kind("STRING", pa.string(), TEXTS, "CAST(X'{}' AS STRING)", "arrow_cast(X'{}', 'Utf8')"),
    Kind("BINARY", pa.binary(), [t.encode() for t in TEXTS], "X'{}'", "X'{}'"),
    Kind("DATE", pa.date32(), [*DAYS, *BEYOND], "date_from_unix_date({})",
         "arrow_cast(arrow_cast({}, 'Int32'), 'Date32')"),
    Kind("TIMESTAMP", pa.timestamp("us", "UTC"), INSTANTS, "timestamp_micros({})",
         "arrow_cast(arrow_cast({}, 'Int64'), 'Timestamp(Microsecond, Some(\"UTC\"))')"),
    Kind("TIMESTAMP_NTZ", pa.timestamp("us"), INSTANTS,
         "CAST(timestamp_micros({}) AS TIMESTAMP_NTZ)",
         "arrow_cast(arrow_cast({}, 'Int64'), 'Timestamp(Microsecond, None)')"),
]  # fmt: skip
COMPARISONS = [
    "{v} = {x}", "{v} <> {x}", "{v} < {x}", "{v} <= {x}", "{v} > {x}", "{v} >= {x}",
    "NOT ({v} < {x})", "NOT ({v} > {x})", "{v} IN ({x}, {y})", "{v} NOT IN ({x}, {y})",
]  # fmt: skip
ON_NULLS = ["{v} IS NULL", "{v} IS NOT NULL"]


def array_of(kind: Kind, values: list[Any]) -> pa.Array:
    """Values as Arrow has them, also those of years that Python has not."""
    if pa.types.is_temporal(kind.arrow):
        days = kind.arrow == pa.date32()
        return pa.array(values, pa.int32() if days else pa.int64()).cast(kind.arrow)
    return pa.array(values, kind.arrow)


def _literal(told: str, value: Any) -> str:
    """A value in SQL."""
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return told.format(value.hex())
    return told.format(f"{value:f}" if isinstance(value, Decimal) else value)


def conditions_of(kind: Kind, told: str, equal_nulls: str) -> list[str]:
    """Every comparison of the column with every value."""
    values = [_literal(told, value) for value in kind.values]
    pairs = zip(values, values[1:] + values[:1], strict=True)
    found = [c.format(v=kind.column, x=x, y=y) for x, y in pairs
             for c in (*COMPARISONS, equal_nulls)]  # fmt: skip
    return [c.format(v=kind.column) for c in ON_NULLS] + found


def _files() -> Iterator[list[int | None]]:
    """Which values of each type are in a file, by number; None for NULL."""
    count = max(len(kind.values) for kind in KINDS)
    yield []
    yield [None]
    yield from ([i] for i in range(count))
    yield from ([i, None] for i in range(count))
    yield from ([i, j] for i, j in combinations(range(count), 2))


def _rows(numbers: list[int | None], first: int) -> pa.Table:
    columns: dict[str, pa.Array] = {
        "id": pa.array(range(first, first + len(numbers)), pa.int64()),
        **{
            kind.column: array_of(
                kind, [None if n is None else kind.values[n % len(kind.values)] for n in numbers]
            )
            for kind in KINDS
        },
    }
    return pa.table(columns)


SCHEMA = from_arrow_schema(_rows([], 0).schema, prefer_timestamp_ntz=True)


@dataclass(frozen=True)
class Twins:
    """Tables of :data:`KINDS`, by their folders: as ctsql writes them, and without statistics."""

    written: Path
    bare: Path

    def files(self, place: Path) -> list[tuple[str, str | None]]:
        """The paths of a table's files, each with its statistics."""
        lines = (place / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
        adds = [action["add"] for line in lines if "add" in (action := json.loads(line))]
        return [(str(place / add["path"]), add.get("stats")) for add in adds]


def make_twins(folder: Path) -> Twins:
    """Both tables, in a folder."""
    twins = Twins(folder / "written", folder / "bare")
    adds: dict[Path, list[str]] = {twins.written: [], twins.bare: []}
    for place in adds:
        (place / "_delta_log").mkdir(parents=True)
    first = 0
    for numbers in _files():
        rows = _rows(numbers, first)
        first += len(numbers)
        staged = write(rows, SCHEMA, LOCAL, str(twins.written), "4.2.0")
        assert staged is not None
        adds[twins.written].append(staged.action)
        bare = twins.bare / staged.path
        pq.write_table(rows, bare, write_statistics=False, store_schema=False)
        add = {**json.loads(staged.action)["add"], "size": bare.stat().st_size}
        del add["stats"]
        adds[twins.bare].append(json.dumps({"add": add}))
    for place, lines in adds.items():
        text = "\n".join([*_HEAD, *lines]) + "\n"
        (place / "_delta_log" / f"{0:020d}.json").write_text(text)
    return twins


_HEAD = [
    json.dumps(action)
    for action in (
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["timestampNtz"],
                "writerFeatures": ["timestampNtz"],
            }
        },
        {
            "metaData": {
                "id": "edges",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": SCHEMA.json(),
                "partitionColumns": [],
                "configuration": {},
            }
        },
    )
]


def ids_by_condition(rows: Iterable[Sequence[Any]], names: list[str]) -> dict[str, list[int]]:
    """The ids of each condition, of rows with a column of each."""
    found: dict[str, list[int]] = {name: [] for name in names}
    for row in rows:
        for name, holds in zip(names, row[1:], strict=True):
            if holds:
                found[name].append(row[0])
    return {name: sorted(ids) for name, ids in found.items()}
