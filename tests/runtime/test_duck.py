"""DuckDB, as it is opened here, finds the rows that SQLite finds, also where NULL is compared."""

import random
import sqlite3
from collections.abc import Mapping, Sequence

import duckdb
import pytest

from ctsql.runtime.duck import connect_plainly
from tests.runtime.conditions import Conditions

QUICK = range(12)
SLOW = [range(start, start + 250) for start in range(1_000, 3_000, 250)]

Rows = Sequence[tuple[int | None, ...]]


class Both:
    """The same tables, of columns k and n, in both engines."""

    def __init__(self, tables: Mapping[str, Rows]) -> None:
        self._duck = connect_plainly()
        self._lite = sqlite3.connect(":memory:")
        for table, rows in tables.items():
            for engine in (self._duck, self._lite):
                engine.execute(f"CREATE TABLE {table} (k INTEGER, n INTEGER)")
                for row in rows:
                    engine.execute(f"INSERT INTO {table} VALUES (?, ?)", row)

    def rows(self, query: str) -> tuple[Rows, Rows]:
        """What DuckDB and SQLite make of a query, sorted."""
        ours = self._duck.execute(query).fetchall()
        return sorted(ours, key=str), sorted(self._lite.execute(query).fetchall(), key=str)


def check(number: int) -> None:
    """Forty conditions of a seed, each in WHERE or as a value."""
    seed = random.Random(number)
    made = Conditions(seed)
    tables = {table: made.rows() for table in "stu"}
    both = Both(tables)
    for _ in range(40):
        condition = made.condition()
        query = f"SELECT t.k, t.n FROM t WHERE {condition}"
        if seed.random() < 0.3:
            query = f"SELECT t.k, t.n, coalesce(CAST(({condition}) AS INTEGER), 9) FROM t"
        try:
            ours, theirs = both.rows(query)
        except duckdb.InternalException:  # some plans it cannot make, and says so: not a wrong row
            both = Both(tables)
            continue
        assert ours == theirs, (number, query)


@pytest.mark.parametrize(
    ("tables", "condition"),
    [
        (
            {"t": [(None, None)]},
            "t.n IS DISTINCT FROM 1 OR t.n IS NOT DISTINCT FROM 1",
        ),
        (
            {"t": [(1, 0), (1, 1)], "s": [(0, 0), (2, None), (0, 1), (0, None)]},
            "NOT EXISTS (SELECT 1 FROM s WHERE s.n < t.k AND s.n <> t.n)",
        ),
        (
            {"t": [(None, 0)], "s": [(2, 1), (1, 1), (1, 0), (1, None)]},
            "t.k = 1 OR EXISTS (SELECT 1 FROM s WHERE s.k <> t.k AND s.n IS NOT DISTINCT FROM t.n)",
        ),
    ],
)
def test_what_duckdb_makes_wrong_by_default(tables: dict[str, Rows], condition: str) -> None:
    ours, theirs = Both(tables).rows(f"SELECT t.k, t.n FROM t WHERE {condition}")
    assert ours == theirs


@pytest.mark.parametrize("number", QUICK)
def test_a_fixed_set_of_conditions(number: int) -> None:
    check(number)


@pytest.mark.slow
@pytest.mark.parametrize("numbers", SLOW, ids=lambda r: f"from {r.start}")
def test_many_conditions(numbers: range) -> None:
    for number in numbers:
        check(number)
