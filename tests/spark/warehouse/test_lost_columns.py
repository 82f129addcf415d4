"""A foreign writer takes a column away, and its name then means something else in a definition."""

from collections.abc import Callable

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from tests.helpers.foreign_writers import bag, by_ctsql
from tests.helpers.opened import check_rows
from tests.helpers.sql_folder import applied
from tests.helpers.table_folder import folder
from tests.scenarios.runner import expect_error

VIEWS = {
    "a column of the query around": "SELECT k FROM u WHERE EXISTS "
    "(SELECT 1 FROM t WHERE t.k = u.k AND v > 5)",
    "a column of the query around, negated": "SELECT k FROM u WHERE v NOT IN (SELECT v FROM t)",
    "a value of the query around": "SELECT k, (SELECT max(v) FROM t) AS m FROM u",
    "an item before": "SELECT k AS v, v + 1 AS w FROM t",
    "an item by which is grouped": "SELECT k AS v, count(*) AS n FROM t GROUP BY v, k",
    "a natural join": "SELECT k FROM t NATURAL JOIN u",
    "all columns, distinct": "SELECT count(*) AS n FROM (SELECT DISTINCT * FROM t)",
    "within a CTE": "WITH c AS (SELECT k FROM u WHERE EXISTS (SELECT 1 FROM t WHERE v = u.k)) "
    "SELECT c.k FROM c JOIN u ON c.k = u.k",
    "a lateral join": "SELECT u.k, x.n FROM u, LATERAL (SELECT count(v) AS n FROM t) AS x",
}
OTHERS = {
    "names it not": "SELECT k FROM t",
    "all columns, of which one is read": "SELECT k FROM (SELECT * FROM t) WHERE k > 1",
    "counts": "SELECT count(*) AS n FROM t WHERE EXISTS (SELECT * FROM t AS b WHERE b.k = t.k)",
    "the other's": "SELECT u.v FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.k = u.k AND u.v > 5)",
}
FILLS = "INSERT INTO {o} SELECT k, k + 0 FROM t"
TASKS = {
    "deletes by a key": "DELETE FROM {o} WHERE v IN (SELECT v FROM t)",
    "deletes by what is around": f"{FILLS}; DELETE FROM {{o}} WHERE v IN (SELECT v FROM t)",
    "deletes by a condition": f"{FILLS}; DELETE FROM {{o}} WHERE EXISTS "
    "(SELECT 1 FROM t WHERE t.k = {o}.k AND v > 0)",
    "an item before": "INSERT INTO {o} SELECT k AS v, v + 1 AS w FROM t",
    "updates": f"{FILLS}; UPDATE {{o}} SET v = v + (SELECT count(*) FROM t WHERE v > 0)",
    "merges": f"{FILLS}; MERGE INTO {{o}} USING (SELECT k FROM u) AS s ON {{o}}.k = s.k AND "
    "EXISTS (SELECT 1 FROM t AS b WHERE v = 1) WHEN MATCHED THEN DELETE",
    "changes": "INSERT INTO {o} SELECT k, diff AS v FROM changes(t) WHERE k IN "
    "(SELECT k FROM u WHERE EXISTS (SELECT 1 FROM changes(t) AS c WHERE c.k = u.k AND v > 5))",
}


class Foreign:
    """The table ``t`` in the hands of Spark alone."""

    def __init__(self, con: Connection) -> None:
        con.execute(
            "CREATE TABLE t (k INT, v INT); CREATE TABLE u (k INT, v INT); "
            "INSERT INTO t VALUES (1, 10), (2, 1), (3, 30); "
            "INSERT INTO u VALUES (1, 1), (2, 20), (7, 10), (1, 10)"
        )
        self.con = con
        self.place = f"delta.`{folder(con, 't')}`"
        self.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")

    def sql(self, text: str) -> None:
        """Run a statement."""
        self.con.spark.sql(text.replace("{t}", self.place)).collect()

    def rename(self, old: str, new: str) -> None:
        """Rename a column."""
        self.sql(f"ALTER TABLE {{t}} RENAME COLUMN {old} TO {new}")


