"""Binding: names become objects in roles; what cannot be meant is refused, at its place."""

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import ObjectKind
from ctsql.planner.binding.binder import BoundDefinition
from ctsql.planner.nodes import (
    Assign,
    ChangesInput,
    Delete,
    Insert,
    InsertsInput,
    Merge,
    NormalReference,
    Query,
    SelfReference,
    TaskWrite,
    Update,
    ViewWrite,
    descend,
)
from ctsql.planner.syntax import rewrite
from tests.helpers.items import changed
from tests.unit.planner.binding.catalog_by_hand import CATALOG, FEED, FakeAnalyst, bind, item


def _task(bound: BoundDefinition) -> TaskWrite:
    return bound.task


def _leaves(bound: BoundDefinition) -> list[str]:
    return [
        f"{type(n).__name__} {n.name}"
        for n in descend(_task(bound).transaction)
        if isinstance(n, InsertsInput | NormalReference | SelfReference)
    ]


@pytest.mark.parametrize("source", ["feed", "summed", "old_task", "other.feed", "FEED", "`feed`"])
def test_what_can_be_an_input(source: str) -> None:
    """A table, a materialized view, a task; names fold as Spark's do."""
    plan = _task(
        bind(f"CREATE CONTINUAL TASK t ON INPUT {source} AS (INSERT INTO t SELECT 1 AS a)")
    )
    (node,) = plan.inputs
    assert isinstance(node, InsertsInput)


def test_what_a_task_runs_for() -> None:
    """The inserts of every input, and the deletes of those whose deletes or changes it reads."""
    plan = _task(
        bind(
            "CREATE CONTINUAL TASK t (k INT) ON INPUT feed, summed, old_task AS ("
            " INSERT INTO t SELECT key FROM contents(feed);"
            " DELETE FROM t WHERE k IN (SELECT key FROM deletes(summed));"
            " UPDATE t SET k = (SELECT max(key) FROM changes(old_task)))"
        )
    )
    assert [f"{type(n).__name__} {getattr(n, 'name', '')}" for n in plan.inputs] == [
        "InsertsInput feed",
        "InsertsInput summed",
        "DeletesInput summed",
        "InsertsInput old_task",
        "DeletesInput old_task",
    ]
    (changes,) = [n for n in descend(plan) if isinstance(n, ChangesInput)]
    assert changes.columns == ("key", "diff")
    assert any(isinstance(n, NormalReference) for n in descend(plan.transaction))


def test_defaults_and_stars() -> None:
    """A column that is left out gets its default; a star stands for all columns by name."""
    plan = _task(
        bind(
            "CREATE CONTINUAL TASK t (key INT, val STRING DEFAULT 'x') ON INPUT feed AS ("
            " INSERT INTO t (key) SELECT key FROM feed;"
            " UPDATE t SET val = DEFAULT, key = DEFAULT;"
            " MERGE INTO t USING feed AS s ON t.key = s.key WHEN MATCHED THEN UPDATE SET *"
            " WHEN NOT MATCHED THEN INSERT (key) VALUES (s.key))"
        )
    )
    insert, update, merge = plan.transaction.statements
    assert isinstance(insert, Insert)
    assert isinstance(update, Update)
    assert isinstance(merge, Merge)

    def shown(assigns: tuple[Assign, ...]) -> list[tuple[str, str | None]]:
        return [
            (a.column, rewrite(a.value.sql, relation=str).text if a.value else None)
            for a in assigns
        ]

    assert shown(insert.defaults) == [("val", "'x'")]
    assert shown(update.assignments) == [("val", "'x'"), ("key", None)]
    assert shown(merge.clauses[0].assignments) == [("key", "s.key"), ("val", "s.val")]
    assert shown(merge.clauses[1].assignments) == [("key", "s.key"), ("val", "'x'")]


