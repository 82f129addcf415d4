"""Spark's optimized plans as values of Python, read once over the gateway.

What is neither a plan nor an expression is kept by its parts if it has parts, else by its text.
Ids that Spark gives to expressions are kept where a column is made or read, and nowhere else.
"""

from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark.sql import DataFrame

_CATALYST = "org.apache.spark.sql.catalyst"
_KINDS = {
    "plan": f"{_CATALYST}.plans.logical.LogicalPlan",
    "attribute": f"{_CATALYST}.expressions.Attribute",
    "alias": f"{_CATALYST}.expressions.Alias",
    "variable": f"{_CATALYST}.expressions.NamedLambdaVariable",
    "expression": f"{_CATALYST}.expressions.Expression",
    "id": f"{_CATALYST}.expressions.ExprId",
    "many": "scala.collection.Iterable",
    "optional": "scala.Option",
    "rdd": "org.apache.spark.rdd.RDD",
    "metadata": "org.apache.spark.sql.types.Metadata",
    "value": "scala.Product",
}


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column that is read."""

    id: int


@dataclass(frozen=True, slots=True)
class Alias:
    """A column that is made."""

    id: int
    child: Any


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function of an expression, and all that it is made of.

    Attributes:
        name: the class. parts: expressions, plans, texts, and tuples of these.
    """

    name: str
    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """An operator of a plan.

    Attributes:
        name: the class, without its package. outputs: the ids of its columns.
        parts: what it is made of, in order; :data:`CHILD` for a child, or for the list of them.
    """

    name: str
    outputs: tuple[int, ...]
    children: tuple["Plan", ...]
    parts: tuple[Any, ...]


CHILD = ("child",)


def optimized(frame: DataFrame) -> Plan:
    """A query's optimized plan."""
    reader = _Reader(frame.sparkSession._sc._gateway)
    return reader.plan(frame._jdf.queryExecution().optimizedPlan())


class _Reader:
    """Reads one plan.

    Args:
        gateway: of py4j.
    """

    def __init__(self, gateway: Any) -> None:
        self._gateway = gateway
        self._kinds: dict[str, str] = {}

    def plan(self, plan: Any) -> Plan:
        children = list(_items(plan.children()))
        parts = []
        for part in _items(plan.productIterator()):
            parts.append(CHILD if self._is_child(part, children) else self._part(part))
        return Plan(
            _short(plan),
            tuple(int(a.exprId().id()) for a in _items(plan.output())),
            tuple(self.plan(child) for child in children),
            tuple(parts),
        )

    def _is_child(self, part: Any, children: list[Any]) -> bool:
        """Is an argument of a node a child of it, or the list of its children?"""
        if not children or not hasattr(part, "getClass"):
            return False
        match self._kind(part, str(part.getClass().getName())):
            case "plan":
                return any(part.equals(child) for child in children)
            case "many":
                each = list(_items(part))
                return bool(each) and all(
                    hasattr(e, "getClass") and self._is_child(e, children) for e in each
                )
            case _:
                return False

    def _kind(self, thing: Any, name: str) -> str:
        known = self._kinds.get(name)
        if known is None:
            found = (k for k, c in _KINDS.items() if is_instance_of(self._gateway, thing, c))
            known = self._kinds[name] = next(found, "other")
        return known

    def _part(self, thing: Any) -> Any:
        if thing is None or isinstance(thing, str | int | float | bool | bytes):
            return thing
        name = str(thing.getClass().getName())
        match self._kind(thing, name):
            case "plan":
                return self.plan(thing)
            case "attribute":
                return Attribute(int(thing.exprId().id()))
            case "alias":
                return Alias(int(thing.exprId().id()), self._part(thing.child()))
            case "variable":
                return Call("NamedLambdaVariable", (Attribute(int(thing.exprId().id())),))
            case "expression":
                return Call(_short(thing), self._parts(thing.productIterator()))
            case "id":
                return "id"
            case "many":
                return self._parts(thing)
            case "optional":
                return ("some", self._part(thing.get())) if thing.isDefined() else ("none",)
            case "rdd":
                return ("rdd", thing.id())
            case "metadata":  # notes on a column, as that it was a CHAR: rows do not depend on it
                return "metadata"
            case "value":
                return (_short(thing), *self._parts(thing.productIterator()))
            case _:
                return (name, str(thing.toString()))

    def _parts(self, iterable: Any) -> tuple[Any, ...]:
        return tuple(self._part(each) for each in _items(iterable))


def _short(thing: Any) -> str:
    """A class without Spark's own package."""
    return str(thing.getClass().getName()).removeprefix(f"{_CATALYST}.").rsplit(".", 1)[-1]


def _items(iterable: Any) -> Any:
    """The elements of a Scala collection or iterator."""
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()
