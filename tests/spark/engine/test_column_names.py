"""Names of columns: any that Delta can store work everywhere, the others are refused by name."""

from typing import Any

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from tests.scenarios.runner import assert_rows

PLAIN = [
    "a.b",
    "a",
    ".a",
    ".",
    "[x",
    "ä€😀",
    "select",
    "from",
    "'q'",
    '"dq"',
    "x:y",
    "%",
    "a-b",
    "1",
    "/*",
]
MAPPED = ["a b", "a,b", "x;y", "(p)", "q=r", "{z}", "tab\there", "two\nlines", " ", "--"]
BY_NAME = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"


def refused(con: Connection, sql: str) -> CtsqlError:
    """The error of a statement that is refused."""
    with pytest.raises(CtsqlError) as caught:
        con.execute(sql)
    return caught.value


def test_refused_names(con: Connection) -> None:
    """The error names the column and the character, and says what to do; nothing stays behind."""
    con.execute("CREATE TABLE src (k INT)")
    problem = refused(con, "CREATE TABLE t (`a b;` INT)")
    assert (problem.condition, problem.message) == ("INVALID_NAME", '"a b;" is not a valid name')
    assert "It has a space and ;." in (problem.detail or "")
    assert BY_NAME in (problem.detail or "")
    assert "no backtick" in (refused(con, "CREATE TABLE t (`a``b` INT)").detail or "")
    assert "It has (" in (refused(con, "CREATE TABLE t AS SELECT 1 AS `f(`").detail or "")
    for made in (
        "CREATE MATERIALIZED VIEW t AS SELECT k AS `a b` FROM src",
        "CREATE CONTINUAL TASK t ON INPUT src AS (INSERT INTO t SELECT k AS `a b` FROM src)",
    ):
        problem = refused(con, made)
        assert problem.condition == "INVALID_NAME"
        assert "It has a space." in (problem.detail or "")
    problem = refused(
        con, "CREATE MATERIALIZED VIEW t AS SELECT named_struct('a b', k) AS s FROM src"
    )
    assert problem.condition == "INVALID_NAME"
    assert con.execute("SHOW TABLES").fetchall() == con.execute("SHOW TABLES LIKE 'src'").fetchall()


def test_changes_of_a_table_with_a_column_diff(con: Connection) -> None:
    """The error's hint is a statement that works; the last name is that of the copies."""
    con.execute("CREATE TABLE e (k INT, `Diff` INT)")
    body = "CREATE CONTINUAL TASK log (k INT, was INT, n BIGINT) ON INPUT e AS (INSERT INTO log {})"
    problem = refused(con, body.format("SELECT * FROM changes(e)"))
    assert problem.condition == "INVALID_STATEMENT"
    named = (problem.hint or "").removeprefix("Name them all: ")
    assert named == "changes(e) AS e(k, Diff, copies)"
    con.execute(body.format(f"SELECT k, diff, copies FROM {named}"))
    con.execute("INSERT INTO e VALUES (1, 7), (1, 7), (2, 8); DELETE FROM e WHERE k = 1")
    rows = con.execute("SELECT * FROM log").fetchall()
    assert_rows(rows, [(1, 7, 2), (2, 8, 1), (1, 7, -2)], "log")


def rows_of(con: Connection, sql: str) -> list[Any]:
    """The rows of a query."""
    return con.execute(sql).fetchall()


@pytest.mark.slow
@pytest.mark.parametrize("names", [PLAIN, PLAIN + MAPPED], ids=["plain", "mapped"])
def test_every_name_everywhere(con: Connection, names: list[str]) -> None:
    """DML, transactions, views, tasks, changes, VERIFY and SUBSCRIBE over every such column."""
    all_of = [f"`{n}`" for n in names]
    listed, count = ", ".join(all_of), len(names)

    def row(first: int) -> tuple[int, ...]:
        return tuple(first + n for n in range(count))

    def each(text: str, first: int = 0, between: str = " AND ") -> str:
        return between.join(text.format(q=q, n=first + n) for n, q in enumerate(all_of))

    typed = f"CREATE TABLE t ({each('{q} INT', between=', ')})"
    con.execute(f"{typed} {BY_NAME if names != PLAIN else ''}")
    con.execute(f"INSERT INTO t VALUES {row(100)}, {row(200)}")
    keys = ", ".join(f"k{n}" for n in range(count))
    of_t = each("{q} AS k{n}", between=", ")
    con.execute(f"""
        CREATE MATERIALIZED VIEW g WITH (REFRESH POLICY = incremental) AS
            SELECT {of_t}, count(*) AS n FROM t WHERE {each("{q} > 0")} GROUP BY {listed};
        CREATE MATERIALIZED VIEW j WITH (REFRESH POLICY = incremental) AS
            SELECT {each("l.{q} AS k{n}", between=", ")} FROM t AS l
            JOIN t AS r ON {each("l.{q} = r.{q}")};
        CREATE CONTINUAL TASK u ON INPUT t AS (
            INSERT INTO u SELECT {of_t}, 1 AS one FROM t;
            DELETE FROM u WHERE ({keys}) IN (SELECT {listed} FROM t);
            INSERT INTO u SELECT {listed}, 2 FROM t GROUP BY {listed});
        CREATE CONTINUAL TASK c ON INPUT t AS (
            INSERT INTO c SELECT {of_t}, diff AS n FROM changes(t));
        CREATE MATERIALIZED VIEW deep AS SELECT named_struct('a.b', 1, '-', 2) AS s FROM t""")
    con.execute(
        f"UPDATE t SET {each('{q} = {q} + 1000', between=', ')} WHERE {each('{q} = {n}', 100)}"
    )
    con.execute(
        f"MERGE INTO t USING (SELECT {each('{n} AS {q}', 200, ', ')}) AS s"
        f" ON {each('t.{q} = s.{q}')} WHEN MATCHED THEN UPDATE SET {each('{q} = 7', between=', ')}"
    )
    con.execute(f"BEGIN; INSERT INTO t ({listed}) VALUES {row(5)}")
    con.execute(f"UPDATE t SET {each('{q} = 6', between=', ')} WHERE {each('{q} = {n}', 5)}")
    con.execute(f"COMMIT; DELETE FROM t WHERE {each('{q} = 6')}")
    now = [row(1100), (7,) * count]
    assert_rows(rows_of(con, f"SELECT {listed} FROM t"), now, "t")
    assert_rows(rows_of(con, "SELECT * FROM g"), [(*r, 1) for r in now], "g")
    assert_rows(rows_of(con, "SELECT * FROM j"), now, "j")
    seen = [(*r, 2) for r in (row(100), row(200), row(1100), (7,) * count, (6,) * count)]
    assert_rows(rows_of(con, "SELECT * FROM u"), seen, "u")
    net = f"SELECT {keys}, sum(n) FROM c GROUP BY {keys} HAVING sum(n) <> 0"
    assert_rows(rows_of(con, net), [(*r, 1) for r in now], "c")
    for view in ("g", "j", "deep"):
        assert rows_of(con, f"VERIFY MATERIALIZED VIEW {view}") == []
    assert rows_of(con, "SELECT s.`a.b`, s.`-` FROM deep") == [(1, 2), (1, 2)]
    told = rows_of(con, "SUBSCRIBE TO t UP TO NOW")
    assert_rows([r[1:] for r in told], [(1, *r) for r in now], "told")
