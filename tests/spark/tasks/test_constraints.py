"""Constraints of tasks equal a model in plain Python, also where a process is killed halfway."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection
from ctsql.runtime.tasks import constraints as under_test
from tests.crash.test_faults import HALFWAY
from tests.helpers.processes import run_killed
from tests.helpers.table_folder import check_written_once, folder
from tests.scenarios.runner import assert_rows

Row = tuple[int | None, int | None]

# Name, text, the fate of a row that breaks it, and whether a row breaks it.
CONSTRAINTS: list[tuple[str, str, str, Callable[[Row], bool]]] = [
    ("a", "CHECK (v < 4)", "QUARANTINE", lambda r: r[1] is not None and r[1] >= 4),
    ("b", "NOT NULL (k)", "DROP", lambda r: r[0] is None),
    ("c", "CHECK (k + v <> 3)", "WARN", lambda r: None not in r and sum(r) == 3),  # type: ignore[arg-type]
    ("d", "CHECK (v > 0 OR k = 1)", "DROP", lambda r: r[1] is not None and r[1] <= 0 and r[0] != 1
     and r[0] is not None),
]  # fmt: skip
LISTED = ", ".join(
    f"CONSTRAINT {name} {text} ON VIOLATION {action}" for name, text, action, _ in CONSTRAINTS
)


def _fate(row: Row) -> tuple[str, list[str]]:
    """What becomes of a row, and the names of what it breaks."""
    broken = [(name, action) for name, _, action, breaks in CONSTRAINTS if breaks(row)]
    actions = [action for _, action in broken]
    fate = next((a for a in ("QUARANTINE", "DROP", "WARN") if a in actions), "")
    return fate, [name for name, _ in broken]


class Model:
    """The output, the quarantine and the counts, in plain Python."""

    def __init__(self, *, replaces: bool) -> None:
        """``replaces``: the body deletes the rows of the keys that come."""
        self.replaces = replaces
        self.rows: Counter[Row] = Counter()
        self.away: Counter[tuple[str | None, str]] = Counter()
        self.counts: Counter[str] = Counter()

    def run(self, rows: list[Row]) -> None:
        """The task at one T."""
        if self.replaces:
            keys = {k for k, _ in rows if k is not None}
            self.rows = Counter({r: n for r, n in self.rows.items() if r[0] not in keys})
        for row in rows:
            fate, broken = _fate(row)
            self.counts.update(broken)
            if fate == "QUARANTINE":
                k, v = ("null" if one is None else one for one in row)
                self.away[", ".join(broken), f'{{"k":{k},"v":{v}}}'] += 1
            elif fate != "DROP":
                self.rows[row] += 1


def _insert(con: Connection, rows: list[Row]) -> None:
    listed = ", ".join(
        f"({'NULL' if k is None else k}, {'NULL' if v is None else v})" for k, v in rows
    )
    con.execute(f"INSERT INTO feed VALUES {listed}")


def _compare(con: Connection, name: str, model: Model, at: str) -> None:
    assert_rows(con.execute(f"SELECT * FROM {name}").fetchall(), model.rows.elements(), at)
    away = con.execute(f"SELECT constraint_name, row_json FROM {name}_quarantine").fetchall()
    assert_rows(away, model.away.elements(), at)
    shown = con.execute(f"SHOW CONSTRAINTS FOR {name}").fetchall()
    counted = {row[2]: int(row[5]) for row in shown}
    assert counted == {n: model.counts[n] for n, *_ in CONSTRAINTS}, at


@pytest.mark.parametrize("rounds", [3, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("held_by", ["driver", "spark"])
def test_histories_equal_the_model(
    held_by: str, rounds: int, con: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two bodies over a random history, looked at after one or after several Ts."""
    chance = random.Random(7)
    if held_by == "spark":
        monkeypatch.setattr(under_test, "fits_arrow", lambda _: False)
    con.execute("CREATE TABLE feed (k INT, v INT)")
    models = {"plain": Model(replaces=False), "latest": Model(replaces=True)}
    values = [None, 0, 1, 2, 3, 4, 5]
    history: list[list[Row]] = []
    for name, model in models.items():
        delete = f"DELETE FROM {name} WHERE k IN (SELECT k FROM feed);" if model.replaces else ""
        con.execute(
            f"CREATE CONTINUAL TASK {name} (k INT, v INT, {LISTED}) ON INPUT feed AS ({delete}"
            f" INSERT INTO {name} SELECT * FROM feed)"
        )
    for step in range(rounds):
        for _ in range(chance.choice((1, 3))):
            rows = [(chance.choice(values), chance.choice(values)) for _ in range(5)]
            if step == 2:
                rows = [(k, 1) for k, _ in rows if k is not None] or [(1, 1)]
            _insert(con, rows)
            history.append(rows)
            for model in models.values():
                model.run(rows)
        for name, model in models.items():
            _compare(con, name, model, f"{name} after {history}")
    at_all = [c for c in con.commits("latest") if "constraints" in c.said]
    assert (
        sum((Counter(c.said["constraints"]) for c in at_all), Counter()) == models["latest"].counts
    )


def test_killed_between_quarantine_and_output(
    warehouse: Path, connect: Callable[[], Connection]
) -> None:
    """The T is run again, and each row is where it belongs once."""
    con = connect()
    con.execute("CREATE TABLE feed (k INT, v INT)")
    con.execute(
        f"CREATE CONTINUAL TASK x (k INT, v INT, {LISTED}) ON INPUT feed"
        " WITH (ON ERROR = 'quarantine') AS"
        " (INSERT INTO x SELECT k, CAST(v + 0 * (1 / (v - 7)) AS INT) FROM feed)"
    )
    rows: list[Row] = [(1, 1), (1, 9), (1, 9), (None, 1), (1, 2)]
    failing: list[Row] = [(1, 7), (2, 7), (None, 3)]
    _insert(con, rows)
    _insert(con, failing)
    con.close()
    run_killed(warehouse, ["SELECT * FROM x"], HALFWAY)
    con = connect()
    con.execute("SET isolation = 'serializable'")
    assert con.execute("SELECT * FROM x_quarantine").fetchall() == [], "not before the T is in"
    con.execute("RESET isolation")
    model = Model(replaces=False)
    model.run(rows)
    texts = ('{"k":1,"v":7}', '{"k":2,"v":7}', '{"k":null,"v":3}')
    model.away.update((None, text) for text in texts)
    _compare(con, "x", model, "after the kill")
    for name in ("x", "x_quarantine"):
        check_written_once(folder(con, name))
