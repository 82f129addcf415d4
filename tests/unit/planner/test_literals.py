"""Values for the ``?`` of a statement become literals of Spark SQL."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ctsql
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.spans import Source
from ctsql.planner.literals import literal, literals

CASES: list[tuple[object, str]] = [
    (None, "NULL"),
    (True, "TRUE"),
    (False, "FALSE"),
    (0, "0"),
    (-5, "(-5)"),
    (2**31, "2147483648L"),
    (-(2**31), "(-2147483648L)"),
    (2**63, "CAST('9223372036854775808' AS DECIMAL(38, 0))"),
    (1.5, "double('1.5')"),
    (-0.0, "double('-0.0')"),
    (float("nan"), "double('NaN')"),
    (float("-inf"), "double('-Infinity')"),
    (Decimal("1.10"), "1.10BD"),
    (Decimal("1E+3"), "1000BD"),
    (Decimal("-1.5"), "(-1.5BD)"),  # behind a minus: no comment
    (Decimal("sNaN"), "double('NaN')"),
    (np.float64(1.5), "double('1.5')"),
    (np.float32(0.5), "double('0.5')"),
    (np.int64(-5), "(-5)"),
    (np.bool_(True), "TRUE"),
    ([np.int32(1)], "array(1)"),
    (pd.NaT, "NULL"),
    ("it's", "'it\\'s'"),
    ("a\\b", "'a\\\\b'"),
    ("; DROP TABLE t --", "'; DROP TABLE t --'"),
    (b"\x00\xff", "X'00ff'"),
    (date(1899, 12, 31), "DATE '1899-12-31'"),
    (datetime(2026, 1, 2, 3, 4, 5), "TIMESTAMP_NTZ '2026-01-02 03:04:05'"),
    (datetime(2026, 1, 2, tzinfo=UTC), "TIMESTAMP '2026-01-02 00:00:00+00:00'"),
    (
        datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=-3))),
        "TIMESTAMP '2026-01-02 00:00:00-03:00'",
    ),
    ([1, None], "array(1, NULL)"),
    ({"a": [1]}, "map('a', array(1))"),
]


@pytest.mark.parametrize(("value", "text"), CASES, ids=[repr(v) for v, _ in CASES])
def test_literal(value: object, text: str) -> None:
    """Each kind of value has one spelling."""
    assert literal(value) == text


def test_what_has_no_literal_is_refused() -> None:
    """With the type's name."""
    with pytest.raises(CtsqlError, match="set") as refused:
        literal({1, 2})
    assert refused.value.condition == "INVALID_USAGE"


def _nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("\ud800", "parameter number 1 is not text"),
        (["a", {"b": "\udcff"}], "parameter number 1 is not text"),
        (_nested(100_000), "parameter number 1 is nested too deeply"),
        (10**38, "an int with so many digits cannot be passed"),
        (-(10**5_000), "an int with so many digits cannot be passed"),
        (Decimal("1E+1000000"), "a Decimal with so many digits cannot be passed"),
        (Decimal("0." + "1" * 39), "a Decimal with so many digits cannot be passed"),
    ],
    ids=range(7),
)
def test_values_that_spark_cannot_be_given(value: object, message: str) -> None:
    """Each is refused before Spark is asked, with the parameter."""
    with pytest.raises(CtsqlError) as refused:
        literals([Source("?").whole()], [value])
    assert (refused.value.condition, refused.value.message) == ("INVALID_USAGE", message)


@pytest.mark.parametrize("parameters", [5, "text", b"bytes"])
def test_parameters_are_a_collection(parameters: Any) -> None:
    """One value alone is none."""
    with pytest.raises(CtsqlError, match="parameters are a list, or a dict for :name"):
        literals([Source("?").whole()], parameters)


def test_parameters_may_be_an_array() -> None:
    """One of NumPy has no truth value."""
    assert literals([Source("?").whole()], np.array([5])) == ("5",)
    with pytest.raises(CtsqlError, match="exactly one statement"):
        ctsql.connect("nowhere").execute("SELECT 1; SELECT 2", np.array([1, 2]))
