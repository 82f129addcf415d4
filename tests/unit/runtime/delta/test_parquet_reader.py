"""Arrow finds the rows that Spark would: of every type, by one key column or several."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type

from ctsql.catalog.reserved_columns import FILE_COLUMN, ROW_COLUMN
from ctsql.runtime.delta.parquet import parquet_reader
from ctsql.runtime.delta.parquet.parquet_reader import (
    KeySet,
    NumberRange,
    OnlySpark,
    ScannedFile,
    TooMany,
    find,
    having,
)
from ctsql.runtime.delta.stores.file_stores import LOCAL
from ctsql.runtime.rows.types import is_flat

SCHEMA = T.StructType().add("k", T.LongType()).add("v", T.StringType())
NOBODY = BitMap64()


def stored(
    folder: Path, name: str, table: pa.Table, *deleted_rows: int, **options: Any
) -> ScannedFile:
    """A file with the rows of a table, some of which count as deleted."""
    pq.write_table(table, folder / name, **options)
    size = (folder / name).stat().st_size
    return ScannedFile(name, LOCAL, str(folder / name), size, BitMap64(deleted_rows))


def key_set(
    columns: dict[str, list[Any]], nulls_equal: bool = False, schema: T.StructType = SCHEMA
) -> KeySet:
    """Keys as a table's columns have them."""
    kinds = {f.name: to_arrow_type(f.dataType, timezone="UTC") for f in schema}
    values = {n: pa.chunked_array([pa.array(v, kinds[n])]) for n, v in columns.items()}
    return KeySet(values, nulls_equal)


def places(found: pa.Table) -> list[tuple[str, int]]:
    """Where the rows are, in their order."""
    files, numbers = (found[c].to_pylist() for c in (FILE_COLUMN, ROW_COLUMN))
    return list(zip(files, numbers, strict=True))


def looked_up(
    files: list[ScannedFile],
    keys: dict[str, list[Any]],
    schema: T.StructType = SCHEMA,
    rows_max: int = 100,
    bytes_max: int = 100_000,
) -> list[tuple[Any, ...]]:
    """The rows found, in order."""
    sets = [key_set(keys, schema=schema)] if keys else []
    found = find(files, schema, sets, rows_max=rows_max, bytes_max=bytes_max)
    assert found.schema.names == [*schema.names, FILE_COLUMN, ROW_COLUMN]
    return sorted(tuple(row.values()) for row in found.to_pylist())


KINDS: dict[str, tuple[T.DataType, list[Any]]] = {
    ".i": (T.IntegerType(), [-(2**31), -1, 0, 7, 2**31 - 1]),
    ".": (T.LongType(), [-(2**63), 5, 2**40]),
    "d": (T.DateType(), [-800_000, 0, 3_000_000]),  # days; Python has not all of these dates
    "[s": (T.StringType(), [b"", b"a", b"a\x00", b"\xff\xfe", "é".encode()]),
    "c": (T.DecimalType(20, 2), [Decimal("-1.00"), Decimal("0.10"), Decimal("99999999999999.99")]),
    "b": (T.BooleanType(), [True, False]),
}


def column_of(kind: T.DataType, values: list[Any]) -> pa.Array:
    """Values with the type that a table's column has; texts of any bytes."""
    if isinstance(kind, T.DateType):
        return pa.array(values, pa.int32()).cast(pa.date32())
    if isinstance(kind, T.StringType):
        return pa.array(values, pa.binary()).view(pa.string())
    return pa.array(values, to_arrow_type(kind))


