"""Statements are read, and mistakes are shown, as the user wrote them."""

from typing import Any

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.refreshes import At, Cron, Every
from ctsql.planner.syntax import rewrite, splice
from ctsql.planner.syntax.ast import (
    ChangeStatement,
    CreateContinualTask,
    CreateMaterializedView,
    CreateTable,
    Dml,
    InsertStatement,
    Select,
)
from tests.helpers.parsed import parsed


@pytest.mark.parametrize(
    "options",
    [
        "WITH (SNAPSHOT = false) ON INPUT a",
        "ON INPUT a WITH (snapshot = FALSE)",
        "-- c\nON /* x */ INPUT a WITH (SNAPSHOT = false)",
    ],
)
def test_task_options(options: str) -> None:
    """Options stand in front of the input or behind it."""
    task = parsed(f"CREATE CONTINUAL TASK IF NOT EXISTS s.`c t` {options} AS (DELETE FROM s.`c t`)")
    assert isinstance(task, CreateContinualTask)
    assert [(o.name, o.value) for o in task.options] == [("SNAPSHOT", False)]
    assert task.target.parts == ("s", "c t")
    assert task.if_not_exists


def test_task_body_forms() -> None:
    """Aliases, column lists, VALUES, strings with semicolons, keywords as names."""
    task = parsed(
        "CREATE CONTINUAL TASK task (input INT NOT NULL COMMENT 'a;)', n array<text>) ON"
        " INPUT continual"
        " AS (DELETE FROM task AS x WHERE x.n = ';)' -- ;)\n; DELETE FROM task;"
        " INSERT INTO task (input, n) VALUES (1, ';'); INSERT INTO TABLE task WITH c AS (SELECT 1)"
        " SELECT * FROM c, continual)"
    )
    assert isinstance(task, CreateContinualTask)
    first, second, third, fourth = task.body
    assert isinstance(first, ChangeStatement)
    assert not first.assignments
    assert isinstance(second, ChangeStatement)
    assert not second.assignments
    assert isinstance(third, InsertStatement)
    assert isinstance(fourth, InsertStatement)
    assert (first.alias, first.target.aliased, second.where) == ("x", True, None)
    assert [c.name for c in third.columns] == ["input", "n"]
    assert [r.span.text for r in fourth.query.relations] == ["continual"]
    column, other = task.columns
    assert (column.name, column.nullable, column.comment) == ("input", False, "a;)")
    assert other.type == "array<STRING>"


def test_refresh_times() -> None:
    """Every form of REFRESH, combined."""
    view = parsed(
        "CREATE MATERIALIZED VIEW mv WITH (REFRESH EVERY INTERVAL '1' DAY ALIGNED TO '1970-01-02',"
        " REFRESH AT CREATION, REFRESH AT 5, REFRESH = EVERY '0 3 * * *') AS SELECT 1"
    )
    assert isinstance(view, CreateMaterializedView)
    assert [o.value for o in view.options] == [
        Every(86_400_000, 86_400_000),
        At(),
        At(5),
        Cron("0 3 * * *"),
    ]
    assert view.options[2].value_span.text == "AT 5"


def test_materialized_view() -> None:
    """A whole header, and the example of the guide."""
    view = parsed(
        "CREATE OR REPLACE MATERIALIZED VIEW IF NOT EXISTS s.mv (a COMMENT 'x', b) COMMENT 'y'"
        " WITH (REFRESH ON COMMIT) AS WITH q AS (SELECT 1 AS task) SELECT * FROM q, t"
    )
    assert isinstance(view, CreateMaterializedView)
    assert (view.or_replace, view.if_not_exists, view.comment) == (True, True, "y")
    assert [(c.name, c.comment) for c in view.columns] == [("a", "x"), ("b", None)]
    assert [(o.name, o.value, o.value_span.text) for o in view.options] == [
        ("REFRESH", "ON COMMIT", "ON COMMIT")
    ]
    assert [r.span.text for r in view.query.relations] == ["t"]
    plain = parsed(
        "CREATE MATERIALIZED VIEW anomalies AS SELECT count(*) AS count FROM events"
        " WHERE bad HAVING count(*) > 10;"
    )
    assert isinstance(plain, CreateMaterializedView)
    assert plain.query.span.text.endswith("> 10")


def test_create_table() -> None:
    """Types get Spark's spelling in the statement's own text; a comment is read."""
    table = parsed(
        "CREATE TABLE IF NOT EXISTS s.t (text TEXT, b INT8 NOT NULL COMMENT 'bool', c"
        " STRUCT<text: TEXT>,"
        " d NUMERIC(10,2)) USING delta PARTITIONED BY (b) COMMENT 'c'"
    )
    assert isinstance(table, CreateTable)
    assert rewrite(table.text, relation=str).text == (
        "CREATE TABLE IF NOT EXISTS s.t (text STRING, b BIGINT NOT NULL COMMENT 'bool',"
        " c STRUCT<text: STRING>, d NUMERIC(10,2)) USING delta PARTITIONED BY (b) COMMENT 'c'"
    )
    assert (table.comment, table.if_not_exists) == ("c", True)
    query = parsed("CREATE TABLE t AS SELECT a::int8 FROM u", CreateTable)
    assert rewrite(query.text, relation=lambda _: "R").text == (
        "CREATE TABLE t AS SELECT a::BIGINT FROM R AS `u`"
    )


