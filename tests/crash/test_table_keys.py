"""Constraints that ctsql keeps of a table: two processes with the same keys, and killed ones."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection
from tests.helpers.processes import finish_program, run_killed, start_program
from tests.scenarios.runner import assert_rows

pytestmark = pytest.mark.spark

KEYS = 12
WRITER = """
import json
import sys
from ctsql.api import connect
from ctsql.errors import CtsqlError

warehouse, name, keys = sys.argv[1], sys.argv[2], int(sys.argv[3])
con = connect(warehouse, master="local[1]")
won = []
for key in range(keys):
    text = f"VALUES ({key}, '{name}')" if key % 2 else f"SELECT {key}, max('{name}') FROM seed"
    try:
        con.execute(f"INSERT INTO t {text}")
        won.append(key)
    except CtsqlError as problem:
        assert problem.condition == "CONSTRAINT_VIOLATED", problem
print(json.dumps(won))
"""


def test_of_two_writers_of_a_key_one_wins(
    connect: Callable[[], Connection], warehouse: Path
) -> None:
    """Two processes insert the same keys: each key is there once, and who wrote it was told so."""
    con = connect()
    con.execute("CREATE TABLE seed (n INT); INSERT INTO seed VALUES (1)")
    con.execute("CREATE TABLE t (k INT UNIQUE, who TEXT)")
    started = [
        start_program(WRITER, str(warehouse), name, str(KEYS)) for name in ("first", "second")
    ]
    won = [json.loads(finish_program(process)) for process in started]
    assert sorted(won[0] + won[1]) == list(range(KEYS))
    wanted = [(k, name) for name, keys in zip(("first", "second"), won, strict=True) for k in keys]
    assert_rows(con.execute("SELECT * FROM t").fetchall(), wanted, "each key once")


@pytest.mark.parametrize("fault", ["transaction_staged", "intent_recorded"])
def test_a_killed_insert_is_in_both_tables_or_in_none(
    connect: Callable[[], Connection], warehouse: Path, fault: str
) -> None:
    """Killed before it is decided nothing is there; after it the table and its quarantine are."""
    con = connect()
    con.execute("CREATE TABLE t (k INT UNIQUE, v INT CHECK (v > 0) ON VIOLATION QUARANTINE)")
    con.execute("INSERT INTO t VALUES (1, 1)")
    run_killed(warehouse, ["INSERT INTO t VALUES (2, 2), (3, -3)"], fault)
    is_in = fault == "intent_recorded"
    rows = con.execute("SELECT k FROM t").fetchall()
    assert_rows(rows, [(1,), *([(2,)] if is_in else [])], "the table")
    away = con.execute("SELECT row_json FROM t_quarantine").fetchall()
    assert_rows(away, [('{"k":3,"v":-3}',)] if is_in else [], "the quarantine")
    con.execute("INSERT INTO t VALUES (4, 4), (5, -5)")
    assert con.execute("SELECT count(*) FROM t_quarantine").fetchall() == [(2 if is_in else 1,)]
