"""Which times a task runs at follows from the nodes that EXPLAIN prints: with others it differs."""

from dataclasses import replace

import pytest

from ctsql.catalog.names import Name
from ctsql.catalog.schemas import Column
from ctsql.planner.bodies.reads import snapshot_inputs
from ctsql.planner.nodes import (
    ChangesInput,
    DeletesInput,
    Insert,
    InsertsInput,
    Node,
    Query,
    TaskWrite,
    TimesExtract,
    TimesReduce,
    Transaction,
)
from ctsql.planner.syntax import parse_as
from ctsql.planner.syntax.ast import Select
from ctsql.runtime.log.actions import RowChange
from ctsql.runtime.log.table_changes import VersionChange, due_version_changes


def inserts(of: str) -> InsertsInput:
    """The inserts of an input."""
    return InsertsInput(object_id=of, name=Name("default", of), columns=("k",))


def deletes(of: str) -> DeletesInput:
    """The deletes of an input."""
    return DeletesInput(object_id=of, name=Name("default", of), columns=("k",))


def changes(of: str) -> ChangesInput:
    """The changes of an input."""
    return ChangesInput(object_id=of, name=Name("default", of), columns=("k", "diff"))


def task(*input_nodes: Node) -> TaskWrite:
    """A task that reads the inserts of two inputs, due when what is watched changes."""
    inputs = (inserts("a"), inserts("b"))
    statement = parse_as(Select, "SELECT a.k FROM a, b", "<test>")
    query = Query(sql=statement.query, relations=inputs)
    target = (Column("k", "int"),)
    return TaskWrite(
        object_id="log",
        name=Name("default", "log"),
        columns=target,
        inputs=inputs,
        times=TimesReduce(times=TimesExtract(inputs=input_nodes)),
        transaction=Transaction(
            statements=(Insert(object_id="log", query=query, into=("k",), target=target),)
        ),
    )


A = [
    (1, VersionChange(1, 0, 1), RowChange.APPEND),
    (2, VersionChange(2, 1, 2), RowChange.DELETE),
    (3, VersionChange(3, 2, 3), RowChange.MIXED),
    (4, VersionChange(4, 3, 4), RowChange.NONE),
]
B = [(1, VersionChange(1, 0, 1), RowChange.APPEND), (5, VersionChange(5, 1, 2), RowChange.DELETE)]

DUE: dict[str, tuple[tuple[Node, ...], list[tuple[int, str]]]] = {
    "inserts": ((inserts("a"),), [(1, "a"), (3, "a")]),
    "inserts and deletes": ((inserts("a"), deletes("a")), [(1, "a"), (2, "a"), (3, "a")]),
    "changes": ((changes("a"),), [(1, "a"), (2, "a"), (3, "a")]),
    "of both": ((inserts("a"), inserts("b")), [(1, "a"), (1, "b"), (3, "a")]),
    "deletes of the other": ((deletes("b"),), [(5, "b")]),
    "nothing is watched": ((), []),
}


@pytest.mark.parametrize("name", DUE)
def test_the_nodes_say_when(name: str) -> None:
    """Which inputs stand below the node of times, and as what, decides."""
    watched, due = DUE[name]
    found = due_version_changes(task(*watched), {"a": A, "b": B})
    assert sorted((time, object_id) for time, object_id, _ in found) == due


def test_a_task_without_such_a_node_is_refused() -> None:
    """A plan whose node of times is another one is not run by a guess."""
    plan = replace(task(inserts("a")), times=inserts("a"))
    with pytest.raises(TypeError, match="InsertsInput gives no times"):
        list(due_version_changes(plan, {"a": A, "b": B}))


def test_the_marked_inputs_are_the_snapshot() -> None:
    """The first run reads the inputs that are marked in the plan, not what an option says."""
    plan = task(inserts("a"))
    assert snapshot_inputs(plan) == []
    marked = replace(inserts("a"), with_snapshot=True)
    assert snapshot_inputs(replace(plan, inputs=(marked, inserts("b")))) == ["a"]
