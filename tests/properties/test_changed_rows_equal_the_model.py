"""UPDATE and MERGE of tables with constraints that ctsql keeps, against a model in plain Python."""

import json
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from ctsql.api import Connection
from ctsql.runtime.delta import clones
from ctsql.runtime.rows.declined import Declined
from ctsql.runtime.rows.row_set import SparkRows
from tests.scenarios.runner import assert_rows

pytestmark = pytest.mark.spark

Row = tuple[int | None, int | None, int | None]
Change = tuple[Row, int | None]
"""A row that comes, and the number of the one that it replaces; None for a new one."""
NAMES = ("k", "g", "v")
ACTIONS = {"u": "DROP", "r": "QUARANTINE", "c": "QUARANTINE", "n": "WARN"}
LISTED = """
    CONSTRAINT u UNIQUE (k) ON VIOLATION DROP,
    CONSTRAINT r FOREIGN KEY (g) REFERENCES groups (id) ON VIOLATION QUARANTINE,
    CONSTRAINT c CHECK (v < 6) ON VIOLATION QUARANTINE,
    CONSTRAINT n NOT NULL (v) ON VIOLATION WARN
"""
GROUPS = {1, 2}


class Model:
    """What the table, its quarantine and the counts are to be."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.away: list[tuple[str, Row, Row | None]] = []
        self.counts: Counter[str] = Counter()

    def write(self, come: Sequence[Change], gone: Sequence[int] = ()) -> int:
        """Put rows in place of others; returns how many are kept."""
        old = {number for _, number in come if number is not None}
        stay = [row for i, row in enumerate(self.rows) if i not in {*old, *gone}]
        left = list(come)
        while True:
            broken = [self._broken(row) for row, _ in left]
            keys = {row[0] for row in stay}
            for i in sorted(range(len(left)), key=lambda i: (_text(left[i][0]), i)):
                k = left[i][0][0]
                if k is None or _is_out(broken[i]):
                    continue
                broken[i] |= {"u"} if k in keys else set()
                keys.add(k)
            out = [i for i in range(len(left)) if _is_out(broken[i])]
            for i in out:
                row, number = left[i]
                self.counts.update(broken[i])
                if broken[i] & {"r", "c"}:
                    was = None if number is None else self.rows[number]
                    self.away.append((", ".join(n for n in ACTIONS if n in broken[i]), row, was))
            back = [self.rows[n] for i in out if (n := left[i][1]) is not None]
            kept = [i for i in range(len(left)) if i not in out]
            if not back:
                for i in kept:
                    self.counts.update(broken[i])
                self.rows = stay + [left[i][0] for i in kept]
                return len(kept)
            stay += back
            left = [left[i] for i in kept]

    def _broken(self, row: Row) -> set[str]:
        _, g, v = row
        broken = {"n"} if v is None else {"c"} if v >= 6 else set[str]()
        if not broken & {"c"} and g is not None and g not in GROUPS:
            broken |= {"r"}
        return broken


def _is_out(constraints: set[str]) -> bool:
    return any(ACTIONS[name] != "WARN" for name in constraints)


def _text(row: Row) -> bytes:
    return json.dumps(dict(zip(NAMES, row, strict=True)), separators=(",", ":")).encode()


def _values(rows: Sequence[Row]) -> str:
    return ", ".join(str(row).replace("None", "NULL") for row in rows)


def _random_row(chance: random.Random) -> Row:
    keys, groups, values = [None, *range(9)], [None, 1, 1, 2, 2, 3], [None, *range(8)]
    return chance.choice(keys), chance.choice(groups), chance.choice(values)


def _step(con: Connection, chance: random.Random, model: Model) -> str:
    """One random statement, in the table and in the model; gives its text."""
    kind = chance.choice(("insert", "shift", "add", "by key", "merge", "several"))
    there, d = list(enumerate(model.rows)), chance.choice((1, 2, 3))
    k, g = chance.randrange(9), chance.choice((1, 2, 3))
    if kind == "insert":
        rows = [_random_row(chance) for _ in range(4)]
        text = f"INSERT INTO x VALUES {_values(rows)}"
        come: list[Change] = [(row, None) for row in rows]
    elif kind == "shift":
        text = f"UPDATE x SET k = k + {d} WHERE k + 0 >= {k}"
        come = [((r[0] + d, *r[1:]), i) for i, r in there if r[0] is not None and r[0] >= k]
    elif kind == "add":
        text = f"UPDATE x SET v = v + {d}, g = {g} WHERE v + 0 > 2"
        come = [((r[0], g, r[2] + d), i) for i, r in there if r[2] is not None and r[2] > 2]
    elif kind == "by key":
        text = f"UPDATE x SET v = v * 2 WHERE k = {k}"
        come = [((k, r[1], None if r[2] is None else r[2] * 2), i) for i, r in there if r[0] == k]
    elif kind == "merge":
        rows = [(key, g, chance.randrange(8)) for key in chance.sample(range(9), 4)]
        text = f"""
            MERGE INTO x USING (SELECT * FROM VALUES {_values(rows)} AS r (k, g, v)) AS s
            ON x.k + 0 = s.k
            WHEN MATCHED AND s.v = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET g = s.g, v = s.v
            WHEN NOT MATCHED THEN INSERT *
        """
        by_key = {row[0]: row for row in rows}
        come = [(by_key[r[0]], i) for i, r in there if r[0] in by_key and by_key[r[0]][2] != 0]
        keys = {r[0] for r in model.rows}
        come += [(row, None) for row in rows if row[0] not in keys]
        gone = [i for i, r in there if r[0] in by_key and by_key[r[0]][2] == 0]
        con.execute(text)
        model.write(come, gone)
        return text
    else:
        row = _random_row(chance)
        text = f"""
            BEGIN; UPDATE x SET v = 7 WHERE k = {k}; INSERT INTO x VALUES {_values([row])};
            UPDATE x SET v = 5 WHERE v = 7 AND g + 0 = 1; DELETE FROM x WHERE k = {k} AND g = 2;
            COMMIT
        """
        all_rows: list[Change] = [
            ((r[0], r[1], 7), i) if r[0] == k else (r, i) for i, r in there
        ] + [(row, None)]  # fmt: skip
        all_rows = [((*r[:2], 5), i) if r[2] == 7 and r[1] == 1 else (r, i) for r, i in all_rows]
        left = [(r, i) for r, i in all_rows if not (r[0] == k and r[1] == 2)]
        here = {i for _, i in left}
        gone = [i for i, _ in there if i not in here]
        model.write([(r, i) for r, i in left if i is None or model.rows[i][0] == k], gone)
        con.execute(text)
        return text
    kept = model.write(come)
    done = con.execute(text)
    assert done.rowcount == kept, text
    return text


def _check(con: Connection, model: Model, at: str) -> None:
    assert_rows(con.execute("SELECT * FROM x").fetchall(), model.rows, f"{at}: the table")
    found = con.execute("SELECT constraint_name, reason, row_json FROM x_quarantine").fetchall()
    told = [(name, text, reason.partition("stays ")[2]) for name, reason, text in found]
    away = [
        (name, _text(row).decode(), "" if was is None else _text(was).decode())
        for name, row, was in model.away
    ]
    assert_rows(told, away, f"{at}: the quarantine")


@pytest.mark.parametrize("way", ["few", "many", "without vectors"])
def test_random_changes_equal_the_model(
    con: Connection, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stays, what is set aside and what is counted, by the driver and by Spark."""
    if way == "many":
        monkeypatch.setattr(SparkRows, "collect", lambda _: Declined("for the test"))
        monkeypatch.setattr(clones, "DRIVER_ROWS_MAX", -1)
    chance, model = random.Random(way), Model()
    vectors = "false" if way == "without vectors" else "true"
    con.execute("CREATE TABLE groups (id INT); INSERT INTO groups VALUES (1), (2)")
    con.execute(
        f"CREATE TABLE x (k INT, g INT, v INT, {LISTED}) "
        f"TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')"
    )
    first: list[Change] = [((k, 1 + k % 2, k % 6), None) for k in range(7)]
    con.execute(f"INSERT INTO x VALUES {_values([row for row, _ in first])}")
    model.write(first)
    for step in range(10):
        text = _step(con, chance, model)
        _check(con, model, f"{way}, step {step}: {text}")
    counted = {row[2]: row[5] for row in con.execute("SHOW CONSTRAINTS FOR x").fetchall()}
    assert {name: counted[name] for name in "urc"} == {name: model.counts[name] for name in "urc"}
