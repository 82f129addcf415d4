"""A process killed at each named point: afterwards all is right, and each T was written once."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection
from ctsql.runtime.log.fault_points import PROMISES
from tests.helpers.processes import run_killed
from tests.helpers.sample_warehouse import vacuum
from tests.helpers.table_folder import check_written_once, folder
from tests.scenarios.runner import assert_rows

pytestmark = pytest.mark.core

HALFWAY = "outputs_halfway"
"""Only a task with a quarantine or several outputs: tests/spark/tasks/test_constraints.py."""
STATE_COMMITTED = "state_committed"
"""Only a view with a table beside it comes there: tests/spark/views/test_state_tables.py."""
OF_COLUMNS = ("columns_added", "table_prepared", "tables_altered")
"""Only where columns are changed: test_definitions_killed, test_alter_table, and
test_altered_by_folder_killed."""
EACH_TIME = ("output_committed", "timeline_committed")
"""The simulation is killed anywhere in every run; what is slow here is the process around it."""
SET_UP = [
    "CREATE TABLE beside (k INT)",
    "CREATE TABLE feed (k INT, v INT)",
    """CREATE CONTINUAL TASK latest (k INT, v INT) ON INPUT feed AS (
        DELETE FROM latest WHERE k IN (SELECT k FROM feed);
        INSERT INTO latest SELECT k, max(v) FROM feed GROUP BY k)""",
    "INSERT INTO feed VALUES (1, 1), (2, 1)",
    "SELECT * FROM latest",
]
SCRIPT = [
    "INSERT INTO feed VALUES (2, 2), (3, 2)",
    "SELECT * FROM latest",
    "CREATE CONTINUAL TASK copy ON INPUT feed AS (INSERT INTO copy SELECT * FROM feed)",
    "INSERT INTO feed VALUES (3, 3), (3, 3)",
    "SELECT * FROM latest",
    "CREATE MATERIALIZED VIEW counts AS SELECT k, count(*) AS n FROM feed GROUP BY k",
    "SELECT * FROM counts",
    "BEGIN",
    "INSERT INTO feed VALUES (4, 4)",
    "INSERT INTO beside VALUES (4)",
    "DELETE FROM feed WHERE v = 1",
    "COMMIT",
    "UPDATE beside SET k = 5 WHERE k = 4",
]
AGAIN = [
    SCRIPT[2].replace("TASK copy", "TASK IF NOT EXISTS copy"),
    SCRIPT[5].replace("VIEW counts", "VIEW IF NOT EXISTS counts"),
]


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(p, marks=[] if p in EACH_TIME else [pytest.mark.slow])
        for p in PROMISES
        if p not in (HALFWAY, STATE_COMMITTED, *OF_COLUMNS)
    ],
)
def test_killed_at(point: str, warehouse: Path, connect: Callable[[], Connection]) -> None:
    """What is in stays in, what is not is done again; nothing is doubled."""
    first = connect()
    for statement in SET_UP:
        first.execute(statement)
    first.close()
    run_killed(warehouse, SCRIPT, point)
    con = connect()
    for statement in AGAIN:
        con.execute(statement)
    held = con.execute("SELECT * FROM feed").fetchall()
    # The model: each commit of the feed in turn, as far as the killed process came.
    latest = {1: 1, 2: 1}
    if (2, 2) in held:
        latest |= {2: 2, 3: 2}
    if (3, 3) in held:
        latest |= {3: 3}
    moved = [(4,)] if (4, 4) in held else []
    assert_rows(con.execute("SELECT * FROM beside").fetchall(), moved, point)
    if moved:
        latest |= {4: 4}
        assert not any(v == 1 for _, v in held), "all of the transaction or nothing"
    assert_rows(con.execute("SELECT * FROM latest").fetchall(), latest.items(), point)
    copied = [*held, (1, 1), (2, 1)] if moved else held
    assert_rows(con.execute("SELECT * FROM copy").fetchall(), copied, point)
    counts = Counter(row[0] for row in held)
    assert_rows(con.execute("SELECT * FROM counts").fetchall(), counts.items(), point)
    con.execute("INSERT INTO feed VALUES (9, 9)")
    assert_rows(con.execute("SELECT v FROM latest WHERE k = 9").fetchall(), [(9,)], point)
    for name in ("latest", "counts"):
        check_written_once(folder(con, name))
        vacuum(con, folder(con, name))
