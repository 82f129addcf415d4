"""What a body may say and see: changes of several inputs, UPDATE, MERGE, defaults, iterations."""

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from tests.helpers.opened import check_rows
from tests.scenarios.runner import expect_error

pytestmark = pytest.mark.spark


def test_change_relations_are_exact(con: Connection) -> None:
    """Net multisets, with NULL, NaN and -0.0; only a task that reads deletes runs for them."""
    con.execute(
        "CREATE TABLE f (k INT, v DOUBLE);"
        "INSERT INTO f VALUES (1, 1), (2, double('NaN')), (NULL, double('-0.0')),"
        " (2, double('NaN'));"
        "CREATE CONTINUAL TASK log (k INT, v STRING, d BIGINT) ON INPUT f"
        " AS (INSERT INTO log SELECT k, string(v), diff FROM changes(f));"
        "CREATE CONTINUAL TASK sizes (n BIGINT, i BIGINT, d BIGINT) ON INPUT f"
        " AS (INSERT INTO sizes SELECT (SELECT count(*) FROM contents(f)),"
        " (SELECT count(*) FROM inserts(f)), (SELECT count(*) FROM deletes(f)));"
        "CREATE CONTINUAL TASK plain (n BIGINT) ON INPUT f"
        " AS (INSERT INTO plain SELECT count(*) FROM f)"
    )
    first = [(1, "1.0", 1), (2, "NaN", 2), (None, "-0.0", 1)]
    check_rows(con, "SELECT * FROM log", *first)
    con.execute("DELETE FROM f WHERE k = 2")
    con.execute("UPDATE f SET v = 0 WHERE k IS NULL")
    con.execute("UPDATE f SET v = 0 WHERE k IS NULL")  # changes nothing: nobody runs
    then = [(2, "NaN", -2), (None, "-0.0", -1), (None, "0.0", 1)]
    check_rows(con, "SELECT * FROM log", *first, *then)
    check_rows(con, "SELECT * FROM sizes", (4, 4, 0), (2, 0, 2), (2, 1, 1))
    check_rows(con, "SELECT * FROM plain", (4,), (1,))


def test_several_inputs(con: Connection) -> None:
    """A run for every T at which one moved; what did not move then has no changes."""
    con.execute(
        "CREATE TABLE a (k INT); CREATE TABLE b (k INT);"
        "INSERT INTO a VALUES (1); INSERT INTO b VALUES (2);"
        "CREATE MATERIALIZED VIEW m AS SELECT k + 100 AS k FROM a;"
        "CREATE CONTINUAL TASK two (s STRING, k INT, others BIGINT) ON INPUT a, b, m AS ("
        " INSERT INTO two SELECT 'a', k, (SELECT count(*) FROM b) FROM a;"
        " INSERT INTO two SELECT 'b', k, (SELECT count(*) FROM a) FROM b;"
        " INSERT INTO two SELECT 'm', k, (SELECT count(*) FROM a) FROM m)"
    )
    first = [("a", 1, 1), ("b", 2, 1), ("m", 101, 1)]
    check_rows(con, "SELECT * FROM two", *first)
    con.execute(
        "INSERT INTO a VALUES (3), (4); INSERT INTO b VALUES (5); DELETE FROM b WHERE k = 2"
    )
    then = [("a", 3, 0), ("a", 4, 0), ("m", 103, 2), ("m", 104, 2), ("b", 5, 0)]
    check_rows(con, "SELECT * FROM two", *first, *then)


