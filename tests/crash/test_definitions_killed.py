"""Definitions change while a process is killed, and while a service goes on.

Each row of :data:`CHANGES` is a change. Until a T is bound to it all is old, then all is new. Done
again it comes to the same end, and each follower has seen each difference once.
"""

import json
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest

from ctsql.api import Connection, connect as open_connection
from tests.helpers.processes import Process, finish_program, start_program
from tests.helpers.sql_folder import APPLY, applied, apply_at_once
from tests.helpers.table_folder import check_written_once, folder, log, orphans
from tests.scenarios.runner import assert_rows

Rows = list[tuple[object, ...]]
BEFORE, AFTER = "cutover_stored", "cutover_bound"
"""The two points between which a change is bound to a T, or is not."""
SECONDS_TO_START = 240


@dataclass(frozen=True)
class Change:
    """A change of definitions.

    Attributes:
        set_up: what is there before. change: statements, or the text of a folder.
        shown: by query, the rows before, after, and after once :attr:`more` is in, too.
        more: statements that come later. old: what they make under the old definition, by query.
        again: what there is when the change is done again after that, where it is another thing.
        names: the objects there are before and after. early: points before it is bound.
        late: points after that. anywhere: points that it may not come to, or comes to on either
        side. seen: followers, by query, with all that they saw at the end if it was killed early.
    """

    set_up: str
    change: list[str] | str
    shown: Mapping[str, tuple[Rows, Rows, Rows]]
    more: str
    old: Mapping[str, Rows] = field(default_factory=dict)
    names: tuple[str, str] = ("", "")
    early: tuple[str, ...] = (BEFORE,)
    late: tuple[str, ...] = (AFTER, "output_staged")
    anywhere: tuple[str, ...] = ()
    again: Mapping[str, Rows] = field(default_factory=dict)
    seen: Mapping[str, tuple[Rows, Rows]] = field(default_factory=dict)

    def run(self, con: Connection) -> None:
        """Do it, or do it again."""
        if isinstance(self.change, str):
            applied(con, self.change, prune=True)
        else:
            con.execute("; ".join(self.change))

    def run_killed(self, warehouse: Path, place: Path, point: str) -> bool:
        """Do it in a process of its own; whether that has died at the point."""
        if isinstance(self.change, str):
            (place / "sql").mkdir()
            (place / "sql" / "all.sql").write_text(self.change)
            program = start_program(APPLY, str(warehouse), str(place / "sql"), fault=point)
            _, problems = program.communicate()
            status = program.returncode
        else:
            process = Process(warehouse, self.change, fault=point)
            process.wait_ready()
            process.go()
            status, problems = process.finish()
        assert status in (0, -signal.SIGKILL), problems
        return status != 0


ROWS = "CREATE TABLE t (k INT, v INT); INSERT INTO t VALUES (1, 10), (1, 5), (2, 20);"
VIEW = f"""{ROWS}
CREATE MATERIALIZED VIEW m AS SELECT k, sum(v) AS s FROM t GROUP BY k;
CREATE MATERIALIZED VIEW above AS SELECT count(*) AS n FROM m;
SELECT * FROM above"""
TASK = """
CREATE TABLE t (k INT);
CREATE CONTINUAL TASK x (k INT) ON INPUT t AS (INSERT INTO x SELECT k FROM t);
CREATE CONTINUAL TASK seen (k INT) ON INPUT x AS (INSERT INTO seen SELECT k FROM x);
INSERT INTO t VALUES (1);
INSERT INTO t VALUES (2);
SELECT * FROM seen"""
SORTED = """
CREATE TABLE t (k INT);
CREATE CONTINUAL TASK sort
    OUTPUTS (low (k INT), high (k INT CHECK (k < 90) ON VIOLATION QUARANTINE)) ON INPUT t AS (
    INSERT INTO low SELECT k FROM t WHERE k < 9; INSERT INTO high SELECT k FROM t WHERE k > 8);
INSERT INTO t VALUES (1), (10), (95);
INSERT INTO t VALUES (2), (20);
SELECT * FROM low"""
FOLDER = """
CREATE TABLE t (k INT, v INT);
CREATE VIEW p AS SELECT k, v FROM t WHERE v > 0;
CREATE MATERIALIZED VIEW m AS SELECT k, sum(v) AS s FROM p GROUP BY k;
CREATE CONTINUAL TASK c (k INT, v INT) ON INPUT t AS (INSERT INTO c SELECT k, v FROM t);
CREATE MATERIALIZED VIEW gone AS SELECT k FROM t;
"""
NEW_FOLDER = """
CREATE TABLE t (k INT, v INT);
CREATE TABLE u AS SELECT k FROM t;
CREATE VIEW p AS SELECT k, v FROM t WHERE v > 1;
CREATE MATERIALIZED VIEW m AS SELECT k, sum(v) AS s, count(*) AS n FROM p GROUP BY k;
CREATE CONTINUAL TASK c (k INT, v INT) ON INPUT t AS (INSERT INTO c SELECT k, v + 100 FROM t);
CREATE MATERIALIZED VIEW next AS SELECT n FROM m;
CREATE CONTINUAL TASK d (k INT) ON INPUT t AS (INSERT INTO d SELECT k FROM t);
"""


