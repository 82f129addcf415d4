"""Where rows come from, by brute force: a query evaluated operator by operator, row by row.

Each row carries the stored rows that it comes from, by the definitions alone: nothing is rewritten.
DuckDB gives the value of single expressions, and of an aggregate over given rows.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import duckdb

from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.traversal import own_subqueries, subqueries
from ctsql.planner.ivm.sql.spark import Printer, join_texts, name_by
from tests.differential.plans_on_duckdb import frozen, translated

Env = dict[alg.Col, Any]
From = frozenset[tuple[alg.Scan, int]]
Row = tuple[Env, From]
NOWHERE: From = frozenset()
_ANSWERS: dict[str, list[tuple[Any, ...]]] = {}
"""The rows of each text that reads no table: the same few values come in query after query."""


class UnsupportedQuery(Exception):
    """What is not evaluated here."""


def literal(value: Any) -> str:
    """A value as SQL."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case Decimal():
            return f"CAST('{value}' AS DECIMAL(20, 4))"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case float():
            return f"CAST('{value}' AS DOUBLE)"
        case int():
            return f"({value})"
        case list():
            return f"array({', '.join(map(literal, value))})"
        case _:
            raise UnsupportedQuery(type(value).__name__)


class ByHand:
    """Evaluates queries over tables in memory.

    Args:
        tables: the rows of each by name, each row a mapping of column to value.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, tables: Mapping[str, list[dict[str, Any]]]
    ) -> None:
        self.connection = connection
        self.tables = tables

    def ask(self, spark_sql: str) -> list[tuple[Any, ...]]:
        """The rows of a text that reads no table."""
        if spark_sql not in _ANSWERS:
            _ANSWERS[spark_sql] = self.connection.execute(translated(spark_sql)).fetchall()
        return _ANSWERS[spark_sql]

    # ---- expressions

    def text(self, expr: alg.Expr, env: Env) -> str:
        """An expression with the values of a row."""
        found = []
        for part in expr.parts:
            match part:
                case alg.Col():
                    found.append(literal(env[part]) if part in env else part.sql)
                case alg.Subquery():
                    rows = [
                        tuple(r[c] for c in part.node.columns) for r, _ in self.rows(part.node, env)
                    ]
                    found.append(self.inline(rows, len(part.node.columns)))
                case str():
                    found.append(part)
                case _:
                    raise UnsupportedQuery("a clock")
        return join_texts(found)

    def inline(self, rows: Iterable[Sequence[Any]], width: int) -> str:
        """Rows as a subquery."""
        listed = [", ".join(map(literal, row)) or "1" for row in rows]
        if not listed:
            return f"(SELECT {', '.join(['NULL'] * max(width, 1))} WHERE 1 = 0)"
        return "(" + " UNION ALL ".join(f"SELECT {row}" for row in listed) + ")"

    def value(self, expr: alg.Expr, env: Env) -> Any:
        """The value of an expression for a row."""
        return self.ask(f"SELECT {self.text(expr, env)}")[0][0]

    def holds(self, conditions: Iterable[alg.Expr], env: Env) -> bool:
        """Whether all conditions are true."""
        return all(self.value(c, env) is True for c in conditions)

    def found_by(self, node: alg.Node, env: Env) -> From:
        """What the subqueries in a node's expressions found for a row."""
        found = NOWHERE
        for inner in own_subqueries(node):
            for row, where in self.rows(inner.node, env):
                if inner.kind not in (alg.SubqueryKind.EXISTS, alg.SubqueryKind.SCALAR):
                    if inner.left is None:
                        raise UnsupportedQuery("IN behind what is not known")
                    values = ", ".join(literal(row[c]) for c in inner.node.columns)
                    test = alg.Expr.of(inner.left, "IN ( (", values, ") )")
                    if self.value(test, env) is not True:
                        continue
                found |= where
        return found

    # ---- relations

    def rows(self, node: alg.Node, env: Env) -> list[Row]:
        """The rows of a node, for a row around it."""
        match node:
            case alg.Scan():
                pairs = list(zip(node.names, node.columns, strict=True))
                return [
                    ({c: row[n] for n, c in pairs}, frozenset({(node, i)}))
                    for i, row in enumerate(self.tables[node.table])
                ]
            case alg.Values():
                made = self.ask(Printer(name_by(lambda u: u.table)).query(node))
                return [(dict(zip(node.columns, row, strict=True)), NOWHERE) for row in made]
            case alg.Filter():
                return [
                    (row, where | self.found_by(node, {**env, **row}))
                    for row, where in self.rows(node.child, env)
                    if self.holds(node.predicates, {**env, **row})
                ]
            case alg.Project():
                return [
                    (
                        {i.col: self.value(i.expr, {**env, **row}) for i in node.items},
                        where | self.found_by(node, {**env, **row}),
                    )
                    for row, where in self.rows(node.child, env)
                ]
            case alg.Join():
                return self._join(node, env)
            case alg.OuterOrSemiJoin():
                return self._side_join(node, env)
            case alg.LateralJoin():
                return self._lateral(node, env)
            case alg.Generate():
                return self._generate(node, env)
            case alg.Aggregate():
                return self._aggregate(node, env)
            case alg.Distinct():
                return [
                    (rows[0][0], _union(rows))
                    for rows in _groups(self.rows(node.child, env), node.columns).values()
                ]
            case alg.SetOperation():
                return self._set_operation(node, env)
            case alg.UnionAll():
                return [
                    ({to: row[c] for c, to in zip(b.cols, node.columns, strict=True)}, where)
                    for b in node.branches
                    for row, where in self.rows(b.node, env)
                ]
            case alg.Window():
                return self._window(node, env)
            case alg.Limit():
                return self._limit(node, env)
            case _:
                raise UnsupportedQuery(type(node).__name__)

    def _join(self, node: alg.Join, env: Env) -> list[Row]:
        found: list[Row] = []
        for combined in itertools.product(*(self.rows(c, env) for c in node.children)):
            row = {c: v for one, _ in combined for c, v in one.items()}
            if self.holds(node.conditions, {**env, **row}):
                found.append((row, _union(combined) | self.found_by(node, {**env, **row})))
        return found

    def _side_join(self, node: alg.OuterOrSemiJoin, env: Env) -> list[Row]:
        kind = node.kind
        left, right = self.rows(node.left, env), self.rows(node.right, env)
        found: list[Row] = []
        partners: Counter[int] = Counter()
        for row, where in left:
            matches = [
                (i, (other, theirs | self.found_by(node, {**env, **row, **other})))
                for i, (other, theirs) in enumerate(right)
                if self.holds(node.conditions, {**env, **row, **other})
            ]
            partners.update(i for i, _ in matches)
            if kind is alg.JoinKind.SEMI and matches:
                found.append((row, where | _union([other for _, other in matches])))
            elif kind is alg.JoinKind.ANTI and not matches:
                found.append((row, where))
            elif kind not in (alg.JoinKind.SEMI, alg.JoinKind.ANTI):
                found += [({**row, **other[0]}, where | other[1]) for _, other in matches]
                if not matches and kind in (alg.JoinKind.LEFT, alg.JoinKind.FULL):
                    found.append(({**row, **dict.fromkeys(node.right.columns)}, where))
        if kind in (alg.JoinKind.RIGHT, alg.JoinKind.FULL):
            alone = [other for i, other in enumerate(right) if not partners[i]]
            found += [({**dict.fromkeys(node.left.columns), **row}, w) for row, w in alone]
        return found

    def _lateral(self, node: alg.LateralJoin, env: Env) -> list[Row]:
        found: list[Row] = []
        for row, where in self.rows(node.left, env):
            matches = [
                (other, theirs | self.found_by(node, {**env, **row, **other}))
                for other, theirs in self.rows(node.right, {**env, **row})
                if self.holds(node.conditions, {**env, **row, **other})
            ]
            found += [({**row, **other}, where | theirs) for other, theirs in matches]
            if not matches and node.is_left:
                found.append(({**row, **dict.fromkeys(node.right.columns)}, where))
        return found

    def _generate(self, node: alg.Generate, env: Env) -> list[Row]:
        outer = "OUTER " if node.is_outer else ""
        made = ", ".join(c.sql for c in node.generated_columns)
        found: list[Row] = []
        for row, where in self.rows(node.child, env):
            text = self.text(node.generator, {**env, **row})
            for values in self.ask(
                f"SELECT {made} FROM (SELECT 1 AS o) k LATERAL VIEW {outer}{text} g AS {made}"
            ):
                found.append(
                    ({**row, **dict(zip(node.generated_columns, values, strict=True))}, where)
                )
        return found

    def _aggregate(self, node: alg.Aggregate, env: Env) -> list[Row]:
        rows = self.rows(node.child, env)
        found: list[Row] = []
        numbers = tuple(range(len(node.keys)))
        for one in node.sets if node.sets is not None else (numbers,):
            sources = [node.keys[i].source for i in one]
            groups = _groups(rows, sources)
            if not one and not groups:
                groups = {(): []}
            for among in groups.values():
                shown = {k.col: None for k in node.keys}
                shown |= {node.keys[i].col: among[0][0][node.keys[i].source] for i in one}
                values: Env = {}
                for call in node.calls:
                    if call.grouping is not None:
                        values[call.col] = sum(
                            (n not in one) << p for p, n in enumerate(reversed(call.grouping))
                        )
                    else:
                        values[call.col] = self._over(call.expr, node.child, among, env)[0]
                found.append(({**shown, **values}, _union(among)))
        return found

    def _over(self, expr: alg.Expr, child: alg.Node, rows: Sequence[Row], env: Env) -> list[Any]:
        """The value of an aggregate, or of a window function for each row, over some rows."""
        if list(subqueries(expr)):
            raise UnsupportedQuery("a subquery in an aggregate")
        outside = {c: v for c, v in env.items() if c not in child.columns}
        names = ", ".join(c.sql for c in child.columns) or "one"
        values = self.inline([[r[c] for c in child.columns] for r, _ in rows], len(child.columns))
        text = self.text(expr, outside)
        return [r[0] for r in self.ask(f"SELECT {text} FROM {values} AS v({names})")]

    def _set_operation(self, node: alg.SetOperation, env: Env) -> list[Row]:
        left = _groups(self.rows(node.left, env), node.left.columns)
        right = _groups(self.rows(node.right, env), node.right.columns)
        operator = node.operator.upper()
        found: list[Row] = []
        for key, mine in left.items():
            theirs = right.get(key, [])
            if operator.startswith("EXCEPT"):
                count = len(mine) - len(theirs) if "ALL" in operator else int(not theirs)
                where = _union(mine)
            else:
                both = min(len(mine), len(theirs))
                count = both if "ALL" in operator else min(both, 1)
                where = _union(mine) | _union(theirs)
            found += [(mine[0][0], where)] * max(count, 0)
        return found

    def _window(self, node: alg.Window, env: Env) -> list[Row]:
        rows = self.rows(node.child, env)
        if not rows:
            return []
        names = ", ".join(["n", *(c.sql for c in node.child.columns)])
        listed = [[i, *(r[c] for c in node.child.columns)] for i, (r, _) in enumerate(rows)]
        calls = ", ".join(self.text(call.expr, {}) for call in node.calls)
        made = self.ask(f"SELECT n, {calls} FROM {self.inline(listed, 1)} AS v({names}) ORDER BY n")
        found: list[Row] = []
        for (row, _), (_, *values) in zip(rows, made, strict=True):
            where = NOWHERE
            for call in node.calls:
                key = frozen([row[c] for c in call.over])
                where |= _union(_groups(rows, call.over)[key])
            calls_made = dict(zip((c.col for c in node.calls), values, strict=True))
            found.append(({**row, **calls_made}, where))
        return found

    def _limit(self, node: alg.Limit, env: Env) -> list[Row]:
        rows = self.rows(node.child, env)
        if not rows:
            return []
        names = ", ".join(c.sql for c in node.columns)
        values = self.inline([[r[c] for c in node.columns] for r, _ in rows], len(node.columns))
        order = ", ".join(f"{self.text(o.expr, {})} {o.direction}".strip() for o in node.order)
        limit = f" LIMIT {node.limit}" if node.limit else ""
        offset = f" OFFSET {node.offset}" if node.offset else ""
        made = self.ask(
            f"SELECT {names} FROM {values} AS v({names}) ORDER BY {order}{limit}{offset}"
        )
        groups = _groups(rows, node.columns)
        return [
            (dict(zip(node.columns, row, strict=True)), _union(groups[frozen(row)])) for row in made
        ]


def _union(rows: Iterable[Row]) -> From:
    return frozenset().union(*(where for _, where in rows))


def _groups(rows: Sequence[Row], columns: Sequence[alg.Col]) -> dict[tuple[Any, ...], list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(frozen([row[0][c] for c in columns]), []).append(row)
    return found
