"""A rehearsal says what a folder would have made of the newest changes, and writes nothing."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ctsql.api import Connection, connect
from ctsql.catalog.errors import CtsqlError
from ctsql.rehearsals import Report, lines_of, rehearse
from tests.conftest import TEST_MASTER
from tests.helpers.sql_folder import applied, folder_of
from tests.scenarios.runner import assert_rows, expect_error

pytestmark = pytest.mark.spark

TABLES = "CREATE TABLE orders (id INT, customer STRING, amount INT); CREATE TABLE other (k INT);"
NEWEST = """
CREATE CONTINUAL TASK newest (id INT, customer STRING, amount INT) ON INPUT orders AS (
    DELETE FROM newest WHERE id IN (SELECT id FROM orders);
    INSERT INTO newest SELECT id, customer, max(amount) FROM orders GROUP BY id, customer
);
"""
SPENT = "CREATE MATERIALIZED VIEW spent AS SELECT customer, sum(amount) AS s FROM big GROUP BY ALL;"
ABOVE = """
CREATE VIEW big AS SELECT * FROM newest WHERE amount > 1;
CREATE CONTINUAL TASK log (customer STRING, s BIGINT) ON INPUT spent AS (
    INSERT INTO log SELECT customer, s FROM spent
);
CREATE CONTINUAL TASK sides OUTPUTS (low (id INT), high (id INT)) ON INPUT orders AS (
    INSERT INTO low SELECT id FROM orders WHERE amount < 6;
    INSERT INTO high SELECT id FROM orders WHERE amount >= 6
);
"""
COUNTED = (
    "CREATE MATERIALIZED VIEW counted AS SELECT customer, count(*) AS n FROM newest GROUP BY ALL;"
)
FIRST = [
    "INSERT INTO orders VALUES (1, 'ann', 10), (2, 'bob', 5)",
    "INSERT INTO orders VALUES (1, 'ann', 12), (1, 'ann', 7)",
]
LATER = [
    "INSERT INTO orders VALUES (3, 'cid', 1), (3, 'cid', 4)",
    "DELETE FROM orders WHERE id = 2",
    "INSERT INTO orders VALUES (2, 'bob', 6), (4, NULL, NULL), (4, NULL, 3), (4, NULL, 9)",
]
OTHER = [
    NEWEST.replace("max(amount)", "min(amount)"),
    SPENT.replace("sum(amount)", "sum(amount + 1)"),
    COUNTED.replace("count(*) AS n", "count(*) AS n, max(amount) AS top"),
    ABOVE.replace("amount > 1", "amount > 4").replace("amount < 6", "amount < 5"),
    "CREATE MATERIALIZED VIEW big_ones AS SELECT id FROM newest WHERE amount > 5;",
]

COPIED = """
CREATE TABLE t (k INT);
CREATE CONTINUAL TASK x (k INT) ON INPUT t AS (INSERT INTO x SELECT k FROM t);
"""
COPIES = "CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM x;"
SEEN = """
CREATE CONTINUAL TASK seen (n BIGINT) ON INPUT counted WITH (SNAPSHOT = false) AS (
    INSERT INTO seen SELECT n FROM counted
);
"""


def _run(con: Connection, statements: Sequence[str]) -> None:
    for statement in statements:
        con.execute(statement)
        con.execute("SELECT * FROM log; SELECT * FROM low").fetchall()


def _files(folder: str) -> dict[Path, int]:
    place = Path(folder.removeprefix("file:"))
    return {path: path.stat().st_size for path in place.rglob("*") if path.is_file()}


def _differences(report: Report) -> dict[str, tuple[list[object], list[object]]]:
    return {
        o.output.name: (list(o.difference.missing), list(o.difference.surplus))
        for o in report.outcomes
        if o.difference is not None
    }


def test_it_says_what_applying_before_those_changes_would_have_made(
    con: Connection, tmp_path: Path
) -> None:
    """The rows of a rehearsal are those of a warehouse in which the folder was applied before."""
    oracle = connect(str(tmp_path / "applied"), master=TEST_MASTER)
    for one in (con, oracle):
        applied(one, TABLES, NEWEST, SPENT, COUNTED, ABOVE)
        _run(one, FIRST)
    applied(oracle, TABLES, *OTHER)
    _run(con, LATER)
    _run(oracle, LATER)
    before = _files(con.warehouse)
    report = rehearse(con, folder_of(TABLES, *OTHER), count=len(LATER))
    assert _files(con.warehouse) == before
    assert len(report.rehearsal.times) == len(LATER)
    assert report.rehearsal.inputs == ("orders",)
    found = {o.output.name: o for o in report.outcomes}
    assert set(found) == {"newest", "spent", "log", "low", "high", "big_ones", "counted"}
    for name, outcome in found.items():
        rows = oracle.execute(f"SELECT * FROM {name}").fetchall()
        assert outcome.count == len(rows), name
    wanted = oracle.execute("SELECT * FROM newest").fetchall()
    stored = con.execute("SELECT * FROM newest").fetchall()
    gone, come = _differences(report)["newest"]
    assert_rows([*(r for r in stored if r not in gone), *come], wanted, "newest")
    assert report.exit_code == 2
    assert found["counted"].output.note.startswith("its columns are others")
    oracle.close()


def test_the_same_definitions_make_the_same_rows(con: Connection) -> None:
    """What a folder does not change is not gone through; a body in other words makes no row."""
    applied(con, TABLES, NEWEST, SPENT, ABOVE)
    _run(con, [*FIRST, *LATER])
    report = rehearse(con, folder_of(TABLES, NEWEST, SPENT, ABOVE))
    assert list(lines_of(report)) == ["nothing to rehearse: the folder says what is there"]
    other = NEWEST.replace("max(amount)", "max(amount + 0)")
    report = rehearse(con, folder_of(TABLES, other, SPENT, ABOVE))
    assert [o.output.name for o in report.outcomes] == ["newest", "spent", "log"]
    assert (report.exit_code, _differences(report)) == (0, {})
    assert len(report.rehearsal.times) == 5


def test_errors_that_would_come_are_told_with_their_t(con: Connection) -> None:
    """A body that fails at a T is told with its place in the folder, and what follows waits."""
    applied(con, TABLES, NEWEST, SPENT, ABOVE)
    _run(con, [*FIRST, *LATER])
    failing = NEWEST.replace("max(amount)", "max(12 DIV (amount - 1))")
    report = rehearse(con, folder_of(TABLES, failing, SPENT, ABOVE), count=4)
    found = {o.output.name: o.output for o in report.outcomes}
    (problem,) = found["newest"].problems
    assert problem.time == report.rehearsal.times[1]
    assert problem.refusal.place.startswith("2.sql:4:")
    assert "zero" in problem.refusal.message
    assert (found["spent"].note, found["log"].note) == ("it waits for newest",) * 2
    assert report.exit_code == 1


def test_a_body_that_mends_a_failed_task_is_seen_to(con: Connection) -> None:
    """Where the task of today stands still, its successor is gone through from there on."""
    failing = NEWEST.replace("max(amount)", "max(12 DIV (amount - 1))")
    applied(con, TABLES, failing)
    for statement in (*FIRST, *LATER, "INSERT INTO orders VALUES (5, 'eve', 7)"):
        con.execute(statement)
    with pytest.raises(CtsqlError, match="zero"):
        con.execute("SELECT * FROM newest")
    report = rehearse(con, folder_of(TABLES, NEWEST), count=2)
    (outcome,) = report.outcomes
    assert len(report.rehearsal.times) == 2
    assert outcome.output.present is not None
    assert "zero" in outcome.output.present.refusal.message
    assert (outcome.count, outcome.output.problems) == (3, ())
    assert report.exit_code == 0


def test_as_a_statement(con: Connection, tmp_path: Path) -> None:
    """REHEARSE gives a row for each output, of one definition or of a folder."""
    applied(con, TABLES, NEWEST)
    for statement in (*FIRST, *LATER):
        con.execute(statement)
    con.execute("SELECT * FROM newest")
    create = NEWEST.replace("max(amount)", "min(amount)").strip().rstrip(";")
    found = con.execute(f"REHEARSE LAST 4 {create}")
    ((*told, error, _, _),) = found.fetchall()
    assert found.columns[:6] == ["object", "kind", "status", "rows", "gone", "come"]
    assert (told[:6], error) == (["newest", "continual task", "changed", 4, 3, 3], None)
    (tmp_path / "a.sql").write_text(TABLES + NEWEST)
    assert con.execute(f"REHEARSE '{tmp_path}'").fetchall() == []
    with pytest.raises(CtsqlError, match="NOT_SUPPORTED_YET"):
        con.execute("REHEARSE CREATE STREAMING TABLE s")


def test_over_what_stays_as_it_is(con: Connection) -> None:
    """A changed view over a task, and a new task on a view of which not every T is stored."""
    applied(con, COPIED, COPIES)
    for k in range(4):
        con.execute(f"INSERT INTO t VALUES ({k}); SELECT * FROM x")
    changed = COPIES.replace("count(*)", "count(*) + 100")
    report = rehearse(con, folder_of(COPIED, changed), count=3)
    assert (len(report.rehearsal.times), report.rehearsal.inputs) == (3, ("t", "x"))
    assert _differences(report) == {"counted": ([(4,)], [(104,)])}
    report = rehearse(con, folder_of(COPIED, COPIES, SEEN), count=3)
    (outcome,) = report.outcomes
    assert (outcome.output.name, outcome.count) == ("seen", 3)


def test_over_ts_that_share_a_commit(con: Connection) -> None:
    """What follows a task sees each T of it, also where the task has written them together."""
    applied(con, COPIED, COPIES)
    for k in range(4):
        con.execute(f"INSERT INTO t VALUES ({k})")
    con.execute("SELECT * FROM x")
    report = rehearse(con, folder_of(COPIED, COPIES, SEEN), count=3)
    (outcome,) = report.outcomes
    assert len(report.rehearsal.times) == 3
    assert (outcome.output.name, outcome.count) == ("seen", 3)
    changed = COPIES.replace("count(*)", "count(*) + 100")
    report = rehearse(con, folder_of(COPIED, changed), count=3)
    assert _differences(report) == {"counted": ([(4,)], [(104,)])}


def test_over_tables_that_are_new(con: Connection) -> None:
    """What reads a new table is rehearsed with the rows that creating the table gives it."""
    applied(con, COPIED, COPIES)
    for k in range(3):
        con.execute(f"INSERT INTO t VALUES ({k}); SELECT * FROM counted")
    new = """
        CREATE TABLE events (k INT);
        CREATE TABLE names AS SELECT * FROM VALUES (1, 'one'), (9, 'nine') AS n (k, name);
        CREATE TABLE first_ones AS SELECT k FROM t WHERE k < 2;
        CREATE CONTINUAL TASK seen (k INT) ON INPUT events AS (
            INSERT INTO seen SELECT k FROM events);
        CREATE MATERIALIZED VIEW named AS SELECT x.k, name FROM x JOIN names USING (k);
        CREATE MATERIALIZED VIEW early AS SELECT count(*) AS n FROM first_ones;
        CREATE MATERIALIZED VIEW broken AS SELECT 1 DIV count(*) AS n FROM events;
    """
    changed = COPIES.replace("FROM x", "FROM x LEFT JOIN events USING (k)")
    before = _files(con.warehouse)
    report = rehearse(con, folder_of(COPIED, changed, new), count=2)
    assert _files(con.warehouse) == before
    found = {o.output.name: o for o in report.outcomes}
    assert {n: o.count for n, o in found.items()} == {
        "seen": 0, "named": 1, "early": 1, "broken": None, "counted": 1
    }  # fmt: skip
    assert [p.refusal.condition for p in found["broken"].output.problems] == ["DATA_ERROR"]
    assert found["counted"].difference is None
    notes = {
        "events is new: it holds no rows throughout",
        "names is new: it holds 2 rows throughout",
        "first_ones is new: it holds 1 row throughout",
    }
    assert set(report.rehearsal.notes) == notes < set(lines_of(report))


def test_over_a_new_table_alone(con: Connection) -> None:
    """Where nothing has changed that is there, what is new is made and computed once."""
    applied(con, COPIED)
    alone = """
        CREATE TABLE events AS SELECT 3 AS k;
        CREATE MATERIALIZED VIEW most AS SELECT max(k) AS m FROM events;
    """
    report = rehearse(con, folder_of(COPIED, alone))
    (outcome,) = report.outcomes
    assert (outcome.output.name, outcome.count, report.rehearsal.times) == ("most", 1, ())
    assert "events is new: it holds 1 row throughout" in list(lines_of(report))


def test_a_task_that_is_behind_is_told(con: Connection) -> None:
    """A rehearsal over changes that a task still waits for leaves the newest out, and says so."""
    applied(con, COPIED)
    for k in range(5):
        con.execute(f"INSERT INTO t VALUES ({k})")
    report = rehearse(con, folder_of(COPIED.replace("SELECT k", "SELECT -k")), count=2)
    (note,) = report.rehearsal.notes
    assert note.startswith("x is behind: it is complete through 20")
    assert note.endswith("begins there, and leaves the newest 3 changes out")
    con.execute("SELECT * FROM x")
    assert not rehearse(con, folder_of(COPIED.replace("SELECT k", "SELECT -k"))).rehearsal.notes


def test_before_a_failure_of_what_stays(con: Connection) -> None:
    """Where a task that the folder leaves alone has failed, the rehearsal ends."""
    stays = (
        "CREATE TABLE t (k INT); CREATE CONTINUAL TASK x (k INT) ON INPUT t AS ("
        "INSERT INTO x SELECT 10 DIV k FROM t);"
    )
    seen = "CREATE CONTINUAL TASK seen (k INT) ON INPUT x AS (INSERT INTO seen SELECT k FROM x);"
    applied(con, stays, seen)
    for k in (1, 2, 0):
        con.execute(f"INSERT INTO t VALUES ({k})")
    expect_error(con, "SELECT * FROM seen", "TASK_FAILED")
    report = rehearse(con, folder_of(stays, seen.replace("SELECT k", "SELECT -k")))
    assert len(report.rehearsal.times) == 2
    (note,) = report.rehearsal.notes
    assert note.startswith("x cannot be read from 20")
    assert _differences(report) == {"seen": ([(10,), (5,)], [(-10,), (-5,)])}


def test_a_replay_since_the_newest_change_is_told(con: Connection) -> None:
    """What is stored as of that change is what the body of then made of it."""
    con.execute(COPIED + "INSERT INTO t VALUES (1), (2)")
    con.execute("SELECT * FROM x").fetchall()
    con.execute(
        "REPLAY CONTINUAL TASK x FROM '2026-01-01' AS (INSERT INTO x SELECT k + 1 FROM t);"
        "SELECT * FROM x"
    )
    report = rehearse(con, folder_of(COPIED), count=5)
    assert _differences(report) == {}
    (note,) = report.rehearsal.notes
    assert note.startswith("x was changed again at 2"), note


def test_tables_are_as_they_are(con: Connection) -> None:
    """Over columns that a table has only once it is altered nothing is rehearsed."""
    applied(con, COPIED)
    con.execute("INSERT INTO t VALUES (1), (2)")
    check = COPIED.replace("k INT);", "k INT UNIQUE ON VIOLATION QUARANTINE, w INT);", 1)
    other = "CREATE TABLE beside (k INT);"
    more = "CREATE MATERIALIZED VIEW ws AS SELECT w FROM t;"
    with pytest.raises(CtsqlError, match="ALTER TABLE t ADD COLUMN w int") as caught:
        rehearse(con, folder_of(check, more, other))
    assert caught.value.condition == "NOT_SUPPORTED"
    away = "CREATE VIEW away AS SELECT row_json FROM t_quarantine;"
    with pytest.raises(CtsqlError, match='rehearsing "away" over a quarantine that is new'):
        rehearse(con, folder_of(check.replace(", w INT", ""), away))
    changed = check.replace(", w INT", "").replace("SELECT k", "SELECT -k")
    report = rehearse(con, folder_of(changed))
    assert report.rehearsal.notes == ("t is as it is now: its constraints are not rehearsed",)
    assert [o.name for o in report.rehearsal.outputs] == ["x"]
    assert "t_quarantine" not in str(con.execute("SHOW OBJECTS").fetchall())
