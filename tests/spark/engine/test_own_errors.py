"""No exception leaves a connection but ctsql's own, whatever it is given.

``CTSQL_SEED`` repeats a run; ``CTSQL_USES`` is how many uses the short one has.
"""

import os
import random
import traceback
from itertools import islice

import pytest

from ctsql.api import Connection
from tests.helpers.odd_uses import TABLES, OddUses, foreign

SEED = int(os.environ.get("CTSQL_SEED", "0"))
USES = int(os.environ.get("CTSQL_USES", "80"))


def check(con: Connection, seed: int, uses: int) -> None:
    """Use a connection so often."""
    print(f"CTSQL_SEED={seed}")
    con.execute(TABLES)
    functions = con.known().functions
    found = []
    for use in islice(OddUses(seed, list(functions)), uses):
        problem = foreign(con, use)
        if problem is not None:
            trace = "".join(traceback.format_exception(problem, limit=-6))[-3000:]
            found.append(f"{use.text}\n{trace}")
        if con.in_transaction:
            con.rollback()
    con.run(once=True)
    assert not found, f"seed {seed}: {len(found)}\n\n" + "\n\n".join(found[:20])


def test_own_errors(con: Connection) -> None:
    """A short run, of the same uses each time."""
    check(con, SEED or 7, USES)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_own_errors_of_longer_runs(part: int, con: Connection) -> None:
    """Many, of uses that no other run had."""
    check(con, (SEED or random.SystemRandom().randrange(1, 10**6)) + part, 15 * USES)
