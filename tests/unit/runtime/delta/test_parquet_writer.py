"""Which tables this process writes files of, and what it says of them."""

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as T

from ctsql.catalog.errors import Declined
from ctsql.runtime.delta.parquet.parquet_writer import (
    TEXT_MAX,
    columns_with_statistics,
    has_forbidden_null,
    is_plain,
    statistics,
    write,
)
from ctsql.runtime.delta.stores.file_stores import LOCAL
from ctsql.runtime.log.table_metadata import TableMetadata

SCHEMA = (
    T.StructType()
    .add("k", T.IntegerType())
    .add("s", T.StringType())
    .add("x", T.DateType())
    .add("d", T.DecimalType(12, 2))
    .add("f", T.DoubleType())
    .add("m", T.TimestampType())
)
PLAIN: dict[str, Any] = {
    "id": "t",
    "partitionColumns": [],
    "configuration": {"delta.enableDeletionVectors": "true", "note": "mine"},
    "schemaString": SCHEMA.json(),
}


@pytest.mark.parametrize(
    "other",
    [
        {"partitionColumns": ["k"]},
        {"configuration": {"delta.constraints.positive": "k > 0"}},
        {"configuration": {"delta.columnMapping.mode": "name"}},
        {"configuration": {"delta.randomizeFilePrefixes": "true"}},
        {"configuration": {"delta.dataSkippingNumIndexedCols": "3"}},
        {"configuration": {"delta.enableRowTracking": "true"}},
        {"configuration": {"delta.enableIcebergCompatV2": "true"}},
        {"schemaString": T.StructType([*SCHEMA.fields[:-1]]).json()},
        {
            "schemaString": T.StructType(
                [T.StructField("k", T.IntegerType(), True, {"delta.generationExpression": "1"})]
            ).json()
        },
    ],
)
def test_tables_that_delta_writes(other: dict[str, Any]) -> None:
    """Whatever a table asks for, or may, besides columns and properties that touch no files."""
    assert is_plain(TableMetadata(PLAIN), SCHEMA)
    metadata = TableMetadata(PLAIN | other)
    schema = T.StructType.fromJson(json.loads(metadata.schema_text))
    is_other = len(schema) == len(SCHEMA) - 1  # its columns are others than those of the rows
    assert not is_plain(metadata, SCHEMA if is_other else schema)


def test_null_where_none_may_be() -> None:
    """A column that is NOT NULL takes values only."""
    stored = T.StructType().add("k", T.IntegerType(), False).add("v", T.IntegerType())
    metadata = TableMetadata(PLAIN | {"schemaString": stored.json()})
    assert is_plain(metadata, stored)
    assert not has_forbidden_null(metadata, pa.table({"k": [1, 2], "v": [None, 1]}))
    assert has_forbidden_null(metadata, pa.table({"k": [1, None], "v": [1, 1]}))


def rows(texts: list[str | None]) -> pa.Table:
    """Rows of the schema with some texts."""
    count = len(texts)
    instant = dt.datetime(1600, 1, 1, tzinfo=dt.UTC)
    return pa.table(
        {
            "k": pa.array([*range(count - 1), None], pa.int32()),
            "s": pa.array(texts, pa.string()),
            "x": pa.array([dt.date(1, 1, 1)] * count, pa.date32()),
            "d": pa.array([Decimal("1.50")] * count, pa.decimal128(12, 2)),
            "f": pa.array([float("nan")] * count),
            "m": pa.array([instant] * count, pa.timestamp("us", "UTC")),
        }
    )


def test_a_file_and_what_is_said_of_it(tmp_path: Path) -> None:
    """Bounds of whole numbers, dates and texts; numbers of NULLs; the rows as they were."""
    given = rows(["b", "a", None])
    staged = write(given, SCHEMA, LOCAL, str(tmp_path), "4.2.0")
    assert staged is not None
    add = json.loads(staged.action)["add"]
    assert (add["path"], add["partitionValues"]) == (staged.path, {})
    assert add["size"] == (tmp_path / staged.path).stat().st_size
    told = json.loads(add["stats"])
    assert told["numRecords"] == 3
    assert told["minValues"] == {"k": 0, "s": "a", "x": "0001-01-01"}
    assert told["maxValues"] == {"k": 1, "s": "b", "x": "0001-01-01"}
    assert told["nullCount"] == {"k": 1, "s": 1, "x": 0, "d": 0, "f": 0, "m": 0}
    assert pq.read_table(tmp_path / staged.path).drop(["f"]).equals(given.drop(["f"]))


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_a_column_with_nan_has_no_statistics(tmp_path: Path, kind: pa.DataType) -> None:
    """Its minimum and maximum would be those of the other numbers, and NaN is larger than all."""
    spark_kind = T.FloatType() if kind == pa.float32() else T.DoubleType()
    schema = T.StructType().add("with_nan", spark_kind).add("none", spark_kind)
    nan = float("nan")
    for others in ([1.0], [-0.0], [None], [float("inf")], []):
        count = len(others) + 1
        columns = {
            "with_nan": pa.array([nan, *others], kind),
            "none": pa.array([1.0] * count, kind),
        }
        staged = write(pa.table(columns), schema, LOCAL, str(tmp_path), "4.2.0")
        assert staged is not None
        group = pq.read_metadata(tmp_path / staged.path).row_group(0)
        assert group.column(0).statistics is None
        assert group.column(1).statistics.has_min_max
        told = json.loads(json.loads(staged.action)["add"]["stats"])
        assert "with_nan" not in told["minValues"] | told["maxValues"]


def test_nested_columns_of_a_saved_result_have_no_statistics() -> None:
    """There may be NaN at any depth; a column of nothing but NULL has some."""
    columns = {"a": [[float("nan")]], "s": [{"x": 1.0}], "k": [1], "none": pa.array([None])}
    assert columns_with_statistics(pa.table(columns)) == ["k", "none"]


def test_long_texts_have_no_bounds() -> None:
    """Nor have columns of nothing but NULL."""
    long = "x" * (TEXT_MAX + 1)
    assert "s" not in statistics(rows(["a", long]), SCHEMA)["maxValues"]
    assert statistics(rows([None, None]), SCHEMA)["minValues"].keys() == {"k", "x"}


def test_what_python_does_not_have_has_no_bounds() -> None:
    """A date of another year than 1 to 9999, a text that is not UTF-8."""
    days = pa.array([-5_000_000, 0], pa.int32()).cast(pa.date32())
    texts = pa.Array.from_buffers(
        pa.string(),
        2,
        [None, pa.py_buffer(bytes([0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0])), pa.py_buffer(b"\xffa")],
    )
    schema = T.StructType().add("x", T.DateType()).add("s", T.StringType())
    told = statistics(pa.table({"x": days, "s": texts}), schema)
    assert (told["minValues"], told["maxValues"], told["numRecords"]) == ({}, {}, 2)


def test_nested_columns_are_for_spark(tmp_path: Path) -> None:
    """Nothing is written."""
    schema = T.StructType().add("a", T.ArrayType(T.IntegerType()))
    staged = write(pa.table({"a": [[1]]}), schema, LOCAL, str(tmp_path), "4.2.0")
    assert isinstance(staged, Declined)
    assert not list(tmp_path.iterdir())
