"""No statement writes into, or attaches, what ctsql or Delta keeps for itself."""

from pathlib import Path

from ctsql.api import Connection
from tests.helpers.table_folder import folder, tree
from tests.scenarios.runner import expect_error

ATTACH = "CREATE TABLE mine LOCATION '{}'"
COPY = "COPY (SELECT 1 AS a) TO '{}' (FORMAT {}, OVERWRITE true)"
OUTPUT = "CREATE MATERIALIZED VIEW mine WITH (LOCATION = '{}') AS SELECT k FROM t"
TASK = "CREATE CONTINUAL TASK mine (k INT) ON INPUT t WITH (LOCATION = '{}') AS (INSERT INTO mine "


def test_own_folders_are_refused(con: Connection, tmp_path: Path) -> None:
    """However the folder is spelled, and those of outputs elsewhere; nothing changes."""
    away = tmp_path / "away"
    con.execute(
        "CREATE TABLE t (k INT); INSERT INTO t VALUES (1); "
        "CREATE CONTINUAL TASK c (k INT) ON INPUT t AS (INSERT INTO c SELECT k FROM t); "
        f"CREATE MATERIALIZED VIEW v WITH (LOCATION = '{away}') AS SELECT k FROM t; "
        "CREATE TABLE gone (k INT)"
    )
    dropped, task = folder(con, "gone"), folder(con, "c")
    con.execute("DROP TABLE gone")
    home = task.parents[1]
    (tmp_path / "link").symlink_to(home)
    (tmp_path / "linked").symlink_to(away)
    theirs = tmp_path / "theirs"
    con.spark.range(3).write.format("delta").save(str(theirs))
    con.spark.range(3).write.format("delta").save(str(away / "inner"))
    before = tree(tmp_path)
    refused = {
        ATTACH: [
            f"{home}/_ctsql/timeline", f"file:{home}/_ctsql/catalog/", f"FILE:{home}/_ctsql",
            f"{home}/default/../_ctsql/timeline", f"{tmp_path}/link/_ctsql/timeline",
            f"{tmp_path}/link/default/{task.name}", f"FILE:{task}", f"{task}/", str(dropped),
            f"{tmp_path}/link/default/{dropped.name}", str(away), f"{tmp_path}/linked",
            str(away / "inner"), str(home), str(tmp_path),
        ],
        OUTPUT: [
            f"{home}/default/mine", f"{home}/_ctsql/mine", f"{task}/mine", f"{theirs}/mine",
            f"{theirs}/_delta_log/mine", f"{tmp_path}/link/mine", f"{away}/mine",
        ],
        COPY: [
            f"{home}/out.csv", f"{task}/_delta_log/00000000000000000009.json", f"{home}/new",
            f"{theirs}/_delta_log/00000000000000000009.json", f"{tmp_path}/link/x.csv",
            f"{away}/x.csv", f"{theirs}/_delta_log/x", str(tmp_path),
        ],
    }  # fmt: skip
    for statement, places in refused.items():
        for place in places:
            problem = expect_error(con, statement.format(place, "json"))
            assert problem.condition in ("NOT_SUPPORTED", "OBJECT_EXISTS"), (place, problem)
            assert place in (problem.span.text if problem.span else ""), place
    said = expect_error(con, ATTACH.format(dropped))
    assert "UNDROP TABLE gone" in (said.hint or "")
    expect_error(con, f"{TASK.format(home)}SELECT k FROM t)", "NOT_SUPPORTED")
    assert tree(tmp_path) == before
    con.execute(ATTACH.format(theirs))
    assert con.execute("SELECT count(*) FROM mine").fetchall() == [(3,)]
    con.execute(f"DROP TABLE mine; {ATTACH.format(theirs)}")
