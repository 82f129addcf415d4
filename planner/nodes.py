"""The logical plan: small frozen nodes, checked when built.

EXPLAIN prints the values that the runtime executes, so the two cannot differ. Leaves are relations
at a time T; a :class:`Query` is the user's own SQL over them; a :class:`TaskWrite` or
:class:`ViewWrite` is the root of an output's plan.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from ctsql.catalog.names import Name
from ctsql.catalog.refreshes import Every, RefreshPart
from ctsql.catalog.schemas import Column
from ctsql.planner.syntax.ast import MergeAction, MergeWhen, OnViolation, RelationRef, SqlText


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationLeaf:
    """A leaf: an object, its name in the query, and its columns."""

    object_id: str
    name: Name
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertsInput(RelationLeaf):
    """The rows inserted at T, retracted at T + 1; with snapshot, the whole contents on run one."""

    with_snapshot: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletesInput(RelationLeaf):
    """Exactly the rows deleted at T, with multiplicity; none on the first run with snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesInput(RelationLeaf):
    """The rows changed at T, each once, with ``diff``: copies inserted, or if negative deleted.

    The last column is ``diff``, or ``DIFF`` if the table has a column ``diff`` and the text renames
    all columns. On the first run with snapshot the rows are the whole contents.
    """

    with_snapshot: bool = False