@pytest.mark.parametrize(
    ("text", "as_of", "query"),
    [
        ("SELECT * FROM t", None, "SELECT * FROM t"),
        ("SELECT * FROM t AS OF 5", 5, "SELECT * FROM t"),
        ("SELECT * FROM t x AS OF '2026-01-01'", "2026-01-01", "SELECT * FROM t x"),
        ("TABLE t as of timestamp '2026-01-01' -- x", "2026-01-01", "TABLE t"),
        ("SELECT a AS of FROM t", None, "SELECT a AS of FROM t"),
        ("SELECT a AS of", None, "SELECT a AS of"),
        ("FROM t |> SELECT a AS of", None, "FROM t |> SELECT a AS of"),
        ("SELECT * FROM t AS `of`", None, "SELECT * FROM t AS `of`"),
        ("(SELECT 1) UNION ALL VALUES (2) AS OF 7", 7, "(SELECT 1) UNION ALL VALUES (2)"),
    ],
)
def test_as_of(text: str, as_of: str | int | None, query: str) -> None:
    """AS OF and a time may end a query; ``of`` is an alias elsewhere."""
    select = parsed(text, Select)
    assert (select.as_of, select.query.span.text) == (as_of, query)


@pytest.mark.parametrize(
    ("text", "verb", "target", "aliased", "relations"),
    [
        ("INSERT INTO t SELECT * FROM u JOIN t", "INSERT", "t", True, ["u", "t"]),
        ("INSERT INTO TABLE t (a) VALUES (?)", "INSERT", "t", True, []),
        ("INSERT INTO t TABLE u", "INSERT", "t", True, ["u"]),
        ("INSERT INTO t BY NAME SELECT * FROM u", "INSERT", "t", True, ["u"]),
        ("INSERT OVERWRITE s.t SELECT * FROM s.t", "INSERT", "s.t", True, ["s.t"]),
        ("UPDATE t SET a = (SELECT max(b) FROM u)", "UPDATE", "t", False, ["u"]),
        ("DELETE FROM t AS x WHERE EXISTS (SELECT 1 FROM t)", "DELETE", "t", True, ["t"]),
        (
            "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET *",
            "MERGE",
            "t",
            False,
            ["s"],
        ),
        (
            "MERGE WITH SCHEMA EVOLUTION INTO t x USING (SELECT * FROM u) s ON t.a = s.a"
            " WHEN NOT MATCHED BY SOURCE THEN DELETE",
            "MERGE",
            "t",
            True,
            ["u"],
        ),
        ("WITH c AS (SELECT 1 FROM u) INSERT INTO t SELECT * FROM c", "INSERT", "t", True, ["u"]),
    ],
)
def test_dml(text: str, verb: str, target: str, aliased: bool, relations: list[str]) -> None:
    """The target is told from what is read."""
    dml = parsed(text, Dml)
    assert (dml.verb, dml.target.span.text, dml.target.aliased) == (verb, target, aliased)
    assert [r.span.text for r in dml.text.relations] == relations


def test_dml_names() -> None:
    """A schema in front of a target's columns is found, with its place."""
    dml = parsed("UPDATE s.t SET a = 1 WHERE s.t.b = 2", Dml)
    assert [(n.second.text, n.second.start) for n in dml.text.names] == [("s.t", 27)]


