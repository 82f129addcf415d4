"""SUBSCRIBE, the short forms of tasks, and what these are compiled to."""

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.schemas import Column
from ctsql.planner.syntax.ast import (
    CreateContinualTask,
    CreateFlow,
    CreateMaterializedView,
    DropSubscription,
    Subscribe,
)
from ctsql.planner.syntax.statements.auto_cdc import compile_flow
from tests.helpers.parsed import parsed, refused

COLUMNS = [
    Column("id", "int"),
    Column("a b", "string"),
    Column("m", "map<string,int>"),
    Column("d", "double"),
    Column("n", "bigint"),
]


def _flow(clauses: str) -> CreateFlow:
    text = f"CREATE FLOW IF NOT EXISTS s.f AS AUTO CDC INTO s.t FROM STREAM(e) {clauses}"
    return parsed(text, CreateFlow)


def test_subscribe() -> None:
    """The clauses stand in any order."""
    read = parsed("SUBSCRIBE TO s.x WITH (PROGRESS = true) UP TO NOW() AS 'it''s' FROM 5;")
    assert isinstance(read, Subscribe)
    assert (read.target.parts, read.reader, read.progress) == (("s", "x"), "it's", True)
    assert (read.up_to_now, read.up_to, read.as_of) == (True, None, None)
    assert read.begin is not None
    assert read.begin.value == 5
    read = parsed("subscribe x as of timestamp '2026-01-01' up to 7", Subscribe)
    assert read.as_of is not None
    assert (read.as_of.value, read.as_of.span.text) == ("2026-01-01", "timestamp '2026-01-01'")
    assert read.up_to is not None
    assert (read.up_to.value, read.up_to_now, read.reader) == (7, False, None)
    dropped = parsed("DROP SUBSCRIPTION IF EXISTS r", DropSubscription)
    assert (dropped.name, dropped.if_exists) == ("r", True)


def test_flow_clauses_end_where_the_next_begins() -> None:
    """Expressions are taken as typed; a clause's words inside parentheses are none."""
    flow = _flow(
        "KEYS (id, n) IGNORE NULL UPDATES APPLY AS DELETE WHEN op IN (SELECT columns FROM x) "
        "SEQUENCE BY struct(n, id) COLUMNS * EXCEPT (m) STORED AS SCD TYPE 2 "
        "TRACK HISTORY ON (`a b`)"
    )
    assert (flow.keys, flow.scd_type, flow.ignore_nulls) == (("id", "n"), 2, True)
    assert flow.delete_when is not None
    assert flow.delete_when.text == "op IN (SELECT columns FROM x)"
    assert flow.sequence.text == "struct(n, id)"
    assert flow.columns is not None
    assert (flow.columns.names, flow.columns.without) == (("m",), True)
    assert flow.tracked_columns is not None
    assert (flow.tracked_columns.names, flow.tracked_columns.without) == (("a b",), False)
    assert flow.source.parts == ("e",)


@pytest.mark.parametrize(
    ("text", "body"),
    [
        (
            "CREATE CONTINUAL TASK IF NOT EXISTS x (a INT) FROM TRANSFORM s.t "
            "USING (SELECT a FROM s.t -- all\n)",
            "INSERT INTO x SELECT a FROM s.t",
        ),
        (
            "CREATE CONTINUAL TASK x FROM RETAIN t WITH (SNAPSHOT = false) WHILE (u > now())",
            "INSERT INTO x SELECT * FROM t WHERE (u > now());\n"
            "DELETE FROM x AS t WHERE (u > now()) IS NOT TRUE",
        ),
        (
            "CREATE CONTINUAL TASK x (a INT) WITH (SNAPSHOT = false) FROM TRANSFORM t "
            "USING (SELECT a FROM t)",
            "CREATE CONTINUAL TASK x (a INT) ON INPUT t WITH (SNAPSHOT = false) AS (",
        ),
    ],
)
def test_task_forms_are_ordinary_tasks(text: str, body: str) -> None:
    """What is parsed is the compiled statement, with the one that was typed in a comment."""
    statement = parsed(text, CreateContinualTask)
    assert body in statement.span.text
    assert "--   " + text.splitlines()[0] in statement.span.text
    assert statement.options == () or "SNAPSHOT = false" in statement.span.text
    again = parsed(statement.span.text, CreateContinualTask)
    assert again.if_not_exists == ("IF NOT" in text)


def test_line_breaks_of_expressions() -> None:
    """They go, and comments with them; one inside a string is refused, or it would change."""
    texts = compile_flow(
        _flow("KEYS (id) SEQUENCE BY n -- a\n + 1 APPLY AS DELETE WHEN `a b`\n= 'x -- y'"),
        COLUMNS,
        "bigint",
        "s.f",
    )
    assert "coalesce(n + 1, raise_error(" in texts.task
    assert "coalesce(`a b` = 'x -- y', false)" in texts.task
    broken = _flow("KEYS (id) SEQUENCE BY n APPLY AS DELETE WHEN `a b` = 'x\ny'")
    with pytest.raises(CtsqlError, match="NOT_SUPPORTED"):
        compile_flow(broken, COLUMNS, "bigint", "s.f")


@pytest.mark.parametrize(
    ("clauses", "columns", "view_columns"),
    [
        ("KEYS (id) SEQUENCE BY n", ["__SEQUENCE", "__DELETED"], []),
        (
            "KEYS (id) SEQUENCE BY n IGNORE NULL UPDATES",
            ["__SEQUENCE", "__DELETED_AT", "__SEQUENCES", "__DELETED", "__UPDATED_AT"],
            [],
        ),
        (
            "KEYS (id) SEQUENCE BY n STORED AS SCD TYPE 2 TRACK HISTORY ON d",
            ["__START_AT", "__END_AT", "__SEQUENCE", "__DELETED", "__UPDATED_AT"],
            ["__START_AT", "__END_AT"],
        ),
        (
            "KEYS (id) SEQUENCE BY n IGNORE NULL UPDATES STORED AS SCD TYPE 2",
            ["__START_AT", "__END_AT", "__SEQUENCE", "__DELETED", "__EVENT", "__UPDATED_AT"],
            ["__START_AT", "__END_AT"],
        ),
    ],
)
def test_flows_are_a_task_and_a_view(
    clauses: str, columns: list[str], view_columns: list[str]
) -> None:
    """Both texts can be read, also with names that need quotes and types that have no order."""
    texts = compile_flow(_flow(clauses), COLUMNS, "bigint", "s.f")
    task, view = parsed(texts.task), parsed(texts.view)
    assert isinstance(task, CreateContinualTask)
    assert isinstance(view, CreateMaterializedView)
    own = [c.name for c in COLUMNS]
    assert [c.name for c in task.columns] == own + columns
    assert task.if_not_exists
    assert view.if_not_exists
    assert view.target.parts == ("s", "t")
    assert [r.parts for r in view.query.relations] == [("s", "f")]
    select = view.query.span.text.splitlines()[0]
    assert select == "SELECT " + ", ".join([f"`{name}`" for name in own] + view_columns)
    assert "`m` DESC" not in texts.task  # maps have no order


@pytest.mark.parametrize(
    ("clauses", "place"),
    [("SEQUENCE BY n FOR (d), m FOR (id)", "FOR"), ("SEQUENCE BY n, m STORED AS SCD TYPE 2", ",")],
)
def test_one_sequence(clauses: str, place: str) -> None:
    """Several sequences, or columns with a sequence of their own, are refused."""
    with refused("NOT_SUPPORTED", place):
        _flow(f"KEYS (id) {clauses}")
