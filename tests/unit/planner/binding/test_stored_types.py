"""Columns of types that no table can have are refused before Delta is asked."""

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.schemas import Column
from ctsql.catalog.spans import Source
from ctsql.planner.binding.checks import check_type

PLACE = Source("c", "<test>").whole()


@pytest.mark.parametrize(
    "type_",
    [
        "INTERVAL",
        "interval day to second",
        "TIME",
        "time ( 6 )",
        "STRUCT<x: INTERVAL YEAR>",
        "struct<x time>",
        "map<string,time(6)>",
        "array<interval month>",
    ],
)
def test_types_that_delta_lacks(type_: str) -> None:
    """An INTERVAL or a TIME, also within another type."""
    with pytest.raises(CtsqlError, match="NOT_SUPPORTED") as caught:
        check_type(Column("c", type_), PLACE)
    assert type_.upper() in str(caught.value)


@pytest.mark.parametrize(
    ("type_", "cast"),
    [
        ("void", "CAST(NULL AS string)"),
        ("VOID", "CAST(NULL AS string)"),
        ("array<void>", "CAST(... AS array<string>)"),
        ("map<int,void>", "CAST(... AS map<int,string>)"),
        ("struct<X:void,y:array<void>>", "CAST(... AS struct<X:string,y:array<string>>)"),
        ("struct<x void>", "CAST(... AS struct<x string>)"),
    ],
)
def test_no_type(type_: str, cast: str) -> None:
    """However it is spelt and wherever it is; the hint has the cast to type."""
    with pytest.raises(CtsqlError, match="INVALID_COLUMN_TYPE") as caught:
        check_type(Column("c", type_), PLACE)
    assert cast in str(caught.value.hint)
    assert '"c"' in str(caught.value.hint)


@pytest.mark.parametrize(
    "type_",
    [
        "timestamp",
        "timestamp_ntz",
        "struct<time: int>",
        "struct<interval: int, time:string>",
        "struct<time int>",
        "struct<interval int>",
        "struct<`time`: int>",
        "struct<void: int>",
        "struct<`a,void`:int,`b, time`:int>",
    ],
)
def test_fields_may_be_called_as_types_are(type_: str) -> None:
    """And types may begin as one of these does."""
    check_type(Column("c", type_), PLACE)
