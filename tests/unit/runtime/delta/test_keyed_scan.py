"""Rows by keys that are nearly those that were looked up before; on real Delta in tests/spark."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from ctsql.catalog.errors import Declined
from ctsql.runtime.delta import keyed_scan
from ctsql.runtime.delta.keyed_scan import Lookups
from ctsql.runtime.delta.parquet.parquet_reader import KeySet, having
from ctsql.runtime.rows.row_set import LocalRows

SCHEMA = T.StructType([T.StructField("k", T.IntegerType())])
ROWS = pa.table({"k": pa.array(range(200), pa.int32())})
TABLE: Any = SimpleNamespace(location="file:/t")


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The keys that were looked up in a table of :data:`ROWS`."""
    found: list[int] = []

    def at(read: keyed_scan.KeyedRead, _: int) -> LocalRows:
        (wanted,) = read.sets
        found.extend(wanted.columns["k"].to_pylist())
        return LocalRows(TABLE, SCHEMA, having(ROWS, SCHEMA, wanted))

    def read_of(_: Any, __: int, ___: Any, keys: Sequence[Any]) -> keyed_scan.KeyedRead:
        column = pa.chunked_array([pa.array(keys, pa.int32())])
        return keyed_scan.KeyedRead(TABLE, SCHEMA.fields, [KeySet({"k": column}, nulls_equal=True)])

    monkeypatch.setattr(keyed_scan.KeyedRead, "at", at)
    monkeypatch.setattr(keyed_scan.KeyedRead, "of", staticmethod(read_of))
    return found


def test_a_row_comes_once_by_keys_of_one_read_after_another(looked_up: list[int]) -> None:
    """A key that the first read had, the second did not, and the third has again."""
    lookups = Lookups()
    first = list(range(80))
    second = first[8:]
    third = [*second, 0, *range(101, 108)]  # not nearly those of the first
    for wanted in (first, second, third):
        looked_up.clear()
        keys: Any = wanted
        rows = lookups.rows(TABLE, 1, ["k"], keys)
        assert not isinstance(rows, Declined)
        found = rows.arrow.column("k").to_pylist()
        assert sorted(k for k in found if k in wanted) == sorted(wanted)
    assert sorted(looked_up) == [0, *range(101, 108)]
