"""Finds the rows of tables from which rows of a query's result come: one query a table. Pure.

The rows of a table, at one place where it is read, carry their locations through the operators:

    sigma, pi, explode        its input row
    inner join                each joined row; the same for matched rows of an outer or semi join.
                              A row without a partner has none
    GROUP BY                  all rows of the group; without keys all rows
    DISTINCT, UNION           all equal rows
    INTERSECT                 the equal rows of both sides
    EXCEPT, anti join         the rows of the left side
    window functions          all rows of the partition, for each function
    ORDER BY .. LIMIT         the row and all equal rows
    EXISTS, IN, subqueries    the rows that the subquery found for the outer row; for an aggregate
                              the rows it was computed from. In a join's condition: for the pairs
                              of rows that pass

The contributing rows are exact, each once. The result of an operator that combines rows is joined
with the operator's input, NULL equal to NULL, so no aggregate has to be inverted.
Source: Cui, Widom and Wiener, Tracing the Lineage of View Data in a Warehousing Environment (TODS
2000); the annotated rewriting is that of Perm (Glavic and Alonso, ICDE 2009).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ctsql.catalog.errors import Declined
from ctsql.catalog.reserved_columns import FILE_COLUMN, ROW_COLUMN
from ctsql.catalog.schemas import char_length
from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.reasons import Refusal
from ctsql.planner.ivm.algebra.traversal import (
    change_scans,
    columns_in,
    descend,
    equal_classes,
    free,
    inputs,
    key_sources,
    numbers_above,
    own_subqueries,
    pass_through,
    rename,
    subqueries,
    with_inputs,
)
from ctsql.planner.ivm.explain import label
from ctsql.planner.ivm.parse.from_relations import QueryRelation
from ctsql.planner.ivm.parse.query import compile_query
from ctsql.planner.ivm.rewrites.column_pruning import prune
from ctsql.planner.ivm.rewrites.semijoin_pushdown import Pairs, pairs_of_operand, restrict
from ctsql.planner.ivm.sql.queries import Text

WANTED = "wanted"  # the step with the rows in question: see :func:`wanted_columns`
_NOT_THROUGH = (
    alg.Aggregate, alg.Window, alg.Distinct, alg.SetOperation, alg.Limit, alg.OuterOrSemiJoin,
    alg.LateralJoin, alg.UnionAll, alg.Generate,
)  # fmt: skip
"""Operators below which Spark does not look for columns of the query around a subquery."""
NO_COLUMNS: Mapping[alg.Col, alg.Col] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """The rows of a table, at one place where it is read, from which the wanted rows come."""

    table: str
    operators: tuple[str, ...]  # the operators that they pass, from the result down
    # their locations (``FILE_COLUMN``, ``ROW_COLUMN``), each once; it reads the step ``WANTED``.
    # None if they cannot be determined.
    rows: Text | None
    why_unknown: str = ""  # why they cannot be determined


@dataclass(frozen=True, slots=True)
class Lineage:
    """The rows from which rows of a query come."""

    contributions: tuple[Contribution, ...]
    # the places of the columns that identify a wanted row; the step ``WANTED`` has these
    # columns, with the names of :func:`wanted_columns`.
    compared_columns: tuple[int, ...]
    # the places of the other columns, whose values depend on the order of rows.
    inexact: tuple[int, ...]


def trace(whole: Text, casts: Mapping[int, str]) -> Lineage:
    """The queries for the contributing rows; ``whole``: the result of :func:`whole_query`.

    ``casts``: types of stored columns, by place, if they differ from the query's, or are padded.
    """
    node = whole.node
    if casts:
        numbers = numbers_above(node)
        items = []
        for i, col in enumerate(node.columns):
            expr = _as_stored(col, casts[i]) if i in casts else None
            new_col = replace(col, number=next(numbers)) if i in casts else col
            items.append(alg.Projection(expr or alg.Expr.of(col), new_col))
        node = alg.Project(child=node, items=tuple(items))
    return lineage(node)


def _as_stored(col: alg.Col, kind: str) -> alg.Expr:
    """A column's values as they are stored in a type: those of CHAR(n) padded with blanks."""
    length = char_length(kind)
    if length is None:
        return alg.Expr.of("CAST (", col, "AS", kind, ")")
    return alg.Expr.of("rpad ( CAST (", col, "AS STRING ) ,", str(length), ")")


