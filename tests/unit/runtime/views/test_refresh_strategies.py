"""A refresh is a list of ways: which one is tried first, what it answers, and what EXPLAIN says."""

from typing import Any, cast

import pytest

from ctsql.catalog.errors import Declined
from ctsql.catalog.schemas import Column
from ctsql.planner.ivm import ChangePlan, change_plan
from ctsql.runtime.views import strategies
from ctsql.runtime.views.outcomes import Way, WayOutcome
from ctsql.runtime.views.refresh_context import FollowedChanges, RefreshContext
from ctsql.runtime.views.refresh_policy import Strategy
from ctsql.runtime.views.strategies import STRATEGIES, RefreshStrategy

TABLES = {"t": (Column("k", "int"), Column("v", "int"), Column("f", "double"))}
HEADLINES = {
    "SELECT k, v FROM t": "change of the view",
    "SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k": (
        "change of the view, from its state table"
    ),
    "SELECT DISTINCT k FROM t": "change of the view",
    "SELECT count(*) AS n FROM t": "change of the view, from its state table",
    "SELECT k, v FROM t ORDER BY v LIMIT 3": "change of the view by the first rows (LIMIT_TIES)",
    "SELECT k, sum(f) AS s FROM t GROUP BY k": (
        "change of the view by the stored rows of its keys (FLOAT_AGGREGATE_NESTED)"
    ),
}


def test_every_way_stands_once() -> None:
    """One needs no change of a table, and recomputing follows none."""
    others = {Strategy.NO_CHANGE, Strategy.RECOMPUTE}
    names = [way.name for way in STRATEGIES]
    assert sorted(names, key=str) == sorted(set(Strategy) - others, key=str)


@pytest.mark.parametrize("query", HEADLINES)
def test_the_first_way_with_a_headline_is_explained(query: str) -> None:
    """EXPLAIN reads the same tuple as a refresh."""
    plan = change_plan(query, TABLES)
    assert isinstance(plan, ChangePlan)
    found = [way.headline(plan, lambda declined: declined.reason) for way in STRATEGIES]
    assert next(text for text in found if text is not None) == HEADLINES[query]


@pytest.mark.parametrize(
    ("answers", "expected", "calls"),
    [
        ([None, Strategy.FIRST_ROWS, None], Strategy.FIRST_ROWS, 2),
        ([Declined("ROWS_DIFFER"), None], Declined("ROWS_DIFFER"), 1),
        ([None, Declined("ROWS_WENT", "t"), None], Declined("ROWS_WENT", "t"), 2),
        ([None, None], AssertionError, 2),
    ],
)
def test_the_first_that_applies_is_taken(
    answers: list[WayOutcome | None], expected: object, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that falls back ends the search as well: no other way may follow the changes."""
    heard: list[object] = []

    def strategy(answer: WayOutcome | None) -> RefreshStrategy:
        def way(context: RefreshContext, changes: FollowedChanges) -> Way:
            heard.append((context, changes))
            return Declined("not for this refresh") if answer is None else lambda: answer

        return RefreshStrategy(Strategy.INCREMENTAL, way, lambda *_: None)

    monkeypatch.setattr(strategies, "STRATEGIES", tuple(map(strategy, answers)))
    given = cast("Any", object()), cast("Any", object())
    if isinstance(expected, type):
        with pytest.raises(expected):
            strategies.follow(*given)
    else:
        assert strategies.follow(*given) == expected
    assert heard == [given] * calls
