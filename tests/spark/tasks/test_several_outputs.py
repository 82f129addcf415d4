"""Tasks with several outputs on real Delta: all of a T or none, whatever happens in between."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection
from ctsql.runtime.log import fault_points as faults
from tests.crash.test_faults import HALFWAY
from tests.helpers.opened import check_rows
from tests.helpers.processes import Process, race
from tests.helpers.sample_warehouse import vacuum
from tests.helpers.table_folder import folder, log, transaction
from tests.scenarios.runner import expect_error

pytestmark = pytest.mark.spark

# The first output is made from what the second one held before T.
SET_UP = """
CREATE TABLE feed (k INT, v INT);
INSERT INTO feed VALUES (1, 1), (2, 1);
CREATE CONTINUAL TASK ledger OUTPUTS (replaced (k INT, v INT), newest (k INT, v INT DEFAULT 0))
    ON INPUT feed AS (
    INSERT INTO replaced SELECT * FROM newest WHERE k IN (SELECT k FROM feed);
    DELETE FROM newest WHERE k IN (SELECT k FROM feed);
    INSERT INTO newest SELECT k, max(v) FROM feed GROUP BY k
)"""


class Stop(BaseException):
    """Stands for the end of a process, in this one."""


def _stored(con: Connection, query: str, *expected: tuple[object, ...]) -> None:
    con.execute("SET isolation = 'serializable'")
    check_rows(con, query, *expected)
    con.execute("RESET isolation")


def _uppers(con: Connection, name: str) -> list[int]:
    return [u for c in log(folder(con, name)) if (u := transaction(c)) is not None]


def test_all_or_none(connect: Callable[[], Connection], monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the commits nobody sees the T; then another process brings it up, once."""
    con, other = connect(), connect()
    con.execute(SET_UP)
    con.execute(
        "CREATE MATERIALIZED VIEW both AS SELECT 'r' AS o, k, v FROM replaced"
        " UNION ALL SELECT 'n', k, v FROM newest"
    )
    check_rows(con, "SELECT * FROM both", ("n", 1, 1), ("n", 2, 1))
    con.execute("INSERT INTO feed VALUES (2, 2), (3, 2)")

    def stop(name: str) -> None:
        if name == HALFWAY:
            raise Stop

    with monkeypatch.context() as patched:
        patched.setattr(faults, "hooks", [stop])
        with pytest.raises(Stop):
            con.execute("SELECT * FROM newest")
    *_, ahead = _uppers(con, "newest")
    assert ahead > _uppers(con, "replaced")[-1]
    for one in (con, other):
        _stored(one, "SELECT * FROM newest", (1, 1), (2, 1))
        _stored(
            one,
            "SELECT r.k, n.k FROM replaced r FULL JOIN newest n USING (k)",
            (None, 1),
            (None, 2),
        )
        _stored(one, "SELECT * FROM both", ("n", 1, 1), ("n", 2, 1))
    # What newest held before the T is still needed, whatever is asked for.
    other.execute("MAINTAIN ALL RETAIN '0 seconds'")
    shown = other.execute("SHOW RETENTION newest").fetchall()
    assert min(row[4] for row in shown) < max(row[4] for row in shown)
    check_rows(other, "SELECT * FROM replaced", (2, 1))
    check_rows(other, "SELECT * FROM newest", (1, 1), (2, 2), (3, 2))
    check_rows(con, "SELECT * FROM both", ("r", 2, 1), ("n", 1, 1), ("n", 2, 2), ("n", 3, 2))
    for name in ("replaced", "newest"):
        assert _uppers(con, name) == sorted(set(_uppers(con, name))), "each T once, in order"
        assert _uppers(con, name)[-1] == ahead
        vacuum(con, folder(con, name))