def _failure(con: Connection, name: str, condition: str) -> str:
    problem = by_ctsql(con, f"SELECT * FROM {name}")
    assert isinstance(problem, CtsqlError), (name, problem)
    assert problem.condition == condition, (name, problem)
    return str(problem)


RECOMPUTED = ("a value of the query around", "all columns, distinct", "names it not")
"""Queries that are a view with REFRESH POLICY = full as well."""


def test_views_fail_while_a_name_means_something_else(con: Connection) -> None:
    """They name the column, and heal when it comes back; views that do not read it go on."""
    foreign = Foreign(con)
    queries = {**VIEWS, **OTHERS}
    views = {f"m{i}": (what, "incremental") for i, what in enumerate(queries)}
    views |= {f"full{i}": (what, "full") for i, what in enumerate(RECOMPUTED)}
    for name, (what, policy) in views.items():
        refresh = f"WITH (REFRESH POLICY = {policy})"
        con.execute(f"CREATE MATERIALIZED VIEW {name} {refresh} AS {queries[what]}")
    foreign.rename("v", "x")
    # After rows came, two of the shapes that fail are enough, with each policy.
    again = [n for n, (what, _) in views.items() if what in OTHERS or what in RECOMPUTED]
    for names in (views, again):
        for name in names:
            what, _ = views[name]
            if what in VIEWS:
                said = _failure(con, name, "VIEW_FAILED")
                assert '"v"' in said, (what, said)
            else:
                assert by_ctsql(con, f"SELECT * FROM {name}") == by_ctsql(con, OTHERS[what]), what
        foreign.sql("INSERT INTO {t} VALUES (7, 11), (2, 20)")
    foreign.rename("x", "v")
    wanted = {what: by_ctsql(con, sql) for what, sql in queries.items()}
    for name, (what, _) in views.items():
        assert by_ctsql(con, f"SELECT * FROM {name}") == wanted[what], what


def test_tasks_fail_where_a_name_means_something_else(con: Connection) -> None:
    """They stop at that T, and go on from there once the column is there again."""
    foreign = Foreign(con)
    before = {}
    for number, (what, body) in enumerate(TASKS.items()):
        name = f"o{number}"
        first = FILLS if what == "deletes by a key" else body  # there must be rows to delete
        made = first.format(o=name)
        con.execute(f"CREATE CONTINUAL TASK {name} (k INT, v INT) ON INPUT t AS ({made})")
        before[name] = by_ctsql(con, f"SELECT * FROM {name}")
        if first != body:
            con.execute(f"ALTER CONTINUAL TASK {name} AS ({body.format(o=name)})")
    foreign.rename("v", "x")
    foreign.sql("INSERT INTO {t} VALUES (7, 11), (1, 20)")
    for name in before:
        said = _failure(con, name, "TASK_FAILED")
        assert '"v"' in said, said
    foreign.rename("x", "v")
    for name, rows in before.items():
        for _ in range(2):  # at the T of the first change, and at that of the rows
            con.execute(f"ALTER CONTINUAL TASK {name} SKIP")
            found = by_ctsql(con, f"SELECT * FROM {name}")
        assert found == rows, name


def test_plain_views_lose_a_name_too(connect: Callable[[], Connection]) -> None:
    con = connect()
    foreign = Foreign(con)
    con.execute("CREATE VIEW p AS SELECT k AS v, v + 1 AS w FROM t")
    con.execute("CREATE MATERIALIZED VIEW m AS SELECT w FROM p")
    con.execute(
        "CREATE CONTINUAL TASK o (v INT, w INT) ON INPUT p AS (INSERT INTO o SELECT v, w FROM p)"
    )
    wanted = bag([(1, 11), (2, 2), (3, 31)])
    assert by_ctsql(con, "SELECT * FROM o") == wanted
    foreign.rename("v", "x")
    foreign.sql("INSERT INTO {t} VALUES (7, 11)")
    assert '"v"' in _failure(con, "m", "VIEW_FAILED")
    assert '"v"' in _failure(con, "o", "TASK_FAILED")
    assert isinstance(by_ctsql(con, "SELECT * FROM p"), CtsqlError)
    foreign.rename("x", "v")
    assert by_ctsql(con, "SELECT * FROM m") == bag([(11,), (2,), (31,), (12,)])


