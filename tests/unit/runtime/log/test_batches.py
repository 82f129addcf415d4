"""Staged batches as text, writer ids, and bounds: what is read back, and what is refused."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.times import CLOSED
from ctsql.runtime.log.batches import (
    BatchPart,
    BatchText,
    StagedDelete,
    StagedFile,
    check_bounds,
    check_writer_id,
    new_writer_id,
)


def _add(path: str) -> str:
    return json.dumps({"add": {"path": path, "size": 1}})


def _batch(times: tuple[int, ...] = (3, 4)) -> BatchText:
    return BatchText(
        batch_id="b",
        writer=new_writer_id(),
        table_id="t",
        app="a",
        lower=3,
        upper=6,
        version=7,
        parts=tuple(
            BatchPart(
                time,
                (StagedFile(f"new%20{time}.parquet", _add(f"new%20{time}.parquet")),),
                (
                    StagedDelete(
                        path="old.parquet",
                        rows_count=2,
                        known_vector="",
                        action=_add("old.parquet"),
                        vector_file=f"vector{time}.bin",
                    ),
                    StagedDelete(
                        path="gone.parquet",
                        rows_count=1,
                        known_vector="x@1",
                        action=None,
                        vector_file=None,
                    ),
                ),
            )
            for time in times
        ),
    )


def test_a_text_reads_back_the_same() -> None:
    """All of it, also the empty batch."""
    for batch in (_batch(), replace(_batch(), parts=()), replace(_batch(), schema="{}")):
        assert BatchText.from_json(batch.to_json()) == batch


def test_the_files_of_a_part_are_decoded_paths() -> None:
    """Data files by what they are called on disk, and vector files."""
    (part,) = _batch((3,)).parts
    assert part.own_files() == {"new 3.parquet", "vector3.bin"}


@pytest.mark.parametrize(
    ("upper", "times", "dropped_times"), [(3, [3, 4], []), (4, [4], [3]), (5, [], [3, 4])]
)
def test_cut(upper: int, times: list[int], dropped_times: list[int]) -> None:
    """Parts below the upper are dropped; the bounds stay."""
    left, gone = _batch().truncate(upper)
    assert [p.time for p in left.parts] == times
    assert [p.time for p in gone] == dropped_times
    assert (left.lower, left.upper) == (3, 6)


@given(st.data())
def test_a_truncated_text_is_refused(data: st.DataObject) -> None:
    """However much is missing at its end, it is no batch."""
    text = _batch().to_json()
    length = data.draw(st.integers(0, len(text) - 1))
    with pytest.raises(CtsqlError, match="BATCH_INVALID"):
        BatchText.from_json(text[:length])


def _changed(**changes: Any) -> str:
    return json.dumps({**json.loads(_batch().to_json()), **changes})


def _part(**changes: Any) -> str:
    part = json.loads(_batch((3,)).to_json())["parts"][0]
    return _changed(parts=[{**part, **changes}])


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "[]",
        "7",
        "{}",
        '{"kind": "something else"}',
        '{"add": {"path": "x"}}',
        _changed(format=0),
        _changed(format=2),
        _changed(format="1"),
        _changed(format=True),
        _changed(lower="3"),
        _changed(version=None),
        _changed(parts={}),
        _changed(parts=[7]),
        _changed(schema=7),
        _part(time=3.5),
        _part(inserts=[{"path": "/etc/passwd", "action": _add("/etc/passwd")}]),
        _part(inserts=[{"path": "../x", "action": _add("../x")}]),
        _part(inserts=[{"path": "a/%2e%2e/x", "action": _add("a/%2e%2e/x")}]),
        _part(inserts=[{"path": "file:/x", "action": _add("file:/x")}]),
        _part(inserts=[{"path": "x", "action": _add("y")}]),
        _part(inserts=[{"path": "x", "action": "{}"}]),
        _part(inserts=[{"path": "x", "action": '{"add": 7}'}]),
        _part(inserts=[{"path": "x"}]),
    ],
)
def test_something_else_is_refused(text: str) -> None:
    """JSON of another kind, missing or wrong fields, files outside of the table."""
    with pytest.raises(CtsqlError, match="BATCH_INVALID"):
        BatchText.from_json(text)


def test_a_text_whose_updates_are_out_of_its_bounds() -> None:
    """It says [3, 6) and holds something at 6."""
    with pytest.raises(CtsqlError, match="at or past the upper 6"):
        BatchText.from_json(_part(time=6))


@pytest.mark.parametrize(
    ("lower", "upper", "times", "condition"),
    [
        (0, 3, [0, 2], None),
        (3, 3, [], None),
        (9, CLOSED, [9, 10**15], None),
        (CLOSED, CLOSED, [], None),
        (9, 8, [], "BOUNDS_INVALID"),
        (9, 10, [10], "BOUNDS_INVALID"),
        (9, 10, [8], "BOUNDS_INVALID"),
        (9, 9, [9], "BOUNDS_INVALID"),
        (CLOSED, CLOSED, [11], "OUTPUT_CLOSED"),
    ],
)
def test_bounds(lower: int, upper: int, times: list[int], condition: str | None) -> None:
    """Uppers are exclusive, and nothing follows the last one."""
    if condition is None:
        check_bounds(lower, upper, times)
        return
    with pytest.raises(CtsqlError, match=condition):
        check_bounds(lower, upper, times)


def test_a_writer_id_is_one() -> None:
    """Its text is w and a UUID, which no other handle has."""
    assert new_writer_id() != new_writer_id()
    check_writer_id(new_writer_id())
    check_writer_id("w00000000-0000-0000-0000-000000000007")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "w",
        "00000000-0000-0000-0000-000000000000",
        "x00000000-0000-0000-0000-000000000000",
        "w00000000-0000-0000-0000-00000000000",
        "w00000000-0000-0000-0000-000000000000 ",
        "w00000000-0000-0000-0000-00000000000g",
        "W00000000-0000-0000-0000-000000000000",
    ],
)
def test_any_other_text_is_no_writer_id(text: str) -> None:
    """The error shows the text."""
    with pytest.raises(CtsqlError, match="INVALID_NAME") as caught:
        check_writer_id(text)
    assert f'"{text}"' in caught.value.message
