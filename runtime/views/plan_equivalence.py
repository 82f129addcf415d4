"""Compares two optimized plans: whether they compute the same rows, except for names. Pure.

Spark's ``sameResult`` distinguishes ``k`` and ``k AS x``, and a change plan renames and nests more
than the user did. So each plan gets a normal form, from the leaves up. Equal numbers are equal
forms, in both plans:

- a column is the expression that made it, down to the columns of leaves: projections vanish. A
  column made by an operator (aggregate, window function, outer join) belongs to that operator;
- adjacent filters and inner joins are one list of relations and one set of conditions; ``x IS NOT
  NULL`` next to a comparison with ``x`` is left out;
- a leaf is its number from the left: a table read twice is two leaves;
- an ORDER BY of the whole query without LIMIT is left out;
- the order of conjuncts, disjuncts, grouping columns and the sides of ``=``, ``<=>`` is ignored,
  and ``a > b`` is ``b < a``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ctsql.runtime.spark.internals.plan_reader import CHILD, Alias, Attribute, Call, PlanOperator

Columns = Mapping[int, int]  # the form of each column, by Spark's id

_INNER = ("Inner", "Cross")
_HALF = ("LeftSemi", "LeftAnti")
_SYMMETRIC = ("EqualTo", "EqualNullSafe")
_TURNED = {"GreaterThan": "LessThan", "GreaterThanOrEqual": "LessThanOrEqual"}
_COMPARING = ("EqualTo", "LessThan", "LessThanOrEqual")


def same_plan(one: PlanOperator, other: PlanOperator) -> bool:
    """Whether two plans provably return the same rows for any contents of the tables."""
    numbers: dict[Any, int] = {}
    try:
        return _Forms(numbers).root(one) == _Forms(numbers).root(other)
    except _UnknownColumn:
        return False


class _UnknownColumn(Exception):
    """A column that no operator below computes: this module misread an operator."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Joined relations, and the conditions on their rows."""

    sources: tuple[int, ...]  # forms, in order
    conditions: frozenset[int] = frozenset()  # forms
    columns: Columns = field(default_factory=dict)  # the columns


