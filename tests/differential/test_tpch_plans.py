"""All 22 TPC-H queries as views, under rounds of changes to every table."""

from collections.abc import Iterator

import pytest

from ctsql.planner.ivm import name_by
from tests.differential import tpch
from tests.differential.plans_on_duckdb import Counter, Duck, View, frozen

pytestmark = pytest.mark.thorough

TOPS = {2, 3, 10, 18, 21}
"""ORDER BY .. LIMIT over columns that leave ties: kept from the stored rows."""


@pytest.fixture(scope="module")
def duck() -> Iterator[Duck]:
    made = tpch.loaded()
    yield made
    made.connection.close()


@pytest.fixture(scope="module")
def views(duck: Duck) -> dict[int, View]:
    """Every query has a plan."""
    made = {number: View(duck, sql) for number, sql in tpch.queries(duck).items()}
    assert len(made) == 22
    return made


ROUNDS = {
    "every table": tpch.TABLES,
    "orders and their lines": ("lineitem", "orders"),
    "a dimension": ("nation",),
}


SLOW = ("orders and their lines",)
"""A round of one table and a round of all tables show as much; test_random_plans has others."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in ROUNDS]
)
def test_stored_plus_change_is_recomputed(duck: Duck, views: dict[int, View], name: str) -> None:
    """Signed changes, affected keys and first rows all give what the query gives."""
    for number, view in views.items():
        view.stored = duck.current(view.sql)
        view.large = tpch.TABLES if number % 2 else ()
        assert view.plan.inexact is None or number in TOPS
    changed = tpch.change(duck, len(name), ROUNDS[name])
    moved = sum(view.check_round(changed, f"query {n}") for n, view in views.items())
    assert moved >= (12 if name != "a dimension" else 1)


def test_printed_queries_mean_the_same(duck: Duck, views: dict[int, View]) -> None:
    """The text printed from the nodes gives what the query gives."""
    for number, view in views.items():
        text = view.plan.normal().sql(name_by(lambda use: use.table))
        printed = Counter(frozen(row) for row in duck.rows(text))
        assert printed == duck.current(view.sql), f"query {number}"
