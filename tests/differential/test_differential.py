"""The battery as tests: a fixed part beside the other Spark tests, more of it by chance in slow.

``python -m tests.differential --help`` runs any part by hand, or all of it.
"""

import os
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ctsql.api import Connection
from tests.differential.arrivals import BY_NAME as HOMES, HOMES as ALL_HOMES, Arrival, Home
from tests.differential.battery import Battery
from tests.differential.battery_tables import World
from tests.differential.cells import Cell, chosen, together
from tests.differential.kinds import BY_NAME as KIND, KINDS, NOT_STORED, Kind
from tests.differential.model import ModelTask
from tests.differential.tasks import BY_NAME as TASK, TASK_WAYS
from tests.differential.ways import BY_NAME as WAY, WAYS
from tests.scenarios.runner import expect_error

pytestmark = pytest.mark.spark

SEED = int(os.environ.get("CTSQL_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
FIXED_SEED = 17
TOGETHER = 8
"""Types in one view."""
FIXED = {
    "semi join": ("string", "char", "timestamp_ntz"),
    "group key": ("bigint_edges", "decimal_long", "float", "date", "varchar"),
    "least and greatest": ("timestamp", "double_edges", "texts"),
    "added": ("decimal_small", "bigint"),
    "compared with values": ("boolean", "tinyint", "smallint", "int", "decimal",
                             "decimal_whole", "decimal_places", "binary", "ints", "doubles",
                             "double"),
    "carried": ("map", "map_nulls", "map_nested", "struct", "struct_map",
                *(k for k in ("variant",) if k in KIND)),
}  # fmt: skip
FIXED_TASKS = (("upsert", "string"), ("log of changes", "map_nulls"))
FIXED_ROUNDS = ("transaction",)
"""The fixed part: the types of each way, the tasks, and the rounds of a table of ctsql's own."""
MULTIPLYING = (
    "self-join", "join", "null-safe join", "left join", "full join", "using", "chained join",
    "correlated by it", "lateral",
)  # fmt: skip
"""Ways that pair rows by a value: of few values and many rows there are too many pairs."""


def run(
    con: Connection,
    folder: Path,
    home: Home,
    cells: Sequence[Cell],
    tasks: Sequence[ModelTask],
    *,
    size: int,
    seed: int,
    every: int,
    readers: int = 2,
    checks: int = 4,
) -> None:
    """One world; prints how many comparisons were made and how views were refreshed."""
    used = {k.name for c in cells for k in c.kinds} | {t.kind.name for t in tasks}
    kinds = [k for k in KINDS if k.name in used]
    print(f"CTSQL_SEED={seed}")
    world = World(con, folder, kinds, home, size, seed)
    report = Battery(world, cells, print, every, tasks, readers, checks).play()
    print(f"{report.comparison_count} comparisons; {dict(report.strategies)}")
    assert report.comparison_count
    assert not report.wrong, "\n".join([f"CTSQL_SEED={seed}", *report.wrong])


def taken(home: Home) -> list[Kind]:
    """The types that a home takes."""
    return [k for k in KINDS if home.takes(k)]


def test_fixed_part(con: Connection, tmp_path: Path) -> None:
    """Types in views and tasks are what Spark makes of the whole tables, after each round."""
    home = HOMES["own"]
    by_name: dict[str, Arrival] = {one.name: one for one in home.arrivals}
    home = replace(home, arrivals=tuple(by_name[name] for name in FIXED_ROUNDS))
    cells = [Cell(tuple(KIND[k] for k in kinds), WAY[way]) for way, kinds in FIXED.items()]
    tasks = [ModelTask(TASK[way], KIND[kind]) for way, kind in FIXED_TASKS]
    run(con, tmp_path, home, cells, tasks, size=8, seed=FIXED_SEED, every=1, readers=0, checks=1)


def test_types_that_are_not_stored(con: Connection) -> None:
    """A type that Delta does not store is refused when the table is made."""
    for number, (sql, condition) in enumerate(NOT_STORED.items()):
        expect_error(con, f"CREATE TABLE n{number} (c {sql})", condition)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("home", ALL_HOMES, ids=lambda home: home.name)
def test_by_chance(con: Connection, tmp_path: Path, home: Home) -> None:
    """Some views of several types, some of one and some tasks, for each home; a fresh seed."""
    kinds = taken(home)
    cells = chosen(list(together(kinds, WAYS, TOGETHER)), 16, SEED)
    cells += chosen(list(together(kinds, WAYS, 1)), 12, SEED + 1)
    flows = [ModelTask(way, kind) for way in TASK_WAYS for kind in kinds if way.fits(kind)]
    tasks = random.Random(SEED).sample(flows, 8)
    run(con, tmp_path, home, cells, tasks, size=14, seed=SEED, every=4)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["own", "foreign with vectors"])
def test_many_rows(con: Connection, tmp_path: Path, name: str) -> None:
    """So many rows that none of the short cuts for small tables is taken; a fresh seed."""
    home = HOMES[name]
    kinds = [k for k in taken(home) if k.name in ("int", "string", "decimal", "double", "map")]
    ways = [way for way in WAYS if way.name not in MULTIPLYING]
    cells = chosen(list(together(kinds, ways, 1)), 14, SEED)
    tasks = [ModelTask(TASK["upsert"], KIND["string"]), ModelTask(TASK["log"], KIND["int"])]
    run(con, tmp_path, home, cells, tasks, size=15_000, seed=SEED, every=4)
