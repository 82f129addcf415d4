"""Jobs that write tables with constraints which only ctsql keeps."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ctsql import UpperMismatch
from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.staging import Batch
from tests.helpers.processes import run_program, start_program
from tests.helpers.table_folder import data_files, folder, named_files, versions

pytestmark = pytest.mark.spark

MADE = """
    CREATE TABLE t (
        id INT UNIQUE ON VIOLATION DROP,
        v INT CHECK (v > 0) ON VIOLATION QUARANTINE,
        w INT NOT NULL ON VIOLATION WARN
    )
"""


@pytest.fixture
def table(con: Connection) -> Connection:
    """A table with each fate but FAIL."""
    con.execute(MADE)
    return con


def _rows(con: Connection, sql: str = "SELECT * FROM t") -> list[tuple[Any, ...]]:
    return sorted(con.execute(sql).fetchall(), key=repr)


def _away(con: Connection) -> list[int]:
    return sorted(json.loads(t)["id"] for (t,) in _rows(con, "SELECT row_json FROM t_quarantine"))


def _no_file_is_left(con: Connection) -> None:
    for name in ("t", "t_quarantine"):
        found = folder(con, name)
        assert {f for f in data_files(found) if f.startswith("part-")} <= named_files(found)


def test_each_fate(table: Connection) -> None:
    """Rows are kept, left out, set aside and counted, whoever staged them, each upper once."""
    writer = table.writer("t")
    assert writer.compare_and_append([(1, 1, 1), (2, 2, 2)], expected_upper=0, new_upper=5) == 5
    before = len(versions(folder(table, "t")))
    rows = {5: [(1, 9, 9), (3, 3, None)], 6: [(4, -4, 4), (5, 5, 5)]}
    assert writer.compare_and_append(rows, expected_upper=5, new_upper=7) == 7
    assert len(versions(folder(table, "t"))) == before + 1
    kept = [(1, 1, 1), (2, 2, 2), (3, 3, None), (5, 5, 5)]
    assert _rows(table) == kept
    assert _away(table) == [4]
    with pytest.raises(UpperMismatch) as lost:
        writer.compare_and_append([(6, 6, 6)], expected_upper=5, new_upper=7)
    assert lost.value.current == 7
    # Nothing is kept: the upper moves in the commit of a transaction all the same.
    assert writer.append([(7, -7, 7)], lower=7, upper=8) == 8
    assert writer.compare_and_append(expected_upper=8, new_upper=9) == 9
    assert table.writer("t").fetch_recent_upper() == 9
    assert _rows(table) == kept
    assert _away(table) == [4, 7]
    counted = {r[2]: r[5] for r in table.execute("SHOW CONSTRAINTS FOR t").fetchall()}
    assert counted == {"id_unique": 1, "v_check": 2, "w_not_null": 1}
    _no_file_is_left(table)


def test_writers_of_the_same_rows(table: Connection) -> None:
    """What is in already is left out before it is looked at; a gap is refused."""
    one, two = table.writer("t"), table.writer("t")
    rows = {n: [(n, 1 - n % 2, n)] for n in range(6)}
    assert one.append({n: rows[n] for n in range(3)}, lower=0, upper=3) == 3
    assert two.append({n: rows[n] for n in range(5)}, lower=0, upper=5) == 5
    assert one.append({n: rows[n] for n in range(3, 5)}, lower=3, upper=5) == 5
    with pytest.raises(UpperMismatch, match="is 5, not 6"):
        one.append([(7, 7, 7)], lower=6, upper=7)
    assert _rows(table) == [(n, 1, n) for n in (0, 2, 4)]
    assert _away(table) == [1, 3]
    _no_file_is_left(table)


def test_staged_texts(table: Connection, connect: Callable[[], Connection]) -> None:
    """Several in one commit, by another process; a text is in once, or deleted."""
    writer, other = table.writer("t"), connect().writer("t")
    texts = [other.stage([(n, n, n)], lower=0, upper=3) for n in range(3)]
    texts.append(other.stage([(1, 8, 8), (4, 4, 4)], lower=0, upper=3))
    assert writer.compare_and_append(expected_upper=0, new_upper=3, batches=texts) == 3
    assert [row[0] for row in _rows(table)] == [1, 2, 4]
    assert _away(table) == [0]
    assert writer.compare_and_append(expected_upper=0, new_upper=3, batches=texts) == 3
    late = other.stage([(9, 9, 9)], lower=0, upper=3)
    with pytest.raises(UpperMismatch):
        writer.compare_and_append(expected_upper=0, new_upper=3, batches=[late])
    wrong = other.stage([(9, 9, 9)], lower=3, upper=5)
    with pytest.raises(CtsqlError, match="BATCH_BOUNDS_DIFFER"):
        writer.compare_and_append(expected_upper=3, new_upper=6, batches=[wrong])
    writer.discard(wrong)
    _no_file_is_left(table)


def _first(monkeypatch: pytest.MonkeyPatch, moment: str, act: Callable[[], object]) -> list[str]:
    """Let somebody else act once, in the middle of a write; what is returned tells that it was.

    In one thread no lock keeps the other out: so it is where nothing is locked.
    """
    acted: list[str] = []

    def let(now: str) -> None:
        if now == moment and not acted:
            acted.append(now)
            act()

    check = Batch.check_files

    def check_files(batch: Batch) -> None:
        let("before its mint")
        check(batch)

    def point(name: str) -> None:
        let("once it is staged" if name == "transaction_staged" else "")

    monkeypatch.setattr(Batch, "check_files", check_files)
    monkeypatch.setattr(faults, "hooks", [point])
    return acted


@pytest.mark.parametrize("is_own", [True, False])
def test_a_foreign_writer_is_first(
    is_own: bool,
    table: Connection,
    connect: Callable[[], Connection],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rows come in by the next try, from the files that are there: own ones and of a text."""
    writer, other = table.writer("t"), connect().writer("t")
    rows = [(1, 1, 1), (2, 2, 2)]
    texts = [] if is_own else [other.stage(rows, lower=0, upper=1)]
    insert = f"INSERT INTO delta.`{folder(table, 't')}` VALUES (9, 9, 9)"
    acted = _first(monkeypatch, "once it is staged", lambda: table.spark.sql(insert))
    given = rows if is_own else None
    assert writer.compare_and_append(given, expected_upper=0, new_upper=1, batches=texts) == 1
    assert acted
    assert _rows(table) == [*rows, (9, 9, 9)]
    assert other.fetch_recent_upper() == 1
    _no_file_is_left(table)


