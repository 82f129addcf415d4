"""Rows as values that are equal exactly when the rows are, whatever Python can hold. No JVM."""

import struct

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from ctsql.runtime.rows.multiset import add_up, distinct, keys

_NOT_UTF8 = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.py_buffer(bytes([0, 0, 0, 0, 1, 0, 0, 0])), pa.py_buffer(b"\xff")]
)
_LOST = pa.array(["\ufffd"])
FAR = -5_000_000  # days or more: before the year 1
DATES = pa.array([FAR, FAR + 1], pa.int32()).cast(pa.date32())
INSTANTS = pa.array([-(2**63) + 1, 2**63 - 1], pa.int64())


@pytest.mark.parametrize(
    "values",
    [
        DATES,
        INSTANTS.cast(pa.timestamp("us", "UTC")),
        INSTANTS.cast(pa.timestamp("us")),
        INSTANTS.cast(pa.duration("us")),
        pa.concat_arrays([_NOT_UTF8, _LOST]),
        pa.array([b"", b"\0"]),
        pa.array(["", "\0"]),
        pa.array([0.0, -0.0]),
        pa.array([float("nan"), float("inf")]),
    ],
    ids=["date", "instant", "local", "interval", "not-UTF-8", "binary", "NUL", "zeros", "NaN"],
)
def test_edges_are_told_apart(values: pa.Array) -> None:
    """As they are, in a list, in a struct and in a map; and each equals itself."""
    offsets = pa.array([0, 1, 2], pa.int32())
    for column in (
        values,
        pa.ListArray.from_arrays(offsets, values),
        pa.StructArray.from_arrays([values], ["a"]),
        pa.MapArray.from_arrays(offsets, pa.array(["k", "k"]), values),
    ):
        one, other = keys(pa.table({"v": column}))
        assert one != other
        assert [one, other] == keys(pa.table({"v": column}))


OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]
VALUES = st.sampled_from([None, 0.0, -0.0, 1.5, float("nan"), OTHER_NAN, float("inf")])
ROWS = st.lists(st.tuples(VALUES, VALUES, st.sampled_from([None, "", "a"]), st.integers(-2, 2)))


@given(ROWS, st.integers(0, 5))
def test_signed_rows_are_added_up(rows: list[tuple[float, float, str, int]], cut: int) -> None:
    """Each row is there once, with the sum of its diffs unless that is 0; types stay."""
    schema = pa.schema([("[a", pa.float64()), (".b", pa.float32()), ("c", pa.string())])
    schema = schema.append(pa.field("d", pa.int64()))
    columns = list(zip(*rows, strict=True)) or [()] * 4
    table = pa.table([pa.array(c, t) for c, t in zip(columns, schema.types, strict=True)], schema)
    made = add_up(pa.concat_tables([table.slice(0, cut), table.slice(cut)]), "d")
    assert made.schema == schema
    expected: dict[object, int] = {}
    for key, diff in zip(keys(table.drop_columns(["d"])), table["d"].to_pylist(), strict=True):
        expected[key] = expected.get(key, 0) + diff
    found = list(zip(keys(made.drop_columns(["d"])), made["d"].to_pylist(), strict=True))
    assert len(dict(found)) == len(found)
    assert dict(found) == {key: diff for key, diff in expected.items() if diff}


@given(st.lists(st.tuples(st.integers(0, 2) | st.none(), st.sampled_from(["", "a", "A", None]))))
def test_each_row_once(rows: list[tuple[int | None, str | None]]) -> None:
    """Under the names that the columns had; NULL equals NULL."""
    columns = [
        pa.array([r[0] for r in rows], pa.int64()),
        pa.array([r[1] for r in rows], pa.string()),
    ]
    found = distinct(pa.table(columns, [".k", "[s"]))
    assert found.schema.names == [".k", "[s"]
    there = zip(*(c.to_pylist() for c in found.columns), strict=True)
    assert sorted(there, key=repr) == sorted(set(rows), key=repr)
