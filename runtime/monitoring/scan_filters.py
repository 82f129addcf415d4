"""What of a system table a query asks for, by the plan that Spark makes of the query.

The query is planned over empty tables that Spark knows nothing of. Spark's optimizer resolves
names, folds constants such as ``now() - INTERVAL 1 HOUR`` and moves filters to the tables; here
only comparisons of a column with a constant are read off, directly above a table,
``ORDER BY t DESC LIMIT n`` above these, and which columns the plan names at all. Whatever else a
query has is Spark's alone: it makes the range no smaller, and Spark evaluates the whole query over
the rows.

Spark tells the plan as JSON, in one call: a list of its operators, each in front of its children,
and expressions likewise (``TreeNode.toJSON``). What is read off that is pure.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame

from ctsql.runtime.monitoring.row_request import Comparison, Newest, RowRequest, request_of
from ctsql.runtime.spark.session import quick_setting

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
_TABLE = "LogicalRDD"
_NAMING = (
    "Project", "Filter", "Aggregate", "Sort", "Join", "Window", "GlobalLimit", "LocalLimit", _TABLE,
)  # fmt: skip
"""Operators that look at no column but those that they name."""
_MAKING = {"Project": "projectList", "Aggregate": "aggregateExpressions", _TABLE: "output"}
"""Operators whose columns are those of one field of theirs, and no others."""
_SETS_FROM = "spark.sql.optimizer.inSetConversionThreshold"
"""From so many values on Spark makes a set of an IN's list, and does not write it."""
_WHOLE = ("byte", "short", "integer", "long")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Node:
    """An operator of a plan, or a part of an expression.

    Attributes:
        name: its class, without the package. fields: as Spark writes them.
    """

    name: str
    fields: Mapping[str, Any]
    children: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class _Limit:
    """At most so many rows are wanted; ``sorted_by``: with the greatest values of a column."""

    count: int
    sorted_by: int | None = None


@dataclass(frozen=True, slots=True)
class _Above:
    """What is directly above a part of a plan.

    Attributes:
        conditions: all of which must hold. limit: None for none.
    """

    conditions: tuple[Node, ...] = ()
    limit: _Limit | None = None


def asked_of(query: DataFrame, tables: Mapping[int, DataFrame]) -> dict[int, RowRequest]:
    """What a query over unknown tables asks of each; nothing for one that it need not read.

    Args:
        tables: those of :func:`empty` that the query reads, by any key.
    """
    table_plans = {
        key: str(frame._jdf.queryExecution().analyzed().toJSON()) for key, frame in tables.items()
    }
    with quick_setting(query.sparkSession, _SETS_FROM, str(2**31 - 1)):
        plan = query._jdf.queryExecution().optimizedPlan()
    return asked_of_plan(str(plan.toJSON()), table_plans)


def asked_of_plan(plan: str, tables: Mapping[int, str]) -> dict[int, RowRequest]:
    """The same, of Spark's plans as JSON."""
    keys: dict[int, set[int]] = {}
    by_names: dict[tuple[str, ...], set[int]] = {}
    for key, text in tables.items():
        columns = _columns(_tree(json.loads(text)))
        by_names.setdefault(tuple(columns.values()), set()).add(key)
        for column in columns:
            keys[column] = {key}
    parts = list(_parts(json.loads(plan)))
    used = {i for part in parts for i in _used_columns(part)}
    requests: dict[int, RowRequest] = {}
    for scan, above in (one for part in parts for one in _scans(part, _Above())):
        columns = _columns(scan)
        # A table that is read twice has other ids the second time; it is one with these columns.
        others = by_names.get(tuple(columns.values()), set())
        for key in keys.get(next(iter(columns), -1), others):
            one = _request_of(columns, above, used)
            requests[key] = requests[key].hull(one) if key in requests else one
    return requests


# ---- the plan as Spark writes it


def _tree(nodes: Sequence[Mapping[str, Any]]) -> Node:
    """A node of the list of it and of all that is below it."""
    waiting = iter(nodes)

    def read() -> Node:
        fields = next(waiting)
        children = tuple(read() for _ in range(fields["num-children"]))
        return Node(str(fields["class"]).rsplit(".", 1)[-1], fields, children)

    return read()


def _parts(thing: Any) -> Iterator[Node]:
    """The plans in what Spark writes: the whole one, and those of subqueries in expressions."""
    if isinstance(thing, Mapping):
        for value in thing.values():
            yield from _parts(value)
    elif isinstance(thing, list):
        if thing and isinstance(thing[0], Mapping) and _is_plan(thing[0]):
            yield _tree(thing)
        for value in thing:
            yield from _parts(value)


def _is_plan(fields: Mapping[str, Any]) -> bool:
    kind = str(fields.get("class", ""))
    return ".catalyst.plans.logical." in kind or ".sql.execution." in kind


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _nodes(child)


def _ids(thing: Any) -> Iterator[int]:
    """The ids of the columns that are made or read somewhere."""
    if isinstance(thing, Mapping):
        if str(thing.get("product-class", "")).endswith(".ExprId"):
            yield int(thing["id"])
        for value in thing.values():
            yield from _ids(value)
    elif isinstance(thing, list):
        for value in thing:
            yield from _ids(value)


def _columns(scan: Node) -> dict[int, str]:
    """The names of a table's columns by their ids, in order."""
    return {_id(_tree(column)): str(column[0]["name"]) for column in scan.fields["output"]}