def test_a_condition_on_an_input_reads_what_it_names(con: Connection) -> None:
    """A task that sees a part of its input goes on without a column that it does not read."""
    foreign = Foreign(con)
    for name, condition in (("o", "k > 1"), ("p", "v > 5")):
        con.execute(
            f"CREATE CONTINUAL TASK {name} (k INT) ON INPUT t WHERE {condition} AS "
            f"(INSERT INTO {name} SELECT k FROM t)"
        )
    foreign.rename("v", "x")
    foreign.sql("INSERT INTO {t} VALUES (7, 11), (1, 20)")
    foreign.sql("UPDATE {t} SET k = 8 WHERE k = 2")
    assert by_ctsql(con, "SELECT * FROM o") == bag([(2,), (3,), (7,), (8,)])
    assert '"v"' in _failure(con, "p", "TASK_FAILED")


def test_another_definition_heals(con: Connection) -> None:
    """By a folder, whatever the old one reads now; a hint says what else does."""
    foreign = Foreign(con)
    con.execute(f"CREATE MATERIALIZED VIEW m AS {VIEWS['a value of the query around']}")
    con.execute("CREATE MATERIALIZED VIEW n AS SELECT k, v FROM t")
    foreign.rename("v", "x")
    for name in "mn":
        _failure(con, name, "VIEW_FAILED")
    for text in ("SELECT * FROM n", "REFRESH MATERIALIZED VIEW n FULL"):
        problem = by_ctsql(con, text)
        assert isinstance(problem, CtsqlError), text
        assert "Restore the column" in (problem.hint or ""), (text, problem.hint)
    other = "CREATE MATERIALIZED VIEW m AS SELECT k, (SELECT max(x) FROM t) AS m FROM u;"
    applied(con, other, "CREATE MATERIALIZED VIEW n AS SELECT k, x AS v FROM t;")
    assert by_ctsql(con, "SELECT DISTINCT m FROM m") == bag([(30,)])
    assert by_ctsql(con, "SELECT * FROM n") == bag([(1, 10), (2, 1), (3, 30)])


def test_tables_of_outputs_lose_columns(con: Connection) -> None:
    """The error is about the table, not about the query, which has all that it reads."""
    con.execute("CREATE TABLE feed (k INT, v INT); INSERT INTO feed VALUES (1, 1), (2, 2)")
    body = "(DELETE FROM {0} WHERE k IN (SELECT k FROM feed); INSERT INTO {0} SELECT * FROM feed)"
    changes = {
        "lost": "DROP COLUMN v",
        "wide": "ALTER COLUMN v TYPE BIGINT",
        "more": "ADD COLUMN w INT",
    }
    for name, change in changes.items():
        con.execute(f"CREATE MATERIALIZED VIEW view_{name} AS SELECT k, v FROM feed")
        con.execute(
            f"CREATE CONTINUAL TASK task_{name} (k INT, v INT) ON INPUT feed AS "
            + body.format(f"task_{name}")
        )
        for made in (f"view_{name}", f"task_{name}"):
            table = f"ALTER TABLE delta.`{folder(con, made)}`"
            con.spark.sql(
                f"{table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name',"
                " 'delta.enableTypeWidening' = 'true')"
            )
            con.spark.sql(f"{table} {change}")
    con.execute("INSERT INTO feed VALUES (1, 3)")
    for kind, word in (("view", "materialized view"), ("task", "continual task")):
        lost = expect_error(con, f"SELECT * FROM {kind}_lost", "STORED_DATA_INVALID")
        assert lost.message == f'the table of {word} "{kind}_lost" cannot be read'
        assert lost.detail == "Another writer has dropped its column v."
        wide = expect_error(con, f"SELECT * FROM {kind}_wide", "STORED_DATA_INVALID")
        assert wide.detail == "Another writer has changed its column v to BIGINT; it must be INT."
    check_rows(con, "SELECT * FROM view_more", (1, 1), (2, 2), (1, 3))
    check_rows(con, "SELECT k, v FROM task_more", (1, 3), (2, 2))
