"""Expressions of Spark SQL as DuckDB's, with the type that Spark gives them.

What stands in :class:`Expressions` means the same to both, and nothing else is translated. DuckDB's
own rules for types never count: where two types meet, both sides are cast to what Spark would bring
them to. A cast, sum or division that fails here is run again by Spark, which then says why.
"""

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from ctsql.planner.changes.in_process.trees import COMPARED, bound, is_conjunct, parsed
from ctsql.planner.changes.in_process.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    NULL,
    STRING,
    OnlySpark,
    Type,
    adjusted,
    common,
    decimal,
    type_of,
)
from ctsql.planner.changes.in_process.values import (
    Division,
    Typed,
    cast_text,
    date_of,
    decimal_of,
    is_cast_alike,
    number,
    roomy,
    written,
)
from ctsql.planner.changes.nodes import PREFIX, Col, Expr, Node, Part
from ctsql.planner.changes.printing import joined

_EXACT_MAX = 2**53  # up to here every whole number is a double
_PARTS_OF_DATE = {"YEAR": "year", "MONTH": "month", "DAY": "day", "QUARTER": "quarter"}


class Expressions:
    """Translates the expressions of one text.

    Args:
        types: of the columns in sight. query: a subquery's text, and the types of its columns.

    Attributes:
        divisions: the functions that the texts call.
    """

    def __init__(self, query: Callable[[Node, Mapping[Col, Type]], tuple[str, list[Type]]]) -> None:
        self.divisions: dict[str, Division] = {}
        self._query = query

    def translate(self, expr: Expr, types: Mapping[Col, Type], *, is_filter: bool = False) -> Typed:
        """An expression.

        Args:
            is_filter: rows are left out for which it is not true.

        Raises:
            OnlySpark: a part of it means something else to DuckDB, or may.
        """
        if expr.column is not None and expr.column in types:
            return Typed(expr.column.sql, types[expr.column])
        return _Scope(self, expr.parts, types, is_filter=is_filter).translated()

    def subquery(self, node: Node, types: Mapping[Col, Type]) -> tuple[str, list[Type]]:
        """A subquery's text and the types of its columns."""
        return self._query(node, types)

    def divide(self, left: Typed, right: Typed, made: Type) -> str:
        """The text of a division of decimals."""
        one = Division(left.type, right.type, made)
        self.divisions[one.name] = one
        return f"{one.name}({left.sql}, {right.sql})"


