"""A folder's CREATE TABLE of a table that is there: the table becomes what it says."""

import json
from collections.abc import Callable

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.cli.folder_commands import exit_code, lines_of
from tests.helpers.opened import check_rows
from tests.helpers.sql_folder import (
    applied,
    change_of,
    dumped,
    moments_of,
    planned,
    statuses,
)

OLD = """
CREATE TABLE t (k INT, v INT);
CREATE TABLE other (id INT);
CREATE MATERIALIZED VIEW named AS SELECT k, v FROM t;
CREATE MATERIALIZED VIEW counted AS SELECT k, count(*) AS n FROM t GROUP BY k;
CREATE VIEW whole AS SELECT * FROM t;
CREATE MATERIALIZED VIEW sums AS SELECT k, sum(v) AS s FROM whole GROUP BY k;
CREATE CONTINUAL TASK log (k INT, v INT) ON INPUT t AS (INSERT INTO log SELECT k, v FROM t);
"""
NEW = """
CREATE TABLE t (
    k INT NOT NULL, v INT8, note TEXT DEFAULT 'none' COMMENT 'a remark',
    CONSTRAINT few CHECK (k < 100), CHECK (v < 1000)
);
CREATE TABLE other (id INT CHECK (id > 0));
CREATE MATERIALIZED VIEW named AS SELECT k, v FROM t;
CREATE MATERIALIZED VIEW counted AS SELECT k, count(*) AS n FROM t GROUP BY k;
CREATE VIEW whole AS SELECT * FROM t;
CREATE MATERIALIZED VIEW sums AS SELECT k, sum(v) AS s FROM whole GROUP BY k;
CREATE CONTINUAL TASK log (k INT, v INT) ON INPUT t AS (INSERT INTO log SELECT k, v FROM t);
CREATE MATERIALIZED VIEW notes AS SELECT note, count(*) AS n FROM whole GROUP BY note;
"""


def test_tables_become_what_the_folder_says(connect: Callable[[], Connection]) -> None:
    """Columns, types, defaults and constraints, and what reads them, in one apply."""
    con, other = connect(), connect()
    applied(con, OLD)
    con.execute("INSERT INTO t VALUES (1, 5), (2, 6); INSERT INTO other VALUES (1)")
    check_rows(con, "SELECT * FROM named", (1, 5), (2, 6))
    check_rows(con, "SELECT * FROM log", (1, 5), (2, 6))
    made = planned(con, NEW)
    assert statuses(made) == {
        "t": "changed columns defaults constraints comment",
        "other": "changed constraints",
        "named": "changed columns",
        "counted": "unchanged",
        "whole": "changed columns",
        "sums": "unchanged",
        "log": "unchanged",
        "notes": "new",
    }
    change = change_of(made, "t")
    assert change.alterations == (
        "ALTER TABLE t ALTER COLUMN k SET NOT NULL",
        "ALTER TABLE t ALTER COLUMN v TYPE bigint",
        "ALTER TABLE t ADD COLUMN note string",
        "ALTER TABLE t ALTER COLUMN note SET DEFAULT 'none'",
        "ALTER TABLE t ADD CONSTRAINT few CHECK (k < 100)",
        "ALTER TABLE t ADD CONSTRAINT check CHECK (v < 1000)",
    )
    told = "\n".join(lines_of(made))
    assert "altered before the definitions change" in told
    assert "    ALTER TABLE t ADD COLUMN note string" in told
    assert "    Type widening is turned on for it" in told
    assert "    Continual task log: It reads the column. If it stores" in told
    assert "Materialized view named" not in told, "it is built anew"
    assert json.loads(json.dumps(made.to_json()))["changes"][1]["alterations"]
    applied(con, NEW)
    con.execute("INSERT INTO t (k, v) VALUES (3, 7); INSERT INTO other VALUES (4)")
    check_rows(other, "SELECT * FROM t", (1, 5, None), (2, 6, None), (3, 7, "none"))
    check_rows(other, "SELECT * FROM notes", (None, 2), ("none", 1))
    check_rows(other, "SELECT * FROM sums", (1, 5), (2, 6), (3, 7))
    check_rows(other, "SELECT * FROM log", (1, 5), (2, 6), (3, 7))
    for statement in (
        "INSERT INTO t VALUES (9, 1000, '')",
        "INSERT INTO t VALUES (100, 9, '')",
        "INSERT INTO t (v) VALUES (1)",
        "INSERT INTO other VALUES (0)",
    ):
        with pytest.raises(CtsqlError):
            con.execute(statement)
    con.execute("INSERT INTO t VALUES (4, 9, 'x'); SELECT * FROM named")
    types = con.execute("SELECT * FROM named").types
    assert [str(t).lower() for t in types] == ["int", "bigint"]
    before = moments_of(con)
    again = applied(con, NEW)
    assert (exit_code(again), moments_of(con)) == (0, before)
    assert set(statuses(planned(con, *dumped(con))).values()) == {"unchanged"}


