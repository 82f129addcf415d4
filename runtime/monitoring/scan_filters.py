"""What of a system table a query asks for, by the plan that Spark makes of the query.

The query is planned over empty tables that Spark knows nothing of. Spark's optimizer resolves
names, folds constants such as ``now() - INTERVAL 1 HOUR`` and moves filters to the tables; here
only comparisons of a column with a constant are read off, directly above a table,
``ORDER BY t DESC LIMIT n`` above these, and which columns the plan names at all. Whatever else a
query has is Spark's alone: it makes the range no smaller, and Spark evaluates the whole query over
the rows.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame

from ctsql.runtime.monitoring.wanted import Comparison, Newest, Wanted, wanted

_OPS = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_TURNED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SORTED = ("t", "at")
_NAMING = (
    "Project", "Filter", "Aggregate", "Sort", "Join", "Window", "GlobalLimit", "LocalLimit",
    "LogicalRDD",
)  # fmt: skip
"""Operators that look at no column but those that they name."""


@dataclass(frozen=True, slots=True)
class _Limit:
    """At most so many rows are wanted; ``sorted_by``: with the greatest values of a column."""

    count: int
    sorted_by: int | None = None


@dataclass(frozen=True, slots=True)
class _Above:
    """What is directly above a part of a plan.

    Attributes:
        conditions: expressions of Catalyst, all of which must hold. limit: None for none.
    """

    conditions: tuple[Any, ...] = ()
    limit: _Limit | None = None


def asked_of(query: DataFrame, tables: Mapping[int, DataFrame]) -> dict[int, Wanted]:
    """What a query over unknown tables asks of each; nothing for one that it need not read.

    Args:
        tables: those of :func:`empty` that the query reads, by any key.
    """
    keys = {_rdd_of(frame._jdf.queryExecution().analyzed()): key for key, frame in tables.items()}
    plan = query._jdf.queryExecution().optimizedPlan()
    found: dict[int, Wanted] = {}
    parts = [plan, *_items(plan.subqueriesAll())]
    used = {i for part in parts for i in _used(part)}
    for scan, above in (one for part in parts for one in _scans(part, _Above())):
        key = keys.get(_rdd_of(scan))
        if key is not None:
            one = _wanted(scan, above, used)
            found[key] = found[key].hull(one) if key in found else one
    return found


def _scans(plan: Any, above: _Above) -> Iterator[tuple[Any, _Above]]:
    """The tables below a plan, each with what is directly above it."""
    match _short(plan):
        case "LogicalRDD":
            yield plan, above
            return
        case "Filter":
            below = _Above((*above.conditions, *_conjuncts(plan.condition())), above.limit)
        case "Project":
            below = above
        case "GlobalLimit" | "LocalLimit":
            # What is above a limit holds of the rows that it leaves, and makes no other ones count.
            count = _constant(plan.limitExpr())
            below = _Above(limit=_Limit(count) if isinstance(count, int) else None)
        case "Sort" if above.limit is not None and not above.conditions:
            below = _Above(limit=_sorted(plan, above.limit))
        case _:
            below = _Above()
    for child in _items(plan.children()):
        yield from _scans(child, below)


def _sorted(sort: Any, limit: _Limit) -> _Limit | None:
    """A limit above a sort; None unless it takes the greatest values of one column."""
    orders = list(_items(sort.order()))
    if limit.sorted_by is not None or len(orders) != 1 or not getattr(sort, "global")():
        return None
    (order,) = orders
    direction = f"{order.direction().sql()} {order.nullOrdering().sql()}"
    if _short(order.child()) != "AttributeReference" or direction != "DESC NULLS LAST":
        return None
    return _Limit(limit.count, _id(order.child()))


def _used(plan: Any) -> Iterator[int]:
    """The columns that a plan gives, or names anywhere."""
    yield from map(_id, _items(plan.output()))
    for node in _nodes(plan):
        yield from map(_id, _items(node.references().toSeq()))
        if _short(node) not in _NAMING:
            for child in _items(node.children()):
                yield from map(_id, _items(child.output()))


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in _items(plan.children()):
        yield from _nodes(child)


def _wanted(scan: Any, above: _Above, used: Collection[int]) -> Wanted:
    columns = {_id(a): str(a.name()) for a in _items(scan.output())}
    made = (_comparison(condition, columns) for condition in above.conditions)
    known = [one for one in made if one is not None]
    compared = {one.column for one in known}
    others = [c for c in above.conditions if not _is_implied(c, columns, compared)]
    newest = None
    if above.limit is not None and len(known) == len(others):
        by = "at" if above.limit.sorted_by is None else columns.get(above.limit.sorted_by)
        if by in _SORTED:
            newest = Newest(above.limit.count, str(by))
    named = frozenset(name for i, name in columns.items() if i in used)
    return replace(wanted(known, newest), columns=named)


def _is_implied(condition: Any, columns: Mapping[int, str], compared: Collection[str]) -> bool:
    """Whether it says that a column is not NULL that is compared with a constant anyway."""
    return _short(condition) == "IsNotNull" and _column(condition.child(), columns) in compared


def _comparison(condition: Any, columns: Mapping[int, str]) -> Comparison | None:
    """A condition as a comparison of a column with constants; None if it is another one."""
    name = _short(condition)
    if name in ("In", "InSet"):
        tested = condition.value() if name == "In" else condition.child()
        given = condition.list() if name == "In" else condition.hset()
        values = [_constant(v) if name == "In" else _value(v) for v in _items(given)]
        column = _column(tested, columns)
        known = tuple(v for v in values if v is not None)
        if column is None or len(known) < len(values):
            return None
        return Comparison(column, "in", known)
    op = _OPS.get(name)
    if op is None:
        return None
    for one, other, turned in (
        (condition.left(), condition.right(), op),
        (condition.right(), condition.left(), _TURNED[op]),
    ):
        column, value = _column(one, columns), _constant(other)
        if column is not None and value is not None:
            return Comparison(column, turned, (value,))
    return None


def _column(expression: Any, columns: Mapping[int, str]) -> str | None:
    is_column = _short(expression) == "AttributeReference"
    return columns.get(_id(expression)) if is_column else None


def _constant(expression: Any) -> int | str | None:
    """A constant that is a whole number, an instant in microseconds, or a text; else None."""
    return _value(expression.value()) if _short(expression) == "Literal" else None


def _value(value: Any) -> int | str | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | str):
        return value
    is_text = hasattr(value, "getClass") and _short(value).endswith("UTF8String")
    return str(value.toString()) if is_text else None


def _conjuncts(condition: Any) -> Iterator[Any]:
    if _short(condition) == "And":
        yield from _conjuncts(condition.left())
        yield from _conjuncts(condition.right())
    else:
        yield condition


def _rdd_of(plan: Any) -> int:
    """The number of a table's RDD; every such table has its own."""
    return int(plan.rdd().id())


def _id(attribute: Any) -> int:
    return int(attribute.exprId().id())


def _short(thing: Any) -> str:
    return str(thing.getClass().getSimpleName())


def _items(iterable: Any) -> Iterator[Any]:
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()