def _of(*values: object) -> Rows:
    return [(value,) for value in values]


CHANGES = {
    "other columns of a view": Change(
        set_up=VIEW,
        change=[
            "CREATE OR REPLACE MATERIALIZED VIEW m AS "
            "SELECT CAST(k AS STRING) AS name, count(*) AS n, k FROM t GROUP BY k"
        ],
        shown={
            "SELECT * FROM m": (
                [(1, 15), (2, 20)],
                [("1", 2, 1), ("2", 1, 2)],
                [("1", 2, 1), ("2", 1, 2), ("3", 1, 3)],
            ),
            "SELECT * FROM above": (_of(2), _of(2), _of(3)),
        },
        more="INSERT INTO t VALUES (3, 3)",
        old={"SELECT * FROM m": [(1, 15), (2, 20), (3, 3)]},
        anywhere=("catalog_committed:2", "mv_advanced_upper", "output_committed:5"),
    ),
    "a column at the end of a view": Change(
        set_up=VIEW,
        change=[
            "CREATE OR REPLACE MATERIALIZED VIEW m AS "
            "SELECT k, sum(v) AS s, count(*) AS n FROM t GROUP BY k"
        ],
        shown={
            "SELECT * FROM m": (
                [(1, 15), (2, 20)],
                [(1, 15, 2), (2, 20, 1)],
                [(1, 15, 2), (2, 20, 1), (3, 3, 1)],
            )
        },
        more="INSERT INTO t VALUES (3, 3)",
        old={"SELECT * FROM m": [(1, 15), (2, 20), (3, 3)]},
        early=("columns_added", BEFORE),
    ),
    "a column at the end of a task": Change(
        set_up=f"""{ROWS}
        CREATE CONTINUAL TASK x (k INT, v INT) ON INPUT t AS (INSERT INTO x SELECT k, v FROM t);
        CREATE CONTINUAL TASK seen (k INT) ON INPUT x AS (INSERT INTO seen SELECT k FROM x);
        SELECT * FROM seen""",
        change=[
            "CREATE OR REPLACE CONTINUAL TASK x (k INT, v INT, n STRING) ON INPUT t AS "
            "(INSERT INTO x SELECT k, v, 'n' || v FROM t)"
        ],
        shown={
            "SELECT * FROM x": (
                [(1, 10), (1, 5), (2, 20)],
                [(1, 10, None), (1, 5, None), (2, 20, None)],
                [(1, 10, None), (1, 5, None), (2, 20, None), (3, 3, "n3")],
            )
        },
        more="INSERT INTO t VALUES (3, 3)",
        old={"SELECT * FROM x": [(1, 10), (1, 5), (2, 20), (3, 3)]},
        again={"SELECT * FROM x": [(1, 10, None), (1, 5, None), (2, 20, None), (3, 3, None)]},
        early=("columns_added", BEFORE),
        late=(AFTER,),
        seen={"SELECT k FROM seen": (_of(1, 1, 2, 3), _of(1, 1, 2, 3))},
    ),
    "another body": Change(
        set_up=TASK,
        change=["ALTER CONTINUAL TASK x AS (INSERT INTO x SELECT -k FROM t)"],
        shown={"SELECT k FROM x": (_of(1, 2), _of(1, 2), _of(1, 2, -3))},
        more="INSERT INTO t VALUES (3)",
        old={"SELECT k FROM x": _of(1, 2, 3)},
        again={"SELECT k FROM x": _of(1, 2, 3)},
        late=(AFTER,),
        seen={"SELECT k FROM seen": (_of(1, 2, 3), _of(1, 2, -3))},
    ),
    "a replay": Change(
        set_up=TASK,
        change=["REPLAY CONTINUAL TASK x FROM '2026-01-01' AS (INSERT INTO x SELECT k * k FROM t)"],
        shown={"SELECT k FROM x": (_of(1, 2), _of(1, 4), _of(1, 4, 9))},
        more="INSERT INTO t VALUES (3)",
        old={"SELECT k FROM x": _of(1, 2, 3)},
        names=("seen t x", "seen t x"),
        early=("catalog_table_made", "output_committed", BEFORE),
        late=(AFTER,),
        anywhere=("output_staged:4", "output_committed:5", "catalog_committed:3"),
        seen={"SELECT k FROM seen": (_of(1, 2, 3, 4, 9), _of(1, 2, 4, 9))},
    ),
    "a replay with outputs and a quarantine": Change(
        set_up=SORTED,
        change=[
            "REPLAY CONTINUAL TASK sort FROM '2026-01-01' AS ("
            "INSERT INTO low SELECT -k FROM t WHERE k < 15;"
            "INSERT INTO high SELECT k + 75 FROM t WHERE k > 14)"
        ],
        shown={
            "SELECT k FROM low UNION ALL SELECT k FROM high": (
                _of(1, 2, 10, 20),
                _of(-10, -2, -1),
                _of(-10, -3, -2, -1),
            ),
            "SELECT row_json FROM sort_quarantine": (
                _of('{"k":95}'),
                _of('{"k":170}', '{"k":95}'),
                _of('{"k":170}', '{"k":95}'),
            ),
        },
        more="INSERT INTO t VALUES (3)",
        old={"SELECT k FROM low UNION ALL SELECT k FROM high": _of(1, 2, 3, 10, 20)},
        names=("high low sort sort_quarantine t",) * 2,
        early=("catalog_table_made", "output_committed", BEFORE),
        late=(AFTER, "outputs_halfway:3"),
        anywhere=(
            "outputs_halfway:1",
            "outputs_halfway:2",
            "output_staged:4",
            "output_committed:5",
        ),
    ),
    "a task's replacement": Change(
        set_up=f"""{TASK};
        CREATE REPLACEMENT CONTINUAL TASK r FOR x AS (INSERT INTO x SELECT -k FROM t)""",
        change=["ALTER CONTINUAL TASK x APPLY REPLACEMENT r"],
        shown={"SELECT k FROM x": (_of(1, 2), _of(-1, -2), _of(-1, -2, -3))},
        more="INSERT INTO t VALUES (3)",
        old={"SELECT k FROM x": _of(1, 2, 3)},
        names=("r seen t x", "seen t x"),
    ),
    "a view's replacement": Change(
        set_up=f"""{VIEW};
        CREATE CONTINUAL TASK seen ON INPUT m AS (INSERT INTO seen SELECT s FROM m);
        SELECT * FROM seen;
        CREATE REPLACEMENT MATERIALIZED VIEW r FOR m AS
            SELECT k, sum(v) + (CASE WHEN k > 1 THEN 1 ELSE 0 END) AS s FROM t GROUP BY k""",
        change=["ALTER MATERIALIZED VIEW m APPLY REPLACEMENT r"],
        shown={
            "SELECT * FROM m": (
                [(1, 15), (2, 20)],
                [(1, 15), (2, 21)],
                [(1, 15), (2, 21), (0, 7)],
            )
        },
        more="INSERT INTO t VALUES (0, 7)",
        old={"SELECT * FROM m": [(1, 15), (2, 20), (0, 7)]},
        names=("above m r seen t", "above m seen t"),
        anywhere=("catalog_committed:2",),
        seen={"SELECT s FROM seen": (_of(15, 20, 7, 21), _of(15, 20, 21, 7))},
    ),
    "a folder": Change(
        set_up=f"{FOLDER} INSERT INTO t VALUES (1, 1), (1, 5); SELECT * FROM m; SELECT * FROM c",
        change=NEW_FOLDER,
        shown={
            "SELECT * FROM m": ([(1, 6)], [(1, 5, 1)], [(1, 12, 2)]),
            "SELECT v FROM c": (_of(1, 5), _of(1, 5), _of(1, 5, 107)),
        },
        more="INSERT INTO t VALUES (1, 7)",
        old={"SELECT * FROM m": [(1, 13)], "SELECT v FROM c": _of(1, 5, 7)},
        again={"SELECT * FROM m": [(1, 12, 2)], "SELECT v FROM c": _of(1, 5, 7)},
        names=("c gone m p t", "c d m next p t u"),
        early=("output_committed", "catalog_table_made", BEFORE),
        late=(AFTER, "catalog_committed:2", "output_staged", "output_committed:3"),
    ),
    "a folder that begins a task with a table's rows": Change(
        set_up="CREATE TABLE old (k INT); INSERT INTO old VALUES (1), (1), (2); SELECT * FROM old;"
        "CREATE TABLE t (k INT)",
        change="""CREATE TABLE old (k INT); CREATE TABLE t (k INT);
        CREATE CONTINUAL TASK x (k INT) ON INPUT t BACKFILL FROM old AS
            (INSERT INTO x SELECT -k FROM t);
        """,
        shown={"SELECT k FROM old": (_of(1, 1, 2), _of(1, 1, 2), _of(1, 1, 2, 7))},
        more="INSERT INTO old VALUES (7); INSERT INTO t VALUES (5)",
        names=("old t", "old t x"),
        early=(),
        late=(AFTER,),
        anywhere=("output_staged", "output_committed:2", "catalog_committed:3"),
        seen={"SELECT k FROM x": (_of(1, 1, 2, -5), _of(1, 1, 2, -5))},
    ),
}
EACH_TIME = {("a replay with outputs and a quarantine", "outputs_halfway:3"), ("a folder", AFTER)}
"""The simulation is killed anywhere in every run; what is slow here is the process around it."""
KILLED = [
    pytest.param(name, point, is_new, marks=() if (name, point) in EACH_TIME else pytest.mark.slow)
    for name, change in CHANGES.items()
    for points, is_new in ((change.early, False), (change.late, True), (change.anywhere, None))
    for point in points
]