@pytest.mark.parametrize("moment", ["before its mint", "once it is staged"])
@pytest.mark.parametrize("cuts", [True, False])
def test_two_write_the_same_without_locks(
    moment: str,
    cuts: bool,
    table: Connection,
    connect: Callable[[], Connection],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second finds the upper moved: nothing is in twice, set aside twice or counted twice."""
    writer, other = table.writer("t"), connect().writer("t")
    rows = {0: [(1, 1, 1), (2, -2, 2), (3, 3, None)]}
    acted = _first(monkeypatch, moment, lambda: other.append(rows, lower=0, upper=1))
    if cuts:
        assert writer.append(rows, lower=0, upper=1) == 1
    else:
        with pytest.raises(UpperMismatch, match="is 1, not 0"):
            writer.compare_and_append(rows, expected_upper=0, new_upper=1)
    assert acted
    assert _rows(table) == [(1, 1, 1), (3, 3, None)]
    assert _away(table) == [2]
    counted = {r[2]: r[5] for r in table.execute("SHOW CONSTRAINTS FOR t").fetchall()}
    assert counted == {"id_unique": 0, "v_check": 1, "w_not_null": 1}
    _no_file_is_left(table)


JOB = """
import sys, ctsql
con = ctsql.connect(sys.argv[1], master="local[1]")
writer = con.writer("t", job="numbers")
for n in range(writer.fetch_recent_upper(), 3):
    rows = [(n, n, n), (n, 8, 8), (n + 100, -n, n), (n + 50, 1, 1)]
    writer.compare_and_append(rows if n else [(0, 0, 0)], expected_upper=n, new_upper=n + 1)
print(writer.upper)
"""


@pytest.mark.parametrize(
    "point",
    [
        "transaction_staged",
        "intent_recorded:2",
        "transaction_table_committed:3",
        "source_committed",
    ],
)
def test_a_job_that_is_killed(
    point: str, warehouse: Path, connect: Callable[[], Connection]
) -> None:
    """Each number's rows are in once: the kept ones, those set aside, and the counts."""
    con = connect()
    con.execute(MADE)
    con.close()
    killed = start_program(JOB, str(warehouse), fault=point)
    _, problems = killed.communicate(timeout=180)
    assert killed.returncode == -9, problems
    assert run_program(JOB, str(warehouse)) == "3\n"
    con = connect()
    assert [row[0] for row in _rows(con)] == [1, 2, 51, 52]
    assert _away(con) == [0, 101, 102]
    counted = {r[2]: r[5] for r in con.execute("SHOW CONSTRAINTS FOR t").fetchall()}
    assert counted == {"id_unique": 2, "v_check": 3, "w_not_null": 0}
