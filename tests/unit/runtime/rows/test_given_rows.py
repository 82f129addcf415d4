"""Types of Arrow that Spark does not have become wider ones that hold all their values."""

from typing import Any

import pyarrow as pa
import pytest

from ctsql.runtime.rows.given_rows import with_types_of_spark

LARGEST = 2**64 - 1


@pytest.mark.parametrize(
    ("given", "values", "wanted"),
    [
        (pa.uint8(), [255, None], pa.int16()),
        (pa.uint16(), [2**16 - 1], pa.int32()),
        (pa.uint32(), [2**32 - 1], pa.int64()),
        (pa.uint64(), [LARGEST], pa.decimal128(20, 0)),
        (pa.float16(), [0.5], pa.float32()),
        (pa.date64(), [None], pa.date32()),
        (pa.string_view(), ["é", None], pa.string()),
        (pa.binary_view(), [b"\x00"], pa.binary()),
        (pa.list_(pa.uint32()), [[1, None], None], pa.list_(pa.int64())),
        (pa.large_list(pa.uint8()), [[1]], pa.large_list(pa.int16())),
        (pa.list_(pa.uint8(), 2), [[1, 2]], pa.list_(pa.int16(), 2)),
        (
            pa.struct([("a", pa.uint32()), ("b", pa.string())]),
            [{"a": 1, "b": "x"}, None],
            pa.struct([("a", pa.int64()), ("b", pa.string())]),
        ),
        (
            pa.map_(pa.uint8(), pa.list_(pa.uint32())),
            [[(1, [2])]],
            pa.map_(pa.int16(), pa.list_(pa.int64())),
        ),
    ],
    ids=str,
)
def test_wider_types(given: pa.DataType, values: list[Any], wanted: pa.DataType) -> None:
    """No value changes."""
    table = with_types_of_spark(pa.table({"x": pa.array(values, given), "y": [1] * len(values)}))
    assert table.schema.field("x").type == wanted
    assert table.schema.field("y").type == pa.int64()
    found = [int(v) if given == pa.uint64() else v for v in table.column("x").to_pylist()]
    assert found == values


def test_other_tables_stay_as_they_are() -> None:
    """The same object: nothing is copied."""
    table = pa.table({"x": [1], "y": ["a"], "z": [[0.5]]})
    assert with_types_of_spark(table) is table
