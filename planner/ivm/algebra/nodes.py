"""Relational algebra of a view's query: frozen, comparable nodes that have change rules.

A column is a number that is unique within one plan, so predicates can be moved. An expression is
the user's text, cut at its column references; it is never split further and never printed from a
tree (docs/decisions/0060).

A *signed* relation has the column :data:`DIFF` last: a row with diff d stands for d copies, or for
-d deletions. Changes are signed relations, built from the same nodes.
"""

from dataclasses import dataclass, field
from enum import Enum

from ctsql.catalog import reserved_columns as reserved
from ctsql.catalog.reserved_columns import PREFIX
from ctsql.catalog.spans import Span
from ctsql.planner.syntax.ast import ClockKind


class Version(Enum):
    """Which contents of a table a scan reads; NONE has the columns and no row."""

    OLD = "old"
    NEW = "new"
    DELTA = "delta"
    NONE = "none"


class JoinKind(Enum):
    """How rows without a partner are treated; inner joins are :class:`Join`."""

    LEFT = "left join"
    RIGHT = "right join"
    FULL = "full join"
    SEMI = "left semi join"
    ANTI = "left anti join"


class SubqueryKind(Enum):
    """How an expression uses a subquery."""

    EXISTS = "exists"
    IN = "in"
    NULL_AWARE_IN = "in, where NULL and false differ"
    SCALAR = "scalar"


@dataclass(frozen=True, slots=True)
class Col:
    """A column of a plan."""

    number: int  # unique within a plan; 0 is the diff, negative ones are columns of keys
    name: str = field(compare=False, default="")  # the user's name, for display
    # Spark's spelling if known; ``"double"`` if a value may be floating; else empty.
    type: str = field(compare=False, default="")

    @property
    def sql(self) -> str:
        """The name of the column in SQL text."""
        if self.number < 0:
            return f"{PREFIX}key{-self.number}"
        return reserved.DIFF if self.number == 0 else f"{PREFIX}{self.number}"


DIFF = Col(0, "diff", "bigint")
VIEW = 0  # the number under which :class:`StoredGroups` means the view's own rows


@dataclass(frozen=True, slots=True)
class Subquery:
    """A query in an expression, perhaps over outer columns; ``left`` is the operand of IN."""

    node: "Node"
    kind: SubqueryKind
    left: "Expr | None" = None


@dataclass(frozen=True, slots=True)
class Clock:
    """A call that returns the clock, which is T."""

    kind: ClockKind


ExprPart = str | Col | Subquery | Clock


@dataclass(frozen=True, slots=True)
class Expr:
    """An expression: text, with columns and subqueries in place of the user's references."""

    parts: tuple[ExprPart, ...]
    span: Span | None = field(compare=False, default=None)

    @staticmethod
    def of(*parts: "ExprPart | Expr") -> "Expr":
        """An expression from words separated by blanks, columns and other expressions."""
        pieces: list[ExprPart] = []
        for part in parts:
            if isinstance(part, Expr):
                pieces += part.parts
            else:
                pieces += part.split() if isinstance(part, str) else [part]
        return Expr(tuple(pieces))

    @property
    def column(self) -> Col | None:
        """The column, if the expression is a single column."""
        only = self.parts[0] if len(self.parts) == 1 else None
        return only if isinstance(only, Col) else None