def test_refused(con: Connection) -> None:
    """An output is its task's; what is tried instead is said."""
    con.execute(SET_UP)
    con.execute("CREATE VIEW v AS SELECT * FROM newest")
    for sql, condition, said in (
        ("SELECT * FROM ledger", "WRONG_OBJECT_KIND", "Read what it writes: replaced, newest"),
        ("SUBSCRIBE TO ledger UP TO NOW", "WRONG_OBJECT_KIND", "replaced, newest"),
        ("CREATE MATERIALIZED VIEW m AS SELECT * FROM ledger", "WRONG_OBJECT_KIND", "newest"),
        ("INSERT INTO newest VALUES (1, 1)", "OUTPUT_OWNED", "input of its task"),
        ("DROP TASK OUTPUT newest", "NOT_SUPPORTED", "DROP CONTINUAL TASK ledger"),
        ("DROP TABLE newest", "WRONG_OBJECT_KIND", "TASK OUTPUT"),
        ("DROP CONTINUAL TASK newest", "WRONG_OBJECT_KIND", "continual task ledger"),
        ("ALTER CONTINUAL TASK newest SUSPEND", "WRONG_OBJECT_KIND", "continual task ledger"),
        ("DROP CONTINUAL TASK ledger", "DEPENDENT_OBJECTS", "view v"),
        ("CREATE TABLE newest (k INT)", "OBJECT_EXISTS", "DROP CONTINUAL TASK ledger"),
        ("CREATE CONTINUAL TASK t OUTPUTS (newest (k INT), b (k INT)) ON INPUT feed AS"
         " (DELETE FROM b)", "OBJECT_EXISTS", "newest"),
        ("CREATE CONTINUAL TASK t OUTPUTS (a (k INT), b (k INT)) ON INPUT feed AS"
         " (INSERT INTO a SELECT rand() FROM feed)", "NONDETERMINISTIC_FUNCTION", "rand"),
        ("ALTER CONTINUAL TASK ledger AS (DELETE FROM feed)", "TASK_WRITES_FOREIGN_TABLE",
         '"replaced" or "newest"'),
    ):  # fmt: skip
        refused = expect_error(con, sql, condition)
        assert said in str(refused), f"{sql}\n{refused}"
    con.execute("DROP CONTINUAL TASK ledger CASCADE")
    assert con.execute("SHOW OBJECTS").fetchall() == [("default", "feed", "table", None)]


@pytest.mark.slow
def test_killed_between_the_commits(warehouse: Path, connect: Callable[[], Connection]) -> None:
    """A killed process leaves a T of which nothing is read; the next one finishes it."""
    con = connect()
    con.execute(SET_UP)
    con.close()
    process = Process(
        warehouse,
        ["INSERT INTO feed VALUES (2, 2), (3, 2)", "SELECT * FROM replaced"],
        fault=HALFWAY,
    )
    process.wait_ready()
    process.go()
    status, problems = process.finish()
    assert status == -signal.SIGKILL, problems
    con = connect()
    _stored(con, "SELECT * FROM newest", (1, 1), (2, 1))
    check_rows(con, "SELECT r.v, n.v FROM replaced r JOIN newest n USING (k)", (1, 2))
    check_rows(con, "SELECT * FROM newest", (1, 1), (2, 2), (3, 2))
    con.execute("INSERT INTO feed VALUES (3, 3)")
    check_rows(con, "SELECT * FROM replaced", (2, 1), (3, 2))
    for name in ("replaced", "newest"):
        assert _uppers(con, name) == sorted(set(_uppers(con, name))), "each T once, in order"
        vacuum(con, folder(con, name))


@pytest.mark.slow
def test_two_processes_race(warehouse: Path, connect: Callable[[], Connection]) -> None:
    """Both work off the same Ts; every output has each of them once."""
    con = connect()
    con.execute(SET_UP)
    newest, replaced = {1: 1, 2: 1}, []
    for i in range(2, 8):
        con.execute(f"INSERT INTO feed VALUES ({i % 3}, {i}), ({i}, {i})")
        for k in {i % 3, i} & newest.keys():
            replaced.append((k, newest[k]))
        newest |= {i % 3: i, i: i}
    con.close()
    race(warehouse, [[f"SELECT * FROM {n}"] for n in ("newest", "replaced")])
    con = connect()
    _stored(con, "SELECT * FROM newest", *newest.items())
    _stored(con, "SELECT * FROM replaced", *replaced)
    for name in ("replaced", "newest"):
        assert _uppers(con, name) == sorted(set(_uppers(con, name))), "each T once, in order"
        vacuum(con, folder(con, name))