class _Scope:
    """One expression, and what the names in it mean."""

    def __init__(
        self,
        around: Expressions,
        parts: Sequence[Part],
        types: Mapping[Col, Type],
        *,
        is_filter: bool,
    ) -> None:
        self.around = around
        self.is_filter = is_filter
        self.types = types
        self.columns: dict[str, Col] = {}
        self.queries: dict[str, Node] = {}
        texts = []
        for part in bound(parts):
            match part:
                case str():
                    if "\\" in part:
                        raise OnlySpark("a text with an escape")
                    texts.append(part)
                case Col():
                    self.columns[part.sql] = part
                    texts.append(part.sql)
                case _:
                    name = f"{PREFIX}q{len(self.queries)}"
                    self.queries[name] = part.node
                    texts.append(f"(SELECT {name})")
        self.text = joined(texts)

    def translated(self) -> Typed:
        return self.of(parsed(self.text))

    def of(self, tree: exp.Expression) -> Typed:
        """A tree, by its kind."""
        compared = COMPARED.get(type(tree))
        if compared is not None:
            return self._compared(tree, compared)
        made = _TRANSLATED.get(type(tree))
        if made is None:
            raise OnlySpark(type(tree).__name__)
        return made(self, tree)

    def _test(self, tree: exp.Expression) -> str:
        found = self.of(tree)
        if found.type not in (BOOLEAN, NULL):
            raise OnlySpark("a condition that is no boolean")
        return found.cast(BOOLEAN)

    # ---- what stands for itself

    def _column(self, tree: exp.Expression) -> Typed:
        col = self.columns.get(tree.name)
        if col is None or tree.args.get("table") or col not in self.types:
            raise OnlySpark(f"column {tree.name}")
        return Typed(col.sql, self.types[col])

    def _paren(self, tree: exp.Expression) -> Typed:
        return self.of(tree.this)

    def _null(self, _: exp.Expression) -> Typed:
        return Typed("NULL", NULL)

    def _boolean(self, tree: exp.Expression) -> Typed:
        return Typed("true" if tree.this else "false", BOOLEAN)

    def _literal(self, tree: exp.Expression) -> Typed:
        text = str(tree.this)
        if tree.is_string:
            return Typed("'" + text.replace("'", "''") + "'", STRING)
        return number(text)

    def _neg(self, tree: exp.Expression) -> Typed:
        inner = tree.this
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return number(str(inner.this), "-")
        value = self.of(inner)
        if not (value.type.is_integer or value.type.is_decimal):
            raise OnlySpark("the negative of what is no number")
        return Typed(f"(- {value.sql})", value.type)

    # ---- logic

    def _and_or(self, tree: exp.Expression) -> Typed:
        return Typed(f"({' AND '.join(self._all_of(tree))})", BOOLEAN)

    def _all_of(self, tree: exp.Expression) -> list[str]:
        """Tests that are all true where a condition is; what both sides of OR ask, asked once.

        An equality found so is one to join by: TPC-H's query 19 has it in each of three sides.
        """
        if isinstance(tree, exp.Paren):
            return self._all_of(tree.this)
        if not isinstance(tree, exp.And | exp.Or):
            return [self._test(tree)]
        left, right = self._all_of(tree.this), self._all_of(tree.expression)
        if isinstance(tree, exp.And):
            return left + right
        both = [one for one in left if one in right]
        rests = [[one for one in side if one not in both] for side in (left, right)]
        if not all(rests):
            return both
        sides = (f"({' AND '.join(rest)})" for rest in rests)
        return [*both, f"({' OR '.join(sides)})"]

    def _not(self, tree: exp.Expression) -> Typed:
        return Typed(f"(NOT {self._test(tree.this)})", BOOLEAN)

    def _is(self, tree: exp.Expression) -> Typed:
        if not isinstance(tree.expression, exp.Null):
            raise OnlySpark("IS with another than NULL")
        return Typed(f"({self.of(tree.this).sql} IS NULL)", BOOLEAN)

    def _compared(self, tree: exp.Expression, operator: str) -> Typed:
        left, right = self._same([self.of(tree.this), self.of(tree.expression)], binary=True)
        return Typed(f"({left} {operator} {right})", BOOLEAN)

    def _same(self, values: list[Typed], *, binary: bool = False) -> list[str]:
        """Texts of values that are compared, with one type.

        Args:
            binary: two of them; a number that is written out then has no more digits than it has.
        """
        kinds = [v.type for v in values]
        if DATE in kinds and STRING in kinds:
            values = [date_of(v) for v in values]
            kinds = [v.type for v in values]
        if binary and any(k.is_decimal for k in kinds):
            kinds = [Type("decimal", v.digits, 0) if v.digits else v.type for v in values]
        kind = common(kinds)
        if not kind.is_comparable:
            raise OnlySpark(f"{kind.spark} compared")
        return [v.cast(kind) for v in values]

    def _between(self, tree: exp.Expression) -> Typed:
        value = self.of(tree.this)
        texts = []
        for limit, operator in ((tree.args["low"], ">="), (tree.args["high"], "<=")):
            left, right = self._same([value, self.of(limit)], binary=True)
            texts.append(f"{left} {operator} {right}")
        return self._negated(f"({texts[0]} AND {texts[1]})", tree)

    def _in(self, tree: exp.Expression) -> Typed:
        value = self.of(tree.this)
        query = tree.args.get("query")
        if query is None:
            if tree.args.get("unnest") or tree.args.get("field"):
                raise OnlySpark("IN with no list")
            texts = self._same([value, *(self.of(one) for one in tree.expressions)])
            return self._negated(f"({texts[0]} IN ({', '.join(texts[1:])}))", tree)
        if not (self.is_filter and is_conjunct(tree)):
            raise OnlySpark("IN as a value: Spark has no NULL there")
        text, kinds = self._subquery(query.this)
        if len(kinds) != 1 or kinds[0] != value.type or not value.type.is_comparable:
            raise OnlySpark("IN over another type")
        return self._negated(f"({value.sql} IN ({text}))", tree)

    def _negated(self, text: str, tree: exp.Expression) -> Typed:
        return Typed(f"(NOT {text})" if tree.args.get("negate") else text, BOOLEAN)

    def _exists(self, tree: exp.Expression) -> Typed:
        text, _ = self._subquery(tree.this)
        return Typed(f"EXISTS ({text})", BOOLEAN)

    def _subquery(self, tree: exp.Expression) -> tuple[str, list[Type]]:
        """The text of what stands in an expression as a SELECT of one name."""
        listed = tree.expressions if isinstance(tree, exp.Select) else []
        name = listed[0].name if len(listed) == 1 and isinstance(listed[0], exp.Column) else ""
        node = self.queries.get(name)
        if node is None:
            raise OnlySpark("a subquery")
        return self.around.subquery(node, self.types)

    def _scalar(self, tree: exp.Expression) -> Typed:
        text, kinds = self._subquery(tree.this)
        if len(kinds) != 1:
            raise OnlySpark("a row of several columns")
        return Typed(f"({text})", kinds[0])

    # ---- numbers

    def _operands(self, tree: exp.Expression) -> tuple[Typed, Typed]:
        """Two numbers; one that is written out beside a decimal has the digits that it has."""
        left, right = self.of(tree.this), self.of(tree.expression)
        for one in (left, right):
            if not (one.type.is_integer or one.type.is_decimal):
                raise OnlySpark(f"arithmetic with {one.type.spark}")
        if left.type.is_decimal or right.type.is_decimal:
            left, right = (decimal_of(one) for one in (left, right))
        return left, right

    def _plus_or_minus(self, tree: exp.Expression) -> Typed:
        operator = "+" if isinstance(tree, exp.Add) else "-"
        left, right = self._operands(tree)
        if not left.type.is_decimal:
            return self._integers(left, right, operator)
        a, b = left.type, right.type
        places = max(a.places, b.places)
        whole = max(a.digits - a.places, b.digits - b.places)
        made = decimal(whole + places + 1, places)
        return Typed(cast_text(f"({roomy(left)} {operator} {right.sql})", made), made)

    def _integers(self, left: Typed, right: Typed, operator: str) -> Typed:
        made = common([left.type, right.type])
        text = f"({left.cast(made)} {operator} {right.cast(made)})"
        return Typed(cast_text(text, made), made)

    def _mul(self, tree: exp.Expression) -> Typed:
        left, right = self._operands(tree)
        if not left.type.is_decimal:
            return self._integers(left, right, "*")
        made = decimal(
            left.type.digits + right.type.digits + 1, left.type.places + right.type.places
        )
        return Typed(cast_text(f"({roomy(left)} * {right.sql})", made), made)

    def _div(self, tree: exp.Expression) -> Typed:
        dividend, divisor = self.of(tree.this), self.of(tree.expression)
        if dividend.type == DOUBLE and divisor.type.is_integer:
            zero = f"{divisor.sql} = 0"
            text = f"({dividend.sql} / {divisor.cast(DOUBLE)})"
            return Typed(f"(CASE WHEN {zero} THEN error('zero') ELSE {text} END)", DOUBLE)
        left, right = self._operands(tree)
        if not left.type.is_decimal:
            raise OnlySpark("a quotient of whole numbers")
        a, b = left.type, right.type
        places = max(6, a.places + b.digits + 1)
        made = adjusted(a.digits - a.places + b.places + places, places)
        return Typed(self.around.divide(left, right, made), made)

    def _abs(self, tree: exp.Expression) -> Typed:
        value = self.of(tree.this)
        if not (value.type.is_integer or value.type.is_decimal):
            raise OnlySpark("abs of what is no number")
        return Typed(f"abs({value.sql})", value.type)

    # ---- choices and casts

    def _case(self, tree: exp.Expression) -> Typed:
        if tree.this is not None:
            raise OnlySpark("CASE with a value")
        tests = [self._test(one.this) for one in tree.args["ifs"]]
        values = [self.of(one.args["true"]) for one in tree.args["ifs"]]
        default = tree.args.get("default")
        values.append(Typed("NULL", NULL) if default is None else self.of(default))
        return self._chosen(tests, values)

    def _if(self, tree: exp.Expression) -> Typed:
        other = tree.args.get("false")
        values = [self.of(tree.args["true"])]
        values.append(Typed("NULL", NULL) if other is None else self.of(other))
        return self._chosen([self._test(tree.this)], values)

    def _chosen(self, tests: list[str], values: list[Typed]) -> Typed:
        kind = common([v.type for v in values])
        texts = [v.cast(kind) for v in values]
        whens = " ".join(f"WHEN {t} THEN {v}" for t, v in zip(tests, texts, strict=False))
        return Typed(f"(CASE {whens} ELSE {texts[-1]} END)", kind)

    def _coalesce(self, tree: exp.Expression) -> Typed:
        values = [self.of(one) for one in (tree.this, *tree.expressions)]
        kind = common([v.type for v in values])
        return Typed(f"coalesce({', '.join(v.cast(kind) for v in values)})", kind)

    def _trycast(self, tree: exp.Expression) -> Typed:
        """Spark's CAST, as sqlglot calls it; TRY_CAST it calls the same, but says so."""
        if tree.args.get("safe"):
            raise OnlySpark("TRY_CAST")
        return self._cast(tree)

    def _cast(self, tree: exp.Expression) -> Typed:
        value = self.of(tree.this)
        kind = type_of(tree.args["to"].sql(dialect="spark").lower().replace(" ", ""))
        if kind == DATE and value.type == STRING:
            return date_of(value)
        if not is_cast_alike(value.type, kind):
            raise OnlySpark(f"a cast from {value.type.spark} to {kind.spark}")
        return Typed(f"CAST({value.sql} AS {kind.sql})", kind)

    # ---- texts and dates

    def _like(self, tree: exp.Expression) -> Typed:
        value, pattern = self.of(tree.this), tree.expression
        if not (isinstance(pattern, exp.Literal) and pattern.is_string and value.type == STRING):
            raise OnlySpark("LIKE with no written pattern")
        return self._negated(f"({value.sql} LIKE {self.of(pattern).sql})", tree)

    def _substring(self, tree: exp.Expression) -> Typed:
        value = self.of(tree.this)
        numbers = [written(tree.args.get(arg)) for arg in ("start", "length")]
        if value.type != STRING or None in numbers or numbers[0] == 0:
            raise OnlySpark("SUBSTRING with no written places")
        return Typed(f"substring({value.sql}, {numbers[0]}, {numbers[1]})", STRING)

    def _part_of_date(self, tree: exp.Expression) -> Typed:
        is_extract = isinstance(tree, exp.Extract)
        name = tree.name.upper() if is_extract else type(tree).__name__.upper()
        value = self.of(tree.expression if is_extract else tree.this)
        if name not in _PARTS_OF_DATE or value.type != DATE:
            raise OnlySpark(f"{name} of {value.type.spark}")
        return Typed(f"CAST({_PARTS_OF_DATE[name]}({value.sql}) AS INTEGER)", INT)

    def _tsordstodate(self, tree: exp.Expression) -> Typed:
        """What sqlglot puts around the argument of YEAR."""
        value = self.of(tree.this)
        if value.type != DATE or tree.args.get("format"):
            raise OnlySpark("a date of another type")
        return value

    # ---- aggregates

    def _count(self, tree: exp.Expression) -> Typed:
        inner = tree.this
        if isinstance(inner, exp.Star):
            return Typed("count(*)", BIGINT)
        if tree.expressions:
            raise OnlySpark("count of several")
        distinct, value = self._argument(inner)
        return Typed(f"count({distinct}{value.sql})", BIGINT)

    def _argument(self, tree: exp.Expression) -> tuple[str, Typed]:
        if not isinstance(tree, exp.Distinct):
            return "", self.of(tree)
        value = self.of(tree.expressions[0])
        if len(tree.expressions) != 1 or not value.type.is_comparable:
            raise OnlySpark("DISTINCT of several, or of fractions")
        return "DISTINCT ", value

    def _summed(self, tree: exp.Expression) -> Typed:
        """A function over what is added up."""
        distinct, value = self._argument(tree)
        if value.type.is_integer:
            return Typed(f"sum({distinct}{value.sql})", BIGINT)
        if not value.type.is_decimal:
            raise OnlySpark(f"the sum of {value.type.spark}")
        digits = min(38, value.type.digits + 10)
        return Typed(f"sum({distinct}{value.sql})", Type("decimal", digits, value.type.places))

    def _sum(self, tree: exp.Expression) -> Typed:
        total = self._summed(tree.this)
        return Typed(cast_text(total.sql, total.type), total.type)

    def _avg(self, tree: exp.Expression) -> Typed:
        distinct, value = self._argument(tree.this)
        count = f"count({distinct}{value.sql})"
        total = self._summed(tree.this)
        if total.type == BIGINT:
            # Spark adds up doubles: the same as long as each of the sums is one exactly.
            size = f"sum(abs(CAST({value.sql} AS HUGEINT)))"
            if distinct:
                raise OnlySpark("avg(DISTINCT) of whole numbers")
            quotient = f"CAST({total.sql} AS DOUBLE) / {count}"
            tests = f"WHEN {count} = 0 THEN NULL WHEN {size} > {_EXACT_MAX} THEN error('inexact')"
            return Typed(f"(CASE {tests} ELSE {quotient} END)", DOUBLE)
        made = adjusted(value.type.digits + 4, value.type.places + 4)
        if made.places != value.type.places + 4:
            raise OnlySpark("an average that is rounded")
        left = Typed(cast_text(total.sql, total.type), total.type)
        right = Typed(f"CAST(nullif({count}, 0) AS DECIMAL(20,0))", Type("decimal", 20, 0))
        return Typed(self.around.divide(left, right, made), made)

    def _extreme(self, tree: exp.Expression) -> Typed:
        value, name = self.of(tree.this), type(tree).__name__.lower()
        if tree.expressions or not value.type.is_comparable:
            raise OnlySpark(f"{name} of {value.type.spark}")
        return Typed(f"{name}({value.sql})", value.type)

    def _filter(self, tree: exp.Expression) -> Typed:
        """Only a NULL of a column's type: what the rule for groups without keys needs."""
        where = tree.expression.this
        if not isinstance(tree.this, exp.AnyValue) or where != exp.false():
            raise OnlySpark("FILTER")
        value = self.of(tree.this.this)
        return Typed(f"any_value({value.sql}) FILTER (WHERE false)", value.type)