REFUSED = """
CREATE TABLE t (k INT, v INT, f FLOAT, CONSTRAINT pos CHECK (v > 0));
CREATE MATERIALIZED VIEW m AS SELECT f FROM t;
CREATE VIEW p AS SELECT v FROM t;
CREATE MATERIALIZED VIEW q AS SELECT v FROM p;
"""


CHANGES_REFUSED = [
    ("v INT,", "w INT,", "NOT_SUPPORTED", "To rename it: ALTER TABLE t RENAME COLUMN v TO w"),
    ("v INT,", "v SMALLINT,", "NOT_SUPPORTED", "drop this one"),
    ("v INT, ", "", "NOT_SUPPORTED", "To drop it, type: ALTER TABLE t DROP COLUMN v"),
    ("f FLOAT", "f DOUBLE", "COLUMNS_IN_USE", "CREATE OR REPLACE MATERIALIZED VIEW m"),
    ("f FLOAT,", "f FLOAT, CHECK (z > 0),", "UNKNOWN_COLUMN", ""),
]


def test_refused(con: Connection) -> None:
    """What cannot be, or would break a reader, is refused before anything is changed."""
    applied(con, REFUSED)
    con.execute("INSERT INTO t VALUES (1, 2, 3.5); SELECT * FROM m")
    con.execute("SELECT * FROM q")
    moments = moments_of(con)
    for before, after, condition, message in CHANGES_REFUSED:
        text = REFUSED.replace(before, after)
        refusal = change_of(planned(con, text), "t").refusal
        assert refusal is not None, after
        assert refusal.condition == condition, after
        assert message in refusal.hint, after
    with pytest.raises(CtsqlError, match="PLAN_REFUSED"):
        applied(con, text)
    assert moments_of(con) == moments


THREE = """
CREATE TABLE t (k INT, v INT);
CREATE TABLE other (id INT);
CREATE MATERIALIZED VIEW counted AS SELECT k, count(*) AS n FROM t GROUP BY k;
"""
ROWS_REFUSED = [
    ("k INT NOT NULL, v INT, n INT", "NOT_SUPPORTED"),
    ("k INT, v INT, n INT NOT NULL", "NOT_SUPPORTED"),
    ("k INT, v INT, n INT, CHECK (v < 6)", "DATA_ERROR"),
    ("k INT, v INT8 CHECK (v < 7), n INT, CHECK (v < 6)", "DATA_ERROR"),
    ("k INT, v INT DEFAULT 'x', n INT", "INVALID_STATEMENT"),
]


def test_rows_that_do_not_fit_change_nothing(con: Connection) -> None:
    """Alterations are made of a copy first; then neither a table nor a view is another."""
    applied(con, THREE)
    con.execute("INSERT INTO t VALUES (1, 6), (NULL, 6); SELECT * FROM counted")
    for list_, condition in ROWS_REFUSED:
        moments = moments_of(con)
        text = THREE.replace("t (k INT, v INT)", f"t ({list_})").replace("id INT", "id INT, x INT")
        text = text.replace("count(*) AS n", "count(*) + 1 AS n")
        assert exit_code(planned(con, text)) == 2, list_
        with pytest.raises(CtsqlError) as caught:
            applied(con, text)
        assert caught.value.condition == condition, list_
        assert moments_of(con)[0] == moments[0], f"the catalog: {list_}"
        assert set(statuses(planned(con, THREE)).values()) == {"unchanged"}, list_
    con.execute("INSERT INTO t VALUES (1, 7)")
    check_rows(con, "SELECT * FROM counted", (1, 2), (None, 1))


def test_defaults_and_constraints_are_those_of_the_folder(con: Connection) -> None:
    """What the folder does not say of a table goes; a change of it is one ALTER TABLE."""
    applied(con, "CREATE TABLE t (a INT DEFAULT 1, b INT, CONSTRAINT c CHECK (a > 0));")
    other = "CREATE TABLE t (a int default 2, b INT DEFAULT (1 + 1), CONSTRAINT c CHECK (a > 0));"
    assert change_of(planned(con, other), "t").alterations == (
        "ALTER TABLE t ALTER COLUMN a SET DEFAULT 2",
        "ALTER TABLE t ALTER COLUMN b SET DEFAULT (1 + 1)",
    )
    applied(con, other)
    con.execute("INSERT INTO t (b) VALUES (7)")
    check_rows(con, "SELECT a, b FROM t", (2, 7))
    none = "CREATE TABLE t (a INT, b INT);"
    assert change_of(planned(con, none), "t").alterations == (
        "ALTER TABLE t DROP CONSTRAINT c",
        "ALTER TABLE t ALTER COLUMN a DROP DEFAULT",
        "ALTER TABLE t ALTER COLUMN b DROP DEFAULT",
    )
    applied(con, none)
    con.execute("INSERT INTO t (b) VALUES (8); INSERT INTO t VALUES (-1, 9)")
    check_rows(con, "SELECT a, b FROM t", (2, 7), (None, 8), (-1, 9))
    assert list(lines_of(planned(con, none))) == ["1 unchanged"]


