"""Arrow finds the rows that Spark would: of every type, by one key column or several."""

import datetime as dt
from decimal import Decimal
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64
from pyspark.sql import types as T

from ctsql.runtime import local_files
from ctsql.runtime.local_files import KeySet, LocalFile, OnlySpark, TooMany, find, is_flat

SCHEMA = T.StructType().add("k", T.LongType()).add("v", T.StringType())
NOBODY = BitMap64()


def stored(folder: Path, name: str, table: pa.Table, *gone: int, **options: Any) -> LocalFile:
    """A file with the rows of a table, some of which count as deleted."""
    pq.write_table(table, folder / name, **options)
    return LocalFile(name, folder / name, BitMap64(gone))


def looked_up(
    files: list[LocalFile],
    keys: dict[str, list[Any]],
    schema: T.StructType = SCHEMA,
    rows_max: int = 100,
    bytes_max: int = 100_000,
) -> list[tuple[Any, ...]]:
    """The rows found, in order."""
    sets = [KeySet(keys)] if keys else []
    found = find(files, schema, sets, places=("f", "r"), rows_max=rows_max, bytes_max=bytes_max)
    assert found.schema.names == [*schema.names, "f", "r"]
    return sorted(tuple(row.values()) for row in found.to_pylist())


def test_rows_are_found_across_files_and_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers count through row groups and batches; rows that are deleted are not found."""
    monkeypatch.setattr(local_files, "BATCH_ROWS", 7)
    rows = pa.table({"k": [i % 50 for i in range(100)], "v": [str(i) for i in range(100)]})
    files = [
        stored(tmp_path, "a", rows, 53, row_group_size=30),
        stored(tmp_path, "b", rows.slice(0, 4)),
    ]
    assert looked_up(files, {"k": [3, 49, 49, None, 77]}) == [
        (3, "3", "a", 3),
        (3, "3", "b", 3),
        (49, "49", "a", 49),
        (49, "99", "a", 99),
    ]
    assert looked_up(files, {"k": [None]}) == []
    assert looked_up(files, {"k": []}) == []
    assert len(looked_up(files, {}, rows_max=200)) == 103


def test_keys_of_several_columns(tmp_path: Path) -> None:
    """A row that has one key's first column and another one's second is not found."""
    rows = pa.table({"k": [1, 1, 2, None], "v": ["x", "y", "y", "x"]})
    files = [stored(tmp_path, "a", rows)]
    keys = {"v": ["x", "y", "x"], "k": [1, 2, None]}
    assert [row[:2] for row in looked_up(files, keys)] == [(1, "x"), (2, "y")]


def test_sets_of_keys(tmp_path: Path) -> None:
    """A key of any set will do; where NULL equals NULL it is found, in each place of a key."""
    rows = pa.table({"k": [1, 2, None, None, 5], "v": ["x", None, None, "x", "y"]})
    file = stored(tmp_path, "a", rows)

    def numbers(*sets: KeySet) -> list[int]:
        found = find([file], SCHEMA, sets, places=("f", "r"), rows_max=9, bytes_max=9_999)
        return sorted(found.column("r").to_pylist())

    assert numbers(KeySet({"k": [5]}), KeySet({"v": ["x"]})) == [0, 3, 4]
    assert numbers(KeySet({"k": [5, None]}, nulls_equal=True)) == [2, 3, 4]
    pairs = {"k": pa.chunked_array([[None, 2, 1]], pa.int64()), "v": ["x", None, "y"]}
    assert numbers(KeySet(pairs, nulls_equal=True)) == [1, 3]
    assert numbers(KeySet(pairs)) == []


@pytest.mark.parametrize(("k", "v"), [("k", "v"), (".v", "v"), (".", "[x")])
def test_every_pattern_of_nulls_in_keys(tmp_path: Path, k: str, v: str) -> None:
    """Of all pairs of a value or NULL, those that are asked for are found, whatever the names."""
    schema = T.StructType().add(k, T.LongType()).add(v, T.StringType())
    pairs = list(product([1, None], ["x", None]))
    ks, vs = zip(*pairs, strict=True)
    file = stored(tmp_path, "a", pa.table({k: pa.array(ks, pa.int64()), v: vs}))
    for size in range(1, len(pairs) + 1):
        for wanted in combinations(range(len(pairs)), size):
            keys = {k: [ks[i] for i in wanted], v: [vs[i] for i in wanted]}
            sets = [KeySet(keys, nulls_equal=True)]
            found = find([file], schema, sets, places=("f", "r"), rows_max=9, bytes_max=9_999)
            assert sorted(found.column("r").to_pylist()) == list(wanted)


def test_rows_by_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some rows of a file, in any of its groups and batches."""
    monkeypatch.setattr(local_files, "BATCH_ROWS", 7)
    rows = pa.table({"k": list(range(100)), "v": ["x"] * 100})
    whole = stored(tmp_path, "a", rows, row_group_size=30)
    file = LocalFile("a", whole.path, BitMap64([31]), only=BitMap64([0, 29, 31, 99]))
    assert [row[0] for row in looked_up([file], {})] == [0, 29, 99]


