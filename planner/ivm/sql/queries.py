"""The queries of a change plan, in the order in which they run.

Each is a node with names for its columns. It lists the relations that it reads, and is printed for
Spark with names that the caller chooses.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ctsql.catalog.names import backtick
from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.traversal import descend, own_subqueries
from ctsql.planner.ivm.rules.context import StepRole
from ctsql.planner.ivm.sql.spark import Input, Names, Printer, StepUse, TableUse, table_use


class PrintedQuery(ABC):
    """A query that is printed for Spark, given names of its relations."""

    __slots__ = ()

    @abstractmethod
    def sql(self, name: Names) -> str:
        """The query in Spark's SQL."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The relations that it reads, in the order of its text."""
        inputs: dict[Input, str] = {}
        self.sql(lambda use: inputs.setdefault(use, ""))
        return tuple(inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(PrintedQuery):
    """A query: some columns of a node, in order, and their names in the result."""

    node: alg.Node
    columns: tuple[alg.Col, ...]
    names: tuple[str, ...]

    def sql(self, name: Names) -> str:
        """The query in Spark's SQL."""
        text = Printer(name).query(self.node)
        if self.columns == self.node.columns and self.names == tuple(c.sql for c in self.columns):
            return text
        select_list = ", ".join(
            f"{c.sql} AS {backtick(n)}" for c, n in zip(self.columns, self.names, strict=True)
        )
        return f"SELECT {select_list} FROM ({text})"

    @property
    def picked_columns(self) -> "PickedColumns | None":
        """Its columns, if it only selects columns of steps or changes."""
        node, is_distinct = self.node, False
        branches = [(node, self.columns)]
        if isinstance(node, alg.Distinct):
            if self.columns != node.columns:
                return None
            node, is_distinct = node.child, True
            branches = [(node, node.columns)]
            if isinstance(node, alg.UnionAll):
                branches = [(b.node, b.cols) for b in node.branches]
        picks = [one for below, columns in branches if (one := _picked_of(below, columns))]
        are_all = len(picks) == len(branches)
        return PickedColumns(tuple(picks), self.names, is_distinct) if are_all else None


@dataclass(frozen=True, slots=True)
class PickedColumns:
    """Some columns of steps, or of changes of tables."""

    # of each step or change, in the same order.
    columns: tuple[tuple[StepUse | TableUse, tuple[str, ...]], ...]
    names: tuple[str, ...]  # their names in the result
    # whether equal rows count once, over all of these; else there is only one.
    is_distinct: bool


def _picked_of(
    node: alg.Node, columns: Sequence[alg.Col]
) -> tuple[StepUse | TableUse, tuple[str, ...]] | None:
    """A step or a change, and the selected columns, also through a projection."""
    below, cols = node, [*columns]
    if isinstance(node, alg.Project):
        sources = {item.col: item.expr.column for item in node.items}
        origins = [sources.get(column) for column in columns]
        below, cols = node.child, [col for col in origins if col is not None]
    if isinstance(below, alg.Step):
        use: StepUse | TableUse = StepUse(below.name)
        name_of = {c: c.sql for c in below.columns}
    elif isinstance(below, alg.Scan) and below.version is alg.Version.DELTA:
        use, name_of = table_use(below), dict(zip(below.columns, below.names, strict=True))
    else:
        return None
    names = tuple(name_of[c] for c in cols if c in name_of)
    return (use, names) if len(names) == len(columns) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepText:
    """A query whose rows later queries read, under ``name``."""

    name: str
    role: StepRole
    rows: Text
    # the rows must be computed before what reads them is planned (see
    # :class:`~ctsql.planner.ivm.rules.context.PlannedStep`); otherwise the text may stand in a WITH
    # clause. A step with the role ``GROUPS`` must be given the types of the state table's columns.
    must_be_stored: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSteps:
    """The change of a state table: some rows are replaced, in the order of its columns."""

    before: str  # the step with the stored rows that change
    # the step with their new contents; with keys, a group whose ``n`` is 0 no longer exists.
    after: str
    keys: str | None  # the step with the keys of these groups; None if there is one group
    # pairs of a column of the state table and the step's; they match if all are equal (NULL too).
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTexts:
    """The signed change of a view."""

    steps: tuple[StepText, ...]  # to be run in order
    # the view's columns and ``__ct_diff``; equal rows may come several times with diffs that
    # cancel. Without ``__ct_diff`` if all rows of the view are computed again.
    rows: Text
    # by number, the change of each used state table.
    states: Mapping[int, StateSteps] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedTexts:
    """The desired rows of the affected keys; other rows of the view are kept."""

    steps: tuple[StepText, ...]
    rows: Text  # the desired rows, with the view's columns
    keys: str  # the step that holds the keys
    # a column of the view and the step's column; a row of the view is affected if the step has a
    # row that equals it in all of these, NULL equal to NULL.
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class FirstRowsTest(PrintedQuery):
    """A query of one boolean: whether the first rows of the candidates are those of the query.

    If not, rows that were not stored have moved up, and the query must be run.
    """

    candidates: Text  # the rows to choose from
    stored_rows: Text  # the view's stored rows
    limit: alg.Limit  # ORDER BY and LIMIT

    def sql(self, name: Names) -> str:
        """The query in Spark's SQL."""
        printer = Printer(name)
        order = ", ".join(f"{printer.expr(o.expr)} {o.direction}".strip() for o in self.limit.order)
        ranks = (
            f"SELECT __ct_new, rank() OVER (ORDER BY {order}) AS __ct_rank FROM ("
            f"SELECT *, 1 AS __ct_new FROM ({self.candidates.sql(name)}) UNION ALL "
            f"SELECT *, 0 AS __ct_new FROM ({self.stored_rows.sql(name)}))"
        )
        worst = (
            "SELECT *, max(CASE WHEN __ct_new = 0 THEN __ct_rank END) OVER () AS __ct_worst "
            f"FROM ({ranks})"
        )
        holds = (
            f"SELECT sum(1 - __ct_new) < {self.limit.limit} OR sum(CASE WHEN __ct_new = 1 AND "
            f"__ct_rank <= __ct_worst THEN 1 ELSE 0 END) >= {self.limit.limit} AS holds "
            f"FROM ({worst})"
        )
        return f"SELECT coalesce(holds, true) AS holds FROM ({holds})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopTexts(ChangeTexts):
    """All desired rows of a view of first rows, and the test whether they are correct."""

    holds: FirstRowsTest


def step_uses(texts: Iterable[Text]) -> Counter[str]:
    """How often the rows of each step are read."""
    uses: Counter[str] = Counter()
    for text in texts:
        for node in descend(text.node):
            if isinstance(node, alg.Step):
                uses[node.name] += 1
            elif isinstance(node, alg.SemiJoinRestriction):
                key_sources = (t.keys for t in node.tests if not t.is_hint)
                uses.update(keys.name for keys in key_sources if isinstance(keys, alg.Step))
    return uses


def steps_read(text: Text) -> set[str]:
    """The steps that a query reads, and those with the keys of its tables."""

    def read(node: alg.Node) -> Iterator[str]:
        for below in descend(node):
            if isinstance(below, alg.Step):
                yield below.name
            elif isinstance(below, alg.SemiJoinRestriction):
                for test in below.tests:
                    yield from read(test.keys)

    return set(read(text.node))


def has_subqueries(text: Text) -> bool:
    """Whether there is a subquery in any of its expressions."""
    return any(own_subqueries(node) for node in descend(text.node))


def key_steps(texts: Iterable[Text]) -> set[str]:
    """The steps whose rows select the rows that are read of a table."""
    return {
        test.keys.name
        for text in texts
        for node in descend(text.node)
        if isinstance(node, alg.SemiJoinRestriction) and isinstance(node.child, alg.Scan)
        for test in node.tests
        if isinstance(test.keys, alg.Step)
    }
