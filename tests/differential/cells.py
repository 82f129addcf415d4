"""The pairs of a type and a way, each a view of its own or several types of a way in one view.

A view of several types is a UNION ALL of their queries, with a column for each type where the
types of the results differ. It costs about as much as a view of one type; but what stands at
the top of a query (a state table) is reached only by a view alone.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from tests.differential.expected import no_plan
from tests.differential.kinds import Kind
from tests.differential.ways import Way


@dataclass(frozen=True, slots=True)
class Cell:
    """Some types and a way, as one view."""

    kinds: tuple[Kind, ...]
    way: Way

    @property
    def name(self) -> str:
        """As it is told to people."""
        return f"{' '.join(k.name for k in self.kinds)}, {self.way.name}"

    @property
    def view(self) -> str:
        """The name of its view."""
        words = f"{self.way.name} {self.kinds[0].name} {len(self.kinds)}"
        return "v_" + words.replace(" ", "_").replace("-", "_")

    def query(self, session: SparkSession, table: str = "t") -> str:
        """The query; types of results are asked of a session that knows the tables."""
        queries = [self.way.query(kind, table) for kind in self.kinds]
        if len(queries) == 1:
            return queries[0]
        # The tables stand for the view that is read here: of types only what it passes on counts.
        asked = [self.way.query(kind) for kind in self.kinds]
        schemas = [
            {f.name: f.dataType.simpleString() for f in session.sql(one).schema.fields}
            for one in asked
        ]
        shared = {
            name
            for name, kind in schemas[0].items()
            if all(schema.get(name) == kind for schema in schemas)
        }
        every = [
            (name, i) for i, schema in enumerate(schemas) for name in schema if name not in shared
        ]
        branches = []
        for i, (query, kind) in enumerate(zip(queries, self.kinds, strict=True)):
            others = [f"`{n}` AS x{i}_{n}" if i == j else f"NULL AS x{j}_{n}" for n, j in every]
            names = ", ".join([f"'{kind.name}' AS kind", *sorted(shared), *others])
            branches.append(f"SELECT {names} FROM ({query})")
        return " UNION ALL ".join(branches)


def together(kinds: Sequence[Kind], ways: Sequence[Way], size: int) -> Iterator[Cell]:
    """Every fitting pair, so many types of a way in each view."""
    for way in ways:
        by_plan: dict[str | None, list[Kind]] = {}
        for kind in kinds:
            if way.fits(kind):
                by_plan.setdefault(no_plan(kind, way, is_alone=size == 1), []).append(kind)
        for fitting in by_plan.values():
            for start in range(0, len(fitting), size):
                yield Cell(tuple(fitting[start : start + size]), way)


def chosen(cells: Sequence[Cell], count: int, seed: int) -> list[Cell]:
    """So many of them by chance, each way about as often."""
    chance = random.Random(seed)
    by_way: dict[str, list[Cell]] = {}
    for cell in chance.sample(cells, len(cells)):
        by_way.setdefault(cell.way.name, []).append(cell)
    ways = chance.sample(list(by_way.values()), len(by_way))
    turns = max((len(way) for way in ways), default=0)
    dealt = [way[turn] for turn in range(turns) for way in ways if turn < len(way)]
    return dealt[:count]