@pytest.mark.parametrize("seed", range(60))
def test_random_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """A lookup finds the rows that reading every row finds: any types, names and row groups."""
    random = Random(seed)
    monkeypatch.setattr(parquet_reader, "BATCH_ROWS", random.choice((3, 1000)))
    names = random.sample(list(KINDS), 4)
    schema = T.StructType([T.StructField(n, KINDS[n][0]) for n in names])

    with_null = [name for name in names if random.random() < 0.5]
    order = random.choice((repr, lambda v: (v is None, v)))

    def drawn(name: str, count: int) -> list[Any]:
        # Sorted in stretches, so that the bounds of row groups say something.
        possible = [*KINDS[name][1], *([None] if name in with_null else [])]
        return sorted(random.choices(possible, k=count), key=order)

    rows: list[tuple[str, int, tuple[Any, ...]]] = []
    files = []
    for file in "ab":
        values = {n: drawn(n, 40) for n in names}
        table = pa.table({n: column_of(KINDS[n][0], v) for n, v in values.items()})
        whole = stored(tmp_path, file, table, row_group_size=random.choice((7, 100)))
        gone = BitMap64(random.sample(range(40), 5))
        only = BitMap64(random.sample(range(40), 20)) if random.random() < 0.3 else None
        files.append(ScannedFile(file, LOCAL, whole.path, whole.size, gone, only))
        listed = enumerate(zip(*values.values(), strict=True))
        rows += [
            (file, i, row) for i, row in listed if i not in gone and (only is None or i in only)
        ]
    sets, wanted = [], set()
    for _ in range(random.choice((1, 1, 2))):
        asked = random.sample(names, random.choice((1, 2, 3)))
        keys = [tuple(random.choice([*KINDS[n][1], None]) for n in asked) for _ in range(3)]
        nulls_equal = random.random() < 0.5
        columns = {
            n: pa.chunked_array([column_of(KINDS[n][0], [key[i] for key in keys])])
            for i, n in enumerate(asked)
        }
        sets.append(KeySet(columns, nulls_equal))
        for file, i, row in rows:
            mine = tuple(row[names.index(n)] for n in asked)
            if mine in keys and (nulls_equal or None not in mine):
                wanted.add((file, i))
    found = find(files, schema, sets, rows_max=100, bytes_max=100_000)
    assert set(places(found)) == wanted
    assert found.num_rows == len(wanted)
    values = {(file, i): row for file, i, row in rows}
    for place, name in enumerate(names):
        kind = KINDS[name][0]
        theirs = [values[where][place] for where in places(found)]
        assert found[name].combine_chunks().equals(column_of(kind, theirs))
    (one, *_) = sets
    every = find(files, schema, (), rows_max=100, bytes_max=100_000)
    mine = find(files, schema, [one], rows_max=100, bytes_max=100_000)
    assert having(every, schema, one).equals(mine)


def test_row_groups_without_a_key_are_not_read(tmp_path: Path) -> None:
    """Their statistics say so: bytes that are no Parquet in the others do not matter."""
    rows = pa.table({"k": list(range(100)), "v": [f"{i:03}" for i in range(100)]})
    file = stored(tmp_path, "a", rows, row_group_size=50, compression="none")
    (first, second) = (pq.read_metadata(file.path).row_group(i) for i in range(2))
    raw = bytearray(Path(file.path).read_bytes())
    start = first.column(0).dictionary_page_offset
    end = second.column(0).dictionary_page_offset
    raw[start:end] = bytes(end - start)
    Path(file.path).write_bytes(bytes(raw))
    assert [row[0] for row in looked_up([file], {"k": [75]})] == [75]
    assert [row[0] for row in looked_up([file], {"v": ["080"]})] == [80]
    with pytest.raises(OnlySpark):
        looked_up([file], {"k": [25]})


@pytest.mark.parametrize(
    ("kind", "arrow", "values"),
    [
        (T.ByteType(), pa.int8(), [-128, 5]),
        (T.ShortType(), pa.int16(), [-1, 5]),
        (T.LongType(), pa.int32(), [-1, 5]),
        (T.DateType(), pa.date32(), [dt.date(1582, 10, 4), dt.date(9999, 12, 31)]),
        (T.StringType(), pa.large_string(), ["", "é"]),
        (T.StringType(), pa.dictionary(pa.int32(), pa.string()), ["a", "a "]),
    ],
)
def test_keys_of_every_type(
    tmp_path: Path, kind: T.DataType, arrow: pa.DataType, values: list[Any]
) -> None:
    """Also where the file has a narrower type than the table, or Arrow a type of its own."""
    schema = T.StructType().add("k", kind)
    file = stored(tmp_path, "a", pa.table({"k": pa.array([*values, None], arrow)}))
    ((found, _, row),) = looked_up([file], {"k": values[-1:]}, schema)
    assert found == values[-1] == values[row]


@pytest.mark.parametrize("int96", [True, False])
def test_values_are_exact(tmp_path: Path, int96: bool) -> None:
    """Instants of any year, in both ways to store them; -0.0 and bytes as they are."""
    utc = dt.UTC
    first, last = dt.datetime(1, 1, 1, tzinfo=utc), dt.datetime(9999, 12, 31, 23, 59, 59, 9, utc)
    schema = T.StructType().add("k", T.IntegerType()).add("t", T.TimestampType())
    schema = schema.add("d", T.DoubleType()).add("b", T.BinaryType())
    rows = pa.table(
        {
            "k": pa.array([1, 2], pa.int32()),
            "t": pa.array([first, last], pa.timestamp("us", "UTC")),
            "d": [-0.0, float("inf")],
            "b": [b"\x00\xff", b""],
        }
    )
    if int96:  # Arrow writes INT96 from nanoseconds only, which these years are too far for
        first, last = dt.datetime(1700, 1, 1, tzinfo=utc), dt.datetime(2200, 1, 1, 0, 0, 0, 1, utc)
        rows = rows.set_column(1, "t", pa.array([first, last], pa.timestamp("us", "UTC")))
    file = stored(tmp_path, "a", rows, use_deprecated_int96_timestamps=int96)
    one, two = looked_up([file], {"k": [1, 2]}, schema)
    assert (one[1], two[1]) == (first, last)
    assert (str(one[2]), two[2], one[3], two[3]) == ("-0.0", float("inf"), b"\x00\xff", b"")