def test_update_and_defaults(con: Connection) -> None:
    """Values from subqueries, DEFAULT, lengths, WITH in front of INSERT, columns left out."""
    con.execute(
        "CREATE TABLE u (k INT);"
        "CREATE CONTINUAL TASK seen (k INT, n INT DEFAULT 7, at TIMESTAMP DEFAULT now(),"
        " s VARCHAR(5) DEFAULT 'x') ON INPUT u AS ("
        " UPDATE seen SET n = n + (SELECT count(*) FROM u WHERE u.k = seen.k), s = DEFAULT"
        "  WHERE k IN (SELECT k FROM u);"
        " WITH w AS (SELECT DISTINCT k FROM u)"
        "  INSERT INTO seen (k) SELECT k FROM w WHERE k NOT IN (SELECT k FROM seen);"
        " WITH few AS (SELECT 8 AS n), more AS (SELECT n FROM few)"
        "  UPDATE seen AS c SET s = 'big', c.n = c.n * 1 WHERE c.n > (SELECT max(n) FROM more);"
        " WITH gone AS (SELECT k FROM inserts(u) WHERE k < 0)"
        "  DELETE FROM seen WHERE k IN (SELECT k FROM gone));"
        "INSERT INTO u VALUES (1), (2), (2)"
    )
    now = "timestamp_millis((SELECT max(unix_millis(at)) FROM seen)) = at"
    check_rows(con, f"SELECT k, n, s, {now} FROM seen", (1, 7, "x", True), (2, 7, "x", True))
    con.execute("INSERT INTO u VALUES (2), (2), (3)")
    check_rows(con, "SELECT k, n, s FROM seen", (1, 7, "x"), (2, 9, "big"), (3, 7, "x"))
    con.execute(
        "CREATE CONTINUAL TASK v (k INT, n INT DEFAULT 7) ON INPUT u"
        " AS (INSERT INTO v VALUES (1, DEFAULT), (DEFAULT, 3))"
    )
    check_rows(con, "SELECT * FROM v", (1, 7), (None, 3))


def test_merge(con: Connection) -> None:
    """Every clause, over stored rows and over rows that the same run proposed."""
    con.execute(
        "CREATE TABLE m (k INT, v INT, op STRING);"
        "CREATE CONTINUAL TASK held (k INT, v INT, n INT DEFAULT 1) ON INPUT m AS ("
        " WITH news AS (SELECT k, v, op FROM m)"
        " MERGE INTO held AS t USING news AS s ON t.k = s.k"
        "  WHEN MATCHED AND s.op = 'd' THEN DELETE"
        "  WHEN MATCHED THEN UPDATE SET v = s.v, n = t.n + 1"
        "  WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT (k, v) VALUES (s.k, s.v)"
        "  WHEN NOT MATCHED BY SOURCE AND t.v < 0 THEN DELETE);"
        "CREATE CONTINUAL TASK star (k INT, v INT) ON INPUT m AS ("
        " MERGE INTO star USING m ON star.k = m.k"
        "  WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *);"
        "CREATE CONTINUAL TASK twice (k INT, v INT) ON INPUT m AS ("
        " INSERT INTO twice SELECT k, v FROM m;"
        " MERGE INTO twice USING (SELECT k, max(v) AS v FROM m GROUP BY k) s ON twice.k = s.k"
        "  WHEN MATCHED AND twice.v < s.v THEN DELETE"
        "  WHEN MATCHED THEN UPDATE SET v = s.v * 10"
        "  WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = -1);"
        "INSERT INTO m VALUES (1, 10, 'u'), (2, 20, 'u'), (3, -3, 'u'), (9, 9, 'd')"
    )
    check_rows(con, "SELECT * FROM held", (1, 10, 1), (2, 20, 1), (3, -3, 1))
    check_rows(con, "SELECT * FROM star", (1, 10), (2, 20), (3, -3), (9, 9))
    check_rows(con, "SELECT * FROM twice", (1, 100), (2, 200), (3, -30), (9, 90))
    con.execute("INSERT INTO m VALUES (1, 11, 'u'), (2, 300, 'd'), (4, 40, 'u')")
    check_rows(con, "SELECT * FROM held", (1, 11, 2), (4, 40, 1))
    check_rows(con, "SELECT * FROM star", (1, 11), (2, 300), (3, -3), (9, 9), (4, 40))
    found = [(1, 110), (1, 110), (2, 3000), (3, -1), (9, -1), (4, 400)]
    check_rows(con, "SELECT * FROM twice", *found)


