"""When two of Spark's plans are the same, told by plans written by hand."""

import pytest

from ctsql.runtime.spark.internals.plan_reader import CHILD, Alias, Attribute, Call, PlanOperator
from ctsql.runtime.views.plan_equivalence import same_plan

INNER, LEFT, RIGHT = ("Inner$",), ("LeftOuter$",), ("RightOuter$",)


def table(*ids: int, rdd: int = 1) -> PlanOperator:
    """A leaf."""
    return PlanOperator("LogicalRDD", ids, (), (tuple(map(Attribute, ids)), ("rdd", rdd)))


def project(child: PlanOperator, *items: Attribute | Alias) -> PlanOperator:
    """Computed columns."""
    return PlanOperator("Project", tuple(i.id for i in items), (child,), (items, CHILD))


def where(child: PlanOperator, *conditions: Call) -> PlanOperator:
    """A filter by one or several conditions."""
    whole = conditions[0] if len(conditions) == 1 else Call("And", conditions)
    return PlanOperator("Filter", child.outputs, (child,), (whole, CHILD))


def join(
    left: PlanOperator, right: PlanOperator, condition: Call, kind: tuple[str, ...] = INNER
) -> PlanOperator:
    """A join."""
    parts = (CHILD, CHILD, kind, ("some", condition), "hint")
    return PlanOperator("Join", left.outputs + right.outputs, (left, right), parts)


def group(child: PlanOperator, keys: tuple[object, ...], *items: Attribute | Alias) -> PlanOperator:
    """An aggregate."""
    return PlanOperator(
        "Aggregate", tuple(i.id for i in items), (child,), (keys, items, CHILD, ("none",))
    )


def first(child: PlanOperator, key: Attribute | Call) -> PlanOperator:
    """The first row by an order."""
    order = PlanOperator("Sort", child.outputs, (child,), ((key,), True, CHILD))
    return PlanOperator("GlobalLimit", child.outputs, (order,), (1, CHILD))


def best(child: PlanOperator, key: int, by: int) -> PlanOperator:
    """The first rows of each window, which Spark finds out before it ranks all rows."""
    parts = ((col(key),), (col(by),), call("Rank", col(by)), 5, CHILD)
    return PlanOperator("WindowGroupLimit", child.outputs, (child,), parts)


def col(column: int) -> Attribute:
    """A column that is read."""
    return Attribute(column)


def call(name: str, *parts: object) -> Call:
    """A function."""
    return Call(name, parts)


def equal(one: int, other: int) -> Call:
    """``a = b``."""
    return call("EqualTo", col(one), col(other))


def plus_one(column: int) -> Call:
    """``a + 1``."""
    return call("Add", col(column), call("Literal", 1, ("IntegerType$",)))


def total(column: int) -> Call:
    """``sum(a)``."""
    return call("AggregateExpression", call("Sum", col(column)), "id")


def window(child: PlanOperator, *items: Attribute | Alias) -> PlanOperator:
    """Window functions, and columns that Spark passes on beside them."""
    outputs = (*child.outputs, *(i.id for i in items))
    return PlanOperator("Window", outputs, (child,), (items, (), (), CHILD))


