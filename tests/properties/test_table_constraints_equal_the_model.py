"""Tables with constraints that ctsql keeps hold what a model in plain Python holds."""

import json
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from ctsql.api import Connection
from ctsql.errors import CtsqlError
from tests.helpers.table_folder import folder
from tests.scenarios.runner import assert_rows

pytestmark = pytest.mark.spark

Row = tuple[int | None, int | None, int | None]
NAMES = ("k", "g", "v")
ACTIONS = {"u": "DROP", "r": "QUARANTINE", "c": "QUARANTINE", "n": "WARN", "f": "FAIL"}
LISTED = """
    CONSTRAINT u UNIQUE (k) ON VIOLATION DROP,
    CONSTRAINT r FOREIGN KEY (g) REFERENCES groups (id) ON VIOLATION QUARANTINE,
    CONSTRAINT c CHECK (v < 5) ON VIOLATION QUARANTINE,
    CONSTRAINT n NOT NULL (v) ON VIOLATION WARN,
    CONSTRAINT f UNIQUE (g, v)
"""


class Refusal(Exception):
    """A statement writes nothing."""


class Model:
    """What the table, its quarantine and the counts are to be."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.groups = {1, 2}
        self.away: list[tuple[str, Row]] = []
        self.counts: Counter[str] = Counter()

    def write(self, come: Sequence[Row], gone: Sequence[Row] = ()) -> int:
        """Put rows in place of others; returns how many are kept. Raises Refusal."""
        stay = list((Counter(self.rows) - Counter(gone)).elements())
        fates = ACTIONS
        broken: list[set[str]] = [set() for _ in come]

        def is_out(i: int) -> bool:
            return any(fates[name] != "WARN" for name in broken[i])

        for i, (_, _, v) in enumerate(come):
            broken[i] |= {"n"} if v is None else {"c"} if v >= 5 else set()
        for name, key in (("r", (1,)), ("u", (0,)), ("f", (1, 2))):
            looked = [i for i in range(len(come)) if not is_out(i)]
            looked = [i for i in looked if None not in [come[i][j] for j in key]]
            if name == "r":
                for i in looked:
                    broken[i] |= set() if come[i][1] in self.groups else {"r"}
                continue
            there = {tuple(row[j] for j in key) for row in stay}
            for i in sorted(looked, key=lambda i: (_text(come[i]), i)):
                own = tuple(come[i][j] for j in key)
                broken[i] |= {name} if own in there else set()
                there.add(own)
        if any(fates[name] == "FAIL" for names in broken for name in names):
            raise Refusal
        kept = [row for i, row in enumerate(come) if not is_out(i)]
        self.rows = stay + kept
        for row, names in zip(come, broken, strict=True):
            self.counts.update(names)
            if any(fates[name] == "QUARANTINE" for name in names):
                self.away.append((", ".join(n for n in ACTIONS if n in names), row))
        return len(kept)


def _text(row: Row) -> bytes:
    return json.dumps(dict(zip(NAMES, row, strict=True)), separators=(",", ":")).encode()


def _values(rows: Sequence[Row]) -> str:
    return ", ".join(str(row).replace("None", "NULL") for row in rows)


def _random_rows(chance: random.Random) -> list[Row]:
    keys, groups, values = [None, *range(9)], [None, 1, 1, 2, 2, 3], [None, *range(7)]
    count = chance.randrange(1, 4)
    return [
        (chance.choice(keys), chance.choice(groups), chance.choice(values)) for _ in range(count)
    ]


def _step(con: Connection, chance: random.Random, model: Model) -> None:
    """One random statement, in the table and in the model."""
    kind = chance.choice(("insert", "insert", "select", "append", "delete", "replace"))
    rows, k = _random_rows(chance), chance.randrange(9)
    mine = [row for row in model.rows if row[0] == k]
    text, come, gone = f"INSERT INTO x VALUES {_values(rows)}", rows, list[Row]()
    if kind == "select":
        text = f"INSERT INTO x SELECT * FROM (VALUES {_values(rows)}) AS r(k, g, v) WHERE true"
    elif kind == "delete":
        text, come, gone = f"DELETE FROM x WHERE k = {k}", [], mine
    elif kind == "replace":
        text, gone = f"BEGIN; DELETE FROM x WHERE k = {k}; {text}; COMMIT", mine
    try:
        kept = model.write(come, gone)
    except Refusal:
        with pytest.raises(CtsqlError, match="CONSTRAINT_VIOLATED"):
            con.append("x", rows) if kind == "append" else con.execute(text)
        return
    done = con.append("x", rows) if kind == "append" else con.execute(text)
    if kind in ("insert", "select", "append"):
        assert done.rowcount == kept, text


def _check(con: Connection, model: Model, at: str) -> None:
    assert_rows(con.execute("SELECT * FROM x").fetchall(), model.rows, f"{at}: the table")
    found = con.execute("SELECT constraint_name, row_json FROM x_quarantine").fetchall()
    away = [(", ".join(sorted(n.split(", "))), _text(row).decode()) for n, row in model.away]
    told = [(", ".join(sorted(n.split(", "))), text) for n, text in found]
    assert_rows(told, away, f"{at}: the quarantine")


@pytest.mark.parametrize("seed", [1, 2])
def test_random_histories_equal_the_model(con: Connection, seed: int) -> None:
    """Rows, quarantine, numbers of rows, refusals and counts are the model's; others' rows stay."""
    chance, model = random.Random(seed), Model()
    con.execute("CREATE TABLE groups (id INT); INSERT INTO groups VALUES (1), (2)")
    con.execute(f"CREATE TABLE x (k INT, g INT, v INT, {LISTED})")
    for step in range(12):
        if step == 6:
            # Another writer, which knows nothing of these constraints, and one group more.
            foreign: list[Row] = [(1, 9, 9), (1, 9, 9)]
            con.spark.createDataFrame(foreign, "k INT, g INT, v INT").write.format("delta").mode(
                "append"
            ).save(str(folder(con, "x")))
            model.rows += foreign
            con.execute("INSERT INTO groups VALUES (3)")
            model.groups.add(3)
        _step(con, chance, model)
        _check(con, model, f"seed {seed}, step {step}")
    shown = con.execute("SHOW CONSTRAINTS FOR x").fetchall()
    counted = {row[2]: row[5] for row in shown}
    alike = len(model.rows) - len({r[0] for r in model.rows if r[0] is not None})
    alike -= sum(r[0] is None for r in model.rows)
    assert counted["u"] == model.counts["u"] + alike
    assert counted["c"] == model.counts["c"] + sum((r[2] or 0) >= 5 for r in model.rows)
    assert counted["n"] == sum(r[2] is None for r in model.rows)
