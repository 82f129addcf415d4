"""A folder of SQL becomes what is in the warehouse, and nothing is done twice."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Maintained
from ctsql.cli.folder_commands import exit_code, lines_of
from tests.helpers.opened import check_rows, engine_of
from tests.helpers.sql_folder import (
    applied,
    change_of,
    dumped,
    moments_of,
    planned,
    statuses,
)

TABLES = """
CREATE TABLE raw (k INT, v INT8 COMMENT 'value');
CREATE TABLE names (k INT, name TEXT NOT NULL);
"""
VIEWS = """
CREATE MATERIALIZED VIEW sums AS SELECT k, sum(v) AS s FROM big GROUP BY k;
CREATE MATERIALIZED VIEW named AS SELECT name, s
    FROM names JOIN sums ON names.k = sums.k WHERE s > 0 AND name <> 'x';
CREATE VIEW big AS SELECT * FROM raw WHERE v > 1;
CREATE MATERIALIZED VIEW middle AS SELECT k, max(v) AS m FROM raw GROUP BY k LIMIT 100;
"""
TASKS = """
CREATE CONTINUAL TASK log ON INPUT raw AS (INSERT INTO log SELECT k, v FROM raw WHERE v > 0);
CREATE CONTINUAL TASK both OUTPUTS (ups (k INT), downs (k INT)) ON INPUT raw AS (
    INSERT INTO ups SELECT k FROM raw WHERE v > 0; INSERT INTO downs SELECT k FROM raw WHERE v < 0);
CREATE FLOW f AS AUTO CDC INTO dim FROM raw KEYS (k) SEQUENCE BY v STORED AS SCD TYPE 1;
COMMENT ON VIEW big IS 'the big ones';
COMMENT ON COLUMN ups.k IS 'key';
"""


def test_a_folder_is_applied_once(connect: Callable[[], Connection]) -> None:
    """All is made at one T; then the folder says what is there, in other words, too."""
    con, other = connect(), connect()
    first = planned(con, TASKS, VIEWS, TABLES)
    assert (exit_code(first), set(statuses(first).values())) == (2, {"new"})
    assert change_of(first, "middle").reason.startswith("LIMIT_WITHOUT_ORDER")
    assert "at 2.sql:6:" in change_of(first, "middle").reason
    assert change_of(first, "sums").incremental
    assert change_of(first, "raw").readers == ("big", "both", "f", "log", "middle")
    assert con.execute("SHOW OBJECTS").fetchall() == []
    applied(con, TASKS, VIEWS, TABLES)
    con.execute("INSERT INTO raw VALUES (1, 5), (1, 1), (2, -1); INSERT INTO names VALUES (1, 'a')")
    check_rows(other, "SELECT * FROM named", ("a", 5))
    check_rows(other, "SELECT k FROM ups", (1,), (1,))
    check_rows(other, "SELECT * FROM dim", (1, 5), (2, -1))
    assert len({i.created_at for i in engine_of(con).catalog if isinstance(i, Maintained)}) == 1
    assert set(statuses(planned(con, *dumped(con))).values()) == {"unchanged"}
    before = moments_of(con)
    again = applied(con, TABLES, TASKS, VIEWS)
    assert (exit_code(again), moments_of(con)) == (0, before)
    same = VIEWS.replace("s > 0 AND name <> 'x'", "'x' <> name and 0 < s").replace(
        "SELECT * FROM raw WHERE v > 1", "select r.k, r.v from `default`.RAW as r where (r.v > 1)"
    )
    spelt = TASKS.replace(
        "INSERT INTO log SELECT k, v", "/* all */ insert into default.log select K, v"
    )
    assert set(statuses(planned(other, TABLES, same, spelt)).values()) == {"unchanged"}
    assert moments_of(con) == before


def test_changes_come_into_force_together(connect: Callable[[], Connection]) -> None:
    """Views, tasks, comments and what is dropped change in one commit, and at one T."""
    con = connect()
    applied(con, TABLES, VIEWS, TASKS)
    con.execute("INSERT INTO raw VALUES (1, 5), (1, 2); INSERT INTO names VALUES (1, 'a')")
    check_rows(con, "SELECT * FROM named", ("a", 7))
    check_rows(con, "SELECT * FROM log", (1, 5), (1, 2))
    views = VIEWS.replace("v > 1", "v > 2").replace("max(v) AS m", "max(v) AS top, count(*) AS n")
    views += "CREATE MATERIALIZED VIEW more AS SELECT top FROM middle;"
    tasks = TASKS.replace("SELECT k, v FROM", "SELECT k, v + 1000 AS v FROM").replace(
        "the big", "big"
    )
    tasks = tasks[: tasks.index("CREATE CONTINUAL TASK both")] + tasks[tasks.index("CREATE FLOW") :]
    tasks = tasks[: tasks.index("COMMENT ON COLUMN")]
    tasks = tasks.replace("SEQUENCE BY v", "APPLY AS DELETE WHEN v = 9 SEQUENCE BY v")
    made = planned(con, TABLES, views, tasks, prune=True)
    assert statuses(made) == {
        "raw": "unchanged",
        "names": "unchanged",
        "big": "changed query comment",
        "sums": "changed query of a view that it reads",
        "named": "unchanged",
        "middle": "changed query columns",
        "more": "new",
        "log": "changed body",
        "f": "changed body",
        "both": "gone",
    }
    told = "\n".join(lines_of(made))
    assert "~ materialized view middle: changed (query, columns): rebuilt" in told
    version, _ = moments_of(con)
    applied(con, TABLES, views, tasks, prune=True)
    engine = engine_of(con)
    now = engine.refresh_catalog()
    (at,) = (i.created_at for i in now if i.name.name == "more")
    (task,) = (i for i in now if i.name.name == "log")
    assert at == engine.timeline.task(task.id).revisions[-1][0]
    assert engine.catalog_store.table.version() <= version + 4, "proposed, written, forgotten twice"
    check_rows(con, "SELECT * FROM named", ("a", 5))
    check_rows(con, "SELECT * FROM more", (5,))
    con.execute("INSERT INTO raw VALUES (1, 9)")
    check_rows(con, "SELECT * FROM log", (1, 5), (1, 2), (1, 1009))
    check_rows(con, "SELECT * FROM sums", (1, 14))
    check_rows(con, "SELECT * FROM dim")
    check_rows(con, "SELECT * FROM middle", (1, 9, 3))
    assert exit_code(planned(con, TABLES, views, tasks)) == 0
    con.execute("UNDROP CONTINUAL TASK both")
    check_rows(con, "SELECT * FROM ups", (1,), (1,), (1,))


def test_what_was_attached_stays_when_an_apply_fails(con: Connection, tmp_path: Path) -> None:
    """It is another's; what the apply has begun to make goes."""
    place = tmp_path / "theirs"
    con.spark.sql(f"CREATE TABLE delta.`{place}` (k INT) USING delta")
    con.execute("SELECT 1")
    before = sorted(Path(con.warehouse).rglob("_delta_log"))
    attached = f"CREATE TABLE theirs LOCATION '{place}';"
    failing = "CREATE TABLE ours AS SELECT id, 1 DIV (id - 5) AS k FROM range(10);"
    with pytest.raises(CtsqlError, match="DATA_ERROR"):
        applied(con, attached, failing)
    assert (place / "_delta_log").is_dir()
    assert sorted(Path(con.warehouse).rglob("_delta_log")) == before
    applied(con, attached)
    check_rows(con, "SELECT count(*) FROM theirs", (0,))