COMMANDS: list[tuple[str, str, dict[str, Any]]] = [
    ("CREATE SCHEMA IF NOT EXISTS s", "CreateSchema", {"name": "s", "if_not_exists": True}),
    ("CREATE SCHEMA s", "CreateSchema", {"name": "s", "if_not_exists": False}),
    ("CREATE VIEW v (a) AS SELECT * FROM t", "CreateView", {"or_replace": False}),
    ("CREATE OR REPLACE VIEW v AS TABLE t", "CreateView", {"or_replace": True}),
    ("CREATE TABLE t LOCATION '/a;b'", "CreateTable", {"location": "/a;b"}),
    ("DROP TABLE IF EXISTS a.b CASCADE", "DropObject", {"if_exists": True, "cascade": True}),
    ("DROP CONTINUAL TASK x", "DropObject", {"kind": "continual task", "target": "x"}),
    ("DROP SCHEMA s RESTRICT", "DropObject", {"kind": "schema", "cascade": False}),
    ("ALTER MATERIALIZED VIEW a RENAME TO s.b", "RenameObject", {"target": "a", "new": "s.b"}),
    ("ALTER CONTINUAL TASK s.a RETRY", "ControlTask", {"target": "s.a", "verb": "RETRY"}),
    ("ALTER CONTINUAL TASK a SKIP", "ControlTask", {"target": "a", "verb": "SKIP"}),
    ("COMMENT ON COLUMN s.t.c IS 'x'", "CommentOn", {"target": "s.t", "column": "c"}),
    ("COMMENT ON MATERIALIZED VIEW v IS NULL", "CommentOn", {"comment": None, "column": None}),
    ("SHOW TABLES IN s LIKE 'a*'", "Show", {"what": "tables", "schema": "s", "like": "a*"}),
    ("SHOW MATERIALIZED VIEWS FROM s", "Show", {"what": "materialized views"}),
    ("SHOW CONTINUAL TASKS", "Show", {"what": "continual tasks", "schema": None}),
    ("SHOW SCHEMAS", "Show", {"what": "schemas"}),
    ("SHOW OBJECTS", "Show", {"what": "objects"}),
    ("SHOW COLUMNS IN s.t", "Show", {"what": "columns", "target": "s.t"}),
    ("SHOW CREATE VIEW v", "Show", {"what": "create", "kind": "view", "target": "v"}),
    ("SHOW CREATE view", "Show", {"what": "create", "kind": None, "target": "view"}),
    ("SHOW isolation", "ShowSetting", {"name": "isolation"}),
    ("SHOW ALL", "ShowSetting", {"name": None}),
    ("SHOW a.b", "ShowSetting", {"name": "a.b"}),
    ("SET isolation = 'serializable'", "SetSetting", {"value": "serializable"}),
    ("SET spark.sql.x-y = 4", "SetSetting", {"name": "spark.sql.x-y", "value": "4"}),
    ("SET x TO 5 seconds", "SetSetting", {"name": "x", "value": "5 seconds"}),
    ("SET TIME ZONE 'UTC'", "SetSetting", {"name": "time zone", "value": "UTC"}),
    ("RESET a.b", "ResetSetting", {"name": "a.b"}),
    ("RESET ALL", "ResetSetting", {"name": None}),
    ("USE SCHEMA s", "UseSchema", {"name": "s"}),
    ("USE s", "UseSchema", {"name": "s"}),
    ("DESCRIBE EXTENDED t", "Describe", {"extended": True, "kind": None}),
    ("DESC TABLE EXTENDED s.t", "Describe", {"extended": True, "kind": "table"}),
    ("DESCRIBE view", "Describe", {"target": "view", "kind": None}),
    ("REFRESH MATERIALIZED VIEW v FULL", "RefreshView", {"full": True}),
    ("SHOW PENDING", "Show", {"what": "pending"}),
    ("BLAME s.v", "RowQuestion", {"verb": "BLAME", "target": "s.v"}),
    ("BLAME v WHERE k = 1 AS OF 5", "RowQuestion", {"target": "v"}),
    (
        "WHY v WHERE k IN (SELECT k FROM t ORDER BY k)",
        "RowQuestion",
        {"verb": "WHY"},
    ),
    ("EXPLAIN MATERIALIZED VIEW v", "Explain", {"target": "v"}),
    ("EXPLAIN SELECT 1", "Explain", {"target": None, "analyze": False}),
    ("EXPLAIN ANALYZE MATERIALIZED VIEW s.v", "Explain", {"analyze": True, "target": "s.v"}),
    ("EXPLAIN ANALYZE v", "Explain", {"analyze": True, "kind": "materialized view"}),
    ("VERIFY v", "VerifyView", {"target": "v", "repair": False}),
    ("VERIFY MATERIALIZED VIEW s.v REPAIR", "VerifyView", {"target": "s.v", "repair": True}),
]


@pytest.mark.parametrize(("text", "kind", "facts"), COMMANDS)
def test_commands(text: str, kind: str, facts: dict[str, Any]) -> None:
    """Statements about objects and settings."""
    statement = parsed(text + " ;")
    assert type(statement).__name__ == kind
    assert statement.span.text == text
    for name, wanted in facts.items():
        found = getattr(statement, name)
        if hasattr(found, "parts"):
            found = ".".join(found.parts)
        assert getattr(found, "value", found) == wanted, name


