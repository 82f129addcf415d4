"""Runs the battery by hand: ``python -m tests.differential --home own --rows 12 --seed 1``.

Prints the seed, what is wrong, how many comparisons were made and how views were refreshed.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from ctsql.api import connect
from tests.conftest import SHORT_LIVED_JVM, TEST_MASTER
from tests.differential import arrivals, tasks, ways
from tests.differential.battery import Battery
from tests.differential.battery_tables import World
from tests.differential.cells import chosen, together
from tests.differential.kinds import BY_NAME as KINDS
from tests.differential.model import ModelTask


def main() -> int:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential")
    parser.add_argument("--home", choices=arrivals.BY_NAME, default="own")
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--way", action="append", choices=ways.BY_NAME)
    parser.add_argument("--task", action="append", choices=tasks.BY_NAME)
    parser.add_argument("--tasks", type=int, default=0, help="so many tasks, by chance")
    parser.add_argument("--round", action="append", help="only these, by name")
    parser.add_argument("--rows", type=int, default=12)
    parser.add_argument("--types", type=int, default=6, help="types in one view")
    parser.add_argument("--views", type=int, default=10**6, help="so many of them, by chance")
    parser.add_argument("--followed", type=int, default=0, help="so many readers")
    parser.add_argument("--verified", type=int, default=0, help="so many views are verified")
    parser.add_argument("--every", type=int, default=1, help="compare after so many rounds")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("CTSQL_SEED", "0")))
    given = parser.parse_args()
    os.environ.setdefault("JDK_JAVA_OPTIONS", SHORT_LIVED_JVM)
    seed = given.seed or random.SystemRandom().randrange(1, 10**6)
    print(f"CTSQL_SEED={seed}", flush=True)
    begun = time.monotonic()

    def tell(what: str) -> None:
        print(f"{time.monotonic() - begun:7.1f} s  {what}", flush=True)

    home = arrivals.BY_NAME[given.home]
    if given.round:
        home = replace(home, arrivals=tuple(a for a in home.arrivals if a.name in given.round))
    kinds = [KINDS[name] for name in given.kind or KINDS if home.takes(KINDS[name])]
    taken = [ways.BY_NAME[name] for name in given.way or ways.BY_NAME]
    cells = chosen(list(together(kinds, taken, given.types)), given.views, seed)
    bodies = [tasks.BY_NAME[name] for name in given.task or tasks.BY_NAME]
    flows = [ModelTask(body, kind) for body in bodies for kind in kinds if body.fits(kind)]
    flows = random.Random(seed).sample(flows, min(given.tasks, len(flows)))
    with tempfile.TemporaryDirectory() as folder:
        con = connect(str(Path(folder, "warehouse")), master=TEST_MASTER)
        world = World(con, Path(folder), kinds, home, given.rows, seed)
        tell("tables")
        report = Battery(
            world, cells, tell, given.every, flows, given.followed, given.verified
        ).play()
        con.close()
    count, wrong = report.comparison_count, report.wrong
    print(f"{count} comparisons, {len(wrong)} wrong; {dict(report.strategies)}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
