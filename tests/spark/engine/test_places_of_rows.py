"""An error of a row is shown at its place in the user's text, whenever Spark computes the row."""

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from tests.scenarios.runner import expect_error

STATEMENTS = [
    ("SELECT s,\n  CAST(s AS INT) FROM t", "CAST(s AS INT)"),
    ("SELECT 1 / (n - 3) AS q FROM t x", "1 / (n - 3)"),
    ("SELECT q.s FROM (SELECT s, n + 1 AS m FROM t) q WHERE q.s = 7", "q.s = 7"),
    ("UPDATE t SET n = CAST(s AS INT)", "CAST(s AS INT)"),
    ("DELETE FROM t WHERE CAST(s AS DATE) < current_date()", "CAST(s AS DATE)"),
    ("INSERT INTO t SELECT s, CAST(s AS INT) FROM t", "CAST(s AS INT)"),
    ("CREATE MATERIALIZED VIEW v AS SELECT n, 10 DIV (n - 3) AS q FROM t", "10 DIV (n - 3)"),
    ("CREATE TABLE u AS SELECT CAST(s AS INT) AS n FROM t", "CAST(s AS INT)"),
]


@pytest.fixture
def filled(con: Connection) -> Connection:
    con.execute("CREATE TABLE t (s STRING, n INT); INSERT INTO t VALUES ('x', 3), ('4', 5)")
    return con


def test_places(filled: Connection) -> None:
    """The piece of the text that Spark was computing, in the user's own words."""
    for text, piece in STATEMENTS:
        with pytest.raises(CtsqlError) as raised:
            filled.execute(text).fetchall()
        span = raised.value.span
        assert span is not None, text
        assert span.text == piece, text
        assert "__ct" not in str(raised.value), text


def test_a_failed_task_shows_place_and_rows(filled: Connection) -> None:
    """The rows that came in at that T, a long one cut, and where in the body it stopped."""
    filled.execute(
        "CREATE CONTINUAL TASK c (s STRING, n INT) ON INPUT t WITH (SNAPSHOT = false) AS "
        "(INSERT INTO c SELECT s, CAST(s AS INT) FROM t)"
    )
    filled.execute("INSERT INTO t VALUES ('5', 1), ('bad', NULL)")
    failed = expect_error(filled, "SELECT * FROM c", "TASK_FAILED")
    assert failed.span is not None
    assert failed.span.text == "CAST(s AS INT)"
    assert failed.detail is not None
    rows = failed.detail.split('Rows of "t" at that T: ')[1]
    assert set(rows.split(", ")) == {'{"s":"5","n":1}', '{"s":"bad","n":null}'}
    filled.execute("ALTER CONTINUAL TASK c SKIP")
    filled.execute(f"INSERT INTO t SELECT '{'y' * 300}', id FROM range(9)")
    failed = expect_error(filled, "SELECT * FROM c", "TASK_FAILED")
    assert failed.detail is not None
    assert failed.detail.count("yyy...") == 3
    assert failed.detail.endswith(", ...")