CT = "CREATE CONTINUAL TASK ct "
MV = "CREATE MATERIALIZED VIEW mv "
BODY = " AS (INSERT INTO ct SELECT 1)"
FLOW = "CREATE FLOW f AS AUTO CDC INTO t FROM STREAM(s) "
NO = "NOT_SUPPORTED"
REFUSED = [
    (CT + BODY, "SYNTAX_ERROR", "AS"),
    (CT, "SYNTAX_ERROR", ""),
    (CT + "ON a" + BODY, "SYNTAX_ERROR", "a"),
    (CT + "ON INPUT" + BODY, "SYNTAX_ERROR", "AS"),
    (CT + "ON INPUT a", "SYNTAX_ERROR", ""),
    (CT + "ON INPUT a AS", "SYNTAX_ERROR", ""),
    (CT + "ON INPUT a AS INSERT INTO ct SELECT 1", "SYNTAX_ERROR", "INSERT"),
    (CT + "ON INPUT a" + BODY + " WITH (SNAPSHOT = true)", "SYNTAX_ERROR", "WITH"),
    (CT + "ON INPUT a AS ()", "INVALID_STATEMENT", "()"),
    (CT + "ON INPUT a AS (; ;)", "INVALID_STATEMENT", "(; ;)"),
    (CT + "ON INPUT a, " + BODY, "SYNTAX_ERROR", "AS"),
    (CT + "FROM TRANSFORM a USING SELECT 1", "SYNTAX_ERROR", "SELECT"),
    (CT + "FROM RETAIN a WHILE x", "SYNTAX_ERROR", "x"),
    (CT + "ON INPUT a WITH (SNAPSHOT = 3)" + BODY, "INVALID_OPTION", "3"),
    (CT + "ON INPUT a WITH (SNAPSHT = true)" + BODY, "INVALID_OPTION", "SNAPSHT"),
    (CT + "ON INPUT a WITH (ITERATIONS = 0)" + BODY, "INVALID_OPTION", "0"),
    (CT + "ON INPUT a WITH (ITERATIONS = 1001)" + BODY, "INVALID_OPTION", "1001"),
    (CT + "ON INPUT a WITH (ITERATIONS = 'ever')" + BODY, "INVALID_OPTION", "'ever'"),
    (CT + "ON INPUT a WITH (COALESCE = '1 ms')" + BODY, "INVALID_OPTION", "'1 ms'"),
    (CT + "ON INPUT a WITH (COALESCE '1 day')" + BODY, "SYNTAX_ERROR", "'1 day'"),
    ("ALTER CONTINUAL TASK x SET (COALESCE = '1 day')", "INVALID_OPTION", "COALESCE = '1 day'"),
    (CT + "ON INPUT a WITH (TRIM EVERY '1 day')" + BODY, "SYNTAX_ERROR", "'1 day'"),
    (CT + "ON INPUT a WITH (TRIM EVERY = '1 ms')" + BODY, "INVALID_OPTION", "'1 ms'"),
    (CT + "ON INPUT a WITH (TRIM EVERY = '0 3 * * *')" + BODY, "INVALID_OPTION", "'0 3 * * *'"),
    (CT + "ON INPUT a WITH (ON ERROR = 'stop')" + BODY, "INVALID_OPTION", "'stop'"),
    (
        CT + "WITH (SNAPSHOT = true) ON INPUT a WITH (SNAPSHOT = false)" + BODY,
        "INVALID_OPTION",
        "SNAPSHOT = false",
    ),
    (CT + "(a INT9) ON INPUT a" + BODY, "INVALID_COLUMN_TYPE", "INT9"),
    (CT + "(a INT, A TEXT) ON INPUT a" + BODY, "DUPLICATE_COLUMN", "A"),
    (CT + "(a INT DEFAULT) ON INPUT a" + BODY, "SYNTAX_ERROR", ""),
    (CT + "(a INT DEFAULT (SELECT 1 FROM b)) ON INPUT a" + BODY, NO, "(SELECT 1 FROM b)"),
    (CT + "(a INT PRIMARY KEY) ON INPUT a" + BODY, NO, "PRIMARY"),
    (CT + "(a) ON INPUT a" + BODY, "SYNTAX_ERROR", ""),
    (CT + "ON INPUT a AS (INSERT OVERWRITE ct SELECT * FROM CT)", "INVALID_STATEMENT", "CT"),
    (CT + "ON INPUT a AS (INSERT INTO ct PARTITION (k = 1) SELECT 1)", NO, "PARTITION"),
    (CT + "ON INPUT a AS (SELECT 1)", "INVALID_STATEMENT", "SELECT 1"),
    (CT + "ON INPUT a AS (DROP TABLE a)", "INVALID_STATEMENT", "DROP TABLE a"),
    (CT + "ON INPUT a AS (DELETE FROM ct WHERE a ==== 1)", "SYNTAX_ERROR", "=="),
    (CT + "ON INPUT a AS (DELETE FROM ct WHERE)", "SYNTAX_ERROR", ""),
    (CT + "ON INPUT a AS (INSERT INTO ct\n SELECT a b c FROM x)", "SYNTAX_ERROR", "c"),
    (MV + "WITH (ASSERT NOT NULL (a, b)) AS SELECT 1", NO, "ASSERT NOT NULL (a, b)"),
    (MV + "WITH (ASSERT NULL a) AS SELECT 1", "INVALID_OPTION", "ASSERT NULL a"),
    ("SHOW PENDING x", "SYNTAX_ERROR", "x"),
    ("SHOW SAVINGS FOR v", "NOT_SUPPORTED", "SAVINGS"),
    ("DESCRIBE HISTORY shop.t LIMIT 3", "NOT_SUPPORTED", "HISTORY"),
    ("DESC HISTORY '/lake/t'", "NOT_SUPPORTED", "HISTORY"),
    ("DESCRIBE DETAIL t", "NOT_SUPPORTED", "DETAIL"),
    ("BLAME", "SYNTAX_ERROR", ""),
    ("BLAME v k", "SYNTAX_ERROR", "k"),
    ("BLAME v WHERE k = 1 ORDER BY k", "SYNTAX_ERROR", "ORDER"),
    ("WHY v", "SYNTAX_ERROR", ""),
    ("WHY NOT v WHERE k = 1", "NOT_SUPPORTED", "NOT"),
    ("EXPLAIN ROW v WHERE k = 1", "NOT_SUPPORTED", "ROW"),
    ("WHY v WHERE true LIMIT 1", "SYNTAX_ERROR", "LIMIT"),
    (MV + "WITH (REFRESH EVERY) AS SELECT 1", "SYNTAX_ERROR", ""),
    (MV + "WITH (REFRESH AT (SELECT 1)) AS SELECT 1", "INVALID_OPTION", "(SELECT 1)"),
    (MV + "WITH (REFRESH AT now()) AS SELECT 1", "INVALID_OPTION", "now()"),
    (MV + "WITH (REFRESH AT '2026' + 1) AS SELECT 1", "INVALID_OPTION", "'2026' + 1"),
    (MV + "WITH (REFRESH AT 'noon') AS SELECT 1", "INVALID_OPTION", "'noon'"),
    (MV + "WITH (REFRESH AT) AS SELECT 1", "SYNTAX_ERROR", ""),
    (MV + "WITH (REFRESH AT 5, REFRESH AT '5') AS SELECT 1", "INVALID_OPTION", "REFRESH AT '5'"),
    (MV + "WITH (REFRESH EVERY 5) AS SELECT 1", "SYNTAX_ERROR", "5"),
    (MV + "WITH (REFRESH EVERY '1 month') AS SELECT 1", "INVALID_OPTION", "'1 month'"),
    (MV + "WITH (REFRESH EVERY INTERVAL -1 DAY) AS SELECT 1", "INVALID_OPTION", "INTERVAL -1 DAY"),
    (
        MV + "WITH (REFRESH EVERY '0 3 * * *' ALIGNED TO 5) AS SELECT 1",
        "INVALID_OPTION",
        "ALIGNED TO 5",
    ),
    (MV + "WITH (REFRESH ALIGNED TO 5) AS SELECT 1", "INVALID_OPTION", "ALIGNED TO 5"),
    (MV + "WITH (REFRESH EVERY '1 day' ALIGNED TO) AS SELECT 1", "SYNTAX_ERROR", ""),
    (
        MV + "WITH (REFRESH AT CREATION, REFRESH ON COMMIT) AS SELECT 1",
        "INVALID_OPTION",
        "REFRESH ON COMMIT",
    ),
    (MV + "WITH (REFRESH POLICY = fast) AS SELECT 1", "INVALID_OPTION", "fast"),
    (MV + "WITH (REFERSH ON COMMIT) AS SELECT 1", "INVALID_OPTION", "REFERSH ON COMMIT"),
    (MV + "(a INT) AS SELECT 1", "SYNTAX_ERROR", "INT"),
    (MV + "SELECT 1", "SYNTAX_ERROR", "SELECT"),
    (MV + "AS INSERT INTO x SELECT 1", "SYNTAX_ERROR", "INSERT"),
    ("CREATE OR REPLACE TABLE t (a INT)", NO, "CREATE OR REPLACE TABLE"),
    ("CREATE TABLE t (a INT) USING parquet", NO, "parquet"),
    ("CREATE TABLE t (a INT) LOCATION '/x'", NO, "'/x'"),
    ("CREATE TABLE t LIKE u", NO, "LIKE"),
    ("CREATE TABLE t", "SYNTAX_ERROR", ""),
    ("CREATE TEMPORARY VIEW v AS SELECT 1", NO, "TEMPORARY"),
    ("CREATE EXTERNAL TABLE t LOCATION '/x'", NO, "EXTERNAL"),
    ("CREATE REPLACEMENT CONTINUAL TASK x AS (DELETE FROM x)", "SYNTAX_ERROR", "AS"),
    (
        "CREATE REPLACEMENT CONTINUAL TASK x FOR y FROM now() AS (DELETE FROM x)",
        "SYNTAX_ERROR",
        "now",
    ),
    ("CREATE OR REPLACE REPLACEMENT CONTINUAL TASK x FOR y AS (DELETE FROM x)", NO, "REPLACEMENT"),
    ("CREATE CONTINUAL TASK x BACKFILL FROM t AS (DELETE FROM x)", "SYNTAX_ERROR", "AS"),
    ("CREATE CONTINUAL TASK x ON INPUT t BACKFILL FROM AS (DELETE FROM x)", "SYNTAX_ERROR", "("),
    ("REPLAY CONTINUAL TASK x", "SYNTAX_ERROR", ""),
    ("REPLAY CONTINUAL TASK x FROM now()", "SYNTAX_ERROR", "now"),
    ("REPLAY CONTINUAL TASK x FROM 5 UNTIL 6", "SYNTAX_ERROR", "UNTIL"),
    ("REPLAY CONTINUAL TASK x FROM 5 AS (SELECT 1)", "INVALID_STATEMENT", "SELECT 1"),
    ("REPLAY MATERIALIZED VIEW x FROM 5", "SYNTAX_ERROR", "MATERIALIZED"),
    ("CREATE OR REPLACE REPLACEMENT MATERIALIZED VIEW x FOR y AS SELECT 1", NO, "REPLACEMENT"),
    ("CREATE FLOW f AS AUTO CDC INTO t", "SYNTAX_ERROR", ""),
    ("CREATE TABEL t (a INT)", "SYNTAX_ERROR", "TABEL"),
    ("CREATE MATERIALIZED VEIW t AS SELECT 1", "SYNTAX_ERROR", "VEIW"),
    ("CRAETE TABLE t (a INT)", "SYNTAX_ERROR", "CRAETE"),
    ("SELECT * FROM t AS OF 5 WHERE x", "SYNTAX_ERROR", "WHERE"),
    ("SELECT * FROM t AS OF now()", "SYNTAX_ERROR", "now"),
    ("SELECT * FROM t AS OF", "SYNTAX_ERROR", ""),
    ("SELECT 1 AS of UNION SELECT a FROM t AS OF", "SYNTAX_ERROR", ""),
    ("SHOW TASKS", "SYNTAX_ERROR", "TASKS"),
    (
        "MERGE INTO t USING s ON t.a = s.a WHEN NOT MATCHED THEN INSERT (colUtc, t.colUTC)"
        " VALUES (1, 2)",
        "DUPLICATE_COLUMN",
        "t.colUTC",
    ),
    ("SELECT * FROM (SELECT * FROM t AS OF 5)", NO, "AS OF 5"),
    ("CREATE VIEW v AS SELECT 1 FROM t AS OF 5", NO, "AS OF 5"),
    ("INSERT INTO t SELECT 1 FROM t AS OF '2026-01-01'", NO, "AS OF '2026-01-01'"),
    ("TRUNCATE TABLE t", NO, "TRUNCATE"),
    ("FROM t INSERT INTO a SELECT 1", NO, "FROM t INSERT INTO a SELECT 1"),
    ("DROP TASK x", "SYNTAX_ERROR", "TASK"),
    ("DROP TABLE a.b.c", "INVALID_NAME", "a.b.c"),
    ("ALTER CONTINUAL TASK a SUSPEND now", "SYNTAX_ERROR", "now"),
    ("ALTER CONTINUAL TASK a SET ITERATIONS = 3", "SYNTAX_ERROR", "ITERATIONS"),
    ("ALTER CONTINUAL TASK a SET ()", "SYNTAX_ERROR", ")"),
    ("ALTER CONTINUAL TASK a SET (SNAPSHOT = true)", "INVALID_OPTION", "SNAPSHOT = true"),
    ("ALTER CONTINUAL TASK a RESET (ITERATION)", "INVALID_OPTION", "ITERATION"),
    ("ALTER CONTINUAL TASK a RESET (SNAPSHOT)", "INVALID_OPTION", "SNAPSHOT"),
    ("ALTER CONTINUAL TASK a AS (SELECT 1)", "INVALID_STATEMENT", "SELECT 1"),
    ("ALTER TABLE a SUSPEND", NO, "SUSPEND"),
    ("ALTER CONTINUAL TASK a SKIP 3", "SYNTAX_ERROR", "3"),
    ("ALTER MATERIALIZED VIEW a RETRY", NO, "RETRY"),
    ("ALTER TABLE a ADD b INT", "SYNTAX_ERROR", "b"),
    ("ALTER TABLE a APPLY REPLACEMENT b", NO, "APPLY"),
    ("ALTER TABLE a RENAME b", "SYNTAX_ERROR", "b"),
    ("ALTER CONTINUAL TASK IF EXISTS a SKIP", NO, "IF"),
    ("ALTER TABLE a SET TBLPROPERTIES ('b' = 'c')", NO, "SET"),
    (CT + "COMMENT 'a' ON INPUT a COMMENT 'b'" + BODY, "SYNTAX_ERROR", "'b'"),
    ("CREATE FUNCTION f AS 'x'", NO, "FUNCTION"),
    ("INSERT OVERWRITE DIRECTORY '/x' SELECT 1", NO, "DIRECTORY"),
    ("BEGIN ISOLATION LEVEL SERIALIZABLE", "NOT_SUPPORTED", "ISOLATION"),
    ("START", "SYNTAX_ERROR", ""),
    ("ROLLBACK TO before", "NOT_SUPPORTED", "TO"),
    ("COMMIT now", "SYNTAX_ERROR", "now"),
    ("SUBSCRIBE", "SYNTAX_ERROR", ""),
    ("SUBSCRIBE TO SELECT k FROM t", "SYNTAX_ERROR", "SELECT"),
    ("SUBSCRIBE TO ()", "SYNTAX_ERROR", ")"),
    ("SUBSCRIBE TO (DELETE FROM t)", "SYNTAX_ERROR", "DELETE"),
    ("SUBSCRIBE TO (SELECT 1 AS OF 5)", "INVALID_STATEMENT", "SELECT 1 AS OF 5"),
    ("SUBSCRIBE TO (SELECT 1) AS 'r'", "NOT_SUPPORTED", "'r'"),
    ("SUBSCRIBE TO x AS OF 5 FROM 6", "SYNTAX_ERROR", "FROM"),
    ("SUBSCRIBE TO x AS OF now()", "SYNTAX_ERROR", "now"),
    ("SUBSCRIBE TO x UNTIL 5", "SYNTAX_ERROR", "UNTIL"),
    ("SUBSCRIBE TO x AS 'a' AS 'b'", "SYNTAX_ERROR", "AS"),
    ("SUBSCRIBE TO x AS reader", "SYNTAX_ERROR", "reader"),
    ("SUBSCRIBE TO x AS ' '", "INVALID_NAME", "' '"),
    ("SUBSCRIBE TO x WITH (PROGRESS = 3)", "INVALID_OPTION", "3"),
    ("SUBSCRIBE TO x WITH (SNAPSHOT)", "SYNTAX_ERROR", "SNAPSHOT"),
    ("DROP SUBSCRIPTION", "SYNTAX_ERROR", ""),
    ("SHOW SUBSCRIPTIONS x", "SYNTAX_ERROR", "x"),
    (FLOW + "KEYS (k)", "SYNTAX_ERROR", ""),
    (FLOW + "SEQUENCE BY n", "SYNTAX_ERROR", ""),
    (FLOW + "KEYS (k) SEQUENCE BY n KEYS (k)", "SYNTAX_ERROR", "KEYS"),
    (FLOW + "KEYS (k) SEQUENCE BY n STORED AS SCD TYPE 3", "SYNTAX_ERROR", "3"),
    (FLOW + "KEYS (k) SEQUENCE BY n STORED AS SCD TYPE BITEMPORAL", NO, "TYPE"),
    (FLOW + "KEYS (k) APPLY AS TRUNCATE WHEN x SEQUENCE BY n", NO, "APPLY"),
    (FLOW + "KEYS (k) SYSTEM SEQUENCE BY n", NO, "SYSTEM"),
    ("CREATE FLOW f AS AUTO CDC ONCE INTO t FROM s KEYS (k) SEQUENCE BY n", NO, "ONCE"),
    ("CREATE FLOW f AS AUTO CDC INTO t FROM (SELECT 1) KEYS (k) SEQUENCE BY n", NO, "("),
    ("CREATE FLOW f AS INSERT INTO t SELECT 1", NO, "INSERT"),
    ("REHEARSE 'folder'", NO, "REHEARSE"),
    ("CREATE OR REPLACE DYNAMIC TABLE t TARGET_LAG = '1 day' AS SELECT 1", NO, "DYNAMIC TABLE"),
    ("ALTER DYNAMIC TABLE t REFRESH", NO, "DYNAMIC TABLE"),
    ("CREATE OR REFRESH STREAMING TABLE t", NO, "STREAMING TABLE"),
    ("DROP STREAMING TABLE t", NO, "STREAMING TABLE"),
    ("REFRESH STREAMING TABLE t", NO, "STREAMING TABLE"),
    (MV + "SCHEDULE EVERY 1 HOUR AS SELECT 1", NO, "SCHEDULE"),
    (MV + "CLUSTER BY (a) AS SELECT 1", NO, "CLUSTER"),
    (MV + "IN CLUSTER c AS SELECT 1", NO, "IN"),
    (CT + "IN CLUSTER c ON INPUT a" + BODY, NO, "IN"),
    ("ALTER TABLE t ALTER a SET DATA TYPE BIGINT", "SYNTAX_ERROR", "SET"),
    ("SHOW CONSTRAINTS IN t", "SYNTAX_ERROR", "IN"),
    ("CREATE CONTINUAL TASK x FROM RETAIN t USING (a)", "SYNTAX_ERROR", "USING"),
    ("CREATE CONTINUAL TASK x FROM TRANSFORM t USING ()", "SYNTAX_ERROR", ")"),
    (CT + "WITH (a = 1) FROM TRANSFORM t USING (SELECT 1) WITH (b = 2)", "SYNTAX_ERROR", "WITH"),
    (CT + "WITH (a = 1) FROM RETAIN t WITH (b = 2) WHILE (a)", "SYNTAX_ERROR", "WITH"),
    ("CREATE CONTINUAL TASK x FROM TRANSFORM t USING (SELECT 1) x", "SYNTAX_ERROR", "x"),
    ("OPTIMIZE t", NO, "OPTIMIZE"),
    ("RESTORE TABLE t TO VERSION AS OF 1", NO, "RESTORE"),
    ("EXPLAIN EXTENDED SELECT 1", NO, "EXTENDED"),
    ("EXPLAIN", "SYNTAX_ERROR", ""),
    ("EXPLAIN ANALYZE SELECT 1", NO, "ANALYZE"),
    ("VERIFY v FULL", "SYNTAX_ERROR", "FULL"),
    ("SET a =", "SYNTAX_ERROR", ""),
    ("SELECT 1; SELECT 2", "SYNTAX_ERROR", "SELECT"),
    (" -- nothing", "SYNTAX_ERROR", " -- nothing"),
]


