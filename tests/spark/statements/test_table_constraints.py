"""Constraints that ctsql keeps of a table: counts, other writers, what is refused."""

import json
from collections.abc import Callable

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError, error
from ctsql.runtime.statements import table_constraints
from ctsql.runtime.statements.table_constraints import TableConstraints
from tests.helpers.opened import check_rows
from tests.helpers.table_folder import folder, log, named_files, versions

pytestmark = pytest.mark.spark


def test_rows_are_counted(connect: Callable[[], Connection]) -> None:
    """Kept out, let through, and written by others; every process shows the same counts."""
    con, other = connect(), connect()
    con.execute("""
        CREATE TABLE t (
            k INT UNIQUE, v INT CONSTRAINT few CHECK (v < 9) ON VIOLATION DROP,
            w INT CONSTRAINT some NOT NULL ON VIOLATION WARN
        )
    """)
    assert con.execute("INSERT INTO t VALUES (1, 1, 1), (2, 9, 1), (3, 1, NULL)").rowcount == 2
    assert con.execute("INSERT INTO t VALUES (4, 10, 1)").rowcount == 0
    at = folder(con, "t")
    con.spark.sql(f"INSERT INTO delta.`{at}` VALUES (1, 50, 1)")
    shown = other.execute("SHOW CONSTRAINTS FOR t").fetchall()
    assert [(r[2], r[4], r[5], r[6]) for r in shown] == [
        ("k_unique", "fail", 1, 0),
        ("few", "drop", 3, 1),
        ("some", "warn", 1, 1),
    ]
    assert shown[0][7] is None
    assert shown[1][7] > shown[2][7]
    told = other.execute("DESCRIBE EXTENDED t").fetchall()
    assert ("# constraint few", "CHECK (v < 9) ON VIOLATION DROP") in [row[:2] for row in told]
    other.execute("DELETE FROM t WHERE k = 1; INSERT INTO t VALUES (1, 1, 1)")
    check_rows(con, "SELECT * FROM t", (1, 1, 1), (3, 1, None))


def test_a_refused_statement_leaves_nothing(con: Connection) -> None:
    """No version, and no file that no version names."""
    con.execute("CREATE TABLE t (k INT UNIQUE, v INT CHECK (v > 0) ON VIOLATION DROP)")
    con.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
    at = folder(con, "t")
    before = versions(at), sorted(at.rglob("*.parquet"))
    for text in (
        "INSERT INTO t VALUES (3, -3), (1, 1)",
        "INSERT INTO t SELECT k, v + 1 FROM t",
        "UPDATE t SET k = 2 WHERE k = 1",
        "UPDATE t SET k = 7, v = v + 1 WHERE k > 0",
        "BEGIN; INSERT INTO t VALUES (2, 2); COMMIT",
    ):
        with pytest.raises(CtsqlError, match="CONSTRAINT_VIOLATED"):
            con.execute(text)
    assert (versions(at), sorted(at.rglob("*.parquet"))) == before
    assert named_files(at)


def test_another_writer_takes_a_column_away(con: Connection) -> None:
    """The statement says which constraint is about it, and how to go on."""
    con.execute("""
        CREATE TABLE t (k INT UNIQUE, v INT) TBLPROPERTIES ('delta.columnMapping.mode' = 'name');
        INSERT INTO t VALUES (1, 1)
    """)
    con.spark.sql(f"ALTER TABLE delta.`{folder(con, 't')}` RENAME COLUMN k TO key")
    with pytest.raises(CtsqlError, match="UNKNOWN_COLUMN") as caught:
        con.execute("INSERT INTO t VALUES (1, 2)")
    assert caught.value.hint == "Type: ALTER TABLE t DROP CONSTRAINT k_unique"
    con.execute("ALTER TABLE t DROP CONSTRAINT k_unique; INSERT INTO t VALUES (1, 2)")
    check_rows(con, "SELECT * FROM t", (1, 1), (1, 2))


def test_a_writer_of_jobs_keeps_a_constraint_that_came_later(con: Connection) -> None:
    """Rows that were staged before it are looked at when they are to be committed."""
    con.execute("CREATE TABLE t (k INT)")
    writer = con.writer("t", "job")
    staged = writer.stage([(1,), (1,)], lower=0, upper=1)
    con.execute("ALTER TABLE t ADD CONSTRAINT one UNIQUE (k)")
    for write in (writer.append, lambda **given: writer.compare_and_append(
        expected_upper=given["lower"], new_upper=given["upper"], batches=given["batches"]
    )):  # fmt: skip
        with pytest.raises(CtsqlError, match="CONSTRAINT_VIOLATED"):
            write(lower=0, upper=1, batches=[staged])
    assert con.execute("SELECT * FROM t").fetchall() == []
    con.execute("ALTER TABLE t DROP CONSTRAINT one")
    assert writer.append(lower=0, upper=1, batches=[staged]) == 1
    check_rows(con, "SELECT * FROM t", (1,), (1,))