def test_a_view_in_a_body_reads_its_tables_whole() -> None:
    """Even the input: what a view's text calls feed is the table, not the change."""
    bound = bind(
        "CREATE CONTINUAL TASK t (k INT) ON INPUT feed AS (INSERT INTO t SELECT key FROM recent)"
    )
    assert _leaves(bound) == ["NormalReference feed"]


def test_columns_are_those_of_the_first_insert() -> None:
    """Without a column list."""
    bound = bind(
        "CREATE CONTINUAL TASK t ON INPUT feed AS ("
        " DELETE FROM t WHERE key = 1; INSERT INTO t SELECT key, count(*) AS n FROM feed)"
    )
    assert [(c.name, c.type) for c in bound.columns] == [("key", "int"), ("n", "bigint")]


def test_delete_keeps_the_alias() -> None:
    """A correlated predicate says the alias, or the task's name without one."""
    analyst = FakeAnalyst()
    bind(
        "CREATE CONTINUAL TASK t (k INT) ON INPUT feed AS (DELETE FROM t AS o WHERE o.k = 1;"
        " DELETE FROM t WHERE t.k = 1; DELETE FROM t)",
        analyst,
    )
    assert [d.alias for d in analyst.predicates] == ["o", "t", "t"]
    assert [d.where is None for d in analyst.predicates] == [False, False, True]
    assert all(isinstance(d, Delete) for d in analyst.predicates)


def test_a_stored_definition_means_what_it_meant() -> None:
    """After a rename the old text still finds its objects, whatever is called so now."""
    from dataclasses import replace

    from ctsql.catalog.names import Name
    from ctsql.planner.binding.task import bind_stored

    sql = "CREATE CONTINUAL TASK t (k INT) ON INPUT feed AS (INSERT INTO t SELECT key FROM feed)"
    bound = bind(sql)
    task = changed(item(ObjectKind.CONTINUAL_TASK, "t", "k int", definition=sql), reads=bound.reads)
    usurper = item(ObjectKind.TABLE, "feed2", "x int")
    renamed = (
        CATALOG.with_items([task])
        .with_items([replace(FEED, name=Name("default", "was_feed"))])
        .with_items([replace(usurper, name=Name("default", "feed"))])
    )
    (node,) = _task(bind_stored(task, renamed)).inputs
    assert isinstance(node, InsertsInput)
    assert (node.object_id, str(node.name)) == (FEED.id, "was_feed")


def test_a_column_added_later_is_not_seen() -> None:
    """SELECT * in a definition means the columns of that day."""
    bound = bind("CREATE MATERIALIZED VIEW m AS SELECT * FROM feed")
    assert isinstance(bound.plan, ViewWrite)
    (reading,) = bound.reads
    assert reading.columns == ("key", "val")


def test_view_columns_can_be_renamed() -> None:
    """By a column list."""
    bound = bind("CREATE VIEW v (a, b) AS SELECT key, val FROM feed")
    assert [(c.name, c.type) for c in bound.columns] == [("a", "int"), ("b", "string")]
    assert isinstance(bound.plan, Query)