def whole_query(sql: str, relations: Mapping[str, QueryRelation]) -> Text | Declined:
    """The parsed query, for the comparison with Spark's plan of the text.

    ``relations``: the meaning of each name, as for :func:`ctsql.planner.ivm.change_plan`.
    """
    try:
        node, _ = compile_query(sql, relations, with_subqueries_in_joins=True)
    except Refusal as refusal:
        return refusal.declined
    node = prune(node, node.columns)
    return Text(node=node, columns=node.columns, names=tuple(c.sql for c in node.columns))


def wanted_columns(count: int) -> tuple[alg.Col, ...]:
    """The columns of the step ``WANTED``."""
    return tuple(alg.Col(-1 - i, "wanted") for i in range(count))


def lineage(query: alg.Node) -> Lineage:
    """The rows from which rows of a query's result come."""
    inexact = _inexact_columns(query)
    places = tuple(i for i, c in enumerate(query.columns) if c not in inexact)
    step = alg.Step(name=WANTED, columns=wanted_columns(len(places)))
    pairs = tuple(zip((query.columns[i] for i in places), step.columns, strict=True))
    contributions = []
    query, tables = _renamed_apart(query)
    for scan in [n for n in descend(query) if isinstance(n, alg.Scan)]:
        table = tables[scan.table]
        path = tuple(label(n) for n in _path(query, scan) if not isinstance(n, alg.Project))[:-1]
        marking = _Marking(scan, step, query)
        try:
            marked_query = marking.of(query, pairs)
        except _Untold as why:
            contributions.append(
                Contribution(table=table, operators=path, rows=None, why_unknown=str(why))
            )
            continue
        if marked_query is not None:
            marks = marking.marks
            wanted_rows = restrict(marked_query, step, pairs)
            rows = alg.Distinct(child=alg.Project(child=wanted_rows, items=pass_through(marks)))
            together = change_scans(rows, lambda scan: replace(scan, table=tables[scan.table]))
            text = Text(node=together, columns=marks, names=(FILE_COLUMN, ROW_COLUMN))
            contributions.append(Contribution(table=table, operators=path, rows=text))
    others = tuple(i for i, c in enumerate(query.columns) if c in inexact)
    return Lineage(tuple(contributions), places, others)


def _renamed_apart(query: alg.Node) -> tuple[alg.Node, dict[str, str]]:
    """The query with a new name for each place that reads a table, and the tables of these names.

    A common table expression that is used twice is copied, with equal column numbers.
    """
    tables: dict[str, str] = {}

    def change(scan: alg.Scan) -> alg.Scan:
        name = f"{len(tables)}:{scan.table}"
        tables[name] = scan.table
        return replace(scan, table=name)

    return change_scans(query, change), tables


def _path(node: alg.Node, target: alg.Node) -> list[alg.Node]:
    """The nodes from one down to another below it, both included; empty if it is not below."""
    if node == target:
        return [node]
    for child in (*inputs(node), *(s.node for s in own_subqueries(node))):
        below = _path(child, target)
        if below:
            return [node, *below]
    return []


def _inexact_columns(query: alg.Node) -> frozenset[alg.Col]:
    """The columns computed from calls that depend on the order of rows."""
    columns: set[alg.Col] = set()
    for node in reversed(list(descend(query))):
        match node:
            case alg.Aggregate() | alg.Window():
                columns |= {
                    c.col for c in node.calls if not c.exact or columns_in(c.expr) & columns
                }
            case alg.Project():
                columns |= {i.col for i in node.items if columns_in(i.expr) & columns}
            case alg.UnionAll():
                for branch in node.branches:
                    pairs = zip(branch.cols, node.columns, strict=True)
                    columns |= {to for col, to in pairs if col in columns}
            case _:
                pass
    return frozenset(columns)


class _Untold(Exception):
    """The origin of rows cannot be determined; its text is the reason."""


