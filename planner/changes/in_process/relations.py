"""Nodes of a change plan as queries of DuckDB, each column with Spark's type.

The counterpart of :mod:`ctsql.planner.changes.printing`, which prints the same nodes for Spark.
"""

from collections.abc import Sequence
from dataclasses import replace

from ctsql.catalog.names import double_quoted
from ctsql.planner.changes.columns import descend, free, used
from ctsql.planner.changes.correlation import seen, versioned
from ctsql.planner.changes.in_process.expressions import Expressions
from ctsql.planner.changes.in_process.joined import Joined
from ctsql.planner.changes.in_process.sources import InProcess, Relation, Relations, Types
from ctsql.planner.changes.in_process.types import (
    BIGINT,
    INT,
    NULL,
    NotHeld,
    OnlySpark,
    Type,
    common,
)
from ctsql.planner.changes.nodes import (
    PREFIX,
    WEIGHT,
    Aggregate,
    Col,
    Distinct,
    Expr,
    Filter,
    Generate,
    Join,
    JoinKind,
    KeyTest,
    Limit,
    Node,
    Order,
    Project,
    Restricted,
    Scan,
    SetOperation,
    SideJoin,
    StateRows,
    Step,
    UnionAll,
    Weighted,
)
from ctsql.planner.changes.printing import NOTHING, columns, table_use
from ctsql.planner.changes.restricting import restricted

_SIDES = {
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.RIGHT: "RIGHT JOIN",
    JoinKind.FULL: "FULL JOIN",
    JoinKind.SEMI: "SEMI JOIN",
    JoinKind.ANTI: "ANTI JOIN",
}
_REPEAT = ("explode", "(", "sequence", "(", "1", ",")


def in_process(
    node: Node, cols: Sequence[Col], names: Sequence[str], relations: Relations
) -> InProcess:
    """A node's rows by a query of DuckDB.

    Args:
        cols: the columns wanted, in order. names: what the result calls them.

    Raises:
        OnlySpark: DuckDB would make something else of it, or may.
    """
    printer = _Printer(relations)
    text, types = printer.query(node, {})
    listed = ", ".join(f"{c.sql} AS {double_quoted(n)}" for c, n in zip(cols, names, strict=True))
    if any(types[c] == NULL for c in cols):
        raise OnlySpark("a column of NULLs")
    return printer.made(f"SELECT {listed} FROM ({text})", [types[c] for c in cols])


def order_text(order: Sequence[Order], types: Types) -> str:
    """An ORDER BY of columns, with the places of NULLs that Spark gives them."""
    listed = []
    for one in order:
        col, words = one.expr.column, one.direction.upper().split()
        if col is None or not types[col].is_comparable:
            raise OnlySpark("ORDER BY of an expression, or of fractions")
        if "NULLS" not in words:
            words += ["NULLS", "LAST" if "DESC" in words else "FIRST"]
        listed.append(f"{col.sql} {' '.join(words)}")
    return ", ".join(listed)


