"""Do two queries have the same optimized plan, but for what columns are called?

``sameResult`` of Spark tells ``k`` from ``k AS x``, and a change plan's own text renames every
column. So plans are compared node by node and argument by argument, with these freedoms only:

- a column is known by where it comes from: each gets a number when it is first met, from the
  leaves up, and an alias of a bare column has the number of that column;
- a projection that passes on what its child gives, in order, is left out;
- an ORDER BY of the whole query, without LIMIT, is left out: a table has no order;
- the order of conjuncts, of disjuncts and of the two sides of ``=`` and ``<=>`` does not count;
- ids that Spark gives to expressions do not count.

Everything else, class names and all arguments of operators and functions, must be equal: what is
neither a plan nor an expression is compared by its text.
"""

from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark.sql import DataFrame

Form = tuple[Any, ...]
_CATALYST = "org.apache.spark.sql.catalyst"
_KINDS = {
    "plan": f"{_CATALYST}.plans.logical.LogicalPlan",
    "attribute": f"{_CATALYST}.expressions.Attribute",
    "alias": f"{_CATALYST}.expressions.Alias",
    "expression": f"{_CATALYST}.expressions.Expression",
    "id": f"{_CATALYST}.expressions.ExprId",
    "many": "scala.collection.Iterable",
    "optional": "scala.Option",
    "rdd": "org.apache.spark.rdd.RDD",
    "value": "scala.Product",
}
_UNORDERED = ("And", "Or")
_SYMMETRIC = ("EqualTo", "EqualNullSafe")


def same_plan(one: DataFrame, other: DataFrame) -> bool:
    """Are the optimized plans of two queries the same, but for names?"""
    first, second = (f._jdf.queryExecution().optimizedPlan() for f in (one, other))
    if first.sameResult(second):
        return True
    return plan_form(one) == plan_form(other)


def plan_form(frame: DataFrame) -> Form:
    """A query's optimized plan as a value that is equal for the same plans."""
    forms = _Forms(frame.sparkSession._sc._gateway)
    plan = frame._jdf.queryExecution().optimizedPlan()
    return (forms.plan(plan, is_root=True), tuple(forms.outputs(plan)))


class _Forms:
    """The forms of one plan.

    Args:
        gateway: of py4j.
    """

    def __init__(self, gateway: Any) -> None:
        self._gateway = gateway
        self._kinds: dict[str, str] = {}
        self._columns: dict[int, int] = {}
        self._columns_count = 0  # without those that share a number

    def _kind(self, thing: Any, name: str) -> str:
        known = self._kinds.get(name)
        if known is None:
            found = (k for k, c in _KINDS.items() if is_instance_of(self._gateway, thing, c))
            known = self._kinds[name] = next(found, "other")
        return known

    def form(self, thing: Any) -> Any:
        """The form of a node, of an expression, or of an argument of one."""
        if thing is None or isinstance(thing, str | int | float | bool | bytes):
            return thing
        name = str(thing.getClass().getName())
        match self._kind(thing, name):
            case "plan":
                return self.plan(thing)
            case "attribute":
                return ("column", self._column(thing))
            case "alias":
                return self._alias(thing)
            case "expression":
                return self._expression(thing, name)
            case "id":
                return "id"
            case "many":
                return tuple(self.form(each) for each in _items(thing))
            case "optional":
                return ("some", self.form(thing.get())) if thing.isDefined() else ("none",)
            case "rdd":
                return ("rdd", thing.id())
            case "value":
                return (name, *(self.form(each) for each in _items(thing.productIterator())))
            case _:
                return (name, str(thing.toString()))

    def _column(self, attribute: Any) -> int:
        return self._number(int(attribute.exprId().id()))

    def _number(self, known_as: int) -> int:
        if known_as not in self._columns:
            self._columns[known_as] = self._columns_count
            self._columns_count += 1
        return self._columns[known_as]

    def outputs(self, plan: Any) -> list[int]:
        """The columns that a node gives."""
        return [self._column(attribute) for attribute in _items(plan.output())]

    def plan(self, plan: Any, *, is_root: bool = False) -> Form:
        """The form of a node and of those below it; a root's own order does not count."""
        name = str(plan.getClass().getName())
        children = list(_items(plan.children()))
        if is_root and name.endswith(".Sort"):
            return self.plan(children[0], is_root=True)
        passes_order = is_root and name.endswith(".Project")
        below = [self.plan(child, is_root=passes_order) for child in children]
        if not children:
            return (name, tuple(self.outputs(plan)), *self._arguments(plan, children))
        arguments = self._arguments(plan, children)
        if name.endswith(".Project") and self.outputs(plan) == self.outputs(children[0]):
            return below[0]
        return (name, tuple(below), *arguments)

    def _arguments(self, plan: Any, children: list[Any]) -> list[Any]:
        """What a node is made of, but its children."""
        found = []
        for argument in _items(plan.productIterator()):
            is_child = hasattr(argument, "getClass") and any(argument.equals(c) for c in children)
            found.append("child" if is_child else self.form(argument))
        return found

    def _alias(self, alias: Any) -> Form:
        """An alias: its expression; of a bare column, that column."""
        inner = alias.child()
        form = self.form(inner)
        own = int(alias.exprId().id())
        if isinstance(form, tuple) and form[0] == "column":
            self._columns.setdefault(own, int(form[1]))
            return form
        return ("made", self._number(own), form)

    def _expression(self, expression: Any, name: str) -> Form:
        short = name.rsplit(".", 1)[-1]
        arguments = [self.form(each) for each in _items(expression.productIterator())]
        if short in _UNORDERED:
            parts = [p for a in arguments for p in (a[1:] if a[0] == name else (a,))]
            return (name, *sorted(parts, key=repr))
        if short in _SYMMETRIC:
            return (name, *sorted(arguments, key=repr))
        return (name, *arguments)


def _items(iterable: Any) -> Any:
    """The elements of a Scala collection or iterator."""
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()