def test_columns_that_came_later(tmp_path: Path) -> None:
    """A file without a column has NULL there, so no key is found in a key column it lacks."""
    schema = T.StructType([*SCHEMA, T.StructField("late", T.IntegerType())])
    file = stored(tmp_path, "a", pa.table({"k": [1], "v": ["x"]}))
    assert looked_up([file], {"k": [1]}, schema) == [(1, "x", None, "a", 0)]
    assert looked_up([file], {"late": [1]}, schema) == []
    wanted = [key_set({"late": [None]}, nulls_equal=True, schema=schema)]
    with pytest.raises(OnlySpark):  # all of its rows have the key
        find([file], schema, wanted, rows_max=9, bytes_max=9_999)


def test_what_is_left_to_spark(tmp_path: Path) -> None:
    """Other calendars, missing and damaged files, and columns that only Spark takes for these."""
    rows = pa.table({"k": [1], "v": ["x"]})
    old = rows.replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
    damaged = stored(tmp_path, "damaged", rows)
    Path(damaged.path).write_bytes(Path(damaged.path).read_bytes()[:-9])
    missing = ScannedFile("missing", LOCAL, str(tmp_path / "missing"), 9, NOBODY)
    letters = stored(tmp_path, "letters", rows.rename_columns(["k", "V"]))
    for file in (stored(tmp_path, "old", old), damaged, missing, letters):
        with pytest.raises(OnlySpark):
            looked_up([file], {"k": [1]})
    wide = stored(tmp_path, "wide", pa.table({"k": [1], "f": pa.array([0.1], pa.float64())}))
    with pytest.raises(OnlySpark):  # Arrow would round the double of another writer
        looked_up([wide], {"k": [1]}, T.StructType().add("k", "long").add("f", "float"))


@pytest.mark.parametrize(
    ("values", "is_cached"),
    [([1, 2], True), ([1, None], True), (["a", "b"], False), ([True, False], False)],
)
def test_which_key_columns_are_cached(tmp_path: Path, values: list[Any], is_cached: bool) -> None:
    """Whole numbers; a second search reads the file's other columns only."""
    before = parquet_reader.column_cache.bytes_kept
    column = pa.array(values)
    schema = T.StructType([T.StructField("k", from_arrow_type(column.type))])
    file = stored(tmp_path, "a", pa.table({"k": column}))
    assert looked_up([file], {"k": []}, schema) == []
    assert [row[0] for row in looked_up([file], {"k": values[:1]}, schema)] == values[:1]
    assert (parquet_reader.column_cache.bytes_kept > before) is is_cached


def test_what_is_not_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows, or more bytes, than are wanted; told before all were read."""
    monkeypatch.setattr(parquet_reader, "BATCH_ROWS", 2)
    rows = pa.table({"k": [1] * 5, "v": ["x" * 1000] * 5})
    files = [stored(tmp_path, "a", rows), stored(tmp_path, "b", rows)]
    assert len(looked_up(files, {"k": [1]}, rows_max=10)) == 10
    for bounds in ({"rows_max": 9}, {"rows_max": 2}, {"bytes_max": 9_000}, {"bytes_max": 500}):
        with pytest.raises(TooMany):
            looked_up(files, {"k": [1]}, **bounds)


FLAT = [T.IntegerType(), T.StringType(), T.DecimalType(38, 10), T.TimestampType(), T.BinaryType()]
OTHERS = [T.ArrayType(T.LongType()), T.StructType(), T.StringType("UTF8_LCASE"), T.VariantType()]


@pytest.mark.parametrize("kind", FLAT + OTHERS, ids=str)
def test_flat_columns(kind: T.DataType) -> None:
    """Nested values and collated texts are not for Arrow."""
    assert is_flat(T.StructType().add("c", kind)) is (kind in FLAT)


@pytest.mark.parametrize(
    ("after", "until"), [(9, 12), (-1, 0), (28, 31), (40, None), (98, 98), (99, None), (-5, -1)]
)
@pytest.mark.parametrize("statistics", [True, False])
def test_rows_with_a_number_of_a_range_are_found(
    tmp_path: Path, after: int, until: int | None, statistics: bool
) -> None:
    """The bounds are those of the range; NULL is in none, nor is what is deleted."""
    numbers = [*range(100), None]
    rows = pa.table({"k": numbers, "v": [str(k) for k in numbers]})
    file = stored(tmp_path, "a", rows, 11, row_group_size=10, write_statistics=statistics)
    found = find([file], SCHEMA, [NumberRange("k", after, until)], rows_max=100)
    wanted = [k for k in range(100) if k > after and (until is None or k <= until) and k != 11]
    assert found.column("k").to_pylist() == wanted
    assert found.column("v").to_pylist() == [str(k) for k in wanted]
