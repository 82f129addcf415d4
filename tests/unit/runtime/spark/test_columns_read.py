"""Which columns of a table a plan reads, told by plans written by hand."""

import pytest

from ctsql.runtime.spark.internals.plan_reader import CHILD, Alias, Attribute, Call, PlanOperator
from ctsql.runtime.statements.tables.columns_read import is_read

TABLE = PlanOperator("LogicalRDD", (1, 2), (), ((Attribute(1), Attribute(2)), ("rdd", 7)))
AGAIN = PlanOperator("LogicalRDD", (5, 6), (), ((Attribute(5), Attribute(6)), ("rdd", 7)))
OTHER = PlanOperator("LogicalRDD", (3, 4), (), ((Attribute(3), Attribute(4)), ("rdd", 8)))


def _project(child: PlanOperator, *items: Attribute | Alias) -> PlanOperator:
    return PlanOperator("Project", tuple(i.id for i in items), (child,), (items, CHILD))


def _where(child: PlanOperator, condition: object) -> PlanOperator:
    return PlanOperator("Filter", child.outputs, (child,), (condition, CHILD))


def _equal(one: int, other: int) -> Call:
    return Call("EqualTo", (Attribute(one), Attribute(other)))


def _join(left: PlanOperator, right: PlanOperator, condition: Call) -> PlanOperator:
    return PlanOperator("Join", left.outputs, (left, right), (CHILD, CHILD, ("some", condition)))


def _subquery(plan: PlanOperator) -> Call:
    return Call("ScalarSubquery", (plan,))


def _union(*children: PlanOperator) -> PlanOperator:
    return PlanOperator("Union", (8, 9), children, ((CHILD,), False))


@pytest.mark.parametrize(
    ("plan", "first", "second"),
    [
        (TABLE, True, True),
        (_project(TABLE, Attribute(1)), True, False),
        (_project(TABLE, Alias(9, Attribute(2))), False, True),
        (_project(TABLE, Alias(9, Call("Add", (Attribute(2), 1)))), False, True),
        (_project(_where(TABLE, _equal(2, 2)), Attribute(1)), True, True),
        (_join(_project(OTHER, Attribute(3)), TABLE, _equal(3, 2)), False, True),
        (_join(_project(TABLE, Attribute(1)), AGAIN, _equal(1, 6)), True, True),
        (_project(_where(OTHER, _subquery(_project(TABLE, Attribute(2)))), Attribute(3)), 0, 1),
        (_project(_where(OTHER, _subquery(_where(TABLE, _equal(1, 1)))), Attribute(3)), 1, 1),
        (_project(_union(TABLE, OTHER), Attribute(8)), True, True),
        (_union(_project(TABLE, Attribute(1)), OTHER), True, False),
        (OTHER, False, False),
    ],
)
def test_columns_read(plan: PlanOperator, first: bool, second: bool) -> None:
    """A column is read where an operator names it, passes it on by place, or the query gives it."""
    read = [is_read(plan, TABLE.parts, {place}) for place in (0, 1)]
    assert read == [bool(first), bool(second)]