def _columns(commit: list[dict[str, Any]]) -> list[str] | None:
    """The columns that a commit gives its table."""
    for action in commit:
        if "metaData" in action:
            return [f["name"] for f in json.loads(action["metaData"]["schemaString"])["fields"]]
    return None


def _check_log(table: Path) -> None:
    """Each T is written once, in order; no commit holds files of other columns than the table."""
    check_written_once(table)
    commits = log(table)
    names = _columns(commits[0]) or []
    for number, commit in enumerate(commits):
        removed = {a["remove"]["path"] for a in commit if "remove" in a}
        names = _columns(commit) or names
        for path in {a["add"]["path"] for a in commit if "add" in a} - removed:
            file = table / unquote(path)
            if file.exists():  # else it was compacted and cleaned
                assert pq.read_schema(file).names == names[: len(pq.read_schema(file))], number


def _check(con: Connection, wanted: Mapping[str, Rows], at: str) -> None:
    for query, rows in wanted.items():
        assert_rows(con.execute(query).fetchall(), rows, f"{at}: {query}")


def _names(con: Connection) -> str:
    return " ".join(sorted(str(row[1]) for row in con.execute("SHOW OBJECTS").fetchall()))


def _writers(con: Connection, name: str) -> set[str]:
    """The processes that wrote an object, but for its first commit."""
    commits = [a["commitInfo"]["userMetadata"] for a, *_ in log(folder(con, name))[1:]]
    return {json.loads(told)["writer"] for told in commits}