_TRANSLATED: dict[type[exp.Expression], Callable[[_Scope, exp.Expression], Typed]] = {
    exp.Column: _Scope._column,
    exp.Paren: _Scope._paren,
    exp.Null: _Scope._null,
    exp.Boolean: _Scope._boolean,
    exp.Literal: _Scope._literal,
    exp.Neg: _Scope._neg,
    exp.And: _Scope._and_or,
    exp.Or: _Scope._and_or,
    exp.Not: _Scope._not,
    exp.Is: _Scope._is,
    exp.Between: _Scope._between,
    exp.In: _Scope._in,
    exp.Exists: _Scope._exists,
    exp.Add: _Scope._plus_or_minus,
    exp.Sub: _Scope._plus_or_minus,
    exp.Mul: _Scope._mul,
    exp.Div: _Scope._div,
    exp.Abs: _Scope._abs,
    exp.Case: _Scope._case,
    exp.If: _Scope._if,
    exp.Coalesce: _Scope._coalesce,
    exp.TryCast: _Scope._trycast,
    exp.Cast: _Scope._cast,
    exp.Like: _Scope._like,
    exp.Substring: _Scope._substring,
    exp.Extract: _Scope._part_of_date,
    exp.Year: _Scope._part_of_date,
    exp.Month: _Scope._part_of_date,
    exp.TsOrDsToDate: _Scope._tsordstodate,
    exp.Count: _Scope._count,
    exp.Sum: _Scope._sum,
    exp.Avg: _Scope._avg,
    exp.Max: _Scope._extreme,
    exp.Min: _Scope._extreme,
    exp.Filter: _Scope._filter,
    exp.Subquery: _Scope._scalar,
}
