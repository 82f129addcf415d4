"""CREATE of a task and a view over a table with rows, against plain Spark's CREATE TABLE AS SELECT.

    python -m benchmarks.snapshots --rows 10_000_000 --rounds 3

copy     all rows of three columns.
groups   1,000 groups of them.

All read the same table in the same session, in turns. Each round creates objects and drops them;
the drops are not timed. Seconds are medians: read them as ratios of one run.
"""

import argparse
import tempfile
from functools import partial

import ctsql
from benchmarks.measures import Series, delta_properties, table
from ctsql.runtime.spark.internals.sessions import active

QUERIES = {
    "copy": ("(k BIGINT, v BIGINT, s STRING)", "SELECT * FROM {t}"),
    "groups": (
        "(k BIGINT, v BIGINT, n BIGINT)",
        "SELECT k % 1000 AS k, sum(v) AS v, count(*) AS n FROM {t} GROUP BY k % 1000",
    ),
}


def measure(con: ctsql.Connection, folder: str, rounds: int) -> None:
    """Run the three in turns and print their costs."""
    engine = con._engine
    assert engine is not None  # it has run statements
    session = engine.session
    source = engine.gateway.table(str(next(iter(engine.catalog)).location))
    properties = delta_properties(source.metadata.configuration)
    for name, (columns, query) in QUERIES.items():
        plain = Series(session, "plain Spark and Delta", [f"{folder}/rival"])
        task = Series(session, "a continual task", [f"{folder}/warehouse"])
        view = Series(session, "a materialized view", [f"{folder}/warehouse"])
        here, there = query.format(t="given"), query.format(t=f"delta.`{source.location}`")
        task_text = (
            f"CREATE CONTINUAL TASK task {columns} ON INPUT given AS (INSERT INTO task {here})"
        )
        view_text = f"CREATE MATERIALIZED VIEW view AS {here}"
        for n in range(rounds + 1):
            copy_text = f"CREATE TABLE delta.`{folder}/rival/{name}{n}` USING delta "
            copy_text += f"TBLPROPERTIES ({properties}) AS {there}"
            with active(session):
                plain.measure(partial(session.sql, copy_text))
            task.measure(partial(con.execute, task_text))
            view.measure(partial(con.execute, view_text))
            con.execute("DROP CONTINUAL TASK task")
            con.execute("DROP MATERIALIZED VIEW view")
        for series in (plain, task, view):
            del series.costs[:1]
        table(name, [plain, task, view])


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ctsql-bench-", ignore_cleanup_errors=True) as folder:
        con = ctsql.connect(f"{folder}/warehouse")
        con.execute("CREATE TABLE given (k BIGINT, v BIGINT, s STRING)")
        con.execute(
            "INSERT INTO given SELECT id, id * 7, concat('x', id % 1000) "
            f"FROM range(0, {options.rows}, 1, 4)"
        )
        measure(con, folder, options.rounds)
        con.close()


if __name__ == "__main__":
    main()