@pytest.mark.parametrize(("name", "point", "is_new"), KILLED)
def test_killed_at(
    name: str,
    point: str,
    is_new: bool | None,
    warehouse: Path,
    tmp_path: Path,
    connect: Callable[[], Connection],
) -> None:
    """All is old or all is new, for read-only connections, too; the next process finishes."""
    change, first = CHANGES[name], connect()
    first.execute(change.set_up)
    first.close()
    has_died = change.run_killed(warehouse, tmp_path, point)
    assert has_died or is_new is None, "a point that it comes to for sure"
    con = connect()
    if is_new is None:
        query, (before, *_) = next(iter(change.shown.items()))
        held = sorted(map(tuple, con.execute(query).fetchall()))
        is_new = _names(con) != change.names[0] or held != sorted(before)
    shown, done = ({q: rows[n] for q, rows in change.shown.items()} for n in (is_new, 2))
    with open_connection(str(warehouse), read_only=True) as reading:
        _check(reading, shown, "read only")
    _check(con, shown, point)
    con.execute(change.more)
    _check(con, done if is_new else change.old, f"{point}, later")
    for object_name in {"m", "x", "low"} & set(_names(con).split()):
        _check_log(folder(con, object_name))
    con.execute("MAINTAIN RETAIN '0 seconds'")
    assert change.names[is_new] in ("", _names(con)), "what was built beside is gone"
    if not (is_new and "APPLY" in change.change[0]):
        change.run(con)
    _check(con, done if is_new else {**done, **change.again}, f"{point}, again")
    assert change.names[1] in ("", _names(con))
    _check(con, {q: rows[is_new] for q, rows in change.seen.items()}, "followers")


