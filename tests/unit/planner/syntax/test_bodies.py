"""The statements of a task's body, and the relations they read."""

from typing import TypeVar

import pytest

from ctsql.planner.syntax import rewrite
from ctsql.planner.syntax.ast import (
    ChangeKind,
    ChangeStatement,
    CreateContinualTask,
    InsertStatement,
    MergeAction,
    MergeStatement,
    MergeWhen,
    texts_of,
)
from tests.helpers.parsed import parsed, refused

_Kind = TypeVar("_Kind")


def _body(kind: type[_Kind], text: str) -> list[_Kind]:
    """The statements of a task's body, which are of one kind."""
    body = parsed(f"CREATE CONTINUAL TASK t ON INPUT a AS ({text})", CreateContinualTask).body
    return [made for made in body if isinstance(made, kind)]


def test_several_inputs_and_change_relations() -> None:
    """Each place knows which changes it reads; the name inside stays known for renames."""
    task = parsed(
        "CREATE CONTINUAL TASK t ON INPUT a, s.b AS (INSERT INTO t SELECT * FROM inserts(a)"
        " JOIN deletes(s.b) d JOIN contents(a) c, changes(`a`) WHERE x IN (SELECT 1 FROM a))"
    )
    assert isinstance(task, CreateContinualTask)
    assert [i.ref.parts for i in task.inputs] == [("a",), ("s", "b")]
    (insert,) = task.body
    assert isinstance(insert, InsertStatement)
    found = [(r.change, r.parts, r.span.text, r.aliased) for r in insert.query.relations]
    assert found == [
        (ChangeKind.INSERTS, ("a",), "inserts(a)", False),
        (ChangeKind.DELETES, ("s", "b"), "deletes(s.b)", True),
        (ChangeKind.CONTENTS, ("a",), "contents(a)", True),
        (ChangeKind.CHANGES, ("a",), "changes(`a`)", False),
        (None, ("a",), "a", False),
    ]
    assert [r.name_span.text for r in insert.query.relations] == ["a", "s.b", "a", "`a`", "a"]


def test_update_forms() -> None:
    """Aliases, DEFAULT, comparisons, commas in values and types, the target's schema in front."""
    first, second = _body(
        ChangeStatement,
        "UPDATE s.t x SET x.k = 1 < 2, v = DEFAULT;"
        " UPDATE s.t SET m = s::MAP<INT, INT>, v = coalesce(s.t.v, 1),"
        " k = CASE WHEN k > 1 THEN 2 END WHERE s.t.k < 3",
    )
    assert [(a.column, a.value.span.text if a.value else None) for a in first.assignments] == [
        ("k", "1 < 2"),
        ("v", None),
    ]
    assert (first.alias, first.where) == ("x", None)
    assert [a.column for a in second.assignments] == ["m", "v", "k"]
    assert [name.second.text for name in second.where.names] == ["s.t"]


def test_merge_forms() -> None:
    """Every clause; CASE in the condition; a relation as source becomes a query."""
    first, second = _body(
        MergeStatement,
        "MERGE INTO t AS x USING deletes(a) ON"
        " CASE WHEN x.k = 1 THEN true ELSE x.k = a.k END"
        " WHEN MATCHED AND CASE WHEN a.k > 1 THEN true END THEN UPDATE SET x.v = a.v, w = DEFAULT"
        " WHEN MATCHED THEN DELETE"
        " WHEN NOT MATCHED BY TARGET AND a.k > 0 THEN INSERT (k, v) VALUES (a.k, f(a.v, 1))"
        " WHEN NOT MATCHED THEN INSERT *"
        " WHEN NOT MATCHED BY SOURCE THEN DELETE;"
        " MERGE INTO t USING (SELECT 1 AS k) ON t.k = k WHEN MATCHED THEN UPDATE SET *",
    )
    assert (first.alias, first.source_alias, second.source_alias) == ("x", "a", "__ct_source")
    assert first.on.span.text.startswith("CASE WHEN x.k")
    shape = [(c.when, c.action, c.star is not None) for c in first.clauses]
    assert shape == [
        (MergeWhen.MATCHED, MergeAction.UPDATE, False),
        (MergeWhen.MATCHED, MergeAction.DELETE, False),
        (MergeWhen.NOT_MATCHED, MergeAction.INSERT, False),
        (MergeWhen.NOT_MATCHED, MergeAction.INSERT, True),
        (MergeWhen.NOT_MATCHED_BY_SOURCE, MergeAction.DELETE, False),
    ]
    made = rewrite(first.source, relation=lambda _: "__v").text
    assert made == "SELECT * FROM __v AS `a`"


def test_with_in_front_of_merge() -> None:
    """The source may use its names, as a relation or in a query with a WITH clause of its own."""
    body = _body(
        MergeStatement,
        "WITH q AS (SELECT k FROM inserts(a)) MERGE INTO t AS x USING q ON x.k = q.k"
        " WHEN MATCHED THEN DELETE;"
        "WITH q AS (SELECT 1 AS k) MERGE INTO t USING (WITH r AS (SELECT * FROM q JOIN b)"
        " SELECT * FROM r) s ON t.k = s.k WHEN MATCHED THEN DELETE",
    )
    made = [rewrite(s.source, relation=lambda r: f"__{r.parts[-1]}").text for s in body]
    assert made == [
        "WITH q AS (SELECT k FROM __a AS `a`) SELECT * FROM  q",
        "WITH q AS (SELECT 1 AS k) SELECT * FROM  (WITH r AS (SELECT * FROM q JOIN __b AS `b`)"
        " SELECT * FROM r)",
    ]


