"""The time of a hundred small tests in SQL: ``ctsql test`` over a folder with a task and a view.

    python -m benchmarks.sql_tests [--tests 100] [--workers 2]

Each test inserts two rows, then one more, and expects the rows of the task and of the view: two
commits of a table, runs of the task and refreshes of the view, and two comparisons. Spark is
started before. Jobs and calls into the JVM are those of one test after the first ten, and exact;
seconds depend on the machine.
"""

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.fanout import Calls
from benchmarks.measures import jobs_started
from ctsql.api import connect
from ctsql.testing.command import choose, run_tests
from ctsql.testing.running import Outcome

WARM_UP = 10
OBJECTS = """
CREATE TABLE orders (id INT, customer STRING, amount DECIMAL(10, 2));
CREATE CONTINUAL TASK newest (id INT, customer STRING, amount DECIMAL(10, 2)) ON INPUT orders AS (
    DELETE FROM newest WHERE id IN (SELECT id FROM orders);
    INSERT INTO newest SELECT id, customer, max(amount) FROM orders GROUP BY id, customer;
);
CREATE MATERIALIZED VIEW spent AS
    SELECT customer, sum(amount) AS total FROM newest GROUP BY customer;
"""
TEST = """
TEST 'order {n}'
    GIVEN orders VALUES (1, 'ann', {n}), (2, 'bob', 5)
    THEN orders VALUES (1, 'ann', {n}.50)
    EXPECT newest VALUES (1, 'ann', {n}.50), (2, 'bob', 5)
    EXPECT spent VALUES ('ann', {n}.50), ('bob', 5);
"""


def main() -> None:
    """Run the tests and print their times."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--tests", type=int, default=100, metavar="N")
    arguments.add_argument("--workers", type=int, default=1, metavar="N", help="tests at once")
    options = arguments.parse_args()
    count = options.tests
    text = OBJECTS + "".join(TEST.format(n=n) for n in range(count))
    calls, totals = Calls(), list[tuple[int, int]]()
    with tempfile.TemporaryDirectory() as folder:
        connection = connect(f"{folder}/first")
        connection.execute("SELECT 1").fetchall()
        session = connection.spark

        def report(outcome: Outcome) -> None:
            assert outcome.passed, outcome.failures
            totals.append((jobs_started(session), calls.count))

        start = time.perf_counter()
        Path(folder, "tests.sql").write_text(text)
        run_tests(connection, choose(Path(folder), None, {}), report, workers=options.workers)
        seconds = time.perf_counter() - start
    print(f"{count} tests: {seconds:.1f} s")
    if count > WARM_UP:
        jobs, jvm_calls = (
            (last - first) / (count - WARM_UP)
            for last, first in zip(totals[-1], totals[WARM_UP - 1], strict=True)
        )
        print(f"a test: {jobs:.1f} jobs, {jvm_calls:,.0f} calls into the JVM")


if __name__ == "__main__":
    main()
