"""Key columns that are cached: which are, and the rows that are found in them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st
from pyroaring import BitMap64
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type

from ctsql.catalog.reserved_columns import ROW_COLUMN
from ctsql.runtime.delta.parquet import parquet_reader
from ctsql.runtime.delta.parquet.parquet_reader import KeySet, ScannedFile, find
from ctsql.runtime.delta.stores.file_stores import LOCAL

NUMBERS = st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3), max_size=30)


def found(path: Path, values: pa.Array, keys: pa.Array, *, nulls_equal: bool = False) -> list[int]:
    """The rows of a file of one column that have a key."""
    pq.write_table(pa.table({"k": values}), path)
    file = ScannedFile(path.name, LOCAL, str(path), path.stat().st_size, BitMap64())
    schema = T.StructType([T.StructField("k", from_arrow_type(values.type))])
    keys_to_find = KeySet({"k": pa.chunked_array([keys])}, nulls_equal)
    rows = find([file], schema, [keys_to_find], rows_max=1_000)
    return [int(number) for number in rows.column(ROW_COLUMN).to_pylist()]


@given(NUMBERS, NUMBERS)
def test_rows_of_keys_in_a_cached_column(
    tmp_path_factory: pytest.TempPathFactory, values: list[int | None], keys: list[int | None]
) -> None:
    """All rows of each key, in order, read twice: of the file, and of the cache."""
    path = tmp_path_factory.mktemp("k") / "f"
    numbers, wanted = pa.array(values, pa.int64()), pa.array(keys, pa.int64())
    for nulls_equal in (False, True):
        rows = [i for i, v in enumerate(values) if v in keys and (nulls_equal or v is not None)]
        assert found(path, numbers, wanted, nulls_equal=nulls_equal) == rows


@pytest.mark.parametrize(
    ("values", "is_kept"),
    [
        (pa.array([1, 2]), True),
        (pa.array([1, None], pa.int32()), True),
        (pa.array(["a", "b"]), False),
        (pa.array([True, False]), False),
    ],
)
def test_which_columns_are_kept(tmp_path: Path, values: pa.Array, is_kept: bool) -> None:
    """Whole numbers; a second search reads the file's other columns only."""
    before = parquet_reader.column_cache.bytes_kept
    assert found(tmp_path / "f", values, values[:1]) == [0]
    assert (parquet_reader.column_cache.bytes_kept > before) is is_kept
