"""Shared by the change rules: the tables that changed, the steps so far, notes for EXPLAIN."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from ctsql.catalog.errors import Declined
from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.traversal import at, rename, tables, union_all


class StepRole(Enum):
    """The role of a step's rows."""

    CHANGE = "a signed change"
    KEYS = "keys that are affected, each once"
    ROWS = "rows whose partners changed"
    STORED_GROUPS = "stored groups that change"
    GROUPS = "stored groups with the change added"
    ALL_GROUPS = "all groups after the change"
    CANDIDATES = "rows that the first ones are chosen from"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """Rows computed once and read by later steps."""

    name: str
    role: StepRole
    node: alg.Node
    # Spark 4.2 cannot plan a query in which this step is a nested subquery (a
    # scalar subquery between two UNION ALL, in its rule CombineUnions).
    must_be_stored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleUse:
    """The rule of an operator, for EXPLAIN."""

    rule: str
    note: Declined | None = None


class DeltaDerivation:
    """Derives the change of one query, for one set of changed tables.

    Args:
        changed_tables: those with a change that is not empty. numbers: for new columns.
        rule: the change of a node, by kind; it calls back for the nodes below.
        state: for an aggregate that has one, the number of its state table.

    Attributes:
        large: as for :meth:`ctsql.planner.ivm.plan.ChangePlan.delta`.
        groups: by a state table's number, its touched groups after and before.
        state_keys: the keys of these groups: a step, and pairs of a column of the state table and
            one of the step.
    """

    def __init__(
        self,
        changed_tables: Collection[str],
        numbers: Iterator[int],
        rule: Callable[[alg.Node, "DeltaDerivation"], alg.Node | None],
        state: Callable[[alg.Aggregate], int | None],
        large: Collection[str] = (),
    ) -> None:
        self.changed_tables = frozenset(changed_tables)
        self.large = frozenset(large)
        self.numbers = numbers
        self.state = state
        self.steps: list[PlannedStep] = []
        self.rules: dict[alg.Node, RuleUse] = {}
        self.groups: dict[int, tuple[alg.Step, alg.Step]] = {}
        self.state_keys: dict[int, tuple[str, tuple[tuple[str, str], ...]]] = {}
        self._rule = rule
        self._deltas: dict[alg.Node, alg.Node | None] = {}
        self._steps: dict[tuple[StepRole, alg.Node], alg.Step] = {}

    def fresh(self, name: str, kind: str = "") -> alg.Col:
        """A new column."""
        return alg.Col(next(self.numbers), name, kind)

    def copy(self, col: alg.Col) -> alg.Col:
        """A new column with the same name and type."""
        return replace(col, number=next(self.numbers))

    def repeat(self, child: alg.Node, times: alg.Expr) -> alg.Generate:
        """Each row of a child, repeated."""
        generator = alg.Expr.of("explode ( sequence ( 1 , CAST (", times, "AS INT ) ) )")
        copies = (self.fresh("copy", "int"),)
        return alg.Generate(
            child=child, generator=generator, is_outer=False, generated_columns=copies
        )

    def touches(self, node: alg.Node) -> bool:
        """Whether the node reads a changed table."""
        return bool(tables(node) & self.changed_tables)

    def of(self, node: alg.Node) -> alg.Node | None:
        """The signed change of a node: its columns in some order, and the diff, if any."""
        if not self.touches(node):
            return None
        if node not in self._deltas:
            self._deltas[node] = self._rule(node, self)
        return self._deltas[node]

    def old(self, node: alg.Node) -> alg.Node:
        """The node before the change; unchanged tables are read as of now."""
        return at(node, alg.Version.OLD, self.changed_tables)

    def step(self, role: StepRole, node: alg.Node, *, must_be_stored: bool = False) -> alg.Step:
        """The rows of a node as a step; equal nodes with equal roles share one."""
        if isinstance(node, alg.Step):
            return node
        step = self._steps.get((role, node))
        if step is None:
            name = f"{role.name.lower()}_{len(self.steps) + 1}"
            step = self._steps[(role, node)] = alg.Step(name=name, columns=node.columns)
            self.steps.append(
                PlannedStep(name=name, role=role, node=node, must_be_stored=must_be_stored)
            )
        elif must_be_stored:
            place = next(i for i, s in enumerate(self.steps) if s.name == step.name)
            self.steps[place] = replace(self.steps[place], must_be_stored=True)
        return step

    def keys(
        self, change: alg.Node, columns: Sequence[alg.Col]
    ) -> tuple[alg.Step, tuple[alg.Col, ...]]:
        """The distinct values of some columns of a change, and their columns in the step."""
        return self.keys_of([(change, columns)])

    def keys_of(
        self, changes: Sequence[tuple[alg.Node, Sequence[alg.Col]]]
    ) -> tuple[alg.Step, tuple[alg.Col, ...]]:
        """The distinct values of some columns, of several changes together."""
        names = tuple(alg.Col(-1 - i, "key") for i in range(len(changes[0][1])))
        branches = [rename(change, cols, names) for change, cols in changes]
        rows = branches[0] if len(branches) == 1 else union_all(branches, names)
        return self.step(StepRole.KEYS, alg.Distinct(child=rows)), names

    def note(self, operator: alg.Node, rule: str, code: str | None = None) -> None:
        """Record for EXPLAIN the rule of an operator, and the reason for extra reads."""
        note = None if code is None else Declined(code)
        if operator not in self.rules or note is not None:
            self.rules[operator] = RuleUse(rule=rule, note=note)


def sum_of_deltas(changes: Sequence[alg.Node], columns: Sequence[alg.Col]) -> alg.Node | None:
    """The sum of signed changes; None without changes."""
    if not changes:
        return None
    cols = (*columns, alg.DIFF)
    branches = tuple(alg.UnionInput(node=change, cols=cols) for change in changes)
    return changes[0] if len(changes) == 1 else alg.UnionAll(branches=branches, columns=cols)


def replacement_delta(new: alg.Node, old: alg.Node) -> tuple[alg.Node, alg.Node]:
    """All rows of ``new`` inserted, all rows of ``old`` deleted."""
    return alg.ConstantDiff(child=new, diff=1), alg.ConstantDiff(child=old, diff=-1)
