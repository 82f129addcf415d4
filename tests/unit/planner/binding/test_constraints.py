"""Which keys a constraint may compare."""

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.schemas import Column
from ctsql.planner.binding.constraints import check_reference
from ctsql.planner.syntax.ast import CreateContinualTask
from tests.helpers.parsed import parsed


def _check(one: str, other: str) -> None:
    made = parsed(
        f"CREATE CONTINUAL TASK x (k {one} REFERENCES t (k))"
        " ON INPUT t AS (INSERT INTO x SELECT k FROM t)"
    )
    assert isinstance(made, CreateContinualTask)
    (constraint,) = made.constraints
    check_reference(constraint, [Column("k", one)], [Column("k", other)])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("INT", "bigint"),
        ("bigint", "TINYINT"),
        ("INT", "decimal(10,2)"),
        ("DECIMAL(20, 4)", "decimal(30,8)"),
        ("DECIMAL(38, 0)", "decimal(38,0)"),
        ("DECIMAL", "decimal(10,0)"),
        ("STRING", "char(5)"),
        ("varchar(3)", "CHAR(8)"),
        ("DATE", "date"),
        ("TIMESTAMP", "TIMESTAMP_LTZ"),
        ("BOOLEAN", "boolean"),
        ("BINARY", "binary"),
    ],
)
def test_keys_that_are_compared_as_they_are(one: str, other: str) -> None:
    """A wider type has all values of the other, distinct ones distinctly."""
    _check(one, other)
    _check(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("INT", "string"),
        ("DATE", "string"),
        ("BOOLEAN", "string"),
        ("BOOLEAN", "int"),
        ("BINARY", "string"),
        ("DATE", "timestamp"),
        ("TIMESTAMP", "timestamp_ntz"),
        ("DECIMAL(38, 0)", "decimal(38,10)"),
        ("BIGINT", "decimal(38,20)"),
    ],
)
def test_keys_that_are_cast_before_they_are_compared(one: str, other: str) -> None:
    """Several values of one type may equal a value of the other, so they are refused."""
    for pair in ((one, other), (other, one)):
        with pytest.raises(CtsqlError, match="refers to one of"):
            _check(*pair)