def _outputs(node: Node) -> Iterator[int]:
    """The columns that a plan gives, and maybe others."""
    if node.name in _MAKING:
        yield from _ids(node.fields[_MAKING[node.name]])
        return
    yield from _ids(node.fields)
    for child in node.children:
        yield from _outputs(child)


def _used_columns(plan: Node) -> Iterator[int]:
    """The columns that a plan gives, or names anywhere."""
    yield from _outputs(plan)
    for node in _nodes(plan):
        if node.name != _TABLE:
            yield from _ids(node.fields)
        if node.name not in _NAMING:
            for child in node.children:
                yield from _outputs(child)


def _expression(node: Node, field: str) -> Node | None:
    nodes = node.fields.get(field)
    return _tree(nodes) if nodes else None


# ---- what is asked of a table


def _scans(plan: Node, above: _Above) -> Iterator[tuple[Node, _Above]]:
    """The tables below a plan, each with what is directly above it."""
    match plan.name:
        case "LogicalRDD":
            yield plan, above
            return
        case "Filter":
            condition = _expression(plan, "condition")
            own = () if condition is None else tuple(_conjuncts(condition))
            below = _Above((*above.conditions, *own), above.limit)
        case "Project":
            below = above
        case "GlobalLimit" | "LocalLimit":
            # What is above a limit holds of the rows that it leaves, and makes no other ones count.
            count = _constant(_expression(plan, "limitExpr"))
            below = _Above(limit=_Limit(count) if isinstance(count, int) else None)
        case "Sort" if above.limit is not None and not above.conditions:
            below = _Above(limit=_limit_of(plan, above.limit))
        case _:
            below = _Above()
    for child in plan.children:
        yield from _scans(child, below)


def _limit_of(sort: Node, limit: _Limit) -> _Limit | None:
    """A limit above a sort; None unless it takes the greatest values of one column."""
    orders = sort.fields.get("order") or []
    if limit.sorted_by is not None or len(orders) != 1 or sort.fields.get("global") is not True:
        return None
    order = _tree(orders[0])
    kinds = [str(order.fields.get(kind)) for kind in ("direction", "nullOrdering")]
    (child,) = order.children
    is_down = "Descending$" in kinds[0] and "NullsLast$" in kinds[1]
    if child.name != "AttributeReference" or not is_down:
        return None
    return _Limit(limit.count, _id(child))


def _request_of(columns: Mapping[int, str], above: _Above, used: Collection[int]) -> RowRequest:
    candidates = (_comparison(condition, columns) for condition in above.conditions)
    comparisons = [one for one in candidates if one is not None]
    compared_columns = {one.column for one in comparisons}
    others = [c for c in above.conditions if not _is_implied(c, columns, compared_columns)]
    newest = None
    if above.limit is not None and len(comparisons) == len(others):
        by = "at" if above.limit.sorted_by is None else columns.get(above.limit.sorted_by)
        if by in _SORTED:
            newest = Newest(above.limit.count, str(by))
    names = frozenset(name for i, name in columns.items() if i in used)
    return replace(request_of(comparisons, newest), columns=names)


def _is_implied(
    condition: Node, columns: Mapping[int, str], compared_columns: Collection[str]
) -> bool:
    """Whether it says that a column is not NULL that is compared with a constant anyway."""
    is_test = condition.name == "IsNotNull"
    return is_test and _column(condition.children[0], columns) in compared_columns


def _comparison(condition: Node, columns: Mapping[int, str]) -> Comparison | None:
    """A condition as a comparison of a column with constants; None if it is another one."""
    if condition.name == "In":
        operand, *items = condition.children
        values = [_constant(one) for one in items]
        column = _column(operand, columns)
        constants = tuple(v for v in values if v is not None)
        if column is None or len(constants) < len(values):
            return None
        return Comparison(column, "in", constants)
    op = _OPS.get(condition.name)
    if op is None:
        return None
    left, right = condition.children
    for one, other, operator in ((left, right, op), (right, left, _TURNED[op])):
        column, value = _column(one, columns), _constant(other)
        if column is not None and value is not None:
            return Comparison(column, operator, (value,))
    return None


def _column(expression: Node, columns: Mapping[int, str]) -> str | None:
    is_column = expression.name == "AttributeReference"
    return columns.get(_id(expression)) if is_column else None


def _constant(expression: Node | None) -> int | str | None:
    """A constant that is a whole number, an instant in microseconds, or a text; else None."""
    if expression is None or expression.name != "Literal":
        return None
    value, kind = expression.fields.get("value"), expression.fields.get("dataType")
    if value is None:
        return None
    if kind in _WHOLE:
        return int(value)
    if kind == "timestamp":
        return _instant(str(value))
    return str(value) if kind == "string" else None


def _instant(text: str) -> int | None:
    """An instant as Spark shows it in UTC, in microseconds; None beyond what Python tells.

    >>> _instant("1970-01-01 00:00:01.5"), _instant("+12345-01-01 00:00:00")
    (1500000, None)
    """
    seconds, _, fraction = text.partition(".")
    try:
        moment = datetime.strptime(seconds, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return (moment - _EPOCH) // timedelta(microseconds=1) + int(fraction.ljust(6, "0") or "0")


def _conjuncts(condition: Node) -> Iterator[Node]:
    if condition.name == "And":
        for child in condition.children:
            yield from _conjuncts(child)
    else:
        yield condition


def _id(attribute: Node) -> int:
    return int(attribute.fields["exprId"]["id"])
