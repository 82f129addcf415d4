"""Files come into a table with constraints that ctsql keeps, wherever the process is killed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection
from tests.helpers.processes import race, run_killed

pytestmark = pytest.mark.spark


@pytest.fixture
def inbox(tmp_path: Path, connect: Callable[[], Connection]) -> Path:
    """A folder whose files come into the table t; one has, three are there."""
    made = tmp_path / "in"
    made.mkdir()
    (made / "0.csv").write_text("k,v\n0,1\n")
    con = connect()
    con.execute(f"""
        CREATE TABLE t (k INT UNIQUE ON VIOLATION DROP, v INT CHECK (v > 0) ON VIOLATION QUARANTINE)
        FROM FILES '{made}/*.csv'
    """)
    con.close()
    for k in (1, 2):
        (made / f"{k}.csv").write_text(f"k,v\n{k},1\n{k + 10},-1\n0,7\n")
    return made


def _check(con: Connection, expected: list[int], away: list[int]) -> None:
    assert sorted(con.execute("SELECT k FROM t").fetchall()) == [(k,) for k in expected]
    texts = con.execute("SELECT row_json FROM t_quarantine").fetchall()
    assert sorted(json.loads(text)["k"] for (text,) in texts) == away
    counted = {r[2]: r[5] for r in con.execute("SHOW CONSTRAINTS FOR t").fetchall()}
    assert counted == {"k_unique": len(expected) - 1, "v_check": len(away)}


@pytest.mark.parametrize(
    "point",
    [
        "files_planned",
        "transaction_staged",
        "intent_recorded",
        "transaction_table_committed",
        "files_loaded",
    ],
)
def test_killed_at(
    point: str, inbox: Path, warehouse: Path, connect: Callable[[], Connection]
) -> None:
    """What is kept, what is set aside and what is counted is in once, with what came since."""
    run_killed(warehouse, ["SELECT * FROM t"], point)
    (inbox / "3.csv").write_text("k,v\n3,1\n13,-1\n0,7\n")
    con = connect()
    _check(con, [0, 1, 2, 3], [11, 12, 13])
    _check(con, [0, 1, 2, 3], [11, 12, 13])


def test_two_processes_at_once(
    inbox: Path, warehouse: Path, connect: Callable[[], Connection]
) -> None:
    """Each file is in once."""
    race(warehouse, [["SELECT * FROM t"] * 3] * 2)
    _check(connect(), [0, 1, 2], [11, 12])