TASK = "CREATE CONTINUAL TASK t (k INT, v STRING) ON INPUT feed AS"
SEVERAL = (
    "CREATE CONTINUAL TASK x OUTPUTS (a (key INT), other.b (key INT, n BIGINT)) ON INPUT feed AS"
)
# statement, condition, the text pointed at, words of the hint
REFUSED: dict[str, tuple[str, str, str, str]] = {
    "unknown input": (
        "CREATE CONTINUAL TASK t ON INPUT fed AS (INSERT INTO t SELECT 1 AS a)",
        "UNKNOWN_RELATION", "fed", 'Did you mean "feed"',
    ),
    "unknown schema": (
        "CREATE CONTINUAL TASK t ON INPUT othr.feed AS (INSERT INTO t SELECT 1 AS a)",
        "UNKNOWN_SCHEMA", "othr.feed", 'Did you mean "other"',
    ),
    "unknown relation in a body": (
        f"{TASK} (INSERT INTO t SELECT id, title FROM page)",
        "UNKNOWN_RELATION", "page", 'Did you mean "pages"',
    ),
    "a relation of another schema": (
        "CREATE VIEW v AS SELECT n FROM other.summed",
        "UNKNOWN_RELATION", "other.summed", 'Did you mean "default.summed"',
    ),
    "output as input": (
        "CREATE CONTINUAL TASK t ON INPUT t AS (INSERT INTO t SELECT 1 AS a)",
        "RECURSIVE_DEFINITION", "t", "Read it in the body",
    ),
    "view as input": (
        "CREATE CONTINUAL TASK t ON INPUT counted AS (INSERT INTO t SELECT 1 AS a)",
        "NOT_DURABLE", "counted", "CREATE MATERIALIZED VIEW",
    ),
    "table and view of it as inputs": (
        "CREATE CONTINUAL TASK t ON INPUT feed, recent AS (INSERT INTO t SELECT 1 AS a)",
        "INVALID_STATEMENT", "recent", "Put both conditions into the body",
    ),
    "alias called as the output": (
        "CREATE CONTINUAL TASK t ON INPUT feed AS T AS (INSERT INTO t SELECT 1 AS a)",
        "INVALID_STATEMENT", "feed AS T", "Choose another alias",
    ),
    "insert into another table": (
        f"{TASK} (INSERT INTO pages SELECT key, val FROM feed)",
        "TASK_WRITES_FOREIGN_TABLE", "pages", "a second task",
    ),
    "insert into the task with outputs": (
        f"{SEVERAL} (INSERT INTO x SELECT key FROM feed)",
        "TASK_WRITES_FOREIGN_TABLE", "x", 'Write "a" or "other.b" here',
    ),
    "an output as input": (
        f"{SEVERAL.replace('feed', 'other.b')} (DELETE FROM a)",
        "RECURSIVE_DEFINITION", "other.b", "Read it in the body",
    ),
    "outputs of one name": (
        f"{SEVERAL.replace('other.b', 'A')} (DELETE FROM a)", "INVALID_STATEMENT", "A", "",
    ),
    "an output called like the task": (
        f"{SEVERAL.replace('other.b', 'x')} (DELETE FROM a)", "INVALID_STATEMENT", "x", "",
    ),
    "another output's column": (
        f"{SEVERAL} (UPDATE a SET n = 1)", "UNKNOWN_COLUMN", "n", "",
    ),
    "too many columns for this output": (
        f"{SEVERAL} (INSERT INTO a SELECT key, 1 FROM feed)",
        "COLUMN_COUNT_MISMATCH", "SELECT key, 1 FROM feed", "",
    ),
    "an output with a column twice": (
        f"{SEVERAL.replace('n BIGINT', 'KEY BIGINT')} (DELETE FROM a)",
        "DUPLICATE_COLUMN", "KEY", "",
    ),
    "a task that holds no rows": (
        "CREATE VIEW v AS SELECT 1 FROM several", "WRONG_OBJECT_KIND", "several", "low, high",
    ),
    "a task that holds no rows as input": (
        "CREATE CONTINUAL TASK t ON INPUT several AS (INSERT INTO t SELECT 1 AS a)",
        "WRONG_OBJECT_KIND", "several", "low, high",
    ),
    "too many columns": (
        f"{TASK} (INSERT INTO t SELECT key, val, 1 FROM feed)",
        "COLUMN_COUNT_MISMATCH", "SELECT key, val, 1 FROM feed", "",
    ),
    "too many for the list": (
        f"{TASK} (INSERT INTO t (k) SELECT key, val FROM feed)",
        "COLUMN_COUNT_MISMATCH", "SELECT key, val FROM feed", "",
    ),
    "wrong type": (
        f"{TASK} (INSERT INTO t SELECT val, key FROM feed)",
        "TYPE_MISMATCH", "SELECT val, key FROM feed", "CAST",
    ),
    "unknown column in the list": (
        f"{TASK} (INSERT INTO t (k, vv) SELECT key, val FROM feed)",
        "UNKNOWN_COLUMN", "vv", 'Did you mean "v"',
    ),
    "column twice in the insert's list": (
        f"{TASK} (INSERT INTO t (k, K) SELECT key, key FROM feed)",
        "DUPLICATE_COLUMN", "K", "",
    ),
    "column twice in the task's list": (
        "CREATE CONTINUAL TASK t (k INT, K INT) ON INPUT feed AS (DELETE FROM t)",
        "DUPLICATE_COLUMN", "K", "",
    ),
    "column twice in a plain view's query": (
        "CREATE VIEW s.m AS SELECT key, val AS Key, key FROM feed",
        "DUPLICATE_COLUMN", "SELECT key, val AS Key, key FROM feed",
        "Type: CREATE VIEW s.m (key, Key_2, key_3) AS ...",
    ),
    "blanks in the columns of a view's query": (
        "CREATE MATERIALIZED VIEW m AS "
        "SELECT key AS `the key`, val AS `(v; x)`, 1 AS v_x FROM feed",
        "INVALID_NAME", "SELECT key AS `the key`, val AS `(v; x)`, 1 AS v_x FROM feed",
        "Type: CREATE MATERIALIZED VIEW m (the_key, v_x, v_x_2) AS ...",
    ),
    "a column list that is too short": (
        "CREATE VIEW v (a) AS SELECT key, val FROM feed",
        "COLUMN_COUNT_MISMATCH", "SELECT key, val FROM feed", "",
    ),
    "rand in a body": (
        f"{TASK} (INSERT INTO t SELECT key, val FROM feed WHERE rand() < 1)",
        "NONDETERMINISTIC_FUNCTION", "rand", "as a column",
    ),
    "rand in a delete": (
        f"{TASK} (DELETE FROM t WHERE k < rand())",
        "NONDETERMINISTIC_FUNCTION", "rand", "as a column",
    ),
    "uuid in a view": (
        "CREATE MATERIALIZED VIEW m AS SELECT uuid() AS u FROM feed",
        "NONDETERMINISTIC_FUNCTION", "uuid", "as a column",
    ),
    "a view that reads itself": (
        "CREATE MATERIALIZED VIEW m AS SELECT key FROM m", "RECURSIVE_DEFINITION", "m", "",
    ),
    "no insert and no list": (
        "CREATE CONTINUAL TASK t ON INPUT feed AS (DELETE FROM t)",
        "INVALID_STATEMENT", "t", "t (k INT",
    ),
    "a first insert that reads the task, and no list": (
        "CREATE CONTINUAL TASK t ON INPUT feed AS (INSERT INTO t SELECT k FROM t)",
        "INVALID_STATEMENT", "SELECT k FROM t", "t (k INT",
    ),
    "a column of type void": (
        "CREATE MATERIALIZED VIEW m AS SELECT NULL AS n FROM feed",
        "INVALID_COLUMN_TYPE", "SELECT NULL AS n FROM feed", "CAST(NULL",
    ),
    "a column of an interval": (
        "CREATE CONTINUAL TASK t (d INTERVAL DAY TO SECOND) ON INPUT feed AS (DELETE FROM t)",
        "NOT_SUPPORTED",
        "CREATE CONTINUAL TASK t (d INTERVAL DAY TO SECOND) ON INPUT feed AS (DELETE FROM t)",
        "Store a number",
    ),
    "a column named as ours": (
        "CREATE CONTINUAL TASK t (__ct_row INT) ON INPUT feed AS (DELETE FROM t)",
        "INVALID_NAME",
        "CREATE CONTINUAL TASK t (__ct_row INT) ON INPUT feed AS (DELETE FROM t)", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """With its condition, its place in the text and what to do."""
    sql, condition, pointed, hint = REFUSED[name]
    with pytest.raises(CtsqlError, match=condition) as refused:
        bind(sql)
    assert refused.value.span is not None
    assert refused.value.span.text.removesuffix("()") == pointed.removesuffix("()")
    assert hint in (refused.value.hint or "")