@pytest.mark.parametrize(
    ("kind", "arrow", "values", "key"),
    [
        (T.ByteType(), pa.int8(), [-128, 5], 5),
        (T.ShortType(), pa.int16(), [-1, 5], 5),
        (T.LongType(), pa.int32(), [-1, 5], 5),
        (T.DecimalType(20, 2), pa.decimal128(20, 2), [Decimal("0.10"), Decimal("-1.00")], -1),
        (T.DateType(), pa.date32(), [dt.date(1582, 10, 4), dt.date(9999, 12, 31)], None),
        (T.BooleanType(), pa.bool_(), [True, False], True),
        (T.StringType(), pa.large_string(), ["", "é"], "é"),
        (T.StringType(), pa.dictionary(pa.int32(), pa.string()), ["a", "a "], "a "),
    ],
)
def test_keys_of_every_type(
    tmp_path: Path, kind: T.DataType, arrow: pa.DataType, values: list[Any], key: Any
) -> None:
    """Also where the file has a narrower type than the table, or Arrow a type of its own."""
    schema = T.StructType().add("k", kind)
    file = stored(tmp_path, "a", pa.table({"k": pa.array([*values, None], arrow)}))
    wanted = values[-1] if key is None else key
    ((found, _, row),) = looked_up([file], {"k": [wanted]}, schema)
    assert found == wanted
    assert values[row] == wanted


@pytest.mark.parametrize("int96", [True, False])
def test_values_are_told_exactly(tmp_path: Path, int96: bool) -> None:
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
    wanted = [KeySet({"late": [None]}, nulls_equal=True)]
    with pytest.raises(OnlySpark):  # all of its rows have the key
        find([file], schema, wanted, places=("f", "r"), rows_max=9, bytes_max=9_999)


def test_what_is_left_to_spark(tmp_path: Path) -> None:
    """Other calendars, missing and damaged files."""
    rows = pa.table({"k": [1], "v": ["x"]})
    old = rows.replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
    damaged = stored(tmp_path, "damaged", rows)
    damaged.path.write_bytes(damaged.path.read_bytes()[:-9])
    missing = LocalFile("missing", tmp_path / "missing", NOBODY)
    for file in (stored(tmp_path, "old", old), damaged, missing):
        with pytest.raises(OnlySpark):
            looked_up([file], {"k": [1]})


def test_what_is_not_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows, or more bytes, than are wanted; told before all were read."""
    monkeypatch.setattr(local_files, "BATCH_ROWS", 2)
    rows = pa.table({"k": [1] * 5, "v": ["x" * 1000] * 5})
    files = [stored(tmp_path, "a", rows), stored(tmp_path, "b", rows)]
    assert len(looked_up(files, {"k": [1]}, rows_max=10)) == 10
    for bounds in ({"rows_max": 9}, {"rows_max": 2}, {"bytes_max": 9_000}, {"bytes_max": 500}):
        with pytest.raises(TooMany):
            looked_up(files, {"k": [1]}, **bounds)


def test_wide_rows_are_read_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound on a batch's bytes is kept by one row if need be."""
    monkeypatch.setattr(local_files, "BATCH_ROWS", 1)
    rows = pa.table({"k": [1, 2, 1], "v": ["x" * 1000, "y" * 1000, "z" * 1000]})
    found = looked_up([stored(tmp_path, "a", rows)], {"k": [1]})
    assert [(row[1][0], row[-1]) for row in found] == [("x", 0), ("z", 2)]


FLAT = [T.IntegerType(), T.StringType(), T.DecimalType(38, 10), T.TimestampType(), T.BinaryType()]
OTHERS = [T.ArrayType(T.LongType()), T.StructType(), T.StringType("UTF8_LCASE"), T.VariantType()]


@pytest.mark.parametrize("kind", FLAT + OTHERS, ids=str)
def test_flat_columns(kind: T.DataType) -> None:
    """Nested values and collated texts are not for Arrow."""
    assert is_flat(T.StructType().add("c", kind)) is (kind in FLAT)