@pytest.mark.parametrize(("text", "condition", "place"), REFUSED)
def test_refused(text: str, condition: str, place: str) -> None:
    """A refusal has a condition and the exact place, and its message keeps to the style."""
    with pytest.raises(CtsqlError) as raised:
        parsed(text)
    problem = raised.value
    assert problem.condition == condition
    assert problem.span is not None
    assert problem.span.text == place
    assert not problem.message.endswith(".")
    assert "TokenType" not in str(problem)


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE t ALTER COLUMN a SET DATA TYPE INT",
        "ALTER TABLE t ALTER COLUMN a DROP IDENTITY",
        "CREATE TABLE t (a INT) PARTITIONED (a)",
        "CREATE TABLE t (a INT) CLUSTER (a)",
        "DROP MATERIALIZED TABLE x",
    ],
)
def test_a_word_is_not_its_own_correction(text: str) -> None:
    """A known word that something else must follow gets no "Did you mean" of itself."""
    with pytest.raises(CtsqlError, match="SYNTAX_ERROR") as raised:
        parsed(text)
    assert raised.value.hint is None


HINTS = [
    ("CRAETE TABLE t (a INT)", 'Did you mean "CREATE"?'),
    (CT + BODY, "Type: CREATE CONTINUAL TASK ct ON INPUT <table> AS (INSERT INTO ct SELECT ...)"),
    ("TRUNCATE TABLE s.t", "Type: DELETE FROM s.t"),
    ("SELECT * FROM t AS OF", "AS OF takes milliseconds since 1970 or a timestamp in quotes."),
    ("SHOW TASKS", "Type: SHOW CONTINUAL TASKS"),
    ("SHOW mvs LIKE 'a'", "Type: SHOW MATERIALIZED VIEWS"),
    ("SHOW TABLE", "Type: SHOW TABLES"),
    ("SHOW CONSTRAINT", "Type: SHOW CONSTRAINTS"),
    # What ALTER takes of a kind, or what does the same.
    ("ALTER CONTINUAL TASK IF EXISTS a SKIP", "CREATE OR REPLACE CONTINUAL TASK ..."),
    ("ALTER TABLE IF EXISTS a RENAME TO b", "Leave IF EXISTS out"),
    ("ALTER TABLE a SET TBLPROPERTIES ('b' = 'c')", "ADD COLUMN"),
    ("ALTER MATERIALIZED VIEW a RETRY", "APPLY REPLACEMENT"),
    ("ALTER VIEW a SKIP", "takes: RENAME TO"),
    # What to use instead of a removed statement.
    ("PLAN ALTER TABLE t DROP COLUMN a", "ctsql plan"),
    ("REHEARSE 'folder'", "CREATE REPLACEMENT"),
    ("ALTER DYNAMIC TABLE t REFRESH", "REFRESH EVERY '5 minutes'"),
    ("CREATE OR REFRESH STREAMING TABLE t", "CREATE CONTINUAL TASK"),
    ("CREATE FLOW f AS INSERT INTO t SELECT 1", "CREATE CONTINUAL TASK"),
    ("CREATE TABLE t (a INT) FROM FILES 'x'", "COPY t FROM"),
    ("CREATE TABLE t (a INT) FROM KAFKA (BROKER 'x')", "con.writer"),
    (MV + "SCHEDULE EVERY 1 HOUR AS SELECT 1", "WITH (REFRESH EVERY '1 hour')"),
]


