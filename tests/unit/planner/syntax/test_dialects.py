"""Materialized views as Snowflake and Databricks spell them."""

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.refreshes import At, Cron, Every
from ctsql.catalog.spans import Source
from ctsql.planner.binding.advice import advise
from ctsql.planner.syntax import parse
from ctsql.planner.syntax.ast import (
    CreateContinualTask,
    CreateMaterializedView,
    CreateStreamingTable,
)

HOUR_MS = 3_600_000
DT, MV, AS = "CREATE DYNAMIC TABLE t ", "CREATE MATERIALIZED VIEW v ", " AS SELECT 1 AS a"


def _parse(text: str) -> CreateMaterializedView:
    found = parse(Source(text, "<test>").whole())
    assert isinstance(found, CreateMaterializedView)
    return found


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (DT + "TARGET_LAG = '1 hour'" + AS, [Every(HOUR_MS), At()]),
        (DT + "INITIALIZE = ON_SCHEDULE TARGET_LAG = '1 hour'" + AS, [Every(HOUR_MS)]),
        (DT + "TARGET_LAG = DOWNSTREAM REFRESH_MODE = INCREMENTAL" + AS, ["strict"]),
        (DT + "(a) refresh_mode = full target_lag = downstream" + AS, ["full"]),
        (MV + "SCHEDULE EVERY 1 HOUR" + AS, [At(), Every(HOUR_MS)]),
        (MV + "COMMENT 'x' SCHEDULE REFRESH EVERY 2 HOURS" + AS, [At(), Every(2 * HOUR_MS)]),
        (MV + "SCHEDULE CRON '0 30 3 ? * 2-6 *'" + AS, [At(), Cron("0 30 3 * * 1-5")]),
        (
            MV + "SCHEDULE REFRESH CRON '0 0 0 1 JUL ?' AT TIME ZONE 'utc'" + AS,
            [At(), Cron("0 0 0 1 JUL *")],
        ),
        (DT + "TARGET_LAG = DOWNSTREAM REFRESH_MODE = ADAPTIVE" + AS, ["auto"]),
        ("CREATE OR REFRESH MATERIALIZED VIEW schedule" + AS, []),
        ("CREATE OR REPLACE MATERIALIZED VIEW schedule" + AS, []),
        ("CREATE MATERIALIZED VIEW IF NOT EXISTS row.schedule (cluster)" + AS, []),
    ],
)
def test_clauses_are_options(text: str, options: list[object]) -> None:
    """A lag is a schedule that begins at once; a mode is a policy."""
    assert [o.value for o in _parse(text).options] == options


TASK = "CREATE OR REPLACE CONTINUAL TASK x (k INT) {} ON INPUT t AS (INSERT INTO x SELECT k FROM t)"
USING = "REFRESH USING (INSERT INTO SELF SELECT k FROM t CHANGES (INFORMATION => APPEND_ONLY))"


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        (DT + "TARGET_LAG = '1 hour' WAREHOUSE = w" + AS, ["WAREHOUSE = w"]),
        (
            DT + "WAREHOUSE = \"My wh\" TARGET_LAG = '1 day' CLUSTER BY (a, b) "
            "INITIALIZATION_WAREHOUSE = 'x' COMMENT = 'c'" + AS,
            ['WAREHOUSE = "My wh"', "CLUSTER BY (a, b)", "INITIALIZATION_WAREHOUSE = 'x'"],
        ),
        (DT + "(k INT) TARGET_LAG = DOWNSTREAM WAREHOUSE = w " + USING, ["WAREHOUSE = w"]),
        (
            MV + "CLUSTER BY AUTO COMMENT 'c' TBLPROPERTIES ('quality' = 'gold', a = 1) "
            "SCHEDULE EVERY 1 HOUR" + AS,
            ["CLUSTER BY AUTO", "TBLPROPERTIES ('quality' = 'gold', a = 1)"],
        ),
        (MV + "IN CLUSTER quickstart WITH (REFRESH EVERY '1 day')" + AS, ["IN CLUSTER quickstart"]),
        (TASK.format("IN CLUSTER `a b`"), ["IN CLUSTER `a b`"]),
        (TASK.format(""), []),
        (
            "CREATE CONTINUAL TASK x IN CLUSTER c FROM TRANSFORM t USING (SELECT * FROM t)",
            ["IN CLUSTER c"],
        ),
        ("CREATE STREAMING TABLE s CLUSTER BY (a) AS SELECT * FROM STREAM t", ["CLUSTER BY (a)"]),
    ],
)
def test_clauses_that_change_no_row_are_told(text: str, clauses: list[str]) -> None:
    """They are taken, whatever stands around them, and the author is told of each."""
    made = parse(Source(text, "<test>").whole())
    assert isinstance(made, CreateMaterializedView | CreateContinualTask | CreateStreamingTable)
    assert [u.span.text for u in made.unheeded_clauses] == clauses
    told = [a.message for a in advise(made, lambda _: ())]
    assert len(told) == len(clauses)
    assert all("has no effect" in message for message in told)


