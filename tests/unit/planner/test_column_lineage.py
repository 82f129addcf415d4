"""Which columns a column is made of, as the text of a definition says."""

import pytest

from ctsql.catalog.schemas import Column
from ctsql.planner.column_lineage import column_origins
from ctsql.planner.nodes import Query, TaskWrite, ViewWrite
from tests.unit.planner.binding.catalog_by_hand import FEED, PAGES, FakeAnalyst, bind

CASES = [
    ("SELECT key, val FROM feed", {"a": "feed.key", "b": "feed.val"}),
    ("SELECT f.key + 1, upper(VAL) FROM feed f WHERE key > 3", {"a": "feed.key", "b": "feed.val"}),
    ("SELECT 1, count(*) FROM feed GROUP BY key", {"a": "", "b": ""}),
    (
        "SELECT id + key, sum(length(title)) FROM feed JOIN pages ON key = id GROUP BY ALL",
        {"a": "feed.key pages.id", "b": "pages.title"},
    ),
    (
        "WITH w AS (SELECT key AS k, max(val) AS m FROM feed GROUP BY key) SELECT m, k FROM w",
        {"a": "feed.val", "b": "feed.key"},
    ),
    (
        "SELECT key, val FROM feed UNION ALL SELECT id, title FROM pages",
        {"a": "feed.key pages.id", "b": "feed.val pages.title"},
    ),
    ("SELECT n, (SELECT max(id) FROM pages) FROM counted", {"a": "", "b": "pages.id"}),
    ("SELECT r.key, val FROM recent r JOIN feed USING (key)", {"a": "feed.key", "b": "feed.val"}),
    ("SELECT * FROM feed", {"a": "feed.key", "b": "feed.val"}),
    (
        "SELECT default.feed.key, (SELECT max(default.pages.title) FROM pages"
        " WHERE default.pages.id = default.feed.key) FROM feed",
        {"a": "feed.key", "b": "pages.title"},
    ),
    ("SELECT default.feed.* FROM feed, pages", {"a": "feed.key", "b": "feed.val"}),
    (
        "SELECT key, sum(key) OVER (PARTITION BY val ORDER BY key) FROM feed",
        {"a": "feed.key", "b": "feed.key feed.val"},
    ),
]


class TwoColumns(FakeAnalyst):
    """Every query has two; of plain views the real ones are known."""

    def columns(self, query: Query) -> tuple[Column, ...]:
        """Two."""
        return (Column("a", "int"), Column("b", "string"))


def _told(found: dict[str, frozenset[tuple[str, str]]]) -> dict[str, str]:
    names = {FEED.id: "feed", PAGES.id: "pages"}
    return {
        column: " ".join(sorted(f"{names[i]}.{c}" for i, c in origins))
        for column, origins in found.items()
    }


@pytest.mark.parametrize(("query", "expected"), CASES)
def test_of_views(query: str, expected: dict[str, str]) -> None:
    """Values that go into a column, through expressions, CTEs, unions and plain views."""
    plan = bind(f"CREATE MATERIALIZED VIEW v AS {query}", TwoColumns()).plan
    assert isinstance(plan, ViewWrite)
    assert _told(dict(column_origins(plan)[plan.object_id])) == expected


def test_of_tasks() -> None:
    """What INSERTs fill, what an UPDATE or a MERGE assigns, and values that move."""
    header = "CREATE CONTINUAL TASK t (a INT, b STRING, c STRING) ON INPUT feed AS ("
    both = "INSERT INTO t (c, a) SELECT val, key FROM feed; INSERT INTO t (a) SELECT id FROM pages"
    told = {}
    update = "UPDATE t SET b = (SELECT max(title) FROM pages p WHERE p.id = t.a)"
    merge = (
        "MERGE INTO t USING (SELECT key, max(val) AS v FROM feed GROUP BY key) s ON t.a = s.key"
        " WHEN MATCHED THEN UPDATE SET c = concat(t.c, s.v)"
        " WHEN NOT MATCHED THEN INSERT (a, b) VALUES (s.key, s.v)"
    )
    moved = f"{merge}; WITH w AS (SELECT 1) UPDATE t SET a = length(b), c = a"
    for body in (both, f"{both}; {update}", merge, moved):
        plan = bind(f"{header}{body})").plan
        assert isinstance(plan, TaskWrite)
        (told[body],) = (_told(dict(o)) for o in column_origins(plan).values())
    assert list(told.values()) == [
        {"c": "feed.val", "a": "feed.key pages.id"},
        {"c": "feed.val", "a": "feed.key pages.id", "b": "pages.title"},
        {"a": "feed.key", "b": "feed.val", "c": "feed.val"},
        {"a": "feed.key feed.val", "b": "feed.val", "c": "feed.key feed.val"},
    ]


def test_the_diff_of_a_change_is_no_column() -> None:
    """It counts copies; the other columns of a change are the input's."""
    body = "INSERT INTO t SELECT diff, val FROM changes(feed)"
    text = f"CREATE CONTINUAL TASK t (a INT, b STRING) ON INPUT feed AS ({body})"
    plan = bind(text, TwoColumns()).plan
    assert isinstance(plan, TaskWrite)
    assert _told(dict(column_origins(plan)[plan.object_id])) == {"a": "", "b": "feed.val"}