class _Marking:
    """Carries the locations of one scan's rows up through a query."""

    def __init__(self, scan: alg.Scan, step: alg.Step, query: alg.Node) -> None:
        self.scan = scan
        self.step = step
        self._numbers = numbers_above(query)
        self.marks = (self._fresh("file", "string"), self._fresh("row", "bigint"))

    def _fresh(self, name: str, kind: str = "") -> alg.Col:
        return alg.Col(next(self._numbers), name, kind)

    def has(self, node: alg.Node) -> bool:
        """Whether the scan is in a node, or in a subquery of its expressions."""
        return any(below == self.scan for below in descend(node))

    def of(self, node: alg.Node, pairs: Pairs) -> alg.Node | None:
        """A node with the locations as more columns; None if no row of the scan can contribute."""
        if node == self.scan:
            names, columns = (FILE_COLUMN, ROW_COLUMN), self.marks
            return replace(
                self.scan, names=(*self.scan.names, *names), columns=(*node.columns, *columns)
            )
        child = next((c for c in inputs(node) if self.has(c)), None)
        if child is None:
            return self._from_subquery(node)
        below = self.of(child, _below(node, child, pairs))
        if below is None:
            return None
        match node:
            case alg.Filter() | alg.Generate() | alg.SemiJoinRestriction():
                return replace(node, child=below)
            case alg.Project():
                return replace(node, child=below, items=(*node.items, *pass_through(self.marks)))
            case alg.Distinct():
                return below
            case alg.Join():
                return with_inputs(node, lambda c: below if c is child else c)
            case alg.OuterOrSemiJoin():
                return self._side_join(node, below, is_left=child is node.left)
            case alg.LateralJoin():
                if child is node.left:
                    return replace(node, left=below)
                return self._from_lateral(node, below)
            case alg.Aggregate():
                return self._group(node, below, pairs)
            case alg.SetOperation():
                if child is node.right and node.operator.lower().startswith("except"):
                    return None
                equal = list(zip(node.columns, child.columns, strict=True))
                return self._join_input(node, below, equal, pairs)
            case alg.UnionAll():
                branch = next(b for b in node.branches if b.node is child)
                return rename(below, (*branch.cols, *self.marks), (*node.columns, *self.marks))
            case alg.Window():
                return self._window(node, below, pairs)
            case alg.Limit():
                equal = [(c, c) for c in node.columns]
                return self._join_input(node, below, equal, pairs)
            case alg.Temporal():
                raise _Untold("the query compares with the clock")
            case _:
                raise TypeError(f"{type(node).__name__} is in no query of a view")

    def _side_join(
        self, node: alg.OuterOrSemiJoin, below: alg.Node, *, is_left: bool
    ) -> alg.Node | None:
        kind = alg.JoinKind
        if node.kind is kind.ANTI and not is_left:
            return None
        kept_sides = {kind.LEFT: (True,), kind.RIGHT: (False,), kind.FULL: (True, False)}
        keeps = kept_sides.get(node.kind, (True,))
        sides = (below, node.right) if is_left else (node.left, below)
        if is_left not in keeps:  # a row exists only with a partner
            return alg.Join(children=sides, conditions=node.conditions)
        as_kind = node.kind
        if node.kind is kind.FULL:
            as_kind = kind.LEFT if is_left else kind.RIGHT
        return replace(node, left=sides[0], right=sides[1], kind=as_kind)

    def _group(self, node: alg.Aggregate, below: alg.Node, pairs: Pairs) -> alg.Node:
        equal = [(key.col, key.source) for key in node.keys]
        if node.sets is None:
            return self._join_input(node, below, equal, pairs)
        instead = {key.col: self._fresh("absent") for key in node.keys}
        absent = (alg.call_of("grouping", key.source, instead[key.col]) for key in node.keys)
        aggregate = replace(node, calls=(*node.calls, *absent))
        return self._join_input(aggregate, below, equal, (), instead)

    def _window(self, node: alg.Window, below: alg.Node, pairs: Pairs) -> alg.Node:
        parts = dict.fromkeys(call.over for call in node.calls)
        columns = dict.fromkeys(c for over in parts for c in over)
        fresh = {c: replace(c, number=next(self._numbers)) for c in columns}
        side = self._narrow_side(below, fresh, pairs if len(parts) == 1 else ())
        if not all(parts):  # a function over all rows
            return alg.Join(children=(node, side), conditions=())
        text: list[alg.ExprPart | str] = []
        for over in parts:
            text += ["OR", "("]
            for i, col in enumerate(over):
                text += ["AND"] * (i > 0) + [col, "<=>", fresh[col]]
            text += [")"]
        return alg.Join(children=(node, side), conditions=(alg.Expr.of(*text[1:]),))

    def _join_input(
        self,
        node: alg.Node,
        below: alg.Node,
        equal: Sequence[tuple[alg.Col, alg.Col]],
        pairs: Pairs,
        instead: Mapping[alg.Col, alg.Col] = NO_COLUMNS,
    ) -> alg.Node:
        """The result of an operator, each row joined with the marked rows of its input.

        ``equal``: columns of the operator, each with the one of its input that it equals, NULL
        equal to NULL, unless its column in ``instead`` is 1.
        """
        of_node = dict(equal)
        columns = dict.fromkeys(source for _, source in equal)
        fresh = {c: replace(c, number=next(self._numbers)) for c in columns}
        source_pairs = tuple((of_node[a], k) for a, k in pairs if a in of_node)
        side = self._narrow_side(below, fresh, source_pairs)
        conditions = []
        for col, source in equal:
            test = alg.Expr.of(col, "<=>", fresh[source])
            if col in instead:
                test = alg.Expr.of("(", instead[col], "= 1 OR", test, ")")
            conditions.append(test)
        return alg.Join(children=(node, side), conditions=tuple(conditions))

    def _narrow_side(
        self, below: alg.Node, fresh: dict[alg.Col, alg.Col], pairs: Pairs
    ) -> alg.Node:
        """The marked rows with some columns under new numbers, only those with a wanted key."""
        side = rename(below, (*fresh, *self.marks), (*fresh.values(), *self.marks))
        return restrict(side, self.step, tuple((fresh[a], k) for a, k in pairs if a in fresh))

    # ---- subqueries

    def _from_subquery(self, node: alg.Node) -> alg.Node | None:
        inner = next(s for s in own_subqueries(node) if self.has(s.node))
        if isinstance(node, alg.TwoSided):
            return self._from_subquery_of_join(node)
        if not isinstance(node, alg.Filter | alg.Project):
            raise _Untold(f"a subquery in {label(node)}")
        if inner.left is not None and list(subqueries(inner.left)):
            raise _Untold("a subquery before IN")
        if isinstance(node, alg.Filter) and any(_finds_none(p, inner) for p in node.predicates):
            return None
        below: alg.Node = inner.node
        conditions: tuple[alg.Expr, ...] = ()
        if inner.kind in (alg.SubqueryKind.EXISTS, alg.SubqueryKind.SCALAR):
            below = self._behind(below)
            columns: tuple[alg.Col, ...] = ()
        else:
            columns = below.columns
        marked_node = self.of(below, ())
        if marked_node is None:
            return None
        fresh = tuple(replace(c, number=next(self._numbers)) for c in columns)
        right = rename(marked_node, (*columns, *self.marks), (*fresh, *self.marks))
        if fresh:
            operands = _operands(inner, len(fresh))
            if operands is None:
                raise _Untold("the operand of IN cannot be split")
            pairs = zip(operands, fresh, strict=True)
            conditions = tuple(alg.Expr.of("(", one, ") =", col) for one, col in pairs)
        if isinstance(node, alg.Filter):
            return self._lateral(node, right, conditions)
        child = self._lateral(node.child, right, conditions)
        return alg.Project(child=child, items=(*node.items, *pass_through(self.marks)))

    def _from_subquery_of_join(self, node: alg.TwoSided) -> alg.Node | None:
        """A pair of rows that a join returns comes from the rows that its subqueries found for it.

        A row without a partner comes from none.
        """
        if isinstance(node, alg.OuterOrSemiJoin) and node.kind is alg.JoinKind.ANTI:
            return None
        assert isinstance(node, alg.OuterOrSemiJoin | alg.LateralJoin)
        plain = tuple(c for c in node.conditions if not any(subqueries(c)))
        asking = tuple(c for c in node.conditions if any(subqueries(c)))
        if isinstance(node, alg.LateralJoin):
            join: alg.Node = replace(node, is_left=False, conditions=plain)
        else:
            join = alg.Join(children=(node.left, node.right), conditions=plain)
        return self._from_subquery(alg.Filter(child=join, predicates=asking))

    def _behind(self, node: alg.Node) -> alg.Node:
        """The rows from which a subquery's one value is computed, or for which EXISTS is true."""
        while any(map(self.has, inputs(node))) and (
            isinstance(node, alg.Project)
            or (isinstance(node, alg.Aggregate) and not node.keys and node.sets is None)
        ):
            node = node.child
        return node

    def _from_lateral(self, node: alg.LateralJoin, below: alg.Node) -> alg.Node | None:
        behind = self._behind(node.right)
        is_value = any(isinstance(n, alg.Aggregate) for n in _chain(node.right, behind))
        if not is_value or (node.is_left and node.conditions):
            return self._lateral(node.left, below, node.conditions)
        marked_node = self.of(behind, ())
        if marked_node is None:
            return None
        return self._lateral(node, rename(marked_node, self.marks, self.marks), ())

    def _lateral(
        self, left: alg.Node, right: alg.Node, conditions: tuple[alg.Expr, ...]
    ) -> alg.Node:
        """A join in which the right side may use columns of the left one."""
        around = free(right)
        if not around:
            return alg.Join(children=(left, right), conditions=conditions)
        for below in descend(right):
            if isinstance(below, _NOT_THROUGH) and free(below) & around:
                words = f"a subquery that depends on the row around it below: {label(below)}"
                raise _Untold(words)
        return alg.LateralJoin(left=left, right=right, is_left=False, conditions=conditions)