def test_the_rest_of_a_dynamic_table() -> None:
    """It is a view like any other."""
    text = (
        "CREATE OR REPLACE DYNAMIC TABLE IF NOT EXISTS s.t (x) COMMENT = 'c' TARGET_LAG = '1 day'"
    )
    made = _parse(text + AS)
    assert (made.target.parts, made.comment) == (("s", "t"), "c")
    assert (made.or_replace, made.if_not_exists) == (True, True)
    assert [c.name for c in made.columns] == ["x"]
    assert made.query.span.text == "SELECT 1 AS a"


@pytest.mark.parametrize(
    ("text", "condition", "place"),
    [
        (DT + "TARGET_LAG = '1 hour' WAREHOUSE = w WAREHOUSE = v" + AS, "INVALID_OPTION", None),
        (DT + "TARGET_LAG = '1 hour' WAREHOUSE" + AS, "SYNTAX_ERROR", "AS"),
        ("CREATE TRANSIENT DYNAMIC TABLE t" + AS, "NOT_SUPPORTED", "TRANSIENT"),
        (DT + AS, "INVALID_STATEMENT", "AS"),
        (DT + "TARGET_LAG = 'soon'" + AS, "INVALID_OPTION", "TARGET_LAG = 'soon'"),
        (DT + "TARGET_LAG = '0 3 * * *'" + AS, "INVALID_OPTION", "TARGET_LAG = '0 3 * * *'"),
        (DT + "REFRESH_MODE = FAST" + AS, "INVALID_OPTION", "REFRESH_MODE = FAST"),
        (DT + "TARGET_LAG = '1 day' TARGET_LAG = '1 day'" + AS, "INVALID_OPTION", None),
        (DT + "TARGET_LAG = '1 day' OWNER = me" + AS, "INVALID_OPTION", "OWNER = me"),
        (
            DT + "TARGET_LAG = '1 day' REFRESH_MODE = CUSTOM_INCREMENTAL" + AS,
            "INVALID_OPTION",
            None,
        ),
        (DT + "TARGET_LAG = '1 day' BACKFILL FROM u" + AS, "NOT_SUPPORTED", "BACKFILL"),
        (DT + "TARGET_LAG = '1 day' IMMUTABLE WHERE (a)" + AS, "NOT_SUPPORTED", "IMMUTABLE"),
        (DT + "TARGET_LAG", "SYNTAX_ERROR", ""),
        (MV + "SCHEDULE CRON '0 3 * * *'" + AS, "INVALID_OPTION", "'0 3 * * *'"),
        (MV + "SCHEDULE CRON '0 0 3 L * ?'" + AS, "INVALID_OPTION", "'0 0 3 L * ?'"),
        (MV + "SCHEDULE CRON '0 0 3 ? * 9'" + AS, "INVALID_OPTION", "'0 0 3 ? * 9'"),
        (
            MV + "SCHEDULE CRON '0 0 3 * * ?' AT TIME ZONE 'Europe/Berlin'" + AS,
            "NOT_SUPPORTED",
            "'Europe/Berlin'",
        ),
        (MV + "(a, CONSTRAINT c EXPECT (a > 1) ON VIOLATION DROP ROW)" + AS, "NOT_SUPPORTED", None),
        (MV + "SCHEDULE EVERY 1 MONTH" + AS, "INVALID_OPTION", "SCHEDULE EVERY 1 MONTH"),
        (MV + "CLUSTER (a)" + AS, "SYNTAX_ERROR", "("),
        (MV + "IN (a)" + AS, "SYNTAX_ERROR", "IN"),
        (MV + "SCHEDULE EVERY 1 DAY SCHEDULE EVERY 1 DAY" + AS, "SYNTAX_ERROR", "SCHEDULE"),
        (MV + "PARTITIONED BY (a)" + AS, "NOT_SUPPORTED", "PARTITIONED"),
        (MV + "TBLPROPERTIES ('delta.appendOnly' = 'true')" + AS, "NOT_SUPPORTED", None),
        (MV + "TBLPROPERTIES (a = 1, pipelines.reset.allowed = 0)" + AS, "NOT_SUPPORTED", None),
        (MV + "TRIGGER ON UPDATE" + AS, "NOT_SUPPORTED", "TRIGGER"),
    ],
)
def test_what_cannot_be_honoured_is_refused(text: str, condition: str, place: str | None) -> None:
    """By name, at its place."""
    with pytest.raises(CtsqlError) as refused:
        _parse(text)
    assert refused.value.condition == condition
    assert refused.value.span is not None
    assert place is None or refused.value.span.text == place
