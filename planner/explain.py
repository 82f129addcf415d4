"""The one text form of a plan: EXPLAIN prints it and tests store it.

No ids, no addresses, nothing that differs between two runs.
"""

from typing import assert_never

from ctsql.catalog.refreshes import refresh_text
from ctsql.planner.nodes import (
    Delete,
    Get,
    Insert,
    InsertsInput,
    Node,
    NormalReference,
    Query,
    SelfReference,
    TaskWrite,
    TimesExtract,
    TimesReduce,
    Transaction,
    ViewReference,
    ViewWrite,
    children,
)


def explain(node: Node) -> str:
    """The plan as text: one line a node, children indented by two."""
    lines: list[str] = []
    _walk(node, 0, lines)
    return "\n".join(lines)


def _walk(node: Node, depth: int, lines: list[str]) -> None:
    lines.append("  " * depth + line(node))
    for child in children(node):
        _walk(child, depth + 1, lines)


def line(node: Node) -> str:
    """A node's own line."""
    match node:
        case Get():
            return f"Get {node.name} ({node.role.value})"
        case InsertsInput():
            snapshot = ", on the first run the snapshot" if node.with_snapshot else ""
            return f"InsertsInput {node.name}: the rows inserted at T{snapshot}"
        case NormalReference():
            return f"NormalReference {node.name}: contents as of T"
        case SelfReference():
            return f"SelfReference {node.name}: contents as of T - 1, stepped forward to T"
        case Query():
            return f"Query {_one_line(node.sql.span.text)}"
        case ViewReference():
            return f"View {node.name} ({', '.join(node.columns)})"
        case Insert():
            return f"Insert ({', '.join(node.into)})"
        case Delete():
            condition = "" if node.where is None else f" where it is true, as {node.alias}"
            return f"Delete{condition}"
        case Transaction():
            return "Transaction: statements in order, consolidated"
        case TimesExtract():
            return "TimesExtract: the times at which the input's inserts changed, from its log"
        case TimesReduce():
            return "TimesReduce: one update a time"
        case TaskWrite():
            columns = ", ".join(f"{c.name} {c.type}" for c in node.columns)
            return f"TaskWrite {node.name} ({columns}): one commit at each due T"
        case ViewWrite():
            columns = ", ".join(f"{c.name} {c.type}" for c in node.columns)
            at = "T" if node.refresh is None else f"the times of {refresh_text(node.refresh)}"
            checks = f"; an error if NULL: {', '.join(node.not_null)}" if node.not_null else ""
            return f"ViewWrite {node.name} ({columns}): commit desired - stored at {at}{checks}"
        case _:
            assert_never(node)


def _one_line(text: str) -> str:
    return " ".join(text.split())
