"""The example project, as a user runs it."""

import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[3] / "examples" / "dbt"
ROWS = """
INSERT INTO shop.raw_orders VALUES
    (1, 'north', 'new', 10, '2026-03-01'), (1, 'north', 'paid', 10, '2026-03-05'),
    (2, 'south', 'paid', 5, '2026-03-02');
SELECT * FROM shop.paid ORDER BY manager
"""


def test_example(tmp_path: Path) -> None:
    """``dbt build`` makes everything, and later rows are in every model without dbt."""
    import ctsql

    environment = os.environ | {"CTSQL_WAREHOUSE": str(tmp_path / "warehouse")}
    dbt = [sys.executable, "-m", "dbt.cli.main", "build", "--target-path", str(tmp_path / "target")]
    done = subprocess.run(
        [*dbt, "--log-path", str(tmp_path), "--profiles-dir", "."],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    with ctsql.connect(str(tmp_path / "warehouse")) as con:
        assert con.execute(ROWS).fetchall() == [("Ann", 10), ("Bob", 5)]
        history = "SELECT status FROM shop.order_history WHERE id = 1 ORDER BY __START_AT"
        assert con.execute(history).fetchall() == [("new",), ("paid",)]