def test_a_check_of_a_column_that_gets_wider(con: Connection) -> None:
    """Delta keeps the type of a column that a CHECK is about: it goes, and comes back."""
    text = "CREATE TABLE t (v INT, w INT CHECK (w > 1), CONSTRAINT `Pos 1` CHECK (`v` > 0));"
    applied(con, text)
    con.execute("INSERT INTO t VALUES (1, 2)")
    wider = text.replace("(v INT", "(v INT8")
    assert change_of(planned(con, wider), "t").alterations == (
        "ALTER TABLE t DROP CONSTRAINT `pos 1`",
        "ALTER TABLE t ALTER COLUMN v TYPE bigint",
        "ALTER TABLE t ADD CONSTRAINT `Pos 1` CHECK (`v` > 0)",
    )
    applied(con, wider)
    assert exit_code(planned(con, wider)) == 0
    con.execute("INSERT INTO t VALUES (3000000000, 3)")
    with pytest.raises(CtsqlError, match="DATA_ERROR"):
        con.execute("INSERT INTO t VALUES (-1, 3)")


def test_the_same_words_over_other_columns(connect: Callable[[], Connection]) -> None:
    """A view of SELECT * is written again, and what reads it; others are left alone."""
    con, other = connect(), connect()
    text = """
    CREATE TABLE t (k INT, v INT);
    CREATE VIEW p AS SELECT * FROM t;
    CREATE MATERIALIZED VIEW m AS SELECT * FROM p;
    CREATE MATERIALIZED VIEW above AS SELECT * FROM m WHERE k > 0;
    CREATE MATERIALIZED VIEW only_k AS SELECT k FROM m;
    """
    applied(con, text)
    con.execute("INSERT INTO t VALUES (1, 2); SELECT * FROM above; SELECT * FROM only_k")
    con.execute("CREATE MATERIALIZED VIEW mine AS SELECT k FROM p")  # not of the folder
    more = text.replace("v INT)", "v INT, n INT)")
    assert statuses(planned(con, more)) == {
        "t": "changed columns",
        "p": "changed columns",
        "m": "changed columns",
        "above": "changed columns",
        "only_k": "unchanged",
        "mine": "not in the folder",
    }
    applied(con, more)
    con.execute("INSERT INTO t VALUES (3, 4, 5)")
    check_rows(other, "SELECT * FROM above", (1, 2, None), (3, 4, 5))
    check_rows(other, "SELECT * FROM mine", (1,), (3,))
    wider = more.replace("n INT)", "n INT8)").replace("v INT", "v INT8")
    applied(con, wider, prune=True)
    con.execute("INSERT INTO t VALUES (4, 3000000000, 5000000000)")
    found = [(1, 2, None), (3, 4, 5), (4, 3000000000, 5000000000)]
    check_rows(other, "SELECT * FROM m", *found)
    check_rows(other, "SELECT * FROM above", *found)
    check_rows(other, "SELECT * FROM only_k", (1,), (3,), (4,))
    # A table that was altered by hand is no other.
    con.execute("ALTER TABLE t ADD COLUMN z INT")
    made = planned(con, wider.replace("n INT8)", "n INT8, z INT)"))
    assert statuses(made)["t"] == "unchanged"
    assert statuses(made)["above"] == "changed columns"


def test_views_that_stay(connect: Callable[[], Connection]) -> None:
    """A task's input is left alone; a CHECK that the folder does not say goes before a type."""
    con = connect()
    text = """
    CREATE TABLE t (k INT, v INT);
    CREATE VIEW good AS SELECT * FROM t WHERE k > 0;
    CREATE CONTINUAL TASK log (k INT) ON INPUT good AS (INSERT INTO log SELECT k FROM good);
    """
    applied(con, text)
    more = text.replace("v INT)", "v INT, n INT)")
    assert statuses(planned(con, more)) == {
        "t": "changed columns",
        "good": "unchanged",
        "log": "unchanged",
    }
    applied(con, more)
    con.execute("INSERT INTO t VALUES (1, 2, 3), (-1, 2, 3)")
    check_rows(con, "SELECT * FROM log", (1,))
    con.execute("ALTER TABLE t ADD CONSTRAINT positive CHECK (v > 0)")
    change = change_of(planned(con, more.replace("v INT,", "v INT8,")), "t")
    assert change.alterations == (
        "ALTER TABLE t DROP CONSTRAINT positive",
        "ALTER TABLE t ALTER COLUMN v TYPE bigint",
    )
    con.execute("ALTER TABLE t DROP CONSTRAINT positive")
    # A column that Delta refuses is found out before any constraint goes.
    odd = more.replace("v INT, n INT)", "v INT, n INT, `odd name` INT, CHECK (v > 1))")
    with pytest.raises(CtsqlError, match="odd name"):
        applied(con, odd)
    assert statuses(planned(con, more))["t"] == "unchanged"
