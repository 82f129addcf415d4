"""Prints nodes as Spark SQL: the structure is ours, the expressions are the user's own text.

Columns are printed as their numbers, so names are unique and need no qualifier. The caller chooses
the names of relations.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import assert_never

from ctsql.catalog.names import backtick
from ctsql.catalog.reserved_columns import PREFIX
from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.traversal import columns_in
from ctsql.planner.syntax.tokens.tokenizer import word_set

NOTHING = f"1 AS {PREFIX}none"  # the select list of a relation if only its number of rows matters

_TIGHT_BEFORE = (")", ",", ".", "]", "[")
_TIGHT_BEHIND = ("(", ".", "[")


@dataclass(frozen=True, slots=True)
class TableUse:
    """One place where a table is read."""

    table: str
    version: alg.Version  # the version, or the change
    # the columns, by the table's names; a change also has ``__ct_diff``.
    columns: tuple[str, ...]
    # the source of the needed keys: the name of a step, or a use of another table that has
    # keys itself; and pairs of a column of the table and one of these. A row without such a key in
    # any of them may be left out (to skip files); empty if all rows are needed.
    keys: "tuple[tuple[str | TableUse, tuple[tuple[str, str], ...]], ...]"


@dataclass(frozen=True, slots=True)
class StepUse:
    """A place where the rows of an earlier query are read."""

    name: str


@dataclass(frozen=True, slots=True)
class StateUse:
    """A place where stored groups are read: of an aggregate, or (``VIEW``) the view's own rows."""

    number: int


Input = TableUse | StepUse | StateUse  # a relation of a query, at one place


Names = Callable[[Input], str]  # the name of each relation of a query, by place


def name_by(table: Callable[[TableUse], str]) -> Names:
    """Names of tables from a function; a step, a state table and the view have fixed names."""

    def name(use: Input) -> str:
        match use:
            case TableUse():
                return table(use)
            case StepUse():
                return backtick(use.name)
            case StateUse():
                return "__ct_view" if use.number == alg.VIEW else f"__ct_state_{use.number}"

    return name


