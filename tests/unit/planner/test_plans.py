"""The rules, before and after, as the text that EXPLAIN prints."""

import textwrap
import typing
from collections.abc import Callable

import pytest

from ctsql.catalog.names import Name
from ctsql.catalog.schemas import Column
from ctsql.catalog.spans import Source
from ctsql.planner.explain import explain
from ctsql.planner.nodes import (
    Delete,
    Get,
    Insert,
    InsertsInput,
    Node,
    NormalReference,
    Query,
    Role,
    SelfReference,
    TaskWrite,
    TimesExtract,
    Transaction,
    children,
    descend,
    map_nodes,
)
from ctsql.planner.rules import (
    RELATION_OF_ROLE,
    RULES,
    extract_times,
    mark_snapshot,
    reduce_times,
    resolve_roles,
    transform,
)
from ctsql.planner.syntax import parse
from ctsql.planner.syntax.ast import Select
from tests.unit.planner.binding.catalog_by_hand import bind


def _get(name: str, role: Role) -> Get:
    return Get(object_id=name, name=Name("default", name), columns=("k",), role=role)


def _inserts(*, with_snapshot: bool = False) -> InsertsInput:
    return InsertsInput(
        object_id="feed", name=Name("default", "feed"), columns=("k",), with_snapshot=with_snapshot
    )


def _query(sql: str, *relations: Node) -> Query:
    statement = parse(Source(sql).whole())
    assert isinstance(statement, Select)
    return Query(sql=statement.query, relations=relations)


def _task(source: Node, *, snapshot: bool, times: Node | None = None) -> TaskWrite:
    insert = Insert(
        object_id="log",
        query=_query("SELECT k FROM feed", source),
        into=("k",),
        target=(Column("k", "int"),),
    )
    return TaskWrite(
        object_id="log",
        name=Name("default", "log"),
        columns=(Column("k", "int"),),
        inputs=(source,),
        times=times,
        transaction=Transaction(statements=(insert,)),
        snapshot=snapshot,
    )


