"""What a query asks of system tables, by plans as Spark 4.2 writes them, without metadata."""

import json
from pathlib import Path

import pytest

from ctsql.runtime.monitoring.row_request import Bounds, Newest, RowRequest
from ctsql.runtime.monitoring.scan_filters import asked_of_plan

PLANS = json.loads(Path(__file__).with_name("spark_plans.json").read_text())
ALL_OF_REFRESHES = 22


def _asked(query: str) -> dict[int, RowRequest]:
    known = {int(key): json.dumps(table) for key, table in PLANS[query]["tables"].items()}
    return asked_of_plan(json.dumps(PLANS[query]["plan"]), known)


def _named(*columns: str) -> frozenset[str]:
    return frozenset(columns)


EXPECTED = {
    "SELECT object, count(*) FROM system.refreshes WHERE at > now() - INTERVAL 1 DAY AND object IN"
    " ('a','b','c','d','e','f','g','h','i','j','k','l') GROUP BY object": {
        0: RowRequest(
            frozenset("abcdefghijkl"),
            at=Bounds(lower=1_795_639_558_774_530),
            columns=_named("at", "object"),
        )
    },
    "SELECT 1 FROM system.lag a JOIN system.lag b ON a.object=b.object WHERE a.state='failed' AND"
    " b.lag_seconds > 3": {
        0: RowRequest(states=_named("failed"), columns=_named("state", "object")),
        1: RowRequest(columns=_named("lag_seconds", "object")),
    },
    # Both times that the WITH clause is read: what holds for both.
    "WITH c AS (SELECT * FROM system.refreshes WHERE t<9) SELECT c.object, d.t FROM c JOIN c d ON"
    " c.t=d.t WHERE d.object='v1'": {
        0: RowRequest(t=Bounds(upper=8), columns=_named("t", "object"))
    },
    "SELECT object FROM system.objects WHERE object IN (SELECT object FROM system.failures WHERE"
    " state='open')": {
        0: RowRequest(columns=_named("object")),
        1: RowRequest(states=_named("open"), columns=_named("state", "object")),
    },
    "SELECT object, at FROM system.refreshes WHERE at >= TIMESTAMP'2026-11-26 19:00:00.25' AND"
    " 1764000000000 > t LIMIT 1": {
        0: RowRequest(
            t=Bounds(upper=1_763_999_999_999),
            at=Bounds(lower=1_795_719_600_250_000),
            newest=Newest(1, "at"),
            columns=_named("at", "t", "object"),
        )
    },
    "SELECT object, t FROM system.refreshes WHERE t BETWEEN 1 AND 2 UNION ALL SELECT object, t FROM"
    " system.refreshes WHERE object='v1'": {
        0: RowRequest(t=Bounds(1, 2), columns=_named("t", "object")),
        1: RowRequest(_named("v1"), columns=_named("t", "object")),
    },
}


@pytest.mark.parametrize("query", EXPECTED)
def test_conditions_and_columns(query: str) -> None:
    """Comparisons with constants, of each place where a table is read, and what is looked at."""
    assert _asked(query) == EXPECTED[query]


def test_the_newest_of_one_object() -> None:
    """ORDER BY t DESC LIMIT n is told only where the range is exact."""
    query = "SELECT * FROM system.refreshes WHERE object='v1' AND t > 5 ORDER BY t DESC LIMIT 3"
    (found,) = _asked(query).values()
    assert (found.objects, found.t, found.newest) == (_named("v1"), Bounds(6), Newest(3, "t"))
    assert len(found.columns or ()) == ALL_OF_REFRESHES


def test_a_subquery_in_the_select_list() -> None:
    """Its plan is inside an expression; of what it reads it says the conditions."""
    query = (
        "SELECT object, (SELECT max(t) FROM system.refreshes r WHERE r.object='v3') FROM"
        " system.objects"
    )
    found = _asked(query)
    assert found[1] == RowRequest(columns=_named("object"))
    assert found[0].objects == _named("v3")
    assert {"t", "object"} <= (found[0].columns or frozenset())
