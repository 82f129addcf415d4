"""con.now and con.commits: which Ts an object was written at, and what its commits say."""

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from tests.helpers.table_folder import folder, log, transaction


def test_commits_have_the_times_at_which_rows_are_seen(con: Connection) -> None:
    """A table's, a task's and a view's; asking binds nothing, and what has no table is refused."""
    con.execute(
        "CREATE TABLE t (k INT); INSERT INTO t VALUES (1);"
        "CREATE CONTINUAL TASK copy (k INT) ON INPUT t AS (INSERT INTO copy SELECT k FROM t);"
        "CREATE MATERIALIZED VIEW m WITH (REFRESH POLICY = incremental) AS SELECT k+1 AS k FROM t;"
        "CREATE VIEW plain AS SELECT k FROM t; SELECT * FROM copy; SELECT * FROM m"
    )
    con.execute("INSERT INTO t VALUES (5); SELECT * FROM copy; SELECT * FROM m")
    now = con.now()
    for name, rows in (("t", [1, 5]), ("copy", [1, 5]), ("m", [2, 6])):
        newest = con.commits(name)[-1]
        assert newest.t == now, name
        held = con.execute(f"SELECT k FROM {name} ORDER BY k AS OF {newest.t}").fetchall()
        assert held == [(k,) for k in rows], name
        held = con.execute(f"SELECT k FROM {name} ORDER BY k AS OF {newest.t - 1}").fetchall()
        assert held == [(rows[0],)], name
    for name in ("copy", "m"):
        table = log(folder(con, name))
        uppers = {v: u for v, c in enumerate(table) if (u := transaction(c))}
        assert {c.version: c.t + 1 for c in con.commits(name)} == uppers
    assert con.commits("default.m")[-1].said["strategy"] == "incremental"
    con.execute("INSERT INTO t VALUES (7)")
    assert (con.now(), con.commits("t")[-1].t) == (now, now), "nobody has asked for a T yet"
    for name, condition in (
        ("plain", "WRONG_OBJECT_KIND"),
        ("nobody", "UNKNOWN_RELATION"),
        ("t; DROP TABLE t", "SYNTAX_ERROR"),
        ("EXTENDED t", "INVALID_USAGE"),
    ):
        with pytest.raises(CtsqlError, match=condition):
            con.commits(name)