@pytest.mark.slow
def test_failures(con: Connection) -> None:
    """A body that fails for one output writes none; RETRY, SKIP and ON ERROR go on with all."""
    con.execute(
        "CREATE TABLE f (k INT); INSERT INTO f VALUES (1);"
        "CREATE CONTINUAL TASK t OUTPUTS (a (k INT), b (k INT)) ON INPUT f AS ("
        "INSERT INTO b SELECT k FROM f; INSERT INTO a SELECT 10 / (k - 9) FROM f);"
        "INSERT INTO f VALUES (9); INSERT INTO f VALUES (10)"
    )
    expect_error(con, "SELECT * FROM b", "TASK_FAILED")
    shown = con.execute("SHOW CONTINUAL TASKS")
    row = dict(zip(shown.columns, shown.fetchall()[0], strict=True))
    assert (row["name"], row["state"]) == ("t", "failed")
    expect_error(con, "ALTER CONTINUAL TASK t RETRY", "TASK_FAILED")
    con.execute("ALTER CONTINUAL TASK t SKIP")
    check_rows(con, "SELECT * FROM b", (1,), (10,))
    check_rows(con, "SELECT * FROM a", (-1,), (10,))
    con.execute("ALTER CONTINUAL TASK t SET (ON ERROR = 'skip')")
    con.execute("INSERT INTO f VALUES (9); INSERT INTO f VALUES (19)")
    check_rows(con, "SELECT a.k, b.k FROM a JOIN b ON a.k = 20 - b.k", (1, 19), (10, 10))


@pytest.mark.slow
def test_all_of_the_language(connect: Callable[[], Connection]) -> None:
    """Suspension, another body, new names, subscriptions, iterations, chains and a diamond."""
    con, other = connect(), connect()
    con.execute(
        "CREATE TABLE edges (a INT, b INT); INSERT INTO edges VALUES (1, 2), (2, 3);"
        "CREATE CONTINUAL TASK walk OUTPUTS (paths (a INT, b INT), sizes (n BIGINT))"
        " ON INPUT edges WITH (ITERATIONS = FIXPOINT) AS ("
        "INSERT INTO paths SELECT a, b FROM edges EXCEPT SELECT a, b FROM paths;"
        "INSERT INTO paths SELECT p.a, q.b FROM paths p JOIN paths q ON p.b = q.a"
        " EXCEPT SELECT a, b FROM paths;"
        "DELETE FROM sizes; INSERT INTO sizes SELECT count(*) FROM paths);"
        "CREATE CONTINUAL TASK told ON INPUT sizes, paths AS ("
        "INSERT INTO told SELECT (SELECT max(n) FROM sizes) AS n, count(*) AS c FROM paths)"
    )
    check_rows(con, "SELECT * FROM sizes", (3,))
    con.execute("INSERT INTO edges VALUES (3, 4)")
    check_rows(other, "SELECT n, (SELECT count(*) FROM paths) FROM sizes", (6, 6))
    check_rows(other, "SELECT * FROM told", (3, 3), (6, 3))
    con.execute("ALTER TASK OUTPUT paths RENAME TO pairs; ALTER CONTINUAL TASK walk SUSPEND")
    con.execute("INSERT INTO edges VALUES (4, 5)")
    check_rows(other, "SELECT p.a, n, e.b FROM pairs p, sizes, edges e WHERE p.b = 4 AND e.a > p.a",
          (1, 6, 3), (1, 6, 4), (2, 6, 4))  # fmt: skip
    other.execute("ALTER CONTINUAL TASK walk RESUME")
    check_rows(con, "SELECT * FROM sizes", (10,))
    ((_, made),) = con.execute("SHOW CREATE sizes").fetchall()
    assert "OUTPUTS (pairs (a INT, b INT), sizes (n BIGINT))" in made
    assert "INSERT INTO pairs SELECT a, b FROM edges EXCEPT SELECT a, b FROM pairs" in made
    con.execute("ALTER CONTINUAL TASK walk AS (UPDATE sizes SET n = 0)")
    con.execute("INSERT INTO edges VALUES (5, 6)")
    told = con.execute("SUBSCRIBE TO sizes FROM 0 UP TO NOW").fetchall()
    assert [row[1:] for row in told[1:]] == [(-1, 3), (1, 6), (-1, 6), (1, 10), (-1, 10), (1, 0)]
    read_only = connect()
    read_only.execute("SET isolation = 'serializable'")
    assert read_only.execute("SUBSCRIBE TO sizes FROM 0 UP TO NOW").fetchall() == told
    con.execute("COMMENT ON TASK OUTPUT pairs IS 'closed'")
    wanted = [
        ("default", "pairs", "default.walk", "closed"),
        ("default", "sizes", "default.walk", None),
    ]
    assert con.execute("SHOW TASK OUTPUTS").fetchall() == wanted
    con.run(once=True)
    assert {row[3] for row in con.status().fetchall()} == {"up to date"}
    con.execute("DROP TABLE edges CASCADE")
    assert con.execute("SHOW OBJECTS").fetchall() == []
