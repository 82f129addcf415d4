"""Which plans have one shape: those that differ in the names of their objects only."""

from typing import cast

import pytest

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.items import Item
from ctsql.catalog.names import Name
from ctsql.catalog.schemas import Column
from ctsql.catalog.spans import Source
from ctsql.planner.nodes import External, InsertsInput, Query
from ctsql.planner.shapes import Shapes
from ctsql.planner.syntax.ast import RelationRef
from ctsql.planner.syntax.tokens.sqltext import analyse
from ctsql.planner.syntax.tokens.tokenizer import tokenise


def _query(text: str) -> Query:
    """A query over relations, each of which is the object of its name."""
    sql = analyse(tokenise(Source(text, "<test>").whole()), form="query")
    relations = tuple(
        InsertsInput(object_id=r.parts[-1], name=Name("default", r.parts[-1]), columns=("k", "v"))
        for r in sql.relations
    )
    return Query(sql=sql, relations=relations, columns=(Column("k", "BIGINT"),))


def _shape(text: str) -> object:
    return Shapes().of(_query(text))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT k FROM a", "SELECT k FROM b"),
        ("SELECT k FROM a WHERE v > 1", "SELECT k FROM `the table` WHERE v > 1"),
        ("SELECT x.k FROM a AS x", "SELECT x.k FROM b AS x"),
        ("SELECT k FROM a UNION ALL SELECT k FROM b", "SELECT k FROM c UNION ALL SELECT k FROM d"),
        ("SELECT k FROM s.a WHERE k IN (SELECT k FROM c)", "SELECT k FROM b WHERE k IN "
         "(SELECT k FROM s.d)"),
    ],
)  # fmt: skip
def test_one_shape(one: str, other: str) -> None:
    """Whatever the relations are called, if the rest of the text does not mention it."""
    assert _shape(one) == _shape(other)
    assert hash(_shape(one)) == hash(_shape(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT k FROM a", "SELECT v FROM a"),
        ("SELECT k FROM a WHERE v > 1", "SELECT k FROM a WHERE v > 2"),
        ("SELECT x.k FROM a AS x", "SELECT y.k FROM a AS y"),
        # By its place alone nobody knows which of the two a column is of.
        ("SELECT a.k FROM a JOIN b USING (v)", "SELECT a.k FROM b JOIN a USING (v)"),
        ("SELECT A.k FROM a JOIN b USING (v)", "SELECT A.k FROM b JOIN a USING (v)"),
        ("SELECT `a``b`.k FROM `a``b` JOIN b USING (v)", "SELECT `a``b`.k FROM b JOIN `a``b` "
         "USING (v)"),
        ("SELECT /*+ BROADCAST(a) */ k FROM a", "SELECT /*+ BROADCAST(a) */ k FROM b"),
        # The same relation twice, or two.
        ("SELECT k FROM a UNION ALL SELECT k FROM a", "SELECT k FROM a UNION ALL SELECT k FROM b"),
    ],
)  # fmt: skip
def test_other_shapes(one: str, other: str) -> None:
    """Where Spark may make something else of it."""
    assert _shape(one) != _shape(other)


def test_what_a_relation_is_counts() -> None:
    """Its columns, and in which way it is read."""
    query = _query("SELECT k FROM a")
    more = InsertsInput(object_id="a", name=Name("default", "a"), columns=("k", "v", "w"))
    snapshot = InsertsInput(
        object_id="a", name=Name("default", "a"), columns=("k", "v"), with_snapshot=True
    )
    found = {Shapes().of(Query(sql=query.sql, relations=(r,))) for r in (more, snapshot)}
    found.add(Shapes().of(Query(sql=query.sql, relations=query.relations)))
    assert len(found) == 3


def test_objects_have_one_number() -> None:
    """In all plans of one collection, and those that it begins with have the first ones."""
    shapes = Shapes(["b"])
    first, second = shapes.of(_query("SELECT k FROM a")), shapes.of(_query("SELECT k FROM b"))
    assert first != second
    assert shapes.objects == ["b", "a"]
    assert shapes.number("a") == 1


def test_what_has_no_shape() -> None:
    """What is read outside of the catalog, and anything that is no part of a plan."""
    ref = RelationRef(parts=("f",), span=Source("f", "<test>").whole())
    for value in (External(ref=ref), cast("Item", 1.5), Catalog.of(())):
        with pytest.raises(TypeError):
            Shapes().of(value)
