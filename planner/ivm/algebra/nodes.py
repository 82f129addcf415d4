"""Relational algebra of a view's query: frozen, comparable nodes that have change rules.

A column is a number, unique within one plan, so predicates can be moved. An expression is the
user's own text, cut at its column references; it is never split further and never printed from a
tree (docs/decisions/0060).

A *signed* relation has the column :data:`DIFF` last: a row with diff d stands for d copies, or for
-d deletions. Changes are signed relations, made of the same nodes.
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
    name: str = field(compare=False, default="")  # the user's, for people
    # Spark's spelling where it is known; ``"double"`` where a value may be floating; else empty.
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
    """A query in an expression, maybe over columns around it; ``left`` is what stands before IN."""

    node: "Node"
    kind: SubqueryKind
    left: "Expr | None" = None


@dataclass(frozen=True, slots=True)
class Clock:
    """A call that reads the clock: T."""

    kind: ClockKind


Part = str | Col | Subquery | Clock


@dataclass(frozen=True, slots=True)
class Expr:
    """An expression: text, with columns and subqueries where the user's references stood."""

    parts: tuple[Part, ...]
    span: Span | None = field(compare=False, default=None)

    @staticmethod
    def of(*parts: "Part | Expr") -> "Expr":
        """An expression of ours: words with blanks between them, columns, other expressions."""
        pieces: list[Part] = []
        for part in parts:
            if isinstance(part, Expr):
                pieces += part.parts
            else:
                pieces += part.split() if isinstance(part, str) else [part]
        return Expr(tuple(pieces))

    @property
    def column(self) -> Col | None:
        """The column, if the expression is nothing else."""
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
    exact: bool = True  # whether its result is the same for equal inputs in any order
    over: tuple[Col, ...] = ()  # for a window function, the columns it is partitioned by
    # for a window function, the columns it is ordered by; None if by an expression.
    order: tuple[Col, ...] | None = ()
    # for grouping() and grouping_id(), the numbers of the keys in their arguments.
    grouping: tuple[int, ...] | None = None
    # the one argument, if there is exactly one and nothing else (no DISTINCT).
    argument: Expr | None = None
    ties: bool = False  # whether the result depends on how rows that its ORDER BY ties are ordered


def count_rows(col: Col) -> AggregateCall:
    """The call of count(*)."""
    return AggregateCall(expr=Expr.of("count ( * )"), col=col, function="count")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A base table; each column has the table's name for it."""

    table: str
    names: tuple[str, ...]
    columns: tuple[Col, ...]
    version: Version = Version.NEW


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """Rows that read no table: VALUES, a table function, the one row of a SELECT without FROM."""

    text: str
    columns: tuple[Col, ...]
    is_function: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The stored rows of a step: a change, the keys it touches, or rows of a side."""

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
        """The child's."""
        return self.child.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(RowSubset):
    """Rows for which every predicate is true."""

    predicates: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """When the result of a comparison with the clock changes, and how: a row enters or leaves."""

    value: Expr  # what is compared
    shift: Expr  # text to add to it; then it is compared with T alone
    bound: Expr  # text to add to T instead
    is_entry: bool  # the row is in from then on, and was not before; else it is in until then
    is_strict: bool  # it changes once T is past the value, not when T has reached it
    is_day: bool  # the clock is the day of T, which changes at midnight (UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Temporal(RowSubset):
    """Rows for which every comparison with the clock is true: each is in for an interval of T."""

    predicates: tuple[Expr, ...]
    expiries: tuple[Expiry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Computed columns."""

    child: "Node"
    items: tuple[Projection, ...]

    @property
    def columns(self) -> tuple[Col, ...]:
        """Those of the items."""
        return tuple(item.col for item in self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """The inner join of any number of relations; without conditions their product."""

    children: tuple["Node", ...]
    conditions: tuple[Expr, ...]

    @property
    def columns(self) -> tuple[Col, ...]:
        """Those of all children, in order."""
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
    """A join in which rows without a partner are kept, or in a semi or anti join select rows."""

    kind: JoinKind
    conditions: tuple[Expr, ...]

    @property
    def columns(self) -> tuple[Col, ...]:
        """Those of both sides; for semi and anti joins those of the left one."""
        is_left = self.kind in (JoinKind.SEMI, JoinKind.ANTI)
        return self.left.columns if is_left else self.left.columns + self.right.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class LateralJoin(TwoSided):
    """A join with a subquery that uses the left row's columns."""

    is_left: bool
    conditions: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """LATERAL VIEW: for each row, the rows that a generator makes of it."""

    child: "Node"
    generator: Expr
    is_outer: bool
    generated_columns: tuple[Col, ...]

    @property
    def columns(self) -> tuple[Col, ...]:
        """The child's, then the generator's."""
        return self.child.columns + self.generated_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A grouping column: the input's column and the result's."""

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
        """The keys', then the calls'."""
        return tuple(k.col for k in self.keys) + tuple(c.col for c in self.calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct(RowSubset):
    """Equal rows once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOperation(TwoSided):
    """INTERSECT [ALL] and EXCEPT [ALL]; the columns are named as the left side's."""

    operator: str

    @property
    def columns(self) -> tuple[Col, ...]:
        """The left side's."""
        return self.left.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionInput:
    """One input of a UNION ALL: which of its columns fill the result's, in order."""

    node: "Node"
    cols: tuple[Col, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionAll:
    """The rows of all branches."""

    branches: tuple[UnionInput, ...]
    columns: tuple[Col, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The child's rows with window functions computed beside them."""

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

    # a step; in a hint it may be a table that is cut to keys itself.
    keys: "Step | SemiJoinRestriction"
    pairs: tuple[tuple[Col, Col], ...]
    null_matches: bool = False  # a NULL on either side equals everything, as NOT IN needs it
    # what is above tests the same; the text need not, but files may be skipped by it.
    is_hint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SemiJoinRestriction(RowSubset):
    """The child's rows that pass any of the tests."""

    tests: tuple[KeyPredicate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantDiff:
    """The child's rows, signed: each once, or each taken away once."""

    child: "Node"
    diff: int

    @property
    def columns(self) -> tuple[Col, ...]:
        """The child's, then the diff."""
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
