"""Readers of SUBSCRIBE: what they were told adds up to what the object holds."""

from collections import Counter

from tests.differential import exact
from tests.differential.battery_tables import World


class Follower:
    """A reader with a name that takes what there is now and then."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self._world = world
        self._rows: Counter[str] = Counter()

    def take(self) -> None:
        """Take the changes up to now."""
        reader = f"reader_{self.name}"
        with self._world.con.subscribe(self.name, reader=reader, up_to="now") as changes:
            for batch in changes.batches():
                rows = batch.to_spark()
                told = rows.drop("t", "diff")
                text = exact.row(told.schema)
                for row in rows.selectExpr(f"{text} AS x", "diff").collect():
                    self._rows[row.x] += row.diff

    def difference(self) -> str:
        """How it differs from what is stored; empty if it does not."""
        stored = self._world.plain.read.format("delta").load(self._world.path(self.name))
        text = exact.row(stored.schema)
        held = Counter(row.x for row in stored.selectExpr(f"{text} AS x").collect())
        wrong = {x: n - held[x] for x, n in self._rows.items() if n != held[x]}
        wrong |= {x: -n for x, n in held.items() if not self._rows[x]}
        return "; ".join(f"{n:+d} x {x}" for x, n in sorted(wrong.items())[:6])