class _Printer:
    """Prints nodes; ``around`` are the columns of the queries around a subquery."""

    def __init__(self, relations: Relations, *, is_cut: bool = True) -> None:
        self.relations = relations
        self._is_cut = is_cut
        self.expressions = Expressions(self._subquery)

    def _is_none(self, node: Node) -> bool:
        """Has a node no rows, because a step has none?"""
        match node:
            case Step():
                return self.relations.step(node.name).is_empty
            case Restricted():
                asked = [t.keys for t in node.tests if not t.is_hint]
                return (bool(asked) and all(map(self._is_none, asked))) or self._is_none(node.child)
            case Filter() | Project() | Distinct() | Weighted() | Generate():
                return self._is_none(node.child)
            case Aggregate():
                return bool(node.keys) and node.sets is None and self._is_none(node.child)
            case Join():
                return any(map(self._is_none, node.children))
            case SideJoin(kind=JoinKind.RIGHT):
                return self._is_none(node.right)
            case SideJoin(kind=JoinKind.LEFT | JoinKind.SEMI | JoinKind.ANTI):
                return self._is_none(node.left)
            case UnionAll():
                return all(self._is_none(branch.node) for branch in node.branches)
            case _:
                return False

    def _without_tables(self) -> "_Printer":
        """One to which tables have no rows, for what is empty whatever they hold."""
        made = _Printer(replace(self.relations, table=self.relations.empty), is_cut=False)
        made.expressions.divisions = self.expressions.divisions
        return made

    def made(self, sql: str, types: Sequence[Type]) -> InProcess:
        """A query with what it calls."""
        return InProcess(sql, tuple(types), tuple(self.expressions.divisions.values()))

    def _subquery(self, node: Node, around: Types) -> tuple[str, list[Type]]:
        text, types = self.query(node, around)
        return text, [types[c] for c in node.columns]

    def query(self, node: Node, around: Types) -> tuple[str, dict[Col, Type]]:
        """A node as a query; its columns carry their own names, in order."""
        if self._is_cut and not isinstance(node, Step) and self._is_none(node):
            return self._without_tables().query(node, around)
        match node:
            case Scan():
                return self._scan(node, ())
            case Step():
                return self._step(node)
            case StateRows():
                return self._renamed(self.relations.state(node.number), node.columns, node.names)
            case Filter():
                return self._filter(node, around)
            case Project():
                return self._project(node, around)
            case Join():
                return self._join(node, around)
            case SideJoin():
                return self._side_join(node, around)
            case Generate():
                return self._copies(node, around)
            case Aggregate(sets=None):
                return self._aggregate(node, around)
            case Distinct():
                text, types = self._from(node.child, around)
                _check_comparable(types)
                return f"SELECT DISTINCT {columns(node.columns)} FROM {text}", types
            case SetOperation():
                return self._set_operation(node, around)
            case UnionAll():
                return self._union(node, around)
            case Limit():
                return self._limit(node, around)
            case Restricted():
                return self._restricted(node, around)
            case Weighted():
                text, types = self._from(node.child, around)
                listed = [*(c.sql for c in node.child.columns)]
                listed.append(f"CAST({node.weight} AS BIGINT) AS {WEIGHT.sql}")
                return f"SELECT {_list(listed)} FROM {text}", {**types, WEIGHT: BIGINT}
            case _:
                raise OnlySpark(type(node).__name__)

    def _from(self, node: Node, around: Types) -> tuple[str, dict[Col, Type]]:
        text, types = self.query(node, around)
        return f"({text})", types

    def _conditions(self, conditions: Sequence[Expr], types: Types) -> str:
        return " AND ".join(self._condition(one, types) for one in conditions)

    def _condition(self, condition: Expr, types: Types, *, is_filter: bool = False) -> str:
        found = self.expressions.translate(condition, types, is_filter=is_filter)
        if found.type.name not in ("boolean", "null"):
            raise OnlySpark("a condition that is no boolean")
        return found.sql

    # ---- what is read

    def _renamed(
        self, relation: Relation, cols: Sequence[Col], names: Sequence[str]
    ) -> tuple[str, dict[Col, Type]]:
        listed = [f"{double_quoted(n)} AS {c.sql}" for n, c in zip(names, cols, strict=True)]
        types = {c: relation.type(n) for n, c in zip(names, cols, strict=True)}
        return f"SELECT {_list(listed)} FROM {double_quoted(relation.name)}", types

    def _scan(self, node: Scan, tests: Sequence[KeyTest]) -> tuple[str, dict[Col, Type]]:
        return self._renamed(self.relations.table(table_use(node, tests)), node.columns, node.names)

    def _step(self, node: Step) -> tuple[str, dict[Col, Type]]:
        return self._renamed(
            self.relations.step(node.name), node.columns, [c.sql for c in node.columns]
        )

    # ---- operators

    def _filter(self, node: Filter, around: Types) -> tuple[str, dict[Col, Type]]:
        """A subquery over a table too large to be held reads of it what the rows left can see."""
        text, below = self._from(node.child, around)
        types = {**around, **below}
        tests, closed, large = [], [], []
        for predicate in node.predicates:
            try:
                tests.append(self._condition(predicate, types, is_filter=True))
            except NotHeld:
                large.append(predicate)
                continue
            if used(predicate) <= below.keys():
                closed.append(tests[-1])
        if large and free(node.child) & around.keys():
            raise NotHeld("a subquery of a subquery")
        where = f" WHERE {' AND '.join(closed)}" if closed else ""

        def keys(cols: Sequence[Col]) -> tuple[Step, tuple[Col, ...]]:
            ours = tuple(dict.fromkeys(cols))
            distinct = f"SELECT DISTINCT {columns(ours)} FROM {text}{where}"
            made = self.made(distinct, [below[c] for c in ours])
            return self.relations.keys(made, ours), tuple(cols)

        for predicate in large:
            cut = versioned(predicate, lambda s: seen(s, s.node, tuple(below), keys))
            tests.append(self._condition(cut, types, is_filter=True))
        return f"SELECT {columns(node.columns)} FROM {text} WHERE {' AND '.join(tests)}", below

    def _project(self, node: Project, around: Types) -> tuple[str, dict[Col, Type]]:
        text, below = self._from(node.child, around)
        listed, types = [], {}
        for item in node.items:
            found = self.expressions.translate(item.expr, {**around, **below})
            listed.append(f"{found.sql} AS {item.col.sql}")
            types[item.col] = found.type
        return f"SELECT {_list(listed)} FROM {text}", types

    def _join(self, node: Join, around: Types) -> tuple[str, dict[Col, Type]]:
        """Each relation is joined where it meets those before, since DuckDB joins as it is told.

        Of a table too large to be held only rows are read that have a key of what stands before.
        What meets nothing is multiplied, so it comes last.
        """
        joined = Joined(self._conditions, node.conditions, around)
        held, large = [], []
        for child in sorted(node.children, key=_is_whole):
            try:
                held.append((child, *self._from(child, around)))
            except NotHeld:
                large.append(child)
        while held or large:
            near = next((one for one in held if joined.meets(one[0], one[2])), None)
            far = next((child for child in large if joined.pairs(child)), None)
            if near is None and far is not None and not joined.is_open:
                large.remove(far)
                narrowed = self._narrowed(far, joined)
                joined.add(narrowed, *self._from(narrowed, around))
            elif held:
                chosen = near or held[0]
                held.remove(chosen)
                joined.add(*chosen)
            else:
                raise NotHeld("a join of large tables")
        return joined.query(node.columns), joined.types

    def _narrowed(self, child: Node, joined: Joined) -> Node:
        """A child cut to what can join with what is there."""
        pairs = joined.pairs(child)
        return restricted(child, *self._keys(joined, pairs), is_hint=True)

    def _keys(
        self, joined: Joined, pairs: Sequence[tuple[Col, Col]]
    ) -> tuple[Step, tuple[tuple[Col, Col], ...]]:
        """The keys that are there, as a step, and which column of a child each must equal."""
        ours = tuple(dict.fromkeys(mine for mine, _ in pairs))
        text = f"SELECT DISTINCT {columns(ours)} FROM ({joined.query(ours, is_closed=True)})"
        step = self.relations.keys(self.made(text, [joined.types[c] for c in ours]), ours)
        return step, tuple((theirs, mine) for mine, theirs in pairs)

    def _side_join(self, node: SideJoin, around: Types) -> tuple[str, dict[Col, Type]]:
        left, right = self._sides(node, around)
        both = {**left[1], **right[1]}
        on = self._conditions(node.conditions, {**around, **both}) or "true"
        return (
            f"SELECT {columns(node.columns)} FROM {left[0]} {PREFIX}k0"
            f" {_SIDES[node.kind]} {right[0]} {PREFIX}k1 ON {on}"
        ), {c: both[c] for c in node.columns}

    def _sides(
        self, node: SideJoin, around: Types
    ) -> tuple[tuple[str, dict[Col, Type]], tuple[str, dict[Col, Type]]]:
        """Both sides; of a large one that loses its rows for lack of a partner, what has one."""
        if node.kind is JoinKind.RIGHT:
            mine, other = node.right, node.left
        else:
            mine, other = node.left, node.right
        kept = self._from(mine, around)
        try:
            found = self._from(other, around)
        except NotHeld:
            joined = Joined(self._conditions, node.conditions, around)
            joined.add(mine, *kept)
            if node.kind is JoinKind.FULL or joined.is_open or not joined.pairs(other):
                raise
            found = self._from(self._narrowed(other, joined), around)
        return (found, kept) if node.kind is JoinKind.RIGHT else (kept, found)

    def _copies(self, node: Generate, around: Types) -> tuple[str, dict[Col, Type]]:
        """A row for each number from 1 to another: what our own rules need, and no more.

        Down from 1, where the other is less: that is what Spark's ``sequence`` does.
        """
        parts = node.generator.parts
        if parts[: len(_REPEAT)] != _REPEAT or parts[-2:] != (")", ")") or node.is_outer:
            raise OnlySpark("a generator")
        text, types = self._from(node.child, around)
        count = self.expressions.translate(Expr(parts[len(_REPEAT) : -2]), {**around, **types})
        if count.type != INT:
            raise OnlySpark("a generator")
        (made,) = node.made
        listed = [c.sql for c in node.child.columns]
        step = f"CASE WHEN {count.sql} < 1 THEN -1 ELSE 1 END"
        numbers = f"unnest(generate_series(1, {count.sql}, {step}))"
        listed.append(f"CAST({numbers} AS INTEGER) AS {made.sql}")
        found = {**types, made: INT}
        return f"SELECT {_list(listed)} FROM {text}", found

    def _aggregate(self, node: Aggregate, around: Types) -> tuple[str, dict[Col, Type]]:
        text, below = self._from(node.child, around)
        types = {k.col: below[k.source] for k in node.keys}
        _check_comparable(types)
        listed = [f"{k.source.sql} AS {k.col.sql}" for k in node.keys]
        for call in node.calls:
            found = self.expressions.translate(call.expr, {**around, **below})
            listed.append(f"{found.sql} AS {call.col.sql}")
            types[call.col] = found.type
        grouped = ""
        if node.keys:
            grouped = f" GROUP BY {', '.join(k.source.sql for k in node.keys)}"
        elif not node.calls:
            listed.append(f"count(*) AS {PREFIX}none")  # else it were no aggregate
        return f"SELECT {_list(listed)} FROM {text}{grouped}", types

    def _set_operation(self, node: SetOperation, around: Types) -> tuple[str, dict[Col, Type]]:
        left, types = self.query(node.left, around)
        right, more = self.query(node.right, around)
        if [types[c] for c in node.left.columns] != [more[c] for c in node.right.columns]:
            raise OnlySpark("a set operation over different types")
        _check_comparable(types)
        return f"SELECT * FROM (({left}) {node.operator.upper()} ({right}))", types

    def _union(self, node: UnionAll, around: Types) -> tuple[str, dict[Col, Type]]:
        made = [self._from(branch.node, around) for branch in node.branches]
        types = {}
        for i, col in enumerate(node.columns):
            given = zip(node.branches, made, strict=True)
            types[col] = common([found[branch.cols[i]] for branch, (_, found) in given])
        texts = []
        for branch, (text, found) in zip(node.branches, made, strict=True):
            listed = []
            for mine, (col, kind) in zip(branch.cols, types.items(), strict=True):
                same = found[mine] == kind != NULL
                value = mine.sql if same else f"CAST({mine.sql} AS {kind.sql})"
                listed.append(f"{value} AS {col.sql}")
            texts.append(f"SELECT {_list(listed)} FROM {text}")
        return f"SELECT {columns(node.columns)} FROM ({' UNION ALL '.join(texts)})", types

    def _limit(self, node: Limit, around: Types) -> tuple[str, dict[Col, Type]]:
        """Of rows that the order ties, the same are chosen each time: the other columns decide."""
        text, types = self._from(node.child, around)
        if not (node.limit.isdigit() and (not node.offset or node.offset.isdigit())):
            raise OnlySpark("LIMIT of an expression")
        limit = f" LIMIT {node.limit}" + (f" OFFSET {node.offset}" if node.offset else "")
        rest = columns([c for c in node.columns if types[c].is_comparable])
        order = f"{order_text(node.order, types)}, {rest}"
        return f"SELECT {columns(node.columns)} FROM {text} ORDER BY {order}{limit}", types

    def _restricted(self, node: Restricted, around: Types) -> tuple[str, dict[Col, Type]]:
        asked = [t for t in node.tests if not t.is_hint]
        if isinstance(node.child, Scan):
            text, types = self._scan(node.child, node.tests)
            text = f"({text})"
        else:
            text, types = self._from(node.child, around)
        tests = [self._test(t, types) for t in asked]
        where = f" WHERE {' OR '.join(tests)}" if tests else ""
        return f"SELECT {columns(node.columns)} FROM {text}{where}", types

    def _test(self, test: KeyTest, types: Types) -> str:
        """Is there an equal key? NULL equals NULL here: groups have such keys."""
        step = self.relations.step(test.keys.name)
        pairs = []
        for mine, key in test.pairs:
            if types[mine] != step.type(key.sql) or not types[mine].is_comparable:
                raise OnlySpark("keys of another type")
            equal = f"{key.sql} IS NOT DISTINCT FROM {mine.sql}"
            if test.null_matches:
                equal = f"({equal} OR {key.sql} IS NULL OR {mine.sql} IS NULL)"
            pairs.append(equal)
        where = f" WHERE {' AND '.join(pairs)}" if pairs else ""
        return f"EXISTS (SELECT 1 FROM {double_quoted(step.name)}{where})"


def _is_whole(node: Node) -> bool:
    """Is a relation not cut to what a change needs?"""
    return not any(isinstance(n, Step | Restricted | StateRows) for n in descend(node))


def _check_comparable(types: Types) -> None:
    """Groups are of equal values; a NULL of no type is equal to itself."""
    if any(not t.is_comparable and t != NULL for t in types.values()):
        raise OnlySpark("groups of fractions")


def _list(listed: Sequence[str]) -> str:
    return ", ".join(listed) or NOTHING
