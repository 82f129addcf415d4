"""Which DELETEs are taken for lookups by key, and which files may hold a key. Without a JVM."""

import json

import pytest

from ctsql.catalog.names import Name
from ctsql.catalog.spans import Source
from ctsql.planner.bodies.delete_by_key import key_lookup
from ctsql.planner.nodes import Delete, InsertsInput, Node, NormalReference, Query, SelfReference
from ctsql.planner.syntax.tokens.sqltext import analyse
from ctsql.planner.syntax.tokens.tokenizer import tokenise
from ctsql.runtime.delta.keyed_scan import KeyRanges

OUTPUT = SelfReference(object_id="o", name=Name("default", "out"), columns=("k", "L", "from"))
CHANGE = InsertsInput(object_id="t", name=Name("default", "t"), columns=("a", "b", "k"))


def _delete(predicate: str, of: Node = CHANGE, alias: str = "out") -> Delete:
    sql = analyse(tokenise(Source(predicate, "<test>").whole()), form="predicate")
    relations = tuple(of if r.parts[-1] != "out" else OUTPUT for r in sql.relations)
    where = Query(sql=sql, relations=relations, columns=())
    return Delete(of=OUTPUT, alias=alias, where=where)


@pytest.mark.parametrize(
    ("predicate", "columns", "keys"),
    [
        ("k IN (SELECT a FROM t)", "k", "a"),
        ("K in (select A from t)", "k", "a"),
        ("out.k IN (SELECT t.a FROM t)", "k", "a"),
        ("k IN (SELECT u.a FROM t AS u)", "k", "a"),
        ("k IN (SELECT u.a FROM t u)", "k", "a"),
        ("(k, l) IN (SELECT a, b FROM t)", "k L", "a b"),
        ("(l, k) IN (SELECT k, a FROM t) -- said", "L k", "k a"),
        ("`from` IN (SELECT `a` FROM t)", "from", "a"),
        ("k IN (SELECT k FROM inserts(t))", "k", "k"),
    ],
)
def test_lookups(predicate: str, columns: str, keys: str) -> None:
    """Columns of the output on the left, of one changed relation on the right, and no more."""
    found = key_lookup(_delete(predicate))
    assert found is not None
    assert (found.columns, found.keys) == (tuple(columns.split()), tuple(keys.split()))
    assert found.of is CHANGE


@pytest.mark.parametrize(
    "predicate",
    [
        "k NOT IN (SELECT a FROM t)",
        "k IN (SELECT a FROM t) AND l > 0",
        "k IN (SELECT a FROM t) OR l IN (SELECT b FROM t)",
        "NOT (k IN (SELECT a FROM t))",
        "k IN (SELECT a FROM t WHERE b > 1)",
        "k IN (SELECT a FROM t GROUP BY a)",
        "k IN (SELECT a FROM t LIMIT 1)",
        "k IN (SELECT a FROM t, t AS u)",
        "k IN (SELECT a FROM t AS u (a, b, k))",
        "k IN (SELECT DISTINCT a FROM t)",
        "k IN (SELECT max(a) FROM t)",
        "k IN (SELECT a + 1 FROM t)",
        "k + 1 IN (SELECT a FROM t)",
        "k IN (SELECT l FROM t)",  # of the output: each row is compared with itself
        "k IN (SELECT out.k FROM t)",
        "k IN (SELECT k FROM out)",
        "k IN (SELECT u.a FROM t)",
        "t.k IN (SELECT a FROM t)",
        "(k, l) IN (SELECT a FROM t)",
        "(k, k) IN (SELECT a, b FROM t)",
        "k IN (1, 2)",
        "k = (SELECT a FROM t)",
        "EXISTS (SELECT a FROM t)",
        "k IN (SELECT a FROM t) IS NOT TRUE",
        "k IN ((SELECT a FROM t))",
        "k IN (SELECT CAST(a AS INT8) FROM t)",
    ],
)
def test_no_lookups(predicate: str) -> None:
    """Whatever else a predicate says is Spark's to evaluate."""
    assert key_lookup(_delete(predicate)) is None


def test_lookups_are_of_changes() -> None:
    """A whole table may hold any number of keys; no predicate means every row."""
    whole = NormalReference(object_id="t", name=Name("default", "t"), columns=("a",))
    assert key_lookup(_delete("k IN (SELECT a FROM t)", of=whole)) is None
    assert key_lookup(Delete(of=OUTPUT, alias="out", where=None)) is None
    with_clause = Delete(
        of=OUTPUT,
        alias="out",
        where=_delete("k IN (SELECT a FROM t)").where,
        ctes=_delete("k IN (SELECT a FROM t)").where,
    )
    assert key_lookup(with_clause) is None


@pytest.mark.parametrize(
    ("low", "high", "keys", "may"),
    [
        (1, 5, [0, 6], False),
        (1, 5, [0, 5], True),
        (1, 5, [None], False),
        (1, 5, [], False),
        (None, None, [9], True),
        ("b", "d", ["a", "e"], False),
        ("b", "d", ["c"], True),
        (1, 5, ["a"], True),  # another type: not understood
        (1.5, 2.5, [9], True),
    ],
)
def test_files_that_may_hold_a_key(
    low: object, high: object, keys: list[int | str | None], may: bool
) -> None:
    """A file is passed over only when its statistics rule every key out."""
    told = json.dumps({"numRecords": 3, "minValues": {"k": low}, "maxValues": {"k": high}})
    assert KeyRanges({"k": keys}).may_hold(told) is may
    assert KeyRanges({"other": [1]}).may_hold(told)


def test_every_key_column_must_match() -> None:
    """One column that is out of range is enough."""
    told = json.dumps({"minValues": {"k": 1, "l": 1}, "maxValues": {"k": 5, "l": 5}})
    assert KeyRanges({"k": [3], "l": [4]}).may_hold(told)
    assert not KeyRanges({"k": [3], "l": [9]}).may_hold(told)