@dataclass(frozen=True, slots=True)
class Projection:
    """A computed column."""

    expr: Expr
    col: Col


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate or window function, computed as a column."""

    expr: Expr
    col: Col
    function: str  # its name in lower case
    exact: bool = True  # whether its result is independent of the order of rows
    over: tuple[Col, ...] = ()  # for a window function, the columns it is partitioned by
    # for a window function, the columns it is ordered by; None if by an expression.
    order: tuple[Col, ...] | None = ()
    # for grouping() and grouping_id(), the numbers of the keys in their arguments.
    grouping: tuple[int, ...] | None = None
    # the argument, if there is exactly one and no DISTINCT or other clause.
    argument: Expr | None = None
    ties: bool = False  # whether the result depends on the order of tied rows


def call_of(function: str, argument: ExprPart | Expr, col: Col) -> AggregateCall:
    """A call of an aggregate, computed as a column."""
    return AggregateCall(expr=Expr.of(function, "(", argument, ")"), col=col, function=function)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A base table; each column has the table's name for it."""

    table: str
    names: tuple[str, ...]
    columns: tuple[Col, ...]
    version: Version = Version.NEW


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """Rows without a table: VALUES, a table function, the one row of a SELECT without FROM."""

    text: str
    columns: tuple[Col, ...]
    is_function: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The stored rows of a step: a change, its affected keys, or rows of one side."""

    name: str
    columns: tuple[Col, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGroups:
    """The stored groups of an aggregate (see :mod:`ctsql.planner.ivm.rules.counting`)."""

    number: int
    names: tuple[str, ...]
    columns: tuple[Col, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSubset:
    """Some of a child's rows, with its columns."""

    child: "Node"

    @property
    def columns(self) -> tuple[Col, ...]:
        """The child's columns."""
        return self.child.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(RowSubset):
    """Rows for which every predicate is true."""

    predicates: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """When a comparison with the clock changes, and whether a row enters or leaves."""

    value: Expr  # the compared value
    shift: Expr  # text to add to it; then it is compared with T alone
    bound: Expr  # text to add to T instead
    is_entry: bool  # whether the row enters then; else it leaves then
    is_strict: bool  # it changes when T is past the value, not at the value
    is_day: bool  # the clock is a day, which changes at midnight (UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Temporal(RowSubset):
    """Rows for which every comparison with the clock is true; each passes for an interval of T."""

    predicates: tuple[Expr, ...]
    expiries: tuple[Expiry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Computed columns."""

    child: "Node"
    items: tuple[Projection, ...]

    @property
    def columns(self) -> tuple[Col, ...]:
        """The items' columns."""
        return tuple(item.col for item in self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """The inner join of any number of relations; without conditions their product."""

    children: tuple["Node", ...]
    conditions: tuple[Expr, ...]

    @property
    def columns(self) -> tuple[Col, ...]:
        """The columns of all children, in order."""
        return tuple(col for child in self.children for col in child.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSided:
    """A left and a right side."""

    left: "Node"
    right: "Node"

    @property
    def columns(self) -> tuple[Col, ...]:
        """Those of both sides."""
        return self.left.columns + self.right.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterOrSemiJoin(TwoSided):
    """An outer, semi or anti join."""

    kind: JoinKind
    conditions: tuple[Expr, ...]

    @property
    def columns(self) -> tuple[Col, ...]:
        """The columns of both sides; for semi and anti joins of the left one."""
        is_left = self.kind in (JoinKind.SEMI, JoinKind.ANTI)
        return self.left.columns if is_left else self.left.columns + self.right.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class LateralJoin(TwoSided):
    """A join with a subquery that uses the left row's columns."""

    is_left: bool
    conditions: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """LATERAL VIEW: for each row, the rows that a generator returns."""

    child: "Node"
    generator: Expr
    is_outer: bool
    generated_columns: tuple[Col, ...]

    @property
    def columns(self) -> tuple[Col, ...]:
        """The child's columns, then the generator's."""
        return self.child.columns + self.generated_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A grouping column: the column of the input and the column of the result."""

    source: Col
    col: Col


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """GROUP BY; ``sets`` are the numbers of the keys of each of GROUPING SETS, ROLLUP and CUBE."""

    child: "Node"
    keys: tuple[Key, ...]
    calls: tuple[AggregateCall, ...]
    sets: tuple[tuple[int, ...], ...] | None = None

    @property
    def columns(self) -> tuple[Col, ...]:
        """The keys, then the calls."""
        return tuple(k.col for k in self.keys) + tuple(c.col for c in self.calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct(RowSubset):
    """Equal rows once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOperation(TwoSided):
    """INTERSECT [ALL] and EXCEPT [ALL], with the column names of the left side."""

    operator: str

    @property
    def columns(self) -> tuple[Col, ...]:
        """The left side's columns."""
        return self.left.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionInput:
    """One input of a UNION ALL, with its columns in the order of the result."""

    node: "Node"
    cols: tuple[Col, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionAll:
    """The rows of all branches."""

    branches: tuple[UnionInput, ...]
    columns: tuple[Col, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The child's rows, with columns computed by window functions."""

    child: "Node"
    calls: tuple[AggregateCall, ...]

    @property
    def columns(self) -> tuple[Col, ...]:
        """The child's, then the calls'."""
        return self.child.columns + tuple(call.col for call in self.calls)

    @property
    def keys(self) -> tuple[Col, ...]:
        """The columns that every function is partitioned by."""
        columns = set.intersection(*(set(call.over) for call in self.calls))
        return tuple(sorted(columns, key=lambda col: col.number))


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One item of an ORDER BY: its expression, and the text behind it (DESC NULLS LAST)."""

    expr: Expr
    direction: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit(RowSubset):
    """ORDER BY ... LIMIT ... OFFSET ...; ``limit`` and ``offset`` are text, maybe empty."""

    order: tuple[Order, ...]
    limit: str
    offset: str
    span: Span | None = field(compare=False, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPredicate:
    """Whether a key row equals these columns; NULL equals NULL."""

    # a step; in a hint perhaps a table that is itself restricted to keys.
    keys: "Step | SemiJoinRestriction"
    pairs: tuple[tuple[Col, Col], ...]
    null_matches: bool = False  # a NULL on either side equals everything, for NOT IN
    # an operator above tests it again, so it may only skip files.
    is_hint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SemiJoinRestriction(RowSubset):
    """The child's rows that pass at least one of the tests."""

    tests: tuple[KeyPredicate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantDiff:
    """The child's rows with a constant diff: all inserted, or all deleted."""

    child: "Node"
    diff: int

    @property
    def columns(self) -> tuple[Col, ...]:
        """The child's columns, then the diff."""
        return (*self.child.columns, DIFF)


Node = (
    Scan
    | Values
    | Step
    | StoredGroups
    | Filter
    | Temporal
    | Project
    | Join
    | OuterOrSemiJoin
    | LateralJoin
    | Generate
    | Aggregate
    | Distinct
    | SetOperation
    | UnionAll
    | Window
    | Limit
    | SemiJoinRestriction
    | ConstantDiff
)
