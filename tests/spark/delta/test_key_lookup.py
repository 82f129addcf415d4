"""Rows found by key are those that Spark would find: after many ticks, of every type."""

from collections.abc import Callable

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import Declined
from ctsql.runtime.delta import keyed_scan
from ctsql.runtime.rows.row_set import LocalRows
from ctsql.runtime.warehouse import sources
from tests.scenarios.runner import assert_rows

Found = LocalRows | Declined | None
"""What a lookup gives."""


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Found]:
    """What every lookup gave."""
    given: list[Found] = []
    original: Callable[..., Found] = keyed_scan.find_with_keys

    def noted(*args: object) -> Found:
        given.append(original(*args))
        return given[-1]

    monkeypatch.setattr(sources, "find_with_keys", noted)
    return given


def test_lookups_that_spark_does(con: Connection, found: list[Found]) -> None:
    """Other types than the column's, and fractions, are compared as Spark compares them."""
    con.execute(
        "CREATE TABLE f (k BIGINT, d DOUBLE);"
        "CREATE CONTINUAL TASK n (k INT) ON INPUT f AS ("
        " DELETE FROM n WHERE k IN (SELECT k FROM f); INSERT INTO n SELECT CAST(k AS INT) FROM f);"
        "CREATE CONTINUAL TASK d (d DOUBLE) ON INPUT f AS ("
        " DELETE FROM d WHERE d IN (SELECT d FROM f); INSERT INTO d SELECT d FROM f);"
        "INSERT INTO f VALUES (1, 0.0), (2, double('NaN'));"
        "INSERT INTO f VALUES (1, double('-0.0')), (3, double('NaN'))"
    )
    con.run(once=True)
    assert_rows(con.execute("SELECT * FROM n").fetchall(), [(1,), (2,), (3,)], "n")
    stored = con.execute("SELECT string(d) FROM d").fetchall()
    assert_rows(stored, [("-0.0",), ("NaN",)], "d")
    assert all(isinstance(f, Declined) for f in found)


@pytest.mark.parametrize("other", ["INT", "ARRAY<INT>"])
def test_rows_that_are_gone_are_not_found(con: Connection, found: list[Found], other: str) -> None:
    """A key that was deleted is not there, and rows of the same file that are stay.

    So it is when Spark reads the files, as those of a table with a nested column.
    """
    con.execute(
        f"CREATE TABLE f (k INT, l INT, v INT, a {other});"
        f"CREATE CONTINUAL TASK u (k INT, l INT, v INT, a {other}) ON INPUT f AS ("
        " DELETE FROM u WHERE (l, k) IN (SELECT l, k FROM f);"
        " INSERT INTO u SELECT * FROM f WHERE v > 0);"
        f"CREATE CONTINUAL TASK none (k INT, l INT, v INT, a {other}) ON INPUT f AS ("
        " INSERT INTO none SELECT * FROM f;"
        " DELETE FROM none WHERE k IN (SELECT k FROM f))"
    )
    con.execute("INSERT INTO f (k, l, v) VALUES (1, 1, 5), (1, 2, 6), (2, 1, 7), (3, 3, 8)")
    for _ in range(2):
        con.execute("INSERT INTO f (k, l, v) VALUES (1, 2, 0), (9, 9, 0)")
        assert_rows(
            con.execute("SELECT k, l, v FROM u").fetchall(), [(1, 1, 5), (2, 1, 7), (3, 3, 8)], "u"
        )
    assert con.execute("SELECT * FROM none").fetchall() == []
    con.execute("INSERT INTO f (k, l, v) VALUES (70, 70, 0)")
    assert con.execute("SELECT count(*) FROM u").fetchall() == [(3,)]
    assert found[-1] is None
