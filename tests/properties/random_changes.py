"""Random changes of two tables, feed and side, of the columns k and v."""

import random
from collections import Counter

from ctsql.api import Connection
from tests.properties.model import Change, Row, Rows


def random_rows(chance: random.Random) -> list[Row]:
    values = [None, 0, 1, 2, 3]
    return [(chance.choice(values), chance.choice(values)) for _ in range(chance.randrange(1, 6))]


def change(con: Connection, chance: random.Random, rows: Rows) -> Change:
    """Change the feed at random; gives what that is, net."""
    before = +rows
    side = write(con, chance, rows)
    return Change(inserts=rows - before, deletes=before - rows, contents=+rows, side=side)


def insert(con: Connection, table: str, rows: list[Row]) -> None:
    texts = (f"({'NULL' if k is None else k}, {'NULL' if v is None else v})" for k, v in rows)
    con.execute(f"INSERT INTO {table} VALUES {', '.join(texts)}")


def write(con: Connection, chance: random.Random, held: Rows) -> Rows:
    """Write at random; gives what went into side."""
    match chance.choice(("insert", "insert", "insert", "side", "delete", "update", "merge")):
        case "insert":
            rows = random_rows(chance)
            insert(con, "feed", rows)
            held.update(rows)
            return Counter()
        case "side":
            rows = random_rows(chance)
            insert(con, "side", rows)
            return Counter(rows)
        case "delete":
            con.execute("DELETE FROM feed WHERE k = 1")
            for row in [row for row in held if row[0] == 1]:
                del held[row]
            return Counter()
        case "update":
            con.execute("UPDATE feed SET v = 3 WHERE k = 2")
            changed = Counter({r: n for r, n in held.items() if r[0] == 2})
        case _:
            con.execute(
                "MERGE INTO feed USING (SELECT 2 AS k) s ON feed.k = s.k"
                " WHEN MATCHED THEN UPDATE SET v = 3"
            )
            changed = Counter({r: n for r, n in held.items() if r[0] == 2})
    for row in changed:
        del held[row]
    fresh: Rows = Counter({(2, 3): changed.total()}) if changed else Counter()
    held.update(fresh)
    return Counter()