QUERY = _query(
    "SELECT * FROM feed JOIN log JOIN pages",
    _get("feed", Role.INPUT),
    _get("log", Role.SELF),
    _get("pages", Role.REFERENCE),
)
JOIN = "Query SELECT * FROM feed JOIN log JOIN pages\n"
CASES: dict[str, tuple[Callable[[Node], Node], Node, str]] = {
    "input, self, reference": (
        resolve_roles,
        QUERY,
        JOIN
        + "  InsertsInput feed: the rows inserted at T\n"
        + "  SelfReference log: contents as of T - 1, stepped forward to T\n"
        + "  NormalReference pages: contents as of T\n",
    ),
    "deletes": (
        resolve_roles,
        _query("SELECT * FROM feed", _get("feed", Role.DELETES)),
        "Query SELECT * FROM feed\n  DeletesInput feed: the rows deleted at T\n",
    ),
    "changes": (
        resolve_roles,
        _query("SELECT * FROM feed", _get("feed", Role.CHANGES)),
        "Query SELECT * FROM feed\n  ChangesInput feed: the rows changed at T with diff\n",
    ),
    "mark_snapshot": (
        mark_snapshot,
        _task(_inserts(), snapshot=True),
        """\
        TaskWrite log (k int): one commit at each due T; Ts that wait share a job and a commit
          InsertsInput feed: the rows inserted at T, on the first run the snapshot
          Transaction: statements in order, consolidated
            Insert (k)
              Query SELECT k FROM feed
                InsertsInput feed: the rows inserted at T, on the first run the snapshot
        """,
    ),
    "extract_times": (
        extract_times,
        _task(_inserts(), snapshot=False),
        """\
        TaskWrite log (k int): one commit at each due T; Ts that wait share a job and a commit
          InsertsInput feed: the rows inserted at T
          TimesExtract: the times at which the input's inserts changed, from its log
            InsertsInput feed: the rows inserted at T
          Transaction: statements in order, consolidated
            Insert (k)
              Query SELECT k FROM feed
                InsertsInput feed: the rows inserted at T
        """,
    ),
    "reduce_times": (
        reduce_times,
        _task(_inserts(), snapshot=False, times=TimesExtract(inputs=(_inserts(),))),
        """\
        TaskWrite log (k int): one commit at each due T; Ts that wait share a job and a commit
          InsertsInput feed: the rows inserted at T
          TimesReduce: one update a time
            TimesExtract: the times at which the input's inserts changed, from its log
              InsertsInput feed: the rows inserted at T
          Transaction: statements in order, consolidated
            Insert (k)
              Query SELECT k FROM feed
                InsertsInput feed: the rows inserted at T
        """,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rule(name: str) -> None:
    """Before becomes after, and after stays as it is: the same object."""
    rule, before, after = CASES[name]
    made = rule(before)
    assert explain(made) == textwrap.dedent(after).rstrip("\n")
    assert rule(made) is made


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.__name__)
def test_a_rule_that_does_not_apply_gives_the_same_object(rule: Callable[[Node], Node]) -> None:
    """So that "changed" can be asked by ``is not``."""
    plan = _query("SELECT 1")
    assert rule(plan) is plan


def test_every_rule_is_tested() -> None:
    """A rule without a pair of plans here is not done."""
    assert set(RULES) == {rule for rule, _, _ in CASES.values()}
    assert set(RELATION_OF_ROLE) == set(Role)


def test_snapshot_is_left_out_when_not_wanted() -> None:
    """Without the option the first run is the first change."""
    plan = _task(_inserts(), snapshot=False)
    assert mark_snapshot(plan) is plan


def test_the_upsert_recipe() -> None:
    """The whole way: text, binding, rules."""
    bound = bind(
        "CREATE CONTINUAL TASK upsert (key INT, val STRING) ON INPUT feed AS (\n"
        "  DELETE FROM upsert WHERE key IN (SELECT key FROM feed);\n"
        "  INSERT INTO upsert SELECT key, val FROM feed;\n)"
    )
    snapshot = "the rows inserted at T, on the first run the snapshot"
    wanted = f"""\
        TaskWrite upsert (key INT, val STRING): one commit at each due T
          InsertsInput feed: {snapshot}
          TimesReduce: one update a time
            TimesExtract: the times at which the input's inserts changed, from its log
              InsertsInput feed: {snapshot}
          Transaction: statements in order, consolidated; few rows of upsert are looked up by key
            Delete where it is true, as upsert
              SelfReference upsert: contents as of T - 1, stepped forward to T
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
          TimesReduce: one update a time
            TimesExtract: the times at which the input's inserts changed, from its log
              InsertsInput feed: the rows inserted at T
          Transaction: statements in order, consolidated
            Insert into a (key)
              Query SELECT key FROM feed
                InsertsInput feed: the rows inserted at T
            Update where the last condition is true, as b
              SelfReference other.b: contents as of T - 1, stepped forward to T
              Assign n
                Query n + 1
              Query key IN (SELECT key FROM a)
                SelfReference a: contents as of T - 1, stepped forward to T
        """
    assert explain(bound.plan) == textwrap.dedent(wanted).rstrip("\n")
    assert bound.columns == ()
    assert [r.object_id for r in bound.reads] == ["id-feed"]


def test_a_view_over_a_view() -> None:
    """The view's query stands in place."""
    bound = bind("CREATE MATERIALIZED VIEW m AS SELECT key FROM recent")
    wanted = """\
        ViewWrite m (key int): commit desired - stored at T
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


def test_children_and_descend_reach_everything() -> None:
    """Leaves included, each place once."""
    plan = transform(_task(_get("feed", Role.INPUT), snapshot=True))
    kinds = [type(n).__name__ for n in descend(plan)]
    assert kinds.count("InsertsInput") == 3
    assert [type(n).__name__ for n in children(plan)] == [
        "InsertsInput",
        "TimesReduce",
        "Transaction",
    ]
    assert map_nodes(plan, lambda n: n) is plan


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


def test_references_are_what_is_left() -> None:
    """A DELETE's own table is a self-reference, never a reference."""
    bound = bind("CREATE CONTINUAL TASK t (k INT) ON INPUT feed AS (DELETE FROM t)")
    (delete,) = [n for n in descend(bound.plan) if isinstance(n, Delete)]
    assert isinstance(delete.of, SelfReference)
    assert not any(isinstance(n, NormalReference) for n in descend(bound.plan))
