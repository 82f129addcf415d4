"""A streaming table in a dump: the statements that make it, from the text of its task."""

from ctsql.catalog.items import Flow, Item, ObjectKind
from ctsql.catalog.names import Name
from ctsql.catalog.schemas import Column
from ctsql.runtime.statements.dump import streaming_text


def _item(*flows: Flow, comment: str | None = None) -> Item:
    return Item(
        id="x",
        kind=ObjectKind.CONTINUAL_TASK,
        name=Name("default", "x"),
        columns=(Column("k", "int"), Column("v", "string")),
        flows=flows,
        comment=comment,
    )


def test_a_flow_of_the_tables_name_stands_behind_as() -> None:
    """Names alone are streams, what is read with contents() is not; a flow that ran is told of."""
    task = (
        "CREATE CONTINUAL TASK x (k INT, v STRING) ON INPUT a, s.b AS (\n-- Made by: ...\n"
        "INSERT INTO x SELECT a.k, d.v FROM a LEFT JOIN contents(d) AS `d` USING (k)\n;\n"
        "INSERT INTO x BY NAME SELECT k FROM s.b UNION ALL SELECT k FROM a AS c\n)"
    )
    flows = (Flow(name="X", text=""), Flow(name="old", text="", once=True), Flow(name="f", text=""))
    assert streaming_text(task, _item(*flows, comment="it's")) == (
        "-- Flow old has run once.\n"
        "CREATE STREAMING TABLE x (k int, v string) COMMENT 'it\\'s' AS\n"
        "SELECT a.k, d.v FROM STREAM(a) LEFT JOIN d AS `d` USING (k);\n"
        "CREATE FLOW f AS INSERT INTO x BY NAME SELECT k FROM STREAM(s.b) "
        "UNION ALL SELECT k FROM STREAM(a) AS c"
    )


def test_flows_of_other_names_and_a_schedule() -> None:
    """A schedule goes with AS only, whatever the flow is called."""
    task = "CREATE CONTINUAL TASK x ON INPUT a{} AS (INSERT INTO x SELECT * FROM a)"
    flow = Flow(name="f", text="")
    columns = "(k int, v string)"
    assert streaming_text(task.format(""), _item(flow)) == (
        f"CREATE STREAMING TABLE x {columns};\n"
        "CREATE FLOW f AS INSERT INTO x SELECT * FROM STREAM(a)"
    )
    assert streaming_text(task.format(" WITH (COALESCE = '2 hours')"), _item(flow)) == (
        f"CREATE STREAMING TABLE x {columns} SCHEDULE EVERY 7200000 MILLISECONDS AS\n"
        "SELECT * FROM STREAM(a)"
    )
