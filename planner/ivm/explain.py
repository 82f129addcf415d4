"""A change plan as text: one line for each operator, with its rule and the reason for extra reads.

It has no column numbers and is the same in every run: EXPLAIN prints it, tests store it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

from ctsql.catalog.errors import Declined
from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.traversal import inputs, own_subqueries
from ctsql.planner.ivm.plan import ChangePlan
from ctsql.planner.ivm.rules.context import RuleUse
from ctsql.planner.ivm.sql.spark import join_texts
from ctsql.planner.syntax.ast import ClockKind

ReasonPrinter = Callable[[Declined], str]


def explain(plan: ChangePlan, print_reason: ReasonPrinter, headline: str) -> str:
    """The plan, from the top, children indented by two.

    ``print_reason`` prints a reason with its place; ``headline`` is the first line.
    """
    lines = [headline]
    _walk(plan.query, 1, plan.rules(), print_reason, lines)
    if plan.kept_state is not None:
        lines.append(f"state table: {', '.join(plan.kept_state.columns)}")
    for name, window in plan.windows.items():
        lines.append(f"{name}: the rows of {window.table} with {window.comparisons}")
    for table, columns in plan.reads.items():
        lines.append(f"reads {table}: {', '.join(columns) or 'the number of its rows'}")
    return "\n".join(lines)


def _walk(
    node: alg.Node,
    depth: int,
    rules: Mapping[alg.Node, RuleUse],
    print_reason: ReasonPrinter,
    lines: list[str],
) -> None:
    rule_use = rules.get(node)
    text = label(node)
    if rule_use is not None:
        text += f"  [{rule_use.rule}]"
        if rule_use.note is not None:
            text += f" {print_reason(rule_use.note)}"
    lines.append("  " * depth + text)
    for child in inputs(node):
        _walk(child, depth + 1, rules, print_reason, lines)
    for subquery in own_subqueries(node):
        lines.append("  " * (depth + 1) + f"Subquery ({subquery.kind.value})")
        _walk(subquery.node, depth + 2, rules, print_reason, lines)


def label(node: alg.Node) -> str:
    """An operator in a few words."""
    match node:
        case alg.Scan():
            return f"Scan {node.table}"
        case alg.Values():
            return "Constants"
        case alg.Filter() | alg.Temporal():
            return f"Filter {_all(node.predicates)}"
        case alg.Project():
            return f"Project {len(node.items)} column(s)"
        case alg.Join():
            kind = f"Join of {len(node.children)}"
            return f"{kind} on {_all(node.conditions)}" if node.conditions else f"{kind}, crossed"
        case alg.OuterOrSemiJoin():
            on = f" on {_all(node.conditions)}" if node.conditions else ""
            return f"{node.kind.value.capitalize()}{on}"
        case alg.LateralJoin():
            return "Lateral join"
        case alg.Generate():
            return f"Lateral view {text_of(node.generator)}"
        case alg.Aggregate():
            return _aggregate(node)
        case alg.Distinct():
            return "Distinct"
        case alg.SetOperation():
            return node.operator.capitalize()
        case alg.UnionAll():
            return "Union all"
        case alg.Window():
            calls = ", ".join(text_of(call.expr) for call in node.calls)
            return f"Window {calls}"
        case alg.Limit():
            order = ", ".join(f"{text_of(o.expr)} {o.direction}".strip() for o in node.order)
            return f"First {node.limit} by {order}"
        case alg.Step() | alg.StoredGroups() | alg.SemiJoinRestriction() | alg.ConstantDiff():
            return type(node).__name__
        case _:
            assert_never(node)


def _aggregate(node: alg.Aggregate) -> str:
    names = [key.col.name or "expression" for key in node.keys]
    calls = ", ".join(text_of(call.expr) for call in node.calls)
    if node.sets is not None:
        sets = ", ".join("(" + ", ".join(names[i] for i in one) + ")" for one in node.sets)
        return f"Group by sets {sets}: {calls}"
    return f"Group by {', '.join(names)}: {calls}" if names else f"Aggregate {calls}"


def _all(exprs: Sequence[alg.Expr]) -> str:
    return " and ".join(text_of(expr) for expr in exprs)


def text_of(expr: alg.Expr) -> str:
    """An expression with the user's names."""
    return join_texts([_part(part) for part in expr.parts])


def _part(part: alg.ExprPart) -> str:
    match part:
        case str():
            return part
        case alg.Col():
            return part.name or "expression"
        case alg.Subquery():
            return "(subquery)"
        case alg.Clock():
            return "now()" if part.kind is ClockKind.TIMESTAMP else "current_date()"
