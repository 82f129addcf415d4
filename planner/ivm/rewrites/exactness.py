"""Finds operators whose result depends on the order of rows.

Their former result cannot be computed again, so change rules need the stored view for it
(:mod:`ctsql.planner.ivm.strategies.stored_view`).
"""

from collections.abc import Iterator
from dataclasses import replace

from ctsql.catalog.errors import Declined
from ctsql.planner.ivm.algebra import spark_functions
from ctsql.planner.ivm.algebra.nodes import (
    Aggregate,
    Col,
    Distinct,
    Expr,
    Generate,
    Limit,
    Node,
    Project,
    SetOperation,
    Values,
    Window,
)
from ctsql.planner.ivm.algebra.traversal import descend, expressions


def inexact(node: Node) -> Iterator[tuple[Node, Declined]]:
    """The operators of a plan that are not exact, each with the reason."""
    # Only the query can compute texts that are equal but not identical: Delta stores no column
    # with a collation.
    has_collations = any(_makes_collated(below) for below in descend(node))
    collation = Declined("COLLATED_TEXTS") if has_collations else None
    for below in descend(node):
        match below:
            case Aggregate() | Window():
                reason = _calls(below) or collation
            case Limit():
                # With every column in ORDER BY, tied rows are equal.
                has_ties = not {item.expr.column for item in below.order} >= set(below.columns)
                reason = Declined("LIMIT_TIES", span=below.span) if has_ties else collation
            case Distinct() | SetOperation():
                reason = collation
            case _:
                reason = None
        if reason is not None:
            yield below, reason


def _makes_collated(node: Node) -> bool:
    match node:
        case Values():
            return "collate" in node.text.lower()
        case Project() | Aggregate() | Window() | Generate():
            parts = [part for expr in expressions(node) for part in expr.parts]
            return any(isinstance(part, str) and part.lower() == "collate" for part in parts)
        case _:
            return False


def _calls(node: Aggregate | Window) -> Declined | None:
    for call in node.calls:
        if not call.exact:
            code = (
                "FLOAT_AGGREGATE_NESTED"
                if call.function in spark_functions.SUMS
                else "INEXACT_AGGREGATE_NESTED"
            )
            return Declined(code, span=call.expr.span)
        if isinstance(node, Window) and call.ties:
            # Rows that agree in every column are interchangeable.
            window_columns = set(call.over) | set(call.order or ())
            if not window_columns >= set(node.child.columns):
                return Declined("ROW_ORDER_TIES", span=call.expr.span)
    return None


def sums_in(node: Node) -> tuple[Node, tuple[Col, ...]]:
    """An operator with its averages as sums, and the columns of all its sums.

    A floating-point sum is not exact. Spark's type of the column shows it; the planner cannot
    derive it, for example for the sum of a text.
    """
    if not isinstance(node, Aggregate | Window):
        return node, ()
    sums = {c.col for c in node.calls if c.function in spark_functions.SUMS}
    calls = tuple(
        replace(c, expr=Expr(("sum", *c.expr.parts[1:]), c.expr.span)) if c.col in sums else c
        for c in node.calls
    )
    return replace(node, calls=calls), tuple(c.col for c in node.calls if c.col in sums)
