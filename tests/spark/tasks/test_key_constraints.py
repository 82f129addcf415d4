"""UNIQUE of tasks equals a model in plain Python, by the driver and by Spark."""

import json
import random
from collections import Counter

import pytest

from ctsql.api import Connection
from ctsql.runtime.tasks import key_constraints as under_test
from tests.scenarios.runner import assert_rows

Row = tuple[int | None, str | None]


class Model:
    """The output, the quarantine and the counts of ``UNIQUE (k)`` and two CHECKs."""

    def __init__(self, *, replaces: bool) -> None:
        """``replaces``: the body deletes the rows of the keys that come."""
        self.replaces = replaces
        self.rows: Counter[Row] = Counter()
        self.away: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()

    def run(self, rows: list[Row]) -> None:
        """The task at one T."""
        if self.replaces:
            keys = {k for k, _ in rows if k is not None}
            self.rows = Counter({r: n for r, n in self.rows.items() if r[0] not in keys})
        right = [r for r in rows if r[0] != 9]
        self.counts["nine"] += len(rows) - len(right)
        kept = [r for r in right if r[1] != "c"]
        self.counts["w_check"] += sum(r[1] == "c" for r in rows)
        taken = {k for k, _ in self.rows if k is not None}
        for row in sorted(kept, key=_text):
            if row[0] is not None and row[0] in taken:
                self.away[_text(row)] += 1
                self.counts["k_unique"] += 1
                continue
            taken.add(row[0])
            self.rows[row] += 1


def _text(row: Row) -> str:
    return json.dumps({"k": row[0], "w": row[1]}, separators=(",", ":"))


def _insert(con: Connection, rows: list[Row]) -> None:
    texts = (f"({'NULL' if k is None else k}, {'NULL' if w is None else repr(w)})" for k, w in rows)
    con.execute(f"INSERT INTO feed VALUES {', '.join(texts)}")


@pytest.mark.parametrize("rounds", [3, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("by", ["driver", "spark"])
def test_histories_equal_the_model(
    by: str, rounds: int, con: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two bodies, one that replaces rows."""
    chance = random.Random(11)
    if by == "spark":
        monkeypatch.setattr(under_test, "fits_arrow", lambda _: False)
    con.execute("CREATE TABLE feed (k INT, w STRING)")
    models = {"plain": Model(replaces=False), "latest": Model(replaces=True)}
    for name, model in models.items():
        delete = f"DELETE FROM {name} WHERE k IN (SELECT k FROM feed);" if model.replaces else ""
        con.execute(
            f"CREATE CONTINUAL TASK {name} (k INT UNIQUE ON VIOLATION QUARANTINE, w STRING"
            " CHECK (w <> 'c') ON VIOLATION DROP, CONSTRAINT nine CHECK (k <> 9) ON"
            f" VIOLATION DROP) ON INPUT feed AS ({delete} INSERT INTO {name} SELECT * FROM feed)"
        )
    history: list[object] = []
    for _ in range(rounds):
        for _ in range(chance.choice((1, 2))):
            ks, ws = [None, 1, 2, 3, 4, 9], [None, "a", "b", "c", "a", "a"]
            rows: list[Row] = [(chance.choice(ks), chance.choice(ws)) for _ in range(5)]
            rows += chance.sample(rows, 2)
            _insert(con, rows)
            history.append(rows)
            for model in models.values():
                model.run(rows)
        for name, model in models.items():
            at = f"{name} after {history}"
            assert_rows(con.execute(f"SELECT * FROM {name}").fetchall(), model.rows.elements(), at)
            away = con.execute(f"SELECT row_json FROM {name}_quarantine").fetchall()
            assert_rows(away, [(text,) for text in model.away.elements()], at)
            shown = con.execute(f"SHOW CONSTRAINTS FOR {name}").fetchall()
            counted = {r[2]: int(r[5]) for r in shown}
            assert counted == {n: model.counts[n] for n in counted}, at
            assert len(counted) == 3
