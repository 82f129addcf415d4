"""How much longer ``dbt build`` takes than the statements that it sends: the ratio.

A project has 50 models: tables, views, incremental models, materialized views and continual tasks.
Each round builds it on a new warehouse, and then runs the same statements by ``con.execute`` on
another one, in the same process. dbt's parsing does not count. Run it with ``python benchmark.py``,
in the environment of ``make dbt``.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from dbt.adapters.ctsql import CtsqlConnectionManager
from dbt.cli.main import dbtRunner

import ctsql

PROJECT = "{name: many, version: '1.0', profile: many, model-paths: [models]}"
PROFILE = """
many:
  target: dev
  outputs: {{dev: {{type: ctsql, path: '{path}', schema: shop, threads: {threads}}}}}
"""
ORDERS = "SELECT id AS k, id % 10 AS part, id * 1.5D AS price FROM range(1000)"
MODELS = {
    "table": "SELECT k, part, price FROM {{ ref('orders') }} WHERE k % 10 <> NUMBER",
    "view": "SELECT k, price * NUMBER AS price FROM {{ ref('orders') }}",
    "incremental": "SELECT k, part FROM {{ ref('orders') }} WHERE part <> NUMBER",
    "materialized_view": "SELECT part, sum(price) AS price FROM {{ ref('orders') }}"
    " WHERE k % 10 <> NUMBER GROUP BY part",
    "continual_task": "(k BIGINT) ON INPUT {{ ref('orders') }}"
    " AS (INSERT INTO {{ this }} SELECT k FROM {{ ref('orders') }} WHERE k % 10 = NUMBER)",
}


def write_project(folder: Path) -> None:
    """The table of orders, and 49 models that read it."""
    models = folder / "models"
    models.mkdir()
    (folder / "dbt_project.yml").write_text(PROJECT)
    (models / "orders.sql").write_text("{{ config(materialized='table') }} " + ORDERS)
    for number in range(49):
        kind = list(MODELS)[number % len(MODELS)]
        text = f"{{{{ config(materialized='{kind}') }}}} " + MODELS[kind]
        (models / f"m{number}.sql").write_text(text.replace("NUMBER", str(number // 5 + 1)))


def build(project: Path, warehouse: Path, threads: int) -> tuple[float, list[str]]:
    """Build the project; the seconds without parsing, and the statements in order."""
    sent: list[str] = []
    add_query = CtsqlConnectionManager.add_query

    def recorded(manager: Any, sql: str, *args: Any, **options: Any) -> Any:
        sent.append(sql)
        return add_query(manager, sql, *args, **options)

    profile = PROFILE.format(path=warehouse, threads=threads)
    (project / "profiles.yml").write_text(profile)
    CtsqlConnectionManager.add_query = recorded
    try:
        places = ["--project-dir", str(project), "--profiles-dir", str(project)]
        done = dbtRunner().invoke(["--quiet", "build", *places])
    finally:
        CtsqlConnectionManager.add_query = add_query
    assert done.success, done.exception or done.result
    return done.result.elapsed_time, sent


def run(statements: list[str], warehouse: Path) -> float:
    """Run statements on a new warehouse; the seconds."""
    con = ctsql.connect(str(warehouse))
    begin = time.perf_counter()
    for sql in statements:
        result = con.execute(sql)
        if result.has_rows:
            result.fetchall()
    taken = time.perf_counter() - begin
    con.close()
    return taken


def main() -> None:
    """Measure, and print each round, the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    pairs = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project = folder / "project"
        project.mkdir()
        write_project(project)
        for number in range(given.rounds + 1):
            built, statements = build(project, folder / f"dbt{number}", given.threads)
            executed = run(statements, folder / f"same{number}")
            load = os.getloadavg()[0]
            sys.stdout.write(
                f"round {number}: dbt build {built:.1f} s, {len(statements)} statements by"
                f" con.execute {executed:.1f} s, ratio {built / executed:.2f}, load {load:.1f}\n"
            )
            sys.stdout.flush()
            if number:  # the first one warms up
                pairs.append((built, executed))
    one, other = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(built / executed for built, executed in pairs)
    sys.stdout.write(
        f"dbt build    {one:.1f} s\ncon.execute  {other:.1f} s\nratio of a round  {ratio:.2f}\n"
    )


if __name__ == "__main__":
    main()
