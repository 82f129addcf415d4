"""Rows of Python as Arrow: nothing of them is lost, and no value is taken for another one."""

from datetime import date
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.schemas import Column
from ctsql.runtime.rows.given_rows import array_of, arrow_of, with_types_of_spark

LARGEST = 2**64 - 1


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
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
def test_wider_types(kind: pa.DataType, values: list[Any], expected: pa.DataType) -> None:
    """No value changes."""
    table = with_types_of_spark(pa.table({"x": pa.array(values, kind), "y": [1] * len(values)}))
    assert table.schema.field("x").type == expected
    assert table.schema.field("y").type == pa.int64()
    found = [int(v) if kind == pa.uint64() else v for v in table.column("x").to_pylist()]
    assert found == values


def test_other_tables_stay_as_they_are() -> None:
    """The same object: nothing is copied."""
    table = pa.table({"x": [1], "y": ["a"], "z": [[0.5]]})
    assert with_types_of_spark(table) is table


def test_dicts_give_a_column_for_each_key() -> None:
    """Also for one that only a later row has."""
    rows = [{"a": 1}, {"b": "x", "a": 2}, {}]
    assert arrow_of(rows).to_pydict() == {"a": [1, 2, None], "b": [None, "x", None]}
    assert arrow_of([]).num_columns == 0


@pytest.mark.parametrize(
    ("rows", "condition", "word"),
    [
        (pd.DataFrame({"a": [1, "x"]}), "DATA_ERROR", "column a"),
        ([{"b": 1, "a": 1}, {"a": "x"}], "DATA_ERROR", 'column "a"'),
        ([{"a": 2**70}], "DATA_ERROR", 'column "a"'),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "DUPLICATE_COLUMN", '"a" appears twice'),
        (pd.DataFrame({"a": [object()]}), "DATA_ERROR", "object"),
        (pd.DataFrame({"\ud800": [1]}), "DATA_ERROR", "surrogates"),
        (object(), "INVALID_USAGE", "contains no rows"),
        ([(1, 2)], "INVALID_USAGE", "contains no rows"),
    ],
)
def test_rows_that_cannot_be_taken(rows: Any, condition: str, word: str) -> None:
    """Values of several types are told of as such, and not as no rows."""
    with pytest.raises(CtsqlError, match=condition) as refused:
        arrow_of(rows)
    assert word in refused.value.message


_PART = pa.struct([("x", pa.int32()), ("At", pa.date32())])
_DAY = date(2026, 1, 2)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ({"X": 1, "at": _DAY}, _PART, {"x": 1, "At": _DAY}),
        ((1, _DAY), _PART, {"x": 1, "At": _DAY}),
        ([{"X": 1}, None], pa.list_(_PART), [{"x": 1, "At": None}, None]),
        ({"k": {"X": 1}}, pa.map_(pa.string(), _PART), [("k", {"x": 1, "At": None})]),
        ([("k", {"x": 1})], pa.map_(pa.string(), _PART), [("k", {"x": 1, "At": None})]),
        (_DAY, pa.date32(), _DAY),
    ],
)
def test_fields_of_structs_are_found_whatever_their_case(
    value: Any, kind: pa.DataType, expected: Any
) -> None:
    assert array_of(Column("c", "?"), kind, [value, None]).to_pylist() == [expected, None]


@pytest.mark.parametrize(
    ("value", "kind", "condition", "word"),
    [
        ({"x": 1, "y": 2}, _PART, "UNKNOWN_COLUMN", "c.y"),
        ({"x": 1, "X": 2}, _PART, "DUPLICATE_COLUMN", "c.X"),
        ([{"y": 2}], pa.list_(_PART), "UNKNOWN_COLUMN", "c.y"),
        ({"at": 20_260_102}, _PART, "DATA_ERROR", "20260102 is a whole number, in c.at"),
    ],
)
def test_no_value_is_dropped_or_taken_for_another_one(
    value: Any, kind: pa.DataType, condition: str, word: str
) -> None:
    """Arrow drops what a struct has no field for, and takes a number for an instant."""
    with pytest.raises(CtsqlError, match=condition) as refused:
        array_of(Column("c", "?"), kind, [None, value])
    assert word in refused.value.message


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us", "UTC")])
def test_whole_numbers_are_no_instants_of_arrow(kind: pa.DataType) -> None:
    """Spark says what they are in such a column; among instants they are an error."""
    column = Column("c", "?")
    assert array_of(column, kind, [7, None]).type == pa.int64()
    assert array_of(column, kind, [None]).type == kind
    with pytest.raises(CtsqlError, match="7 is a whole number, in c"):
        array_of(column, kind, [_DAY, 7])
