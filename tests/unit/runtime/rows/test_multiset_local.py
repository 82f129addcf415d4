"""Rows as values that are equal exactly when the rows are, whatever Python can hold. No JVM."""

import pyarrow as pa
import pytest

from ctsql.runtime.rows.multiset_local import keys

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
    ids=[
        "date",
        "instant",
        "local",
        "interval",
        "not UTF-8",
        "binary",
        "NUL",
        "zeros",
        "no number",
    ],
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
