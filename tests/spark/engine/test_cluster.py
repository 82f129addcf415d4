"""Statements on executors of other processes: results as anywhere, each T written once.

No executor has Python here (``PYSPARK_PYTHON`` leads nowhere): what ctsql runs needs none there.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ctsql.api import Connection
from tests.helpers.table_folder import check_written_once, folder, orphans
from tests.scenarios.runner import assert_rows
from tests.spark.engine.cluster import Cluster

SECONDS_MAX = 300

CREATE = """
CREATE TABLE append_only (key INT, val INT);
CREATE TABLE events (id INT, bad BOOLEAN);
CREATE CONTINUAL TASK upsert (key INT, val INT) ON INPUT append_only AS (
    DELETE FROM upsert WHERE key IN (SELECT key FROM append_only);
    INSERT INTO upsert SELECT key, max(val) FROM append_only GROUP BY key;
);
CREATE MATERIALIZED VIEW anomalies AS
    SELECT count(*) AS count FROM events WHERE bad HAVING count(*) > 2;
CREATE CONTINUAL TASK audit_log (count INT8) ON INPUT anomalies AS (
    INSERT INTO audit_log SELECT * FROM anomalies
);
INSERT INTO append_only VALUES (1, 1), (2, 1);
INSERT INTO events VALUES (1, true), (2, true), (3, false), (4, true);
SELECT * FROM upsert, audit_log;
"""
GO_ON = """
INSERT INTO append_only VALUES (2, 5), (2, 4), (3, 1);
INSERT INTO events VALUES (5, true);
DELETE FROM events WHERE id = 1;
SELECT * FROM upsert, audit_log;
"""
# More than the driver takes: staged and located by the executors.
MANY = """
INSERT INTO append_only SELECT CAST(id AS INT), 9 FROM range(15000);
UPDATE append_only SET val = 10 WHERE key < 12000;
SELECT count(*) FROM upsert;
"""
AFTER_ALL: dict[str, list[tuple[object, ...]]] = {
    "append_only": [(k, 10 if k < 12000 else 9) for k in [1, 2, 2, 2, 3, *range(15000)]],
    "events": [(2, True), (3, False), (4, True), (5, True)],
    "upsert": [(k, 10 if k < 12000 else 9) for k in range(15000)],
    "anomalies": [(3,)],
    "audit_log": [(3,), (4,), (3,)],
}

# A caller's own session on the master: what a user's job does.
EMBEDDED = """
import sys
from pyspark.sql import SparkSession
from ctsql.api import connect
from ctsql.runtime.spark.start.environment import spark_builder_config
builder = SparkSession.builder.master(sys.argv[1])
for key, value in {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    **spark_builder_config(),
}.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
con = connect(sys.argv[2], spark=spark)
con.execute(sys.argv[3])
con.close()
spark.range(1).count()
assert spark.sparkContext.master == sys.argv[1]
spark.stop()
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Executors of 512 MB by ``spark-defaults.conf``, and no Python for them."""
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(
        "spark.executor.memory 512m\nspark.driver.host 127.0.0.1\n"
    )
    return {**os.environ, "SPARK_CONF_DIR": str(conf), "PYSPARK_PYTHON": "/no/python/here"}


def _ctsql(
    environment: dict[str, str], warehouse: Path, master: str, sql: str
) -> list[dict[str, object]]:
    """Run statements by the command line; gives the rows it prints."""
    program = "from ctsql.cli.main import main; main()"
    command = [sys.executable, "-c", program, "-w", str(warehouse), "--master", master]
    done = subprocess.run(
        [*command, "--format", "jsonl", "-c", sql],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_standalone(
    environment: dict[str, str], warehouse: Path, con: Connection, tmp_path: Path
) -> None:
    """By ``--master``, then after a restart by a caller's session, then by ``--master`` again."""
    with Cluster(tmp_path / "cluster") as cluster:
        _ctsql(environment, warehouse, cluster.master, CREATE)
        program = [sys.executable, "-c", EMBEDDED, cluster.master, str(warehouse), GO_ON]
        subprocess.run(program, check=True, timeout=SECONDS_MAX, env=environment)
        (counted,) = _ctsql(environment, warehouse, cluster.master, MANY)[-1:]
        assert counted == {"count(1)": 15000}
        assert cluster.executors_seen() == 2
    for name, rows in AFTER_ALL.items():
        assert_rows(con.execute(f"SELECT * FROM {name}").fetchall(), rows, name)
    for name in ("upsert", "anomalies", "audit_log"):
        check_written_once(folder(con, name))
        assert not orphans(folder(con, name))
