"""Spark's optimized plans as Python values.

A part that is neither a plan nor an expression is read as its own parts, or as its text. Ids of
expressions are kept only where a column is computed or read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from ctsql.runtime.spark.internals.java import in_order, is_a, query_execution, scala_items, typed

_CATALYST = "org.apache.spark.sql.catalyst"
_KINDS = {
    "plan": f"{_CATALYST}.plans.logical.LogicalPlan",
    "attribute": f"{_CATALYST}.expressions.Attribute",
    "alias": f"{_CATALYST}.expressions.Alias",
    "variable": f"{_CATALYST}.expressions.NamedLambdaVariable",
    "expression": f"{_CATALYST}.expressions.Expression",
    "id": f"{_CATALYST}.expressions.ExprId",
    "sequence": "scala.collection.Seq",
    "many": "scala.collection.Iterable",
    "optional": "scala.Option",
    "rdd": "org.apache.spark.rdd.RDD",
    "metadata": "org.apache.spark.sql.types.Metadata",
    "value": "scala.Product",
}


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column that an expression reads."""

    id: int


@dataclass(frozen=True, slots=True)
class Alias:
    """A column that an expression computes."""

    id: int
    child: Any


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function of an expression: its class and its arguments."""

    name: str
    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class PlanOperator:
    """An operator of a plan."""

    name: str
    outputs: tuple[int, ...]  # the ids of its columns
    children: tuple["PlanOperator", ...]
    parts: tuple[Any, ...]  # in order; :data:`CHILD` for a child, or for the list of them


CHILD = ("child",)


_kind_of: dict[str, str] = {}  # the kind of each class met so far, by its name


def optimized_plan(frame: DataFrame) -> PlanOperator:
    """A query's optimized plan.

    The public API gives plans only as text. Needed: without it, each refresh recomputes its view.
    """
    return _Reader().plan(query_execution(frame).optimizedPlan())


class _Reader:
    """Reads one plan by few calls: a plan has thousands of parts."""

    def plan(self, plan: Any, name: str | None = None) -> PlanOperator:
        """``name``: of its class, if known."""
        children = list(in_order(plan.children()))
        return PlanOperator(
            _short(name or _class_of(plan)),
            tuple(typed(int, a.exprId().id()) for a in in_order(plan.output())),
            tuple(self.plan(child) for child in children),
            tuple(self._argument(part, children) for part in _arguments(plan)),
        )

    def _argument(self, part: Any, children: list[Any]) -> Any:
        """A part of a node: a child, the list of its children, or another part."""
        name = _class_of(part)
        if not children or name is None:
            return self._part(part, name)
        match self._kind(part, name):
            case "plan":
                return CHILD if _is_among(part, children) else self._part(part, name)
            case "sequence":
                each = [(e, _class_of(e)) for e in in_order(part)]
                plans = (n is not None and self._kind(e, n) == "plan" for e, n in each)
                if each and all(plans) and all(_is_among(e, children) for e, _ in each):
                    return CHILD
                return tuple(self._part(e, n) for e, n in each)
            case _:
                return self._part(part, name)

    def _kind(self, thing: Any, name: str) -> str:
        kind = _kind_of.get(name)
        if kind is None:
            kinds = (k for k, c in _KINDS.items() if is_a(thing, c))
            kind = _kind_of[name] = next(kinds, "other")
        return kind

    def _part(self, thing: Any, name: str | None) -> Any:
        """``name``: of its class; None for Python's own types."""
        if name is None:
            return thing
        match self._kind(thing, name):
            case "plan":
                return self.plan(thing, name)
            case "attribute":
                return Attribute(typed(int, thing.exprId().id()))
            case "alias":
                child = typed(object, thing.child())
                return Alias(typed(int, thing.exprId().id()), self._part(child, _class_of(child)))
            case "variable":
                return Call("NamedLambdaVariable", (Attribute(typed(int, thing.exprId().id())),))
            case "expression":
                return Call(_short(name), self._parts(_arguments(thing)))
            case "id":
                return "id"
            case "sequence":
                return self._parts(in_order(thing))
            case "many":
                return self._parts(scala_items(thing))
            case "optional":
                if not typed(bool, thing.isDefined()):
                    return ("none",)
                inner = thing.get()
                return ("some", self._part(inner, _class_of(inner)))
            case "rdd":
                return ("rdd", typed(int, thing.id()))
            case (
                "metadata"
            ):  # metadata of a column, such as its CHAR type; rows do not depend on it
                return "metadata"
            case "value":
                return (_short(name), *self._parts(_arguments(thing)))
            case _:
                return (name, typed(str, thing.toString()))

    def _parts(self, things: Iterator[Any]) -> tuple[Any, ...]:
        return tuple(self._part(each, _class_of(each)) for each in things)


def _class_of(thing: Any) -> str | None:
    """The name of an object's class; None for Python's own types."""
    if thing is None or isinstance(thing, str | int | float | bool | bytes):
        return None
    return typed(str, thing.getClass().getName())


def _short(name: str | None) -> str:
    """A class without its package."""
    return f"{name}".rsplit(".", 1)[-1]


def _is_among(part: Any, children: list[Any]) -> bool:
    return any(typed(bool, part.equals(child)) for child in children)


def _arguments(product: Any) -> Iterator[Any]:
    """The fields of a case class."""
    return (product.productElement(at) for at in range(product.productArity()))