def _finds_none(predicate: alg.Expr, inner: alg.Subquery) -> bool:
    """Whether a predicate is true only for rows for which a subquery in it finds no row."""
    operand = () if inner.left is None else inner.left.parts
    one = ("EXISTS", inner) if inner.kind is alg.SubqueryKind.EXISTS else (*operand, "IN", inner)
    no = ("NOT", *one) if inner.kind is alg.SubqueryKind.EXISTS else (*operand, "NOT", "IN", inner)
    parts = tuple(p.upper() if isinstance(p, str) else p for p in predicate.parts)
    return parts in (no, ("NOT", *one), ("(", *one, ")", "IS", "NOT", "TRUE"))


def _operands(inner: alg.Subquery, count: int) -> list[alg.Expr] | None:
    """The operand of each column of the subquery in an IN; None if unknown."""
    if inner.left is None or count == 1:
        return None if inner.left is None else [inner.left]
    parts = inner.left.parts
    if parts[0] != "(" or parts[-1] != ")":
        return None
    operands: list[list[alg.ExprPart]] = [[]]
    depth = 0
    for part in parts[1:-1]:
        if part == "," and not depth:
            operands.append([])
            continue
        depth += (part == "(") - (part == ")")
        operands[-1].append(part)
    return [alg.Expr(tuple(one)) for one in operands] if len(operands) == count else None


def _chain(node: alg.Node, last: alg.Node) -> list[alg.Node]:
    """The nodes from one down to another, without the last; each has one input."""
    chain = []
    while node is not last:
        chain.append(node)
        node = next(inputs(node))
    return chain


def _below(node: alg.Node, child: alg.Node, pairs: Pairs) -> Pairs:
    """The wanted keys as conditions on an input's rows."""
    sources = key_sources(node)
    if sources is not None:
        return tuple((sources[a], k) for a, k in pairs if a in sources)
    match node:
        case alg.SetOperation():
            place = dict(zip(node.columns, child.columns, strict=True))
        case alg.UnionAll():
            branch = next(b for b in node.branches if b.node is child)
            place = dict(zip(node.columns, branch.cols, strict=True))
        case alg.Join():
            return pairs_of_operand(child, pairs, equal_classes(node.conditions))
        case alg.OuterOrSemiJoin() | alg.LateralJoin():
            place = {c: c for c in child.columns}
        case _:
            return ()
    return tuple((place[a], k) for a, k in pairs if a in place)