class _Forms:
    """The forms of one plan; ``numbers`` are shared by the plans that are compared."""

    def __init__(self, numbers: dict[Any, int]) -> None:
        self._numbering = numbers
        self._forms: dict[int, Any] = {}
        self._leaves = 0
        self._own: dict[int, int] = {}

    def root(self, plan: PlanOperator) -> tuple[int, ...]:
        """A whole query: its rows, and its columns in order."""
        rows = self.plan(_without_order(plan), {})
        return (self._whole(rows), *(self._column(i, rows.columns) for i in plan.outputs))

    def _number(self, *form: Any) -> int:
        number = self._numbering.setdefault(form, len(self._numbering))
        self._forms[number] = form
        return number

    def _column(self, column: int, columns: Columns) -> int:
        if column not in columns:
            raise _UnknownColumn(column)
        return columns[column]

    # ---- relations

    def plan(self, plan: PlanOperator, outer: Columns) -> _Rows:
        """The rows of a node; ``outer`` are columns of the queries around it."""
        below = [self.plan(child, outer) for child in plan.children]
        match plan.name, below:
            case "Project", [child]:
                return self._project(plan, child, outer)
            case "Filter", [child]:
                return self._filter(plan, child, outer)
            case "Join", [left, right]:
                return self._join(plan, left, right, outer)
            case "Aggregate", [child]:
                return self._aggregate(plan, child, outer)
            case "Window", [child]:
                return self._window(plan, child, outer)
            case "Generate", [child]:
                return self._generate(plan, child, outer)
            case _:
                return self._other(plan, below, outer)

    def _whole(self, rows: _Rows) -> int:
        conditions = self._telling(rows.conditions)
        if len(rows.sources) == 1 and not conditions:
            return rows.sources[0]
        return self._number("rows", rows.sources, conditions)

    def _telling(self, conditions: Iterable[int]) -> tuple[int, ...]:
        """Conditions without those that another one implies."""
        numbers = set(conditions)
        operands = set()
        for number in numbers:
            form = self._forms[number]
            if form[0] in _COMPARING:
                operands |= set(form[1:])
        null_tests = {n for n in numbers if self._forms[n][:1] == ("IsNotNull",)}
        null_tests = {n for n in null_tests if self._forms[n][1] in operands}
        return tuple(sorted(numbers - null_tests))

    def _project(self, plan: PlanOperator, child: _Rows, outer: Columns) -> _Rows:
        (items, *_) = plan.parts
        numbers = self._numbers(items, {**outer, **child.columns})
        return _Rows(child.sources, child.conditions, numbers)

    def _numbers(self, items: Iterable[Any], columns: Columns) -> dict[int, int]:
        numbers = {}
        for item in items:
            expr = item.child if isinstance(item, Alias) else item
            numbers[item.id] = self.expr(expr, columns)
        return numbers

    def _filter(self, plan: PlanOperator, child: _Rows, outer: Columns) -> _Rows:
        (condition, *_) = plan.parts
        more = self._conjuncts(condition, {**outer, **child.columns})
        return _Rows(child.sources, child.conditions | more, child.columns)

    def _conjuncts(self, condition: Any, columns: Columns) -> frozenset[int]:
        form = self._forms[self.expr(condition, columns)]
        return frozenset(form[1:] if form[0] == "And" else (self._number(*form),))

    def _join(self, plan: PlanOperator, left: _Rows, right: _Rows, outer: Columns) -> _Rows:
        _, _, kind, condition, *_ = plan.parts
        name = kind[0].removesuffix("$")
        both = {**outer, **left.columns, **right.columns}
        on = self._conjuncts(condition[1], both) if condition[0] == "some" else frozenset()
        if name in _INNER:
            conditions = left.conditions | right.conditions | on
            columns = {**left.columns, **right.columns}
            return _Rows(left.sources + right.sources, conditions, columns)
        number = self._number(name, self._whole(left), self._whole(right), self._telling(on))
        if name in _HALF:
            return _Rows((number,), columns=left.columns)
        if name == "ExistenceJoin":
            exists = self._number("exists", number)
            return _Rows((number,), columns={**left.columns, kind[1].id: exists})
        mine = dict(left.columns) if name == "LeftOuter" else self._pad(left, number)
        theirs = dict(right.columns) if name == "RightOuter" else self._pad(right, number)
        return _Rows((number,), columns={**mine, **theirs})

    def _pad(self, rows: _Rows, join: int) -> dict[int, int]:
        """Columns that are NULL where a join found no row."""
        return {c: self._number("or none", join, form) for c, form in rows.columns.items()}

    def _aggregate(self, plan: PlanOperator, child: _Rows, outer: Columns) -> _Rows:
        grouping, items, *_ = plan.parts
        columns = {**outer, **child.columns}
        keys = frozenset(self.expr(key, columns) for key in grouping)
        number = self._number("Aggregate", self._whole(child), tuple(sorted(keys)), bool(grouping))
        outputs = {}
        for item in items:
            expr = item.child if isinstance(item, Alias) else item
            outputs[item.id] = self._of_group(expr, columns, keys, number)
        return _Rows((number,), columns=outputs)

    def _of_group(self, expr: Any, columns: Columns, keys: frozenset[int], aggregate: int) -> int:
        """An expression over the results of an aggregate and its keys."""
        if not isinstance(expr, Call):
            return self._number("of", aggregate, self.expr(expr, columns))
        plain = self.expr(expr, columns)
        if plain in keys or expr.name == "AggregateExpression":
            return self._number("of", aggregate, plain)
        if not any(isinstance(p, Call | Attribute | tuple) for p in expr.parts):
            return plain  # a literal

        def part(each: Any) -> Any:
            if isinstance(each, Call | Attribute):
                return self._of_group(each, columns, keys, aggregate)
            if isinstance(each, tuple):
                return tuple(part(e) for e in each)
            return self.part(each, columns)

        return self._called(expr.name, [part(p) for p in expr.parts])

    def _window(self, plan: PlanOperator, child: _Rows, outer: Columns) -> _Rows:
        (items, *_) = plan.parts
        whole = self._whole(child)
        columns = {**outer, **child.columns}
        numbers = {}
        for item in items:
            form = self.expr(item, columns)
            # Spark passes columns of a correlated subquery through here, unchanged.
            is_call = isinstance(item, Alias)
            numbers[item.id] = self._number("over", whole, form) if is_call else form
        return _Rows((whole,), columns={**child.columns, **numbers})

    def _generate(self, plan: PlanOperator, child: _Rows, outer: Columns) -> _Rows:
        # Unneeded columns and the alias of the whole query change no row.
        generator, _, is_outer, _, outputs, *_ = plan.parts
        columns = {**outer, **child.columns}
        number = self._number(
            "Generate", self._whole(child), self.expr(generator, columns), is_outer
        )
        new = {a.id: self._number("made", number, i) for i, a in enumerate(outputs)}
        return _Rows((number,), columns={**child.columns, **new})

    def _other(self, plan: PlanOperator, below: list[_Rows], outer: Columns) -> _Rows:
        """Any other operator: all its arguments, and its inputs' columns in order."""
        is_passing = len(below) == 1 and plan.name in _PASSING
        children: tuple[Any, ...] = tuple(
            # Passed columns do not count: those of the whole query are compared.
            (self._whole(rows), *(self._column(i, rows.columns) for i in child.outputs))[
                : 1 if is_passing else None
            ]
            for rows, child in zip(below, plan.children, strict=True)
        )
        if not children:
            children = (("leaf", self._leaves),)
            self._leaves += 1
        read = dict(outer)
        for rows in below:
            read |= rows.columns
        own = {c: i for i, c in enumerate(plan.outputs) if c not in read}
        columns = read | {c: self._number("own", i) for c, i in own.items()}
        parts = tuple("child" if p == CHILD else self.part(p, columns) for p in plan.parts)
        number = self._number(plan.name, children, parts)
        outputs = {c: columns[c] for c in plan.outputs}
        if not is_passing:
            outputs = {c: self._number("made", number, i) for i, c in enumerate(plan.outputs)}
        return _Rows((number,), columns=outputs)

    # ---- expressions

    def expr(self, expr: Any, columns: Columns) -> int:
        match expr:
            case Attribute(column):
                return self._column(column, columns)
            case Alias(_, child):
                return self.expr(child, columns)
            case Call("OuterReference", (inner,)):
                return self.expr(inner, columns)
            case Call("NamedLambdaVariable", (Attribute(own),)):
                return self._number("variable", self._own.setdefault(own, len(self._own)))
            case Call(name, parts):
                return self._called(name, [self.part(part, columns) for part in parts])
        raise _UnknownColumn(expr)

    def part(self, part: Any, columns: Columns) -> Any:
        match part:
            case Attribute() | Alias() | Call():
                return self.expr(part, columns)
            case PlanOperator():
                rows = self.plan(part, columns)
                numbers = (self._column(i, rows.columns) for i in part.outputs)
                return ("plan", self._whole(rows), *numbers)
            case tuple():
                return tuple(self.part(each, columns) for each in part)
            case float():
                return ("float", repr(part))  # by repr: NaN equals itself, and -0.0 is not 0.0
            case _:
                # 1, 1.0 and True are equal in Python, but differ here.
                return (type(part).__name__, part)

    def _called(self, name: str, parts: list[Any]) -> int:
        short = name.rsplit(".", 1)[-1]
        if short in ("And", "Or"):
            flat: set[int] = set()
            for part in parts:
                form = self._forms[part]
                flat |= set(form[1:]) if form[0] == short else {part}
            return self._number(short, *sorted(flat))
        if short in _TURNED:
            short, parts = _TURNED[short], parts[::-1]
        if short in _SYMMETRIC:
            parts = sorted(parts)
        return self._number(short, *parts)


_PASSING = ("GlobalLimit", "LocalLimit", "Sort", "Offset", "WindowGroupLimit")
"""Operators with one input whose columns are that input's."""


def _without_order(plan: PlanOperator) -> PlanOperator:
    """A whole query without an ORDER BY that only orders the shown rows."""
    if plan.name == "Sort":
        return _without_order(plan.children[0])
    if plan.name == "Project":
        (child,) = plan.children
        return PlanOperator(plan.name, plan.outputs, (_without_order(child),), plan.parts)
    return plan
