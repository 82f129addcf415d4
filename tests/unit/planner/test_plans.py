"""Bound plans, as the text that EXPLAIN prints."""

import textwrap
import typing
from collections.abc import Callable

import pytest

from ctsql.catalog.schemas import Column
from ctsql.planner.explain import explain
from ctsql.planner.nodes import (
    Insert,
    InsertsInput,
    Node,
    Query,
    RelationLeaf,
    Transaction,
    descend,
)
from ctsql.planner.syntax import parse_as
from ctsql.planner.syntax.ast import Select
from tests.unit.planner.binding.catalog_by_hand import bind


def _query(sql: str, *relations: Node) -> Query:
    statement = parse_as(Select, sql, "<test>")
    return Query(sql=statement.query, relations=relations)


def test_each_way_to_read_a_relation() -> None:
    """An input by what of its change is read, another table as a reference, the task as itself."""
    bound = bind(
        "CREATE CONTINUAL TASK x (key INT) ON INPUT feed AS (\n"
        "  INSERT INTO x SELECT key FROM inserts(feed), pages, x;\n"
        "  INSERT INTO x SELECT key FROM deletes(feed), changes(feed), contents(feed);\n)"
    )
    wanted = """\
        InsertsInput feed: the rows inserted at T, on the first run the snapshot
        NormalReference pages: contents as of T
        SelfReference x: its rows before T, then earlier changes at T
        DeletesInput feed: the rows deleted at T
        ChangesInput feed: the rows changed at T with diff, on the first run the snapshot
        NormalReference feed: contents as of T
        """
    nodes = [n for n in descend(bound.task.transaction) if isinstance(n, RelationLeaf)]
    assert "\n".join(map(explain, nodes)) == textwrap.dedent(wanted).rstrip("\n")


@pytest.mark.parametrize("options", ["WITH (SNAPSHOT = false)", "BACKFILL FROM pages"])
def test_snapshot_is_left_out_when_not_wanted(options: str) -> None:
    """Then the first run is the first change."""
    bound = bind(
        f"CREATE CONTINUAL TASK x (key INT) ON INPUT feed {options} "
        "AS (INSERT INTO x SELECT key FROM feed)"
    )
    inputs = [n for n in descend(bound.plan) if isinstance(n, InsertsInput)]
    assert len(inputs) == 3
    assert not any(n.with_snapshot for n in inputs)


def test_the_upsert_recipe() -> None:
    """The whole way: text and binding."""
    bound = bind(
        "CREATE CONTINUAL TASK upsert (key INT, val STRING) ON INPUT feed AS (\n"
        "  DELETE FROM upsert WHERE key IN (SELECT key FROM feed);\n"
        "  INSERT INTO upsert SELECT key, val FROM feed;\n)"
    )
    snapshot = "the rows inserted at T, on the first run the snapshot"
    looked_up = "upsert is looked up by key after a small change"
    wanted = f"""\
        TaskWrite upsert (key INT, val STRING): one commit at each due T
          InsertsInput feed: {snapshot}
          TimesReduce: each T once
            TimesExtract: the Ts at which rows were inserted into the input, from its log
              InsertsInput feed: {snapshot}
          Transaction: statements in order, consolidated; {looked_up}
            Delete rows for which it is true, as upsert
              SelfReference upsert: its rows before T, then earlier changes at T
              Query key IN (SELECT key FROM feed)
                InsertsInput feed: {snapshot}
            Insert (key, val)
              Query SELECT key, val FROM feed
                InsertsInput feed: {snapshot}
        """
    assert explain(bound.plan) == textwrap.dedent(wanted).rstrip("\n")


def test_several_outputs() -> None:
    """Each statement says what it writes; what the outputs hold are self-references."""
    bound = bind(
        "CREATE CONTINUAL TASK x OUTPUTS (a (key INT), other.b (key INT, n BIGINT))\n"
        "ON INPUT feed WITH (SNAPSHOT = false) AS (\n"
        "  INSERT INTO a SELECT key FROM feed;\n"
        "  UPDATE other.b SET n = n + 1 WHERE key IN (SELECT key FROM a)\n)"
    )
    wanted = """\
        TaskWrite x: all outputs or none at each due T
          TaskOutput a (key INT)
          TaskOutput other.b (key INT, n BIGINT)
          InsertsInput feed: the rows inserted at T
          TimesReduce: each T once
            TimesExtract: the Ts at which rows were inserted into the input, from its log
              InsertsInput feed: the rows inserted at T
          Transaction: statements in order, consolidated
            Insert into a (key)
              Query SELECT key FROM feed
                InsertsInput feed: the rows inserted at T
            Update rows for which the last condition is true, as b
              SelfReference other.b: its rows before T, then earlier changes at T
              Assign n
                Query n + 1
              Query key IN (SELECT key FROM a)
                SelfReference a: its rows before T, then earlier changes at T
        """
    assert explain(bound.plan) == textwrap.dedent(wanted).rstrip("\n")
    assert bound.columns == ()
    assert [r.object_id for r in bound.reads] == ["id-feed"]


def test_a_view_over_a_view() -> None:
    """The view's query stands in place."""
    bound = bind("CREATE MATERIALIZED VIEW m AS SELECT key FROM recent")
    wanted = """\
        ViewWrite m (key int): commit rows that differ at T
          Query SELECT key FROM recent
            View recent (key)
              Query SELECT key FROM feed
                NormalReference feed: contents as of T
          NormalReference m: contents as of T
        """
    assert explain(bound.plan) == textwrap.dedent(wanted).rstrip("\n")


def test_every_node_is_small_and_frozen() -> None:
    """Plans are values: they hash, and two bindings of one text are equal."""
    sql = "CREATE CONTINUAL TASK t ON INPUT feed AS (INSERT INTO t SELECT key FROM feed)"
    assert bind(sql).plan == bind(sql).plan
    assert hash(bind(sql).plan) == hash(bind(sql).plan)
    for node in typing.get_args(Node):
        assert node.__dataclass_params__.frozen, node
        assert "__slots__" in vars(node), node


@pytest.mark.parametrize(
    "build",
    [
        lambda: Transaction(statements=()),
        lambda: _query("SELECT k FROM feed"),
        lambda: Insert(
            object_id="x", query=_query("SELECT 1"), into=("x",), target=(Column("k", "int"),)
        ),
        lambda: Insert(
            object_id="x", query=_query("SELECT 1"), into=("k", "k"), target=(Column("k", "int"),)
        ),
    ],
    ids=["no statement", "a relation without a node", "unknown column", "column twice"],
)
def test_a_wrong_plan_cannot_be_built(build: Callable[[], Node]) -> None:
    """What a node promises is checked when it is made."""
    with pytest.raises(ValueError, match=r"."):
        build()