@pytest.mark.parametrize(("text", "hint"), HINTS)
def test_hints(text: str, hint: str) -> None:
    """The hint gives the statement to type, or the word that was meant."""
    with pytest.raises(CtsqlError) as raised:
        parsed(text)
    assert hint in (raised.value.hint or "")
    assert text != CT + BODY or raised.value.message == "ON INPUT is missing"


DEFAULTS_ON = "'delta.feature.allowColumnDefaults' = 'supported'"
TABLES_WITH_DEFAULTS = [
    ("(a INT DEFAULT 4) COMMENT 'x'", f"(a INT DEFAULT 4) TBLPROPERTIES ({DEFAULTS_ON}) COMMENT"),
    ("(a INT DEFAULT 4) TBLPROPERTIES ('b'='c')", f"TBLPROPERTIES ('b'='c', {DEFAULTS_ON})"),
    (f"(a INT DEFAULT 4) TBLPROPERTIES ({DEFAULTS_ON})", f"TBLPROPERTIES ({DEFAULTS_ON})"),
    ("(a INT DEFAULT 4 CHECK (a > 0))", f"(a INT DEFAULT 4) TBLPROPERTIES ({DEFAULTS_ON})"),
    ("(a INT) TBLPROPERTIES ('b'='c')", "(a INT) TBLPROPERTIES ('b'='c')"),
]


@pytest.mark.parametrize(("text", "expected"), TABLES_WITH_DEFAULTS)
def test_defaults_of_a_table(text: str, expected: str) -> None:
    """Delta is told that a table has defaults, beside the properties that the user gives."""
    made = parsed(f"CREATE TABLE t {text}", CreateTable)
    sent = splice(made.text.span, made.text.edits).text
    assert expected in sent
    assert sent.count("TBLPROPERTIES") <= 1