class Printer:
    """Prints nodes with the names given."""

    def __init__(self, name: Names) -> None:
        self.name = name

    def expr(self, expr: alg.Expr) -> str:
        """An expression's text."""
        return join_texts([self._part(part) for part in expr.parts])

    def _part(self, part: alg.ExprPart) -> str:
        match part:
            case str():
                return part
            case alg.Col():
                return part.sql
            case alg.Subquery():
                return f"({self.query(part.node)})"
            case alg.Clock():
                raise TypeError("a text says no time: see ctsql.planner.ivm.temporal.as_of")

    def _select_items(self, items: Sequence[alg.Projection | alg.AggregateCall]) -> list[str]:
        return [f"{self.expr(item.expr)} AS {item.col.sql}" for item in items]

    def _conditions(self, conditions: Sequence[alg.Expr]) -> str:
        if len(conditions) == 1:
            return self.expr(conditions[0])
        return " AND ".join(f"({self.expr(c)})" for c in conditions)

    def query(self, node: alg.Node) -> str:
        """A node as a query; its columns carry their own names, in order."""
        match node:
            case alg.Scan():
                return self._scan(node, ())
            case alg.Values():
                return self._rows(node)
            case alg.Step():
                return f"SELECT {columns(node.columns)} FROM {self.name(StepUse(node.name))}"
            case alg.StoredGroups():
                return _read(node, self.name(StateUse(node.number)))
            case alg.Filter() | alg.Temporal():
                where = self._conditions(node.predicates)
                return f"{self._all(node.child)} WHERE {where}"
            case alg.Project():
                return self._project(node)
            case alg.Join():
                return self._join(node)
            case alg.OuterOrSemiJoin():
                return self._side_join(node)
            case alg.LateralJoin():
                return self._lateral(node)
            case alg.Generate():
                outer = "OUTER " if node.is_outer else ""
                aliases = ", ".join(c.sql for c in node.generated_columns)
                return (
                    f"SELECT {columns(node.columns)} FROM {self._from(node.child)} {PREFIX}k"
                    f" LATERAL VIEW {outer}{self.expr(node.generator)} {PREFIX}g AS {aliases}"
                )
            case alg.Aggregate():
                return self._aggregate(node)
            case alg.Distinct():
                return f"SELECT DISTINCT {columns(node.columns)} FROM {self._from(node.child)}"
            case alg.SetOperation():
                # The result has the names of the left side; columns match by position.
                left, right = self.query(node.left), self.query(node.right)
                return f"SELECT * FROM (({left}) {node.operator.upper()} ({right}))"
            case alg.UnionAll():
                return self._union(node)
            case alg.Window():
                select_list = [c.sql for c in node.child.columns] + self._select_items(node.calls)
                return f"SELECT {_list(select_list)} FROM {self._from(node.child)}"
            case alg.Limit():
                return self._limit(node)
            case alg.SemiJoinRestriction():
                child = (
                    f"({self._scan(node.child, node.tests)})"
                    if isinstance(node.child, alg.Scan)
                    else self._from(node.child)
                )
                tests = " OR ".join(self._test(t) for t in node.tests if not t.is_hint)
                where = f" WHERE {tests}" if tests else ""
                return f"SELECT {columns(node.columns)} FROM {child}{where}"
            case alg.ConstantDiff():
                select_list = [c.sql for c in node.child.columns]
                select_list.append(f"CAST({node.diff} AS BIGINT) AS {node.columns[-1].sql}")
                return f"SELECT {_list(select_list)} FROM {self._from(node.child)}"
            case _:
                assert_never(node)

    def _project(self, node: alg.Project) -> str:
        """Over groups, print it as their select list, in which Spark can decorrelate subqueries."""
        below = node.child
        parts = [part for item in node.items for part in item.expr.parts]
        is_flat = isinstance(below, alg.Aggregate) and below.sets is None
        if isinstance(below, alg.Aggregate) and not below.keys:
            # Without its calls it would not be an aggregate, but all rows.
            is_flat = is_flat and any(call.col in parts for call in below.calls)
        if not is_flat or any(isinstance(part, alg.Subquery) for part in parts):
            return f"SELECT {_list(self._select_items(node.items))} FROM {self._from(node.child)}"
        assert isinstance(below, alg.Aggregate)
        texts = {k.col: k.source.sql for k in below.keys}
        texts |= {c.col: f"({self.expr(c.expr)})" for c in below.calls}
        select_list = []
        for item in node.items:
            words = [
                texts.get(p, p.sql) if isinstance(p, alg.Col) else self._part(p)
                for p in item.expr.parts
            ]
            select_list.append(f"{join_texts(words)} AS {item.col.sql}")
        return f"SELECT {_list(select_list)} {self._from_groups(below)}"

    def _lateral(self, node: alg.LateralJoin) -> str:
        kind = "LEFT JOIN" if node.is_left else "JOIN"
        on = f" ON {self._conditions(node.conditions)}" if node.conditions else ""
        on = on or (" ON true" if node.is_left else "")
        right = f"LATERAL ({self.query(node.right)}) AS {PREFIX}l"
        return (
            f"SELECT {columns(node.columns)} FROM {self._from(node.left)} {PREFIX}k"
            f" {kind} {right}{on}"
        )

    def _scan(self, node: alg.Scan, tests: Sequence[alg.KeyPredicate]) -> str:
        return _read(node, self.name(table_use(node, tests)))

    def _from(self, node: alg.Node) -> str:
        return f"({self.query(node)})"

    def _all(self, node: alg.Node) -> str:
        return f"SELECT {columns(node.columns)} FROM {self._from(node)}"

    def _rows(self, node: alg.Values) -> str:
        if node.is_function:
            return f"SELECT id AS {node.columns[0].sql} FROM {node.text}"
        column_list = columns(node.columns)
        names = ", ".join(c.sql for c in node.columns)
        return f"SELECT {column_list} FROM ({node.text}) AS {PREFIX}v({names})"

    def _join(self, node: alg.Join) -> str:
        """Each condition is put at the first join that has all its columns.

        One with outer columns is put into WHERE, where Spark decorrelates it.
        """
        text = f"{self._from(node.children[0])} {PREFIX}k0"
        available = set(node.children[0].columns)
        waiting = list(node.conditions)
        for index, child in enumerate(node.children[1:], 1):
            available |= set(child.columns)
            ready = [c for c in waiting if columns_in(c) <= available]
            waiting = [c for c in waiting if c not in ready]
            side = f"{self._from(child)} {PREFIX}k{index}"
            if ready:
                text += f" JOIN {side} ON {self._conditions(ready)}"
            else:
                text += f" CROSS JOIN {side}"
        where = f" WHERE {self._conditions(waiting)}" if waiting else ""
        return f"SELECT {columns(node.columns)} FROM {text}{where}"

    def _side_join(self, node: alg.OuterOrSemiJoin) -> str:
        left, right = self._from(node.left), self._from(node.right)
        on = self._conditions(node.conditions) if node.conditions else "true"
        return (
            f"SELECT {columns(node.columns)} FROM {left} {PREFIX}k0"
            f" {node.kind.value.upper()} {right} {PREFIX}k1 ON {on}"
        )

    def _aggregate(self, node: alg.Aggregate) -> str:
        keys = [f"{k.source.sql} AS {k.col.sql}" for k in node.keys]
        select_list = _list(keys + self._select_items(node.calls))
        return f"SELECT {select_list} {self._from_groups(node)}"

    def _from_groups(self, node: alg.Aggregate) -> str:
        text = f"FROM {self._from(node.child)}"
        if node.sets is not None:
            sets = [
                "(" + ", ".join(node.keys[i].source.sql for i in one) + ")" for one in node.sets
            ]
            return f"{text} GROUP BY GROUPING SETS ({', '.join(sets)})"
        if node.keys:
            return f"{text} GROUP BY {', '.join(k.source.sql for k in node.keys)}"
        return text

    def _union(self, node: alg.UnionAll) -> str:
        texts = []
        for branch in node.branches:
            if branch.cols == node.columns == branch.node.columns:
                texts.append(self.query(branch.node))
                continue
            pairs = zip(branch.cols, node.columns, strict=True)
            select_list = [a.sql if a == b else f"{a.sql} AS {b.sql}" for a, b in pairs]
            texts.append(f"SELECT {_list(select_list)} FROM {self._from(branch.node)}")
        return f"SELECT {columns(node.columns)} FROM ({' UNION ALL '.join(texts)})"

    def _limit(self, node: alg.Limit) -> str:
        order = ", ".join(f"{self.expr(o.expr)} {o.direction}".strip() for o in node.order)
        limit = f" LIMIT {node.limit}" if node.limit else ""
        offset = f" OFFSET {node.offset}" if node.offset else ""
        inner = f"{self._all(node.child)} ORDER BY {order}{limit}{offset}"
        return f"SELECT {columns(node.columns)} FROM ({inner})"

    def _test(self, test: alg.KeyPredicate) -> str:
        """Whether there is an equal key. NULL equals NULL, because groups have such keys."""
        pairs = []
        for mine, key in test.pairs:
            equal = f"{key.sql} <=> {mine.sql}"
            if test.null_matches:
                equal = f"({equal} OR {key.sql} IS NULL OR {mine.sql} IS NULL)"
            pairs.append(equal)
        assert isinstance(test.keys, alg.Step)  # it is not a hint
        step = self.name(StepUse(test.keys.name))
        where = f" WHERE {' AND '.join(pairs)}" if pairs else ""
        return f"EXISTS (SELECT 1 FROM {step}{where})"


