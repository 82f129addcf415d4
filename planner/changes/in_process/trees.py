"""Expressions of Spark SQL as trees."""

from collections.abc import Sequence
from functools import lru_cache

import sqlglot
from sqlglot import exp

from ctsql.planner.changes.in_process.types import OnlySpark
from ctsql.planner.changes.nodes import Part
from ctsql.planner.syntax import operators

COMPARED: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
"""DuckDB's operators that compare."""


def bound(parts: Sequence[Part]) -> list[Part]:
    """An expression with the parentheses that Spark's grammar gives it; sqlglot's gives others."""
    try:
        return list(operators.parenthesised(parts))
    except operators.Unreadable as problem:
        raise OnlySpark("operators that may bind otherwise") from problem


@lru_cache(maxsize=4096)
def parsed(text: str) -> exp.Expression:
    """An expression's tree; whoever reads it leaves it as it is."""
    try:
        tree = sqlglot.parse_one(f"SELECT {text}", dialect="spark")
    except sqlglot.ParseError as problem:
        raise OnlySpark(text) from problem
    listed = tree.expressions
    if not isinstance(tree, exp.Select) or len(listed) != 1 or tree.args.get("from_"):
        raise OnlySpark(text)
    found: exp.Expression = listed[0]
    return found


def is_conjunct(tree: exp.Expression) -> bool:
    """Is this, or its negation, one of the conditions that all have to be true?"""
    while isinstance(tree.parent, exp.Paren):
        tree = tree.parent
    if isinstance(tree.parent, exp.Not):
        tree = tree.parent
    while isinstance(tree.parent, exp.Paren | exp.And):
        tree = tree.parent
    return isinstance(tree.parent, exp.Select)
