"""Prints a plan as text, for EXPLAIN and for tests.

No ids, no addresses, nothing that differs between two runs.
"""

from typing import assert_never

from ctsql.catalog.refreshes import refresh_text
from ctsql.catalog.schemas import shown_columns
from ctsql.planner import nodes as lp
from ctsql.planner.bodies.delete_by_key import sole_lookup
from ctsql.planner.bodies.row_local import is_row_local
from ctsql.planner.syntax.ast import OnViolation

_FATE = {
    OnViolation.FAIL: "the task stops at a T with a row that breaks it",
    OnViolation.DROP: "a row that breaks it is left out",
    OnViolation.WARN: "rows that break it are counted",
    OnViolation.QUARANTINE: "a row that breaks it goes to the quarantine",
}


def explain(node: lp.Node) -> str:
    """The plan as text: one line a node, children indented by two."""
    lines: list[str] = []
    _walk(node, 0, lines)
    return "\n".join(lines)


def _walk(node: lp.Node, depth: int, lines: list[str]) -> None:
    lines.append("  " * depth + line(node))
    for child in lp.children(node):
        _walk(child, depth + 1, lines)


def line(node: lp.Node) -> str:
    """A node's own line."""
    match node:
        case lp.InsertsInput():
            snapshot = ", on the first run the snapshot" if node.with_snapshot else ""
            return f"InsertsInput {node.name}: the rows inserted at T{snapshot}"
        case lp.DeletesInput():
            return f"DeletesInput {node.name}: the rows deleted at T"
        case lp.ChangesInput():
            snapshot = ", on the first run the snapshot" if node.with_snapshot else ""
            return f"ChangesInput {node.name}: the rows changed at T with diff{snapshot}"
        case lp.NormalReference():
            return f"NormalReference {node.name}: contents as of T"
        case lp.SelfReference():
            return f"SelfReference {node.name}: its rows before T, then earlier changes at T"
        case lp.External():
            return f"External {node.ref.span.text}: as it is now"
        case lp.Query():
            return f"Query {' '.join(node.sql.span.text.split())}"
        case lp.ViewReference():
            return f"View {node.name} ({', '.join(node.columns)})"
        case lp.Assign():
            return f"Assign {node.column}" + (" NULL" if node.value is None else "")
        case lp.Insert():
            into = f" into {node.name}" if node.name else ""
            column_list = "BY NAME" if node.into is None else f"({', '.join(node.into)})"
            return f"Insert{into} {column_list}"
        case lp.Delete():
            condition = "" if node.where is None else f" rows for which it is true, as {node.alias}"
            return f"Delete{condition}"
        case lp.Update():
            condition = "" if node.where is None else " rows for which the last condition is true,"
            return f"Update{condition} as {node.alias}"
        case lp.MergeClause():
            condition = "" if node.condition is None else ", if the condition is true"
            return f"When {node.when.value}{condition}: {node.action.value}"
        case lp.Merge():
            return f"Merge as {node.alias}, source as {node.source_alias}, on the condition"
        case lp.Constraint():
            of = f" of {node.of}" if node.of else ""
            return f"Constraint {node.name}{of}: {node.rule}; {_FATE[node.action]}"
        case lp.Transaction():
            how = f"statements in order{_repetition(node)}, consolidated{_lookups(node)}"
            return f"Transaction: {how}"
        case lp.TimesExtract():
            return f"TimesExtract: the Ts at which {_what_changes(node)}"
        case lp.TimesReduce():
            return "TimesReduce: each T once"
        case lp.WrittenOutput():
            return f"TaskOutput {node.name} ({shown_columns(node.columns)})"
        case lp.TaskWrite():
            trim = f", and {node.trim.text}" if node.trim else ""
            at = f"each due T, {node.coalesce.text} at most" if node.coalesce else "each due T"
            if node.outputs:
                return f"TaskWrite {node.name}: all outputs or none at {at}{trim}"
            columns = shown_columns(node.columns)
            jobs = "; waiting Ts share a job and a commit" if is_row_local(node) else ""
            return f"TaskWrite {node.name} ({columns}): one commit at {at}{trim}{jobs}"
        case lp.ViewWrite():
            columns = shown_columns(node.columns)
            at = "T" if node.refresh is None else f"the times of {refresh_text(node.refresh)}"
            return f"ViewWrite {node.name} ({columns}): commit rows that differ at {at}"
        case _:
            assert_never(node)


def _repetition(node: lp.Transaction) -> str:
    if node.fixpoint:
        return f", repeated until nothing changes (at most {node.iterations} times)"
    if node.iterations > 1:
        return f", repeated up to {node.iterations} times until nothing changes"
    return ""


def _lookups(node: lp.Transaction) -> str:
    if node.iterations > 1:
        return ""
    outputs = {n.object_id: n.name for n in lp.descend(node) if isinstance(n, lp.SelfReference)}
    names = [str(name) for o, name in outputs.items() if sole_lookup(node, o) is not None]
    return f"; {', '.join(names)} is looked up by key after a small change" if names else ""


def _what_changes(node: lp.TimesExtract) -> str:
    several = len({getattr(n, "object_id", None) for n in node.inputs}) > 1
    logs = "their logs" if several else "its log"
    if any(isinstance(n, lp.DeletesInput) for n in node.inputs):
        return f"rows of an input were inserted or deleted, from {logs}"
    if several:
        return f"rows were inserted into an input, from {logs}"
    return f"rows were inserted into the input, from {logs}"