InputNode = InsertsInput | DeletesInput | ChangesInput


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalReference(RelationLeaf):
    """The contents as of T, by binding, whatever is committed later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfReference(RelationLeaf):
    """The output itself: its rows at T - 1, changed by what earlier statements proposed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class External:
    """Rows of a file, a system table, or a name of this process; never in a definition."""

    ref: RelationRef
    # the name of the system table, without its schema; None for another relation.
    system: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The user's SQL over relations, which are in the order of ``sql.relations``.

    ``columns`` are the result's names and types by Spark's analysis; None while the plan is being
    bound.
    """

    sql: SqlText
    relations: tuple["Node", ...]
    columns: tuple[Column, ...] | None = None

    def __post_init__(self) -> None:
        if len(self.relations) != len(self.sql.relations):
            raise ValueError("a query needs one node for each relation of its text")


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewReference(RelationLeaf):
    """A plain view, read by evaluating its query in place, under its column names."""

    query: Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """Propose the query's rows; ``into`` has the output column that each of its columns fills.

    Other columns get their value in ``defaults``, or NULL. If ``into`` is None, columns are filled
    by name. ``object_id`` is the output's, ``name`` its name if there are several.
    """

    object_id: str
    name: Name | None = None
    query: Query
    into: tuple[str, ...] | None
    target: tuple[Column, ...]
    defaults: tuple["Assign", ...] = ()

    def __post_init__(self) -> None:
        if self.into is None:
            return
        target_names = {c.name for c in self.target}
        if not set(self.into) <= target_names or len(set(self.into)) != len(self.into):
            raise ValueError(f"insert into {self.into}, but the output has {sorted(target_names)}")

    @property
    def filled_columns(self) -> tuple[str, ...]:
        """The output columns that the query's columns fill, in order; empty if only Spark knows."""
        return self.into or tuple(c.name for c in self.query.columns or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Propose to delete the output's rows for which the predicate is true."""

    of: SelfReference
    alias: str
    where: Query | None
    ctes: Query | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """A column and the value it gets; None stands for NULL."""

    column: str
    value: Query | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Propose other values for the output's rows for which the predicate is true."""

    of: SelfReference
    alias: str
    assignments: tuple[Assign, ...]
    where: Query | None
    target: tuple[Column, ...]
    ctes: Query | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClause:
    """The action of a MERGE on the rows of one kind for which the condition is true."""

    when: MergeWhen
    action: MergeAction
    condition: Query | None
    assignments: tuple[Assign, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Propose by the first clause that applies; a held row matched by several is an error."""

    of: SelfReference
    alias: str
    source: Query
    source_alias: str
    on: Query
    clauses: tuple[MergeClause, ...]
    target: tuple[Column, ...]


def output_of(statement: Insert | Delete | Update | Merge) -> str:
    """The id of the output that a statement writes."""
    if isinstance(statement, Insert):
        return statement.object_id
    return statement.of.object_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A constraint on an output's proposed rows, and the action for a row that breaks it.

    A row breaks a CHECK if ``predicate`` is false, not if it is NULL; NOT NULL, by a NULL in any of
    ``not_null``; UNIQUE, if another row has its ``key``. ``rule`` is all that as SQL. ``of`` is the
    output's name if there are several.
    """

    object_id: str
    name: str
    action: OnViolation
    rule: str
    predicate: Query | None = None
    not_null: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    of: Name | None = None

    def __post_init__(self) -> None:
        kinds = (self.predicate is not None, bool(self.not_null), bool(self.key))
        if sum(kinds) != 1:
            raise ValueError("a constraint is a CHECK, NOT NULL or UNIQUE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The body: statements in order, each seeing what earlier ones proposed.

    It runs up to ``iterations`` times, until nothing changes; with ``fixpoint`` a change in the
    last run is an error. The result is checked by the constraints and consolidated: an insert and a
    delete of equal rows cancel.
    """

    statements: tuple[Insert | Delete | Update | Merge, ...]
    iterations: int = 1
    fixpoint: bool = False
    constraints: tuple[Constraint, ...] = ()

    @property
    def has_keys(self) -> bool:
        """Whether other rows decide if a row breaks a constraint."""
        return any(c.key for c in self.constraints)

    def constraints_of(self, object_id: str) -> tuple[Constraint, ...]:
        """Those of one output, in the order of their definition."""
        return tuple(c for c in self.constraints if c.object_id == object_id)

    def __post_init__(self) -> None:
        if not self.statements:
            raise ValueError("a transaction needs a statement")
        if self.iterations < 1:
            raise ValueError("a transaction runs once at least")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimesExtract:
    """The times at which any of the inputs changed; reads the logs and no rows."""

    inputs: tuple["Node", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimesReduce:
    """At most one update per time."""

    times: "Node"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenOutput:
    """One of the outputs that a task writes."""

    object_id: str
    name: Name
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWrite:
    """Run the transaction at each due time; one commit each, or none when nothing is proposed.

    With ``outputs`` the task writes those, all or none at a time, and has no columns itself.
    ``inputs`` are the changes that it follows. ``input_views`` has the relation that the body sees
    instead of an input: a plain view, or the rows that meet the condition after ON INPUT.
    """

    object_id: str
    name: Name
    columns: tuple[Column, ...]
    outputs: tuple[WrittenOutput, ...] = ()
    inputs: tuple["Node", ...]
    input_views: tuple[ViewReference, ...] = ()
    times: "Node"
    transaction: Transaction
    skip_errors: bool = False  # ON ERROR = 'skip'
    quarantine_errors: bool = False  # ON ERROR = 'quarantine': failed changes are set aside
    trim: Every | None = None  # TRIM EVERY: the body also runs then, with nothing inserted
    coalesce: Every | None = None  # COALESCE: changes are due together, at the end of an interval

    @property
    def all_outputs(self) -> tuple[WrittenOutput, ...]:
        """The objects that the body writes: the outputs, or the task itself."""
        own = WrittenOutput(object_id=self.object_id, name=self.name, columns=self.columns)
        return self.outputs or (own,)

    @property
    def has_quarantine(self) -> bool:
        """Whether rows may go into the task's quarantine, a table in addition to its outputs."""
        constraints = self.transaction.constraints
        return self.quarantine_errors or any(
            c.action is OnViolation.QUARANTINE for c in constraints
        )


POLICY_AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewWrite:
    """Commit desired - stored at T; with ``refresh``, at the times of that schedule only.

    A row that breaks a FAIL constraint makes the whole contents an error; ``desired`` excludes rows
    that other constraints leave out. ``policy`` is ``auto``, ``incremental``, ``strict`` or
    ``full``.
    """

    object_id: str
    name: Name
    columns: tuple[Column, ...]
    desired: Query
    stored: "Node"
    refresh: tuple[RefreshPart, ...] | None = None
    constraints: tuple[Constraint, ...] = ()
    policy: str = POLICY_AUTO

    @property
    def reads_clock(self) -> bool:
        """Whether its contents change because time passes."""
        return any(n.sql.clocks for n in descend(self.desired) if isinstance(n, Query))

    @property
    def failing(self) -> tuple[Constraint, ...]:
        """The constraints that make the contents an error; ``desired`` itself fails for keys."""
        constraints = (c for c in self.constraints if c.action is OnViolation.FAIL)
        return tuple(c for c in constraints if not c.key)


Node = (
    InsertsInput | DeletesInput | ChangesInput | NormalReference | SelfReference | External | Query
    | ViewReference | Assign | Insert | Delete | Update | MergeClause | Merge | Constraint
    | Transaction | TimesExtract | TimesReduce | WrittenOutput | TaskWrite | ViewWrite
)  # fmt: skip


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below, in order."""
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Node):
                yield item


def descend(node: Node) -> Iterator[Node]:
    """The node and all below it."""
    yield node
    for child in children(node):
        yield from descend(child)