def _read(node: alg.Scan | alg.StoredGroups, name: str) -> str:
    """A relation's columns, from their own names to those in the text."""
    pairs = zip(node.names, node.columns, strict=True)
    return f"SELECT {_list([f'{backtick(n)} AS {c.sql}' for n, c in pairs])} FROM {name}"


def table_use(node: alg.Scan, tests: Sequence[alg.KeyPredicate] = ()) -> TableUse:
    """The use of a scan's table; with tests, only rows that may pass one are needed."""
    names = dict(zip(node.columns, node.names, strict=True))
    keys = tuple(_keys_of(t, names) for t in tests)
    if any(t.null_matches for t in tests):
        keys = ()  # a NULL key needs every row
    read = tuple(n for c, n in names.items() if c != alg.DIFF)
    return TableUse(node.table, node.version, read, keys)


def _keys_of(
    test: alg.KeyPredicate, names: Mapping[alg.Col, str]
) -> tuple[str | TableUse, tuple[tuple[str, str], ...]]:
    """The source of a test's keys, and the names of the table's columns and of theirs."""
    if isinstance(test.keys, alg.Step):
        return test.keys.name, tuple((names[mine], key.sql) for mine, key in test.pairs)
    other = test.keys.child
    assert isinstance(other, alg.Scan)  # hints restrict tables only
    theirs = dict(zip(other.columns, other.names, strict=True))
    pairs = tuple((names[mine], theirs[key]) for mine, key in test.pairs)
    return table_use(other, test.keys.tests), pairs


_SPACED = word_set("""
    GROUP FILTER IN AND OR NOT OVER THEN ELSE WHEN AS BY LIKE BETWEEN
""")


def join_texts(texts: Sequence[str]) -> str:
    """Tokens joined with spaces as a reader expects."""
    sql = "".join(texts[:1])
    for before, text in pairwise(texts):
        is_tight = (
            text in _TIGHT_BEFORE
            or before in _TIGHT_BEHIND
            or (text == "(" and before.isidentifier() and before.upper() not in _SPACED)
        )
        sql += text if is_tight else " " + text
    return sql


def columns(cols: Sequence[alg.Col]) -> str:
    """A select list that passes columns on."""
    return _list([c.sql for c in cols])


def _list(items: Sequence[str]) -> str:
    return ", ".join(items) or NOTHING
