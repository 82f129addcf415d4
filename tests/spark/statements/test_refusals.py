"""Bad input: a clear error that names the place, and nothing has changed."""

from pathlib import Path

from ctsql.api import Connection
from tests.helpers.table_folder import tree
from tests.scenarios.runner import expect_error

SET_UP = """
CREATE TABLE feed (key INT, val STRING);
INSERT INTO feed VALUES (1, 'a');
CREATE CONTINUAL TASK copy (key INT, val STRING) ON INPUT feed
    AS (INSERT INTO copy SELECT * FROM feed);
CREATE VIEW plain AS SELECT key FROM feed;
CREATE VIEW counted AS SELECT DISTINCT key FROM feed;
CREATE MATERIALIZED VIEW held AS SELECT key FROM feed;
CREATE VIEW under AS SELECT 1 AS key;
CREATE MATERIALIZED VIEW above AS SELECT key FROM under;
SELECT * FROM copy, held
"""

FLOW = "CREATE FLOW f AS AUTO CDC INTO target FROM feed {} STORED AS SCD TYPE 1"
TASK = "CREATE CONTINUAL TASK t (key INT) ON INPUT feed AS ({})"

# statement, condition, the piece of the text the error points at
CASES = [
    ("SELECT nope FROM feed", "UNKNOWN_COLUMN", "nope"),
    ("SELECT key FROM fed", "UNKNOWN_RELATION", "fed"),
    ("SELECT key FROM nowhere.feed", "UNKNOWN_SCHEMA", "nowhere.feed"),
    ("SELECT 1 FRM feed", "SYNTAX_ERROR", "FRM"),
    ("SELECT key, FROM feed", "SYNTAX_ERROR", ","),
    ("DELETE FROM feed USING copy WHERE true", "NOT_SUPPORTED", "copy"),
    ("DELETE FROM feed WHERE key IN (SELECT key FROM copy)", "NOT_SUPPORTED", "copy"),
    ("UPDATE feed SET key = (SELECT max(key) FROM held)", "NOT_SUPPORTED", "held"),
    ("INSERT INTO feed VALUES (1, 'a', 2)", "COLUMN_COUNT_MISMATCH", None),
    ("INSERT INTO feed (key) VALUES (1, 'a')", "COLUMN_COUNT_MISMATCH", None),
    ("SELEKT 1", "SYNTAX_ERROR", "SELEKT"),
    ("SELECT 'open", "SYNTAX_ERROR", None),
    ("SELECT nofunction(key) FROM feed", "UNKNOWN_FUNCTION", "nofunction(key)"),
    ("SELECT 1 / 0", "DATA_ERROR", None),
    ("SELECT * FROM feed AS OF 5", "AS_OF_OUT_OF_RANGE", "5"),
    ("CREATE TABLE feed (a INT)", "OBJECT_EXISTS", "feed"),
    ("CREATE TABLE x (a INT, A INT)", None, None),
    ("CREATE TABLE x (a NOTYPE)", None, None),
    ("CREATE VIEW x AS SELECT key AS `` FROM feed", "INVALID_NAME", None),
    ("CREATE MATERIALIZED VIEW x AS SELECT key AS `` FROM feed", "INVALID_NAME", None),
    ("CREATE TABLE x AS SELECT key AS `` FROM feed", "INVALID_NAME", None),
    ("CREATE TABLE x AS SELECT key AS _metadata FROM feed", "INVALID_NAME", None),
    ("CREATE TABLE x LOCATION '/no/such/folder'", "NOT_A_DELTA_TABLE", "'/no/such/folder'"),
    ("CREATE TABLE nowhere.x (a INT)", "UNKNOWN_SCHEMA", "nowhere.x"),
    ("INSERT INTO feed SELECT 'x', 'y'", None, None),
    ("INSERT INTO copy VALUES (1, 'a')", "OUTPUT_OWNED", "copy"),
    ("DELETE FROM held", "OUTPUT_OWNED", "held"),
    ("UPDATE plain SET key = 1", "OUTPUT_OWNED", "plain"),
    ("DROP TABLE feed", "DEPENDENT_OBJECTS", "feed"),
    ("DROP VIEW feed", "WRONG_OBJECT_KIND", "feed"),
    ("EXPLAIN ANALYZE copy", "WRONG_OBJECT_KIND", "copy"),
    ("REFRESH MATERIALIZED VIEW feed", "WRONG_OBJECT_KIND", "feed"),
    ("DROP TABLE nope", "UNKNOWN_RELATION", "nope"),
    ("ALTER TABLE feed RENAME TO copy", "OBJECT_EXISTS", "copy"),
    ("COMMENT ON COLUMN feed.nope IS 'x'", "UNKNOWN_COLUMN", None),
    ("SET nope = 1", "UNKNOWN_SETTING", "nope"),
    ("SET isolation = 'loose'", "INVALID_OPTION", "'loose'"),
    ("COMMIT", "TRANSACTION_NOT_OPEN", "COMMIT"),
    ("SUBSCRIBE TO nope", "UNKNOWN_RELATION", "nope"),
    ("SUBSCRIBE TO feed AS OF 5", "AS_OF_OUT_OF_RANGE", "5"),
    ("SUBSCRIBE TO (SELECT nope FROM feed)", "UNKNOWN_COLUMN", None),
    ("SUBSCRIBE TO (SELECT rand() AS r)", "NONDETERMINISTIC_FUNCTION", "rand"),
    ("DROP SUBSCRIPTION 'nobody'", "UNKNOWN_RELATION", "'nobody'"),
    (FLOW.format("KEYS (nope) SEQUENCE BY val"), "UNKNOWN_COLUMN", "nope"),
    (FLOW.format("KEYS (key) SEQUENCE BY nope"), "UNKNOWN_COLUMN", None),
    (FLOW.format("KEYS (key) SEQUENCE BY key COLUMNS (val)"), "INVALID_STATEMENT", "(val)"),
    (FLOW.format("KEYS (key) SEQUENCE BY key TRACK HISTORY ON val"), "INVALID_STATEMENT", "val"),
    (FLOW.format("KEYS (key) APPLY AS DELETE WHEN val SEQUENCE BY key"), None, None),
    (TASK.format("INSERT INTO t SELECT key, val FROM feed"), "COLUMN_COUNT_MISMATCH", None),
    (TASK.format("INSERT INTO copy SELECT * FROM feed"), "TASK_WRITES_FOREIGN_TABLE", "copy"),
    (TASK.format("UPDATE t SET nope = 1"), "UNKNOWN_COLUMN", "nope"),
    (TASK.format("UPDATE feed SET key = 1"), "TASK_WRITES_FOREIGN_TABLE", "feed"),
    (
        TASK.format("INSERT INTO t SELECT key FROM deletes(held)"),
        "INVALID_STATEMENT",
        "deletes(held)",
    ),
    (TASK.format("INSERT INTO t SELECT key FROM changes(t)"), "INVALID_STATEMENT", "changes(t)"),
    ("SELECT * FROM inserts(feed)", "INVALID_STATEMENT", "inserts(feed)"),
    (
        TASK.format("MERGE INTO t USING (SELECT 1 AS x) s ON true WHEN NOT MATCHED THEN INSERT *"),
        "UNKNOWN_COLUMN",
        None,
    ),
    (
        "CREATE CONTINUAL TASK t (key INT DEFAULT 'x') ON INPUT feed AS (DELETE FROM t)",
        "TYPE_MISMATCH",
        "'x'",
    ),
    (
        "CREATE CONTINUAL TASK t (key INT DEFAULT rand()) ON INPUT feed"
        " AS (INSERT INTO t VALUES (DEFAULT))",
        "NONDETERMINISTIC_FUNCTION",
        "rand",
    ),
    (TASK.format("SELECT 1"), "INVALID_STATEMENT", None),
    (TASK.format(""), "INVALID_STATEMENT", None),
    ("CREATE CONTINUAL TASK t (key INT) AS (DELETE FROM t)", "SYNTAX_ERROR", None),
    (
        "CREATE CONTINUAL TASK t ON INPUT counted AS (INSERT INTO t SELECT key FROM counted)",
        "NOT_DURABLE",
        "counted",
    ),
    (TASK.format("INSERT INTO t SELECT key * rand() FROM feed"), "NONDETERMINISTIC_FUNCTION", None),
    (
        TASK.format("INSERT INTO t SELECT day(CAST(concat('n', 'ow') AS DATE)) FROM feed"),
        "NONDETERMINISTIC_FUNCTION",
        None,
    ),
    (
        TASK.format("INSERT INTO t SELECT year(`now`()) FROM feed"),
        "NONDETERMINISTIC_FUNCTION",
        None,
    ),
    (
        TASK.format("INSERT INTO t SELECT year(DATE 'today') FROM feed"),
        "NONDETERMINISTIC_FUNCTION",
        "DATE",
    ),
    (
        TASK.format("DELETE FROM t WHERE make_date(key, 1, 1) < 'today'"),
        "NONDETERMINISTIC_FUNCTION",
        None,
    ),
    (
        TASK.format("UPDATE t SET key = year(CAST('now' AS TIMESTAMP))"),
        "NONDETERMINISTIC_FUNCTION",
        None,
    ),
    (
        "CREATE MATERIALIZED VIEW x AS SELECT key FROM feed WHERE make_date(key, 1, 1) < 'now'",
        "NONDETERMINISTIC_FUNCTION",
        None,
    ),
    (
        "CREATE CONTINUAL TASK t (key INT, d DATE DEFAULT CAST('now' AS DATE)) ON INPUT feed"
        " AS (INSERT INTO t (key) SELECT key FROM feed)",
        "NONDETERMINISTIC_FUNCTION",
        None,
    ),
    (TASK.format("INSERT INTO t SELECT 1 / 0 FROM feed"), "TASK_FAILED", None),
    ("CREATE CONTINUAL TASK t ON INPUT t AS (INSERT INTO t SELECT 1)", "RECURSIVE_DEFINITION", "t"),
    (
        "CREATE CONTINUAL TASK t (key INT) ON INPUT feed, held, feed AS (DELETE FROM t)",
        "INVALID_STATEMENT",
        "feed",
    ),
    ("CREATE MATERIALIZED VIEW m AS SELECT key, key FROM feed", "DUPLICATE_COLUMN", None),
    ("CREATE MATERIALIZED VIEW m AS SELECT NULL AS x FROM feed", "INVALID_COLUMN_TYPE", None),
    ("CREATE MATERIALIZED VIEW m AS SELECT 1 AS `a b` FROM feed", "INVALID_NAME", None),
    ("CREATE MATERIALIZED VIEW m AS SELECT now() AS t FROM feed", "CLOCK_NOT_COMPARED", "now()"),
    (
        "CREATE MATERIALIZED VIEW m AS SELECT key FROM feed WHERE val > now()",
        "CLOCK_NOT_COMPARED",
        "now()",
    ),
    ("CREATE MATERIALIZED VIEW m AS SELECT * FROM m", "RECURSIVE_DEFINITION", "m"),
    ("CREATE MATERIALIZED VIEW m AS SELECT 1 / 0 AS x FROM feed", "VIEW_FAILED", None),
    ("CREATE OR REPLACE VIEW plain AS SELECT * FROM plain", "RECURSIVE_DEFINITION", "plain"),
    ("CREATE OR REPLACE VIEW under AS SELECT 2 AS other", "COLUMNS_IN_USE", "under"),
    ("CREATE VIEW v (a, b) AS SELECT key FROM feed", "COLUMN_COUNT_MISMATCH", None),
]


def test_refusals_change_nothing(con: Connection, warehouse: Path) -> None:
    """Every refusal names its condition and place; catalog, logs and files stay as they were."""
    con.execute(SET_UP)
    for sql, condition, place in CASES:
        listed = con.execute("SHOW OBJECTS").fetchall()
        before = tree(warehouse)
        refused = expect_error(con, sql, condition)
        assert refused.message, sql
        assert refused.message == refused.message.rstrip("."), sql
        if place is not None:
            assert refused.span is not None, sql
            assert refused.span.text == place, sql
        after = {name: size for name, size in tree(warehouse).items() if "/.ctsql" not in name}
        # A read may bind what was committed; nothing is committed here, so nothing is bound.
        assert after == before, sql
        assert con.execute("SHOW OBJECTS").fetchall() == listed, sql
