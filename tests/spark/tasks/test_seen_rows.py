"""Tasks that see a plain view of their input, or the rows where a condition holds."""

import random
from collections import Counter
from pathlib import Path

import pytest

import ctsql
from ctsql.runtime.tasks import body
from tests.spark.tasks.test_backlog import foreign_commits

Row = tuple[int | None, int | None, int]
SET_UP = """
    CREATE TABLE t (k INT, v INT, unseen INT);
    CREATE VIEW halves AS SELECT k, v DIV 2 AS h FROM t WHERE k IS NOT NULL;
    CREATE VIEW odd (x, y) AS SELECT h AS a, k FROM halves WHERE h % 2 = 1;
    CREATE CONTINUAL TASK log (x INT, y INT, diff BIGINT, at TIMESTAMP)
        ON INPUT odd AS o WHERE o.y < 3 AS (
        INSERT INTO log SELECT x, y, diff, now() FROM changes(o));
    CREATE CONTINUAL TASK came ON INPUT halves AS (
        INSERT INTO came SELECT k, h, now() AS at FROM halves);
    CREATE CONTINUAL TASK went (k INT, v INT, unseen INT) ON INPUT t AS gone WHERE v > 3
        AS (INSERT INTO went SELECT * FROM deletes(gone));
"""


def _change(chance: random.Random, held: Counter[Row]) -> tuple[str, Counter[Row]]:
    """A statement, and what the table holds after it."""
    k = chance.randrange(4)
    match chance.choice(["insert", "delete", "update", "unseen", "halved"]):
        case "insert":
            rows: list[Row] = [
                (chance.choice([None, *range(4)]), chance.choice([None, *range(9)]), 0)
                for _ in range(chance.randrange(1, 4))
            ]
            values = ", ".join(str(r).replace("None", "NULL") for r in rows)
            return f"INSERT INTO t VALUES {values}", held + Counter(rows)
        case "delete":
            return f"DELETE FROM t WHERE k = {k}", _mapped(held, k, lambda _: None)
        case "update":
            v = chance.randrange(9)
            return f"UPDATE t SET v = {v} WHERE k = {k}", _mapped(
                held, k, lambda r: (r[0], v, r[2])
            )
        case "unseen":
            more = "UPDATE t SET unseen = unseen + 1 WHERE k = "
            return f"{more}{k}", _mapped(held, k, lambda r: (r[0], r[1], r[2] + 1))
        case _:
            text = f"UPDATE t SET v = v - v % 2 WHERE k = {k}"
            return text, _mapped(
                held, k, lambda r: (r[0], None if r[1] is None else r[1] - r[1] % 2, r[2])
            )


def _mapped(held: Counter[Row], k: int, change) -> Counter[Row]:  # type: ignore[no-untyped-def]
    made: Counter[Row] = Counter()
    for row, count in held.items():
        new = change(row) if row[0] == k else row
        if new is not None:
            made[new] += count
    return made


def _halves(held: Counter[Row]) -> Counter[tuple[int, int | None]]:
    made: Counter[tuple[int, int | None]] = Counter()
    for (k, v, _), count in held.items():
        if k is not None:
            made[k, None if v is None else v // 2] += count
    return made


def _odd(held: Counter[Row]) -> Counter[tuple[int, int]]:
    halves = _halves(held).items()
    return Counter({(h, k): n for (k, h), n in halves if h is not None and h % 2 == 1 and k < 3})


@pytest.mark.parametrize(
    ("seed", "rounds"), [(2837, 18), pytest.param(11, 45, marks=pytest.mark.slow)]
)
def test_changes_equal_a_model(tmp_path: Path, seed: int, rounds: int) -> None:
    """Each change is that of what the view shows, net, and nothing runs where it shows none."""
    chance = random.Random(seed)
    held: Counter[Row] = Counter()
    log: Counter[object] = Counter()
    came: Counter[object] = Counter()
    went: Counter[object] = Counter()
    times: set[int] = set()
    with ctsql.connect(str(tmp_path / "wh")) as con:
        con.execute(SET_UP)
        for number in range(rounds):
            text, after = _change(chance, held)
            con.execute(text)
            moved = _odd(after)
            moved.subtract(_odd(held))
            log += Counter({(*row, n): 1 for row, n in moved.items() if n})
            if any(moved.values()):
                times.add(number)
            came += _halves(after) - _halves(held)
            went += Counter({r: n for r, n in (held - after).items() if (r[1] or 0) > 3})
            held = after
        found = con.execute("SELECT x, y, diff FROM log").fetchall()
        assert Counter(map(tuple, found)) == log
        assert con.execute("SELECT count(DISTINCT at) FROM log").scalar() == len(times)
        assert Counter(map(tuple, con.execute("SELECT k, h FROM came").fetchall())) == came
        assert Counter(map(tuple, con.execute("SELECT * FROM went").fetchall())) == went
        assert len(log) > 5
        assert len(went) > 3


def test_waiting_changes_are_computed_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the rows of each T told apart, as without a view."""
    calls = []
    together = body.stage_batched_runs
    monkeypatch.setattr(
        "ctsql.runtime.spark_engine.SparkEngine.stage_batched_runs",
        staticmethod(lambda *args: calls.append(made := together(*args)) or made),
    )
    with ctsql.connect(str(tmp_path / "wh")) as con:
        con.execute("""
            CREATE TABLE feed (k INT, v INT);
            CREATE VIEW some (a, b) AS SELECT k, v + 1 AS w FROM feed WHERE v > 0;
            CREATE CONTINUAL TASK seen ON INPUT some s WHERE s.a <> 2 AS (
                INSERT INTO seen SELECT *, now() AS at FROM s);
        """)
        commits = foreign_commits(con, 12)
        rows = con.execute("SELECT a, b, at FROM seen").fetchall()
    expected = [Counter((k, v + 1) for k, v in made if v > 0 and k != 2) for made in commits]
    by_time: dict[object, Counter[tuple[int, int]]] = {}
    for a, b, at in rows:
        by_time.setdefault(at, Counter())[a, b] += 1
    assert [by_time[at] for at in sorted(by_time)] == [rows for rows in expected if rows]  # type: ignore[type-var]
    assert calls
    assert calls[0]