def test_with_in_front_of_insert_and_defaults() -> None:
    """WITH belongs to the query; DEFAULT is known by its column's place."""
    task = parsed(
        "CREATE CONTINUAL TASK t (k INT DEFAULT 1 + 1 NOT NULL, v TEXT DEFAULT 'a,b' COMMENT 'c')"
        " ON INPUT a AS (WITH q AS (SELECT k FROM a) INSERT INTO t (k) SELECT k FROM q;"
        " INSERT INTO t VALUES (1, DEFAULT), (DEFAULT, 'x'))"
    )
    assert isinstance(task, CreateContinualTask)
    first, second = task.body
    assert isinstance(first, InsertStatement)
    assert isinstance(second, InsertStatement)
    made = rewrite(first.query, relation=lambda _: "__v").text
    assert made == "WITH q AS (SELECT k FROM __v AS `a`)   SELECT k FROM q"
    assert [place for place, _ in second.defaults] == [1, 0]
    k, v = task.columns
    assert k.default is not None
    assert v.default is not None
    assert (k.default.span.text, k.nullable) == ("1 + 1", False)
    assert (v.default.span.text, v.comment) == ("'a,b'", "c")


def test_with_in_front_of_delete_and_update() -> None:
    """Its names are no relations of the statement; what they read is."""
    first, second = _body(
        ChangeStatement,
        "WITH q AS (SELECT k FROM inserts(a)), r (x) AS (SELECT k FROM q JOIN b)"
        " DELETE FROM t WHERE k IN (SELECT x FROM r JOIN c);"
        "WITH q AS (SELECT 1 AS v) UPDATE t SET v = (SELECT v FROM q), k = (SELECT k FROM s.q)",
    )
    assert (bool(first.assignments), bool(second.assignments)) == (False, True)
    assert [r.span.text for r in first.ctes.relations] == ["inserts(a)", "b"]
    assert [r.span.text for t in texts_of(first) for r in t.relations][2:] == ["c"]
    assert [r.span.text for t in texts_of(second) for r in t.relations] == ["s.q"]


CT = "CREATE CONTINUAL TASK ct "
NO = "NOT_SUPPORTED"
MERGE = "ON INPUT a AS (MERGE INTO ct USING a ON ct.x = a.x "
REFUSED = [
    (CT + "ON INPUT a AS (UPDATE ct SET)", "SYNTAX_ERROR", ""),
    (CT + "ON INPUT a AS (UPDATE ct SET x)", "SYNTAX_ERROR", ""),
    (CT + "ON INPUT a AS (UPDATE ct SET x = )", "SYNTAX_ERROR", ""),
    (CT + "ON INPUT a AS (UPDATE ct SET x = 1, X = 2)", "DUPLICATE_COLUMN", "X"),
    (CT + "ON INPUT a AS (UPDATE ct SET s.f = 1)", NO, "s.f"),
    (CT + "ON INPUT a AS (UPDATE ct SET x = 1 WHERE)", "SYNTAX_ERROR", ""),
    (CT + "ON INPUT a AS (MERGE INTO ct USING a ON 1)", "SYNTAX_ERROR", ""),
    (
        CT + "ON INPUT a AS (MERGE INTO ct USING a WHEN MATCHED THEN DELETE)",
        "SYNTAX_ERROR",
        "MATCHED",
    ),
    (CT + MERGE + "WHEN MATCHED THEN INSERT *)", "SYNTAX_ERROR", "INSERT"),
    (CT + MERGE + "WHEN NOT MATCHED THEN DELETE)", "SYNTAX_ERROR", "DELETE"),
    (CT + MERGE + "WHEN NOT MATCHED THEN INSERT (x) VALUES (1, 2))", "COLUMN_COUNT_MISMATCH", "("),
    (CT + MERGE + "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *)", "SYNTAX_ERROR", "*"),
    (
        CT + MERGE + "WHEN MATCHED THEN DELETE WHEN MATCHED AND a.x = 1 THEN DELETE)",
        "INVALID_STATEMENT",
        "WHEN MATCHED AND a.x = 1 THEN DELETE",
    ),
    (
        CT + "ON INPUT a AS (MERGE WITH SCHEMA EVOLUTION INTO ct USING a ON 1)",
        NO,
        "WITH",
    ),
    (CT + "ON INPUT a AS (INSERT INTO ct TABLE x JOIN changes())", "SYNTAX_ERROR", "changes()"),
    (
        CT + "ON INPUT a AS (INSERT INTO ct SELECT * FROM inserts(a, b) i)",
        "SYNTAX_ERROR",
        "inserts(a, b)",
    ),
    (
        CT + "ON INPUT a AS (DELETE FROM ct WHERE EXISTS (SELECT * FROM contents('a')))",
        "SYNTAX_ERROR",
        "contents('a')",
    ),
]


@pytest.mark.parametrize(("text", "condition", "place"), REFUSED)
def test_refused(text: str, condition: str, place: str) -> None:
    """The condition, and the place in the text."""
    with refused(condition, place):
        parsed(text)