NEW = "SELECT CAST(k AS STRING) AS name, count(*) AS n, k FROM t GROUP BY k"
QUERIES = (NEW, "SELECT v FROM t", "SELECT k, sum(v) AS s FROM t GROUP BY k")
ROUNDS = 4


@pytest.mark.slow
def test_a_service_goes_on_meanwhile(warehouse: Path, connect: Callable[[], Connection]) -> None:
    """Its refreshes never spoil the definition in force; each T of a task is of one body."""
    con = connect()
    con.execute(VIEW)
    con.execute(
        "CREATE CONTINUAL TASK x (k INT, n INT) ON INPUT t AS (INSERT INTO x SELECT k, 0 FROM t)"
    )
    program = ("-w", str(warehouse), "--master", "local[1]", "run", "--interval", "0.01")
    service = start_program("from ctsql.cli.main import main; main()", *program)
    con.execute("DROP MATERIALIZED VIEW above; INSERT INTO t VALUES (2, 1)")
    end = time.monotonic() + SECONDS_TO_START
    while not _writers(con, "m"):
        assert time.monotonic() < end, "the service writes what has changed"
        time.sleep(0.5)
    made: Rows = [(1, 0), (1, 0), (2, 0), (2, 0)]
    for number in range(1, ROUNDS + 1):
        for place, query in enumerate(QUERIES):
            body = 10 * number + place
            con.execute(f"INSERT INTO t VALUES ({number}, 1)")
            con.execute(f"CREATE OR REPLACE MATERIALIZED VIEW m AS {query}")
            made.append((number, made[-1][1]))
            con.execute(f"ALTER CONTINUAL TASK x AS (INSERT INTO x SELECT k, {body} FROM t)")
            con.execute(f"INSERT INTO t VALUES ({number}, 2)")
            made.append((number, body))
            held = con.execute("SELECT * FROM m").fetchall()
            assert_rows(held, con.execute(query).fetchall(), query)
            assert_rows(con.execute("SELECT * FROM x").fetchall(), made, "each T by its body")
    assert service.poll() is None
    service.send_signal(signal.SIGTERM)
    said = finish_program(service)
    assert "Traceback" not in said
    assert len(_writers(con, "m")) == 2
    assert con.execute("VERIFY m").fetchall() == []
    for name in ("m", "x"):
        _check_log(folder(con, name))
        assert not orphans(folder(con, name))


@pytest.mark.slow
def test_two_folders_at_once(
    warehouse: Path, tmp_path: Path, connect: Callable[[], Connection]
) -> None:
    """One wins, and the other is told; what is there is one of the two folders, whole."""
    con = connect()
    applied(con, FOLDER)
    texts = []
    for number in (1, 2):
        text = FOLDER.replace("v > 0", f"v > {number}")
        text = text.replace("SELECT k, v FROM t)", f"SELECT k, {number} FROM t)")
        texts.append(text + f"CREATE VIEW extra{number} AS SELECT * FROM m;")
    ended = apply_at_once(warehouse, tmp_path, texts)
    last = 1 if "v > 1" in str(con.execute("SHOW CREATE VIEW p").fetchall()) else 2
    assert f"SELECT k, {last} FROM t" in str(con.execute("SHOW CREATE CONTINUAL TASK c").fetchall())
    assert f"extra{last}" in _names(con)
    assert set(ended) <= {(0, ""), (7, "DEFINITIONS_CHANGED")}
    assert ended[last - 1] == (0, "")