@pytest.mark.slow
def test_a_row_matched_twice_is_an_error(con: Connection) -> None:
    """As in Spark: the task fails at that T and writes nothing; deleting twice is deleting once."""
    con.execute(
        "CREATE TABLE m (k INT, v INT);"
        "CREATE CONTINUAL TASK star (k INT, v INT) ON INPUT m AS ("
        " MERGE INTO star USING m ON star.k = m.k"
        "  WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *);"
        "CREATE CONTINUAL TASK gone (k INT) ON INPUT m AS ("
        " INSERT INTO gone SELECT 1; MERGE INTO gone USING m ON gone.k = m.k"
        "  WHEN MATCHED THEN DELETE);"
        "INSERT INTO m VALUES (1, 1); INSERT INTO m VALUES (1, 2), (1, 3)"
    )
    check_rows(con, "SELECT * FROM gone")
    failed = expect_error(con, "SELECT * FROM star", "TASK_FAILED")
    assert "matched by several rows" in failed.message
    assert 'GROUP BY the columns of ON: {"k":1,"v":1}' in failed.message


@pytest.mark.slow
def test_a_transitive_closure(con: Connection) -> None:
    """FIXPOINT over a graph with a circle, and over edges that come later."""
    con.execute(
        "CREATE TABLE e (a INT, b INT);"
        "INSERT INTO e VALUES (1, 2), (2, 3), (3, 4), (4, 1), (5, 6);"
        "CREATE CONTINUAL TASK reach (a INT, b INT) ON INPUT e WITH (ITERATIONS = FIXPOINT) AS ("
        " INSERT INTO reach SELECT a, b FROM e EXCEPT SELECT a, b FROM reach;"
        " INSERT INTO reach SELECT r.a, s.b FROM reach r JOIN reach s ON r.b = s.a"
        "  EXCEPT SELECT a, b FROM reach)"
    )
    ring = [(a, b) for a in range(1, 5) for b in range(1, 5)]
    check_rows(con, "SELECT * FROM reach", *ring, (5, 6))
    con.execute("INSERT INTO e VALUES (4, 5)")
    out = [(a, b) for a in range(1, 5) for b in (5, 6)]
    check_rows(con, "SELECT * FROM reach", *ring, *out, (5, 6))


@pytest.mark.slow
def test_iterations_stop(con: Connection) -> None:
    """After so many, or when nothing changes; FIXPOINT without an end is an error."""
    con.execute(
        "CREATE TABLE e (a INT); INSERT INTO e VALUES (1);"
        "CREATE CONTINUAL TASK three (n INT) ON INPUT e WITH (ITERATIONS = 3)"
        " AS (INSERT INTO three VALUES (1));"
        "CREATE CONTINUAL TASK same (n INT) ON INPUT e WITH (ITERATIONS = FIXPOINT)"
        " AS (DELETE FROM same; INSERT INTO same VALUES (1))"
    )
    check_rows(con, "SELECT * FROM three", (1,), (1,), (1,))
    check_rows(con, "SELECT * FROM same", (1,))
    con.execute("INSERT INTO e VALUES (2)")
    check_rows(con, "SELECT * FROM same", (1,))


@pytest.mark.slow
def test_a_fixpoint_without_an_end(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails at its T with the limit in the message, and nothing is created."""
    monkeypatch.setattr("ctsql.planner.binding.task.ITERATIONS_MAX", 3)
    con.execute("CREATE TABLE e (a INT); INSERT INTO e VALUES (1)")
    with pytest.raises(CtsqlError) as failed:
        con.execute(
            "CREATE CONTINUAL TASK ever (n INT) ON INPUT e WITH (ITERATIONS = FIXPOINT)"
            " AS (INSERT INTO ever VALUES (1))"
        )
    assert failed.value.condition == "TASK_FAILED"
    assert "after 3 iterations" in failed.value.message
    assert con.execute("SHOW CONTINUAL TASKS").fetchall() == []