def test_what_is_referred_to_stays_when_adding_a_constraint_is_cut_off(
    con: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In front of the table's commit, and behind it; DROP CONSTRAINT ends either."""
    con.execute("CREATE TABLE t (k INT); CREATE TABLE one (k INT); CREATE TABLE two (k INT)")

    def ends_with(owner: object, step: str, text: str) -> None:
        def cut_off(*_: object, **__: object) -> None:
            raise error("STATEMENT_CANCELLED")

        with monkeypatch.context() as patched:
            patched.setattr(owner, step, cut_off)
            with pytest.raises(CtsqlError, match="STATEMENT_CANCELLED"):
                con.execute(text)

    add = "ALTER TABLE t ADD CONSTRAINT {0} FOREIGN KEY (k) REFERENCES {0} (k)"
    ends_with(table_constraints, "set_properties", add.format("one"))
    ends_with(TableConstraints, "_note", add.format("two"))
    assert [r[2] for r in con.execute("SHOW CONSTRAINTS FOR t").fetchall()] == ["two"]
    ((_, text),) = con.execute("SHOW CREATE TABLE t").fetchall()
    assert text.endswith("ADD CONSTRAINT two FOREIGN KEY (k) REFERENCES default.two (k)")
    for name in ("one", "two"):
        with pytest.raises(CtsqlError, match=f'Constraint "{name}" of table "t" refers to it'):
            con.execute(f"DROP TABLE {name}")
        con.execute(f"ALTER TABLE t DROP CONSTRAINT {name}; DROP TABLE {name}")
    con.execute("INSERT INTO t VALUES (1)")


def test_adding_a_constraint_is_tried_again(
    con: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut off behind the table's commit, it is there, and is noted by the next try, once."""
    con.execute("CREATE TABLE one (k INT); CREATE TABLE t AS SELECT 1 AS k, 2 AS v")

    def cut_off(*_: object, **__: object) -> None:
        raise error("STATEMENT_CANCELLED")

    added = (
        "UNIQUE (k)",
        "CONSTRAINT fk FOREIGN KEY (k) REFERENCES one (k) ON VIOLATION WARN",
        "CONSTRAINT c CHECK ( v>0 )",
    )
    for text in added:
        with monkeypatch.context() as patched:
            patched.setattr(TableConstraints, "_note", cut_off)
            with pytest.raises(CtsqlError, match="STATEMENT_CANCELLED"):
                con.execute(f"ALTER TABLE t ADD {text}")
        with pytest.raises(CtsqlError, match="INVALID_STATEMENT"):
            con.execute("ALTER TABLE t ADD CONSTRAINT k_unique UNIQUE (v)")
        con.execute(f"ALTER TABLE t ADD {text}")
    ((_, made),) = con.execute("SHOW CREATE TABLE t").fetchall()
    assert made.count("ADD CONSTRAINT") == len(added)
    assert len(con.execute("SHOW CONSTRAINTS FOR t").fetchall()) == len(added)
    with pytest.raises(CtsqlError, match="INVALID_STATEMENT"):
        con.execute("ALTER TABLE t ADD CONSTRAINT c CHECK (v > 0)")


def test_no_file_without_rows(con: Connection) -> None:
    """Where constraints leave out all rows of a statement."""
    con.execute("CREATE TABLE t (k INT, v INT CHECK (v > 0) ON VIOLATION DROP)")
    con.execute("INSERT INTO t VALUES (1, 1)")
    for text in (
        "INSERT INTO t VALUES (2, 0)",
        "INSERT INTO t SELECT id, -1 FROM range(3)",
        "UPDATE t SET v = v - 1",
        "BEGIN; INSERT INTO t VALUES (3, -1); COMMIT",
    ):
        assert con.execute(text).rowcount <= 0
    check_rows(con, "SELECT * FROM t", (1, 1))
    adds = [
        action["add"] for commit in log(folder(con, "t")) for action in commit if "add" in action
    ]
    assert all(json.loads(add["stats"])["numRecords"] for add in adds)


def test_files_that_do_not_say_how_many_rows_they_have(con: Connection) -> None:
    """Rows of theirs cannot be numbered: they are changed as ever, and none is left out."""
    con.execute("CREATE TABLE t (k INT UNIQUE, v INT CHECK (v > 0) ON VIOLATION DROP)")
    plain = con.spark.newSession()
    plain.conf.set("spark.databricks.delta.stats.collect", "false")
    plain.sql(f"INSERT INTO delta.`{folder(con, 't')}` VALUES (1, 1), (2, 2)")
    with pytest.raises(CtsqlError, match="NOT_SUPPORTED"):
        con.execute("UPDATE t SET v = v - 1 WHERE v > 0")
    check_rows(con, "SELECT * FROM t", (1, 1), (2, 2))
    con.execute("UPDATE t SET v = v + 1 WHERE v > 0")
    check_rows(con, "SELECT * FROM t", (1, 2), (2, 3))


def test_rows_of_files_without_counts_that_go_are_known(con: Connection) -> None:
    """Files that go as a whole do not say how many rows they had; their keys are free again."""
    con.execute("CREATE TABLE t (k INT UNIQUE, v INT)")
    plain = con.spark.newSession()
    plain.conf.set("spark.databricks.delta.stats.collect", "false")
    plain.sql(f"INSERT INTO delta.`{folder(con, 't')}` VALUES (1, 1), (2, 2)")
    con.execute("BEGIN; DELETE FROM t; INSERT INTO t VALUES (1, 5), (3, 5); COMMIT")
    check_rows(con, "SELECT * FROM t", (1, 5), (3, 5))
    with pytest.raises(CtsqlError, match="CONSTRAINT_VIOLATED"):
        con.execute("BEGIN; DELETE FROM t WHERE k = 3; INSERT INTO t VALUES (1, 6); COMMIT")
