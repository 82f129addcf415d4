"""Constraints of tables: who writes rows that break one, and what a killed process leaves."""

from collections.abc import Callable

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from tests.helpers.opened import check_rows
from tests.helpers.table_folder import folder, versions

GIVEN = {"(3, -3)": (3, -3), "(NULL, 3)": (None, 3)}
ERRORS = (
    'constraint "pos" is broken by a row with v : -3',
    "NOT NULL constraint violated for column: k",
)


def test_whoever_writes_is_refused(con: Connection) -> None:
    """Statements, transactions, append and writer: the error names the rule; nothing is left."""
    con.execute("CREATE TABLE t (k INT NOT NULL, v INT, CONSTRAINT pos CHECK (v > 0))")
    con.execute("INSERT INTO t VALUES (1, 1), (2, NULL)")
    at = folder(con, "t")
    before = versions(at)
    writer = con.writer("t", "job")
    sources = (
        lambda row: con.execute(f"INSERT INTO t VALUES (9, 9), {row}"),
        lambda row: con.execute(f"INSERT INTO t SELECT * FROM VALUES (9, 9), {row}"),
        lambda row: con.execute(f"BEGIN; INSERT INTO t VALUES (9, 9); INSERT INTO t VALUES {row}"),
        lambda row: con.append("t", [(9, 9), GIVEN[row]]),
        lambda row: writer.append([(9, 9), GIVEN[row]], lower=0, upper=1),
    )
    for write in sources:
        for row, told in zip(GIVEN, ERRORS, strict=True):
            with pytest.raises(CtsqlError, match="DATA_ERROR") as caught:
                write(row)
            assert caught.value.message == told
            if con.in_transaction:
                con.execute("ROLLBACK")
    assert versions(at) == before
    check_rows(con, "SELECT * FROM t", (1, 1), (2, None))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ("ADD CONSTRAINT pos CHECK (v > 0)", "CONSTRAINT pos CHECK (v > 0)"),
        ("ALTER COLUMN k SET NOT NULL", "NOT NULL (k)"),
    ],
)
def test_rows_that_were_staged_before_a_constraint(con: Connection, change: str, rule: str) -> None:
    """They may break it, so they are refused; staged again they are looked at."""
    con.execute("CREATE TABLE t (k INT, v INT)")
    writer = con.writer("t", "job")
    staged = writer.stage([(1, -1), (None, 1)], lower=0, upper=1)
    con.execute(f"ALTER TABLE t {change}")
    for write in (writer.append, lambda **given: writer.compare_and_append(
        expected_upper=given["lower"], new_upper=given["upper"], batches=given["batches"]
    )):  # fmt: skip
        with pytest.raises(CtsqlError, match="ALTERED_MEANWHILE") as caught:
            write(lower=0, upper=1, batches=[staged])
        assert rule in (caught.value.detail or "")
    assert con.execute("SELECT * FROM t").fetchall() == []
    writer.discard(staged)
    with pytest.raises(CtsqlError, match="DATA_ERROR"):
        writer.stage([(1, -1), (None, 1)], lower=0, upper=1)
    again = writer.stage([(1, 1)], lower=0, upper=1)
    con.execute("ALTER TABLE t ADD COLUMN w INT")
    assert writer.append(lower=0, upper=1, batches=[again]) == 1
    check_rows(con, "SELECT * FROM t", (1, 1, None))


def test_rows_of_a_transaction_that_began_before_a_constraint(
    connect: Callable[[], Connection],
) -> None:
    """Its rows were staged without it: the other one was first."""
    con, other = connect(), connect()
    con.execute("CREATE TABLE t (v INT); BEGIN; INSERT INTO t VALUES (-1)")
    other.execute("ALTER TABLE t ADD CONSTRAINT pos CHECK (v > 0)")
    with pytest.raises(CtsqlError, match="TRANSACTION_CONFLICT"):
        con.execute("COMMIT")
    assert con.execute("SELECT * FROM t").fetchall() == []