SAME = {
    "a column beside a window function": (
        project(window(table(1, 2), Alias(3, total(1)), col(2)), col(2), col(3)),
        project(window(table(4, 5), Alias(6, total(4))), col(5), col(6)),
    ),
    "no number": (
        where(table(1), call("EqualTo", col(1), call("Literal", float("nan")))),
        where(table(1), call("EqualTo", col(1), call("Literal", float("nan")))),
    ),
    "names": (project(table(1, 2), Alias(3, col(2))), project(table(7, 8), Alias(9, col(8)))),
    "nested projections": (
        project(table(1), Alias(2, plus_one(1)), Alias(3, plus_one(1))),
        project(project(table(1), Alias(4, plus_one(1))), col(4), Alias(5, col(4))),
    ),
    "a filter above or below a projection": (
        where(project(table(1, 2), Alias(3, plus_one(1))), call("IsNull", col(3))),
        project(where(table(1, 2), call("IsNull", plus_one(1))), Alias(4, plus_one(1))),
    ),
    "filters in parts, and what a comparison implies": (
        where(table(1, 2), equal(1, 2), call("IsNotNull", col(1)), call("IsNull", col(2))),
        where(where(table(1, 2), call("IsNull", col(2))), equal(2, 1)),
    ),
    "turned comparison": (
        where(table(1, 2), call("GreaterThan", col(1), col(2))),
        where(table(1, 2), call("LessThan", col(2), col(1))),
    ),
    "computed inside or outside an aggregate": (
        group(table(1, 2), (col(1),), col(1), Alias(3, plus_one(1)), Alias(4, total(2))),
        project(
            group(table(1, 2), (col(1),), Alias(5, col(1)), Alias(6, total(2))),
            col(5),
            Alias(7, plus_one(5)),
            Alias(8, col(6)),
        ),
    ),
    "columns that pass a limit and are not wanted": (
        project(first(project(table(1, 2), col(1), Alias(3, plus_one(2))), col(3)), col(1)),
        project(first(table(4, 5), plus_one(5)), col(4)),
    ),
    "a column that is there twice below the first rows of each window": (
        project(best(project(table(1, 2), col(1), Alias(3, col(1)), col(2)), 3, 2), col(1)),
        project(best(table(4, 5), 4, 5), col(4)),
    ),
    "the order of the whole": (
        PlanOperator("Sort", (1,), (table(1),), ((col(1),), True, CHILD)),
        table(2),
    ),
}
OTHER = {
    "another column": (project(table(1, 2), col(1)), project(table(1, 2), col(2))),
    "columns swapped": (
        project(table(1, 2), col(1), col(2)),
        project(table(1, 2), col(2), col(1)),
    ),
    "another table": (table(1), table(1, rdd=2)),
    "another literal": (
        where(table(1), equal(1, 1), call("Literal", 1)),
        where(table(1), equal(1, 1), call("Literal", 1.0)),
    ),
    "zeros of two signs": (
        where(table(1), call("EqualTo", col(1), call("Literal", 0.0))),
        where(table(1), call("EqualTo", col(1), call("Literal", -0.0))),
    ),
    "sides of a self-join": (
        join(table(1, 2), table(3, 4), equal(1, 4)),
        join(table(1, 2), table(3, 4), equal(2, 3)),
    ),
    "one table's ids twice, told by where they are": (
        # Spark writes a CTE that is read twice so: the same leaf, renamed on one side.
        join(project(table(1, 2), Alias(5, col(1)), Alias(6, col(2))), table(1, 2), equal(5, 2)),
        join(project(table(1, 2), Alias(5, col(1)), Alias(6, col(2))), table(1, 2), equal(6, 1)),
    ),
    "above or below the side that may be missing": (
        project(
            join(table(1), project(table(2), Alias(3, plus_one(2))), equal(1, 3), LEFT), col(3)
        ),
        project(
            project(join(table(1), table(2), call("EqualTo", col(1), plus_one(2)), LEFT), col(2)),
            Alias(4, plus_one(2)),
        ),
    ),
    "a condition in ON or in WHERE": (
        join(table(1), table(2), call("And", equal(1, 2), call("IsNull", col(1))), LEFT),
        where(join(table(1), table(2), equal(1, 2), LEFT), call("IsNull", col(1))),
    ),
    "outer and inner": (
        join(table(1), table(2), equal(1, 2), LEFT),
        join(table(1), table(2), equal(1, 2)),
    ),
    "left and right": (
        join(table(1), table(2), equal(1, 2), LEFT),
        join(table(1), table(2), equal(1, 2), RIGHT),
    ),
    "groups or all": (
        group(table(1), (col(1),), Alias(2, total(1))),
        group(table(1), (), Alias(2, total(1))),
    ),
    "before or after grouping": (
        group(where(table(1, 2), call("IsNull", col(1))), (col(1),), Alias(3, total(2))),
        group(where(table(1, 2), call("IsNull", col(2))), (col(1),), Alias(3, total(2))),
    ),
    "a limit's order": (
        PlanOperator(
            "LocalLimit",
            (1,),
            (PlanOperator("Sort", (1,), (table(1),), ((col(1),), CHILD)),),
            (1, CHILD),
        ),
        PlanOperator("LocalLimit", (1,), (table(1),), (1, CHILD)),
    ),
    "another limit's order": (first(table(1, 2), col(1)), first(table(1, 2), col(2))),
    "columns of a limit swapped": (
        project(first(table(1, 2), col(1)), col(1)),
        project(first(table(1, 2), col(1)), col(2)),
    ),
    "columns of a union by place": (
        PlanOperator("Union", (1, 2), (table(1, 2), table(3, 4)), (CHILD, True)),
        PlanOperator(
            "Union", (1, 2), (table(1, 2), project(table(3, 4), col(4), col(3))), (CHILD, True)
        ),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_the_same(name: str) -> None:
    """Plans that differ in what changes no row."""
    one, other = SAME[name]
    assert same_plan(one, other)
    assert same_plan(other, one)


@pytest.mark.parametrize("name", OTHER)
def test_not_the_same(name: str) -> None:
    """Plans that may give other rows."""
    one, other = OTHER[name]
    assert not same_plan(one, other)
    assert not same_plan(other, one)


def test_a_column_from_nowhere_is_never_the_same() -> None:
    """What is not understood is not trusted, even beside itself."""
    lost = project(table(1), col(9))
    assert not same_plan(lost, lost)
