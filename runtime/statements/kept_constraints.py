"""Constraints of tables that ctsql's own statements keep: UNIQUE, REFERENCES, and other fates.

Delta's protocol has CHECK and NOT NULL that refuse; every writer keeps those. All others are kept
by whoever writes through ctsql, by the rules and the code of a task's output
(:mod:`ctsql.runtime.tasks.constraints`, ``key_constraints``):

    what a transaction has staged --> rows that come, places of rows that go
        --> marked, sorted by their fate --> kept: instead of what was staged
                                         --> set aside: into the quarantine, in the same commit

[on-compared-version] a statement is such a transaction of its own. It is committed on the version
    that its rows were compared with, or not at all: of two writers with one key the second looks
    again.
[fail-stages-nothing] where nothing but FAIL is broken nothing is staged anew, so an INSERT of
    constants stays what it was, and is looked at in :class:`Gate`.
[left-out-keeps-stored] where a row is left out that UPDATE or MERGE makes of a stored one, the
    stored one stays as it is. Then it keeps its key as well, so rows are looked at again until none
    stays that was to go.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F, types as T

from ctsql.catalog.errors import CtsqlError, error, unknown_relation
from ctsql.catalog.items import Item
from ctsql.catalog.names import backtick, backtick_all, fold, quote
from ctsql.catalog.reserved_columns import BROKEN, ROW_ID, STAYS
from ctsql.catalog.schemas import Schema, get
from ctsql.planner.binding.constraints import bind_constraint, check_reference
from ctsql.planner.lowering import AS_JSON, Context, mark_broken
from ctsql.planner.nodes import Constraint, NormalReference
from ctsql.planner.syntax.ast import ConstraintDef, OnViolation
from ctsql.runtime.delta.clones import without_numbers
from ctsql.runtime.delta.transaction import Transaction
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import clock
from ctsql.runtime.rows.declined import Declined
from ctsql.runtime.rows.row_set import AnyRows, LocalRows, RowSet, SparkRows, row_set
from ctsql.runtime.spark.errors import translate_spark_errors
from ctsql.runtime.statements.stored_constraints import StoredConstraint, kept_constraints, names_of
from ctsql.runtime.tasks.constraints import OTHER_FATE, CheckedRows, LeftOut, check_rows
from ctsql.runtime.tasks.key_constraints import Surroundings, mark_keys
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.runtime.warehouse.warehouse import Warehouse

_HINT = "Mend the rows of the statement, or " + OTHER_FATE
ROUNDS_MAX = 20
"""How often rows are looked at again since others stay that were to go."""


@dataclass(frozen=True, slots=True)
class ProposedWrite:
    """What is to be written into a table.

    Attributes:
        version: of the table that it builds on; None to look at rows among themselves.
        rows: those that come; None for none. With ``ROW_ID`` where it is known which of
            ``victims``, who have it too, each replaces.
        victims: those that go, with their places.
        at: the T at which other tables are read. own_writes: the rows of tables that the same
            transaction writes, by object id.
    """

    version: int | None
    rows: AnyRows
    victims: AnyRows
    at: int
    own_writes: Mapping[str, Callable[[], DataFrame]] = field(default_factory=dict)


def bound_constraints(
    warehouse: Warehouse,
    item: Item,
    configuration: Mapping[str, str],
    *,
    columns: Schema | None = None,
) -> tuple[Constraint, ...]:
    """The constraints that ctsql keeps of a table, by its properties.

    Args:
        columns: of the table; None for those that it has now.

    Raises:
        UNKNOWN_COLUMN, UNKNOWN_RELATION: another writer has dropped what one is about.
    """
    constraints = kept_constraints(configuration, names_of(warehouse.catalog))
    if constraints and columns is None:
        columns = warehouse.relations.columns_now(item)
    own = item if columns is None else replace(item, columns=columns)
    return tuple(_bound(warehouse, own, one) for one in constraints)


def _bound(warehouse: Warehouse, own: Item, stored_constraint: StoredConstraint) -> Constraint:
    definition = stored_constraint.definition
    assert definition is not None  # it is one that ctsql keeps
    there = {fold(column.name) for column in own.columns}
    lost_column = next((c for c in definition.columns if fold(c) not in there), None)
    hint = f"Type: ALTER TABLE {own.name} DROP CONSTRAINT {quote(stored_constraint.name)}"
    if lost_column is not None:
        detail = f'"{own.name}" has lost it, and constraint "{stored_constraint.name}" is about it.'
        raise error("UNKNOWN_COLUMN", column=lost_column, detail=detail, hint=hint)
    constraint = bind_constraint(definition, own, None)
    if stored_constraint.refers is None:
        return constraint
    other = warehouse.catalog.items.get(stored_constraint.refers)
    if other is None:
        kind = f'relation, to which constraint "{stored_constraint.name}" of "{own.name}" refers,'
        raise unknown_relation(_referred_name(definition), hint, kind=kind)
    columns = {fold(c.name): c for c in warehouse.relations.columns_now(other)}
    if all(fold(key) in columns for key in definition.keys):  # else whoever looks there tells of it
        referring = [get(own.columns, name, span=definition.span) for name in constraint.key]
        check_reference(definition, referring, [columns[fold(k)] for k in definition.keys])
    keys = tuple(columns[fold(k)].name if fold(k) in columns else k for k in definition.keys)
    node = NormalReference(object_id=other.id, name=other.name, columns=())
    return replace(constraint, references=node, keys=keys)


def _referred_name(definition: ConstraintDef) -> str:
    return "" if definition.references is None else definition.references.name_span.text


def check_proposed(
    warehouse: Warehouse,
    item: Item,
    constraints: Sequence[Constraint],
    proposal: ProposedWrite,
    *,
    small: bool,
    stack: ExitStack,
    hint: str = _HINT,
) -> CheckedRows:
    """Sort the rows that come into a table by what becomes of them.

    Args:
        small: whether few rows are expected. stack: keeps what Spark holds until rows are staged.
        hint: what to do about rows that break one.

    Raises:
        CONSTRAINT_VIOLATED: a row breaks one that refuses. DATA_ERROR: one cannot be evaluated.
    """
    if proposal.rows is None:
        return CheckedRows(None)

    def look(rows: AnyRows, victims: AnyRows) -> CheckedRows:
        assert rows is not None  # there are rows, be they none that are kept
        marked_rows: AnyRows = _mark(warehouse, constraints, rows)
        build_on = (item, proposal.version)
        around = Surroundings(warehouse, build_on, victims, proposal.at, proposal.own_writes)
        marked_rows = mark_keys(constraints, marked_rows, around, small=small, stack=stack)
        columns = [name for name in row_set(rows).schema.names if name != ROW_ID]
        return check_rows(constraints, marked_rows, columns, small=small, stack=stack, hint=hint)

    victims, rounds = proposal.victims, [look(proposal.rows, proposal.victims)]
    while (stay := _staying(rounds[-1])) is not None and any(_is_unique(c) for c in constraints):
        if len(rounds) == ROUNDS_MAX:
            raise _too_many_rounds(constraints, rounds[-1])
        assert victims is not None  # what stays was to go
        victims = without_numbers(row_set(victims), stay)
        rounds.append(look(rounds[-1].output_rows, victims))
    return rounds[0] if len(rounds) == 1 else _combine(rounds)


def _is_unique(constraint: Constraint) -> bool:
    return bool(constraint.key) and constraint.references is None


def _staying(outcome: CheckedRows) -> RowSet | None:
    """The ``ROW_ID`` of :func:`staying_rows`; None for none."""
    if outcome.left_out is None or ROW_ID not in outcome.left_out.rows.schema.names:
        return None
    ids = outcome.left_out.rows.select([ROW_ID])
    local_rows = ids.collect()
    if isinstance(local_rows, Declined):
        staying = SparkRows(ids.frame.where(F.col(ROW_ID).isNotNull()))
        return None if staying.is_empty else staying
    numbers = [
        i for i, one in enumerate(local_rows.arrow.column(ROW_ID).to_pylist()) if one is not None
    ]
    return local_rows.take(numbers) if numbers else None


def staying_rows(outcome: CheckedRows) -> DataFrame | None:
    """``ROW_ID`` of the stored rows that stay, as what they were to become is left out."""
    rows = _staying(outcome)
    return None if rows is None else rows.frame


def with_staying(away: DataFrame, stored_rows: DataFrame) -> DataFrame:
    """Rows that are set aside, with ``STAYS``: the stored row that each was to replace, as JSON.

    Args:
        stored_rows: these rows, with ``ROW_ID``.
    """
    own = backtick_all([c for c in stored_rows.columns if c != ROW_ID])
    text = F.to_json(F.struct(*own), AS_JSON).alias(STAYS)
    return away.join(stored_rows.select(ROW_ID, text), ROW_ID, "left")


def _combine(rounds: Sequence[CheckedRows]) -> CheckedRows:
    """What became of rows in several rounds, each of which looked at what the one before kept."""
    *before, last = rounds
    broken_counts, left_out_counts = Counter(last.violations), Counter[str]()
    for one in before:
        assert one.left_out is not None  # hence the next round
        broken_counts.update(one.left_out.violations)
    out = [one.left_out for one in rounds if one.left_out is not None]
    for some in out:
        left_out_counts.update(some.violations)
    away = [one.quarantined_rows for one in rounds if one.quarantined_rows is not None]
    rows = SparkRows(reduce(DataFrame.unionByName, [some.rows.frame for some in out]))
    return CheckedRows(
        output_rows=last.output_rows,
        violations=dict(broken_counts),
        quarantined_rows=reduce(DataFrame.unionByName, away) if away else None,
        left_out=LeftOut(rows, sum(some.count for some in out), dict(left_out_counts)),
    )


def _too_many_rounds(constraints: Sequence[Constraint], last: CheckedRows) -> CtsqlError:
    name = next(c.name for c in constraints if _is_unique(c) and c.name in last.violations)
    detail = f"A row that stays keeps its key, and {ROUNDS_MAX} times another row was to have it."
    return error(
        "CONSTRAINT_VIOLATED",
        message=f'constraint "{name}" is broken by rows that wait for each other\'s keys',
        detail=detail,
        hint="Leave out in its WHERE the rows that break a constraint.",
    )


def _mark(warehouse: Warehouse, constraints: Sequence[Constraint], rows: AnyRows) -> AnyRows:
    """Rows with ``BROKEN``, as far as a row says by itself what it breaks; ``now()`` is now."""
    if rows is None:
        return None
    own_rows = row_set(rows)
    local_rows = own_rows.local
    if not isinstance(local_rows, Declined) and all(c.key for c in constraints):
        schema = T.StructType([*local_rows.schema, T.StructField(BROKEN, T.LongType())])
        none = pa.array([0] * local_rows.arrow.num_rows, pa.int64())
        return local_rows.with_rows(schema, local_rows.arrow.append_column(BROKEN, none))
    context = Context(warehouse.gateway.session, StoredSources(warehouse), clock.now_ms())
    marked_rows = mark_broken(constraints, own_rows.plain_frame, context)
    assert marked_rows is not None  # there are rows
    return marked_rows


@dataclass(frozen=True, slots=True)
class Gate:
    """Looks at few rows that a statement is about to commit by itself."""

    engine: Engine
    item: Item

    def lets(self, txn: Transaction, rows: LocalRows) -> bool:
        """Whether the commit may be made as it is; else the statement is run as a transaction.

        Args:
            txn: what is committed, which from now on fails if another commit comes first.
            rows: those that come.

        Raises CONSTRAINT_VIOLATED.
        """
        configuration = txn.metadata["configuration"]
        constraints = bound_constraints(self.engine.warehouse, self.item, configuration)
        if not constraints:
            return True
        txn.depend_on_all()
        nodes = (c.references for c in constraints)
        refers = {n.object_id for n in nodes if isinstance(n, NormalReference)}
        if self.item.id in refers:
            return False  # what the statement itself writes counts
        at = 0
        if refers:
            at = self.engine.read_time([self.engine.relations.item(i) for i in sorted(refers)])
        proposal = ProposedWrite(txn.version_read, rows, None, at)
        with ExitStack() as stack:
            outcome = check_proposed(
                self.engine.warehouse, self.item, constraints, proposal, small=True, stack=stack
            )
        return not outcome.violations


def count_broken(warehouse: Warehouse, item: Item) -> dict[str, int]:
    """How many rows of a table break each constraint that ctsql keeps, by name; none is left out.

    That is so where another writer has written them, or where the constraint says WARN.
    """
    table = warehouse.relations.table(item)
    counts: dict[str, int] = {}
    for constraint in bound_constraints(warehouse, item, table.configuration()):
        only = replace(constraint, action=OnViolation.WARN)
        rows = table.frame(table.version())
        if constraint.key:
            rows = rows.select(*map(backtick, dict.fromkeys(constraint.key)))
        at = warehouse.timeline.now
        with ExitStack() as stack, translate_spark_errors():
            proposal = ProposedWrite(None, rows, None, at)
            outcome = check_proposed(warehouse, item, [only], proposal, small=False, stack=stack)
        counts |= outcome.violations
    return counts
