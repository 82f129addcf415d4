"""Rows of a task's quarantine that are sent through again at a T: RETRY QUARANTINE.

The statement is bound to a T of its own, as a definition that is in force there alone
(``Item.retry``). At that T

    rows at fault of the input       --> among what the input inserted: the body takes them
    rows of an output (constraints)  --> among what the body proposes: its constraints look again
    all of them                      --> taken out of the quarantine

[definite-rows] which rows these are depends on nothing but the quarantine before T and the
    statement, so the outcome at T is definite, and a T that was cut off is completed by whoever
    comes next.
[one-place-at-once] they leave the quarantine in the commits that write T, so each is in one place,
    once. One that is refused again comes back there, with this T.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from pyspark.sql import Column as SparkColumn, DataFrame, functions as F, types as T

from ctsql.catalog import schemas
from ctsql.catalog.errors import CtsqlError, StatementError, not_supported
from ctsql.catalog.items import Item, written_under
from ctsql.catalog.names import backtick, backtick_all, fold, quote
from ctsql.catalog.reserved_columns import FILE_COLUMN, RETRIED, ROW_COLUMN
from ctsql.catalog.schemas import Column, quote_text
from ctsql.planner import nodes as lp
from ctsql.planner.lowering import AS_JSON, Context, OutputState, View, mark_broken, union_all
from ctsql.planner.lowering.store_assignment import as_stored
from ctsql.planner.syntax import ast as st, parse_as
from ctsql.runtime.delta.change_feed import InputChange
from ctsql.runtime.rows.row_set import persisted, row_set
from ctsql.runtime.rows.types import survives_json
from ctsql.runtime.spark.analyzer import EmptySources
from ctsql.runtime.spark.errors import translate_spark_errors
from ctsql.runtime.warehouse.query_engine import OutputProposal
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.runtime.warehouse.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of a quarantine that have the same columns.

    Attributes:
        object_id: of the output that they are for, or of the input by which the body reads them.
        name: what they may be called in the statement. which: the condition that picks them.
    """

    object_id: str
    name: str
    columns: tuple[Column, ...]
    which: str
    is_input: bool = False


@dataclass(frozen=True, slots=True)
class RetriedRows:
    """What a T sends through again.

    Attributes:
        victims: the rows as the quarantine holds them, with their places.
        groups: the mended rows of each group.
        located_groups: the same with the places of ``victims``.
    """

    victims: DataFrame
    groups: Sequence[tuple[Group, DataFrame]]
    located_groups: Sequence[tuple[Group, DataFrame]]

    @property
    def has_rows_of_outputs(self) -> bool:
        """Whether there are rows that no body sees, only the constraints of their output."""
        return not all(group.is_input for group, _ in self.groups)

    def among(self, changes: Mapping[str, InputChange]) -> dict[str, InputChange]:
        """The changes of the inputs with the mended rows among those inserted."""
        new_changes = dict(changes)
        for group, rows in self.groups:
            if group.is_input:
                change = new_changes[group.object_id]
                column_names = backtick_all(change.inserts.columns)
                inserts = union_all(change.inserts, rows.select(*column_names))
                new_changes[group.object_id] = InputChange(change.nothing, inserts)
        return new_changes

    def proposals(
        self, transaction: lp.Transaction, proposals: Mapping[str, OutputProposal], context: Context
    ) -> dict[str, OutputProposal]:
        """What the body proposes, with the mended rows of its outputs, marked by constraints."""
        new_proposals = dict(proposals)
        for group, rows in self.groups:
            if group.is_input:
                continue
            marked_rows = mark_broken(transaction.constraints_of(group.object_id), rows, context)
            assert marked_rows is not None  # there are rows
            proposal = new_proposals.get(group.object_id, OutputProposal(None, None))
            own = None if proposal.inserts is None else row_set(proposal.inserts).frame
            if own is not None:
                own = own.select(*backtick_all(marked_rows.columns))
            new_proposals[group.object_id] = replace(proposal, inserts=union_all(own, marked_rows))
        return new_proposals


def groups_of(plan: lp.TaskWrite, items_by_output: Mapping[str, Item]) -> list[Group]:
    """The kinds of rows that a task's quarantine may hold, by its definition.

    Args:
        items_by_output: by the id of each output the object whose names the rows have.
    """
    alone = len(plan.all_outputs) == 1
    groups = []
    for output in plan.all_outputs:
        which = "constraint_name IS NOT NULL"
        if not alone:
            under = items_by_output[output.object_id]
            names = map(quote_text, (under.name.qualified(), *under.former_names))
            which += f" AND relation IN ({', '.join(names)})"
        groups.append(Group(output.object_id, output.name.name, output.columns, which))
    return groups


def group_of_input(warehouse: Warehouse, plan: lp.TaskWrite) -> Group | None:
    """The rows of the one input that were at fault; None where there are several inputs."""
    inputs = [n for n in plan.inputs if isinstance(n, lp.InsertsInput)]
    if len(inputs) != 1:
        return None
    (node,) = inputs
    item = warehouse.relations.item(node.object_id)
    relation: lp.InsertsInput | lp.ViewReference = next(iter(plan.input_views), node)
    if relation.object_id in warehouse.catalog.items:
        item = warehouse.relations.item(relation.object_id)
    there = warehouse.relations.columns_now(item)
    current_columns = (schemas.find(there, name) for name in relation.columns)
    columns = tuple(c for c in current_columns if c is not None)  # as far as it has them still
    return Group(
        relation.object_id, relation.name.name, columns, "constraint_name IS NULL", is_input=True
    )


def find_retried(
    warehouse: Warehouse,
    plan: lp.TaskWrite,
    statement: st.RetryQuarantine,
    quarantine: Item,
    version: int | None,
    at: int,
    stack: ExitStack,
    *,
    refuses: bool = False,
) -> RetriedRows | None:
    """The rows that a statement means, as a version of the quarantine holds them; None for none.

    As :func:`rows_to_retry`.
    """
    outputs = {quarantine.id: (quarantine, version)}
    stored_rows = StoredSources(warehouse, outputs=outputs).stored_rows(quarantine.id)
    if stored_rows is None:
        return None
    return rows_to_retry(
        warehouse, plan, statement, quarantine, stored_rows, at, stack, refuses=refuses
    )


def rows_to_retry(
    warehouse: Warehouse,
    plan: lp.TaskWrite,
    statement: st.RetryQuarantine,
    quarantine: Item,
    stored_rows: DataFrame,
    at: int,
    stack: ExitStack,
    *,
    refuses: bool = False,
) -> RetriedRows | None:
    """Those of a quarantine's rows that a statement means; None for none.

    Those whose columns are not the ones that it names are not meant, nor those with a value that
    their text has not kept.

    Args:
        stored_rows: with their places. stack: keeps what Spark holds until the rows are staged.
        refuses: whether a value that was not kept is an error.

    Raises:
        NOT_SUPPORTED: this error.
        UNKNOWN_COLUMN, AMBIGUOUS_COLUMN and what Spark says of the statement.
        DATA_ERROR: a value does not fit its column.
    """
    stored_rows = stack.enter_context(persisted(stored_rows))
    group_rows, refusal, kinds = [], None, 0
    items_by_output = written_under(warehouse.catalog, warehouse.relations.item(plan.object_id))
    input_group = group_of_input(warehouse, plan)
    groups = [*groups_of(plan, items_by_output), *([] if input_group is None else [input_group])]
    for group, is_there in zip(groups, _are_there(stored_rows, groups), strict=True):
        try:
            there = stored_rows.where(group.which)
            rows = _mend(warehouse, group, statement, there, quarantine, at)
        except StatementError as problem:
            if problem.condition != "UNKNOWN_COLUMN":
                raise
            refusal = refusal or problem
            continue
        kinds += 1
        if not is_there:
            continue  # a value of WHERE may not fit the columns of rows that are not there
        rows = stack.enter_context(persisted(rows))
        if rows.isEmpty():
            continue
        lost_value = _lost_value(group, statement)
        if lost_value is not None and refuses:
            raise _lost_error(lost_value, statement)
        if lost_value is None:
            group_rows.append((group, rows))
    if not kinds and refusal is not None:
        raise refusal
    victims = union_all(*(rows.drop(RETRIED) for _, rows in group_rows))
    if victims is None:
        return None
    mended_rows = [(group, rows.select(*_as_stored(group))) for group, rows in group_rows]
    places = (FILE_COLUMN, ROW_COLUMN)
    located_rows = [(group, rows.select(*places, *_as_stored(group))) for group, rows in group_rows]
    return RetriedRows(victims, mended_rows, located_rows)


def _lost_value(group: Group, statement: st.RetryQuarantine) -> Column | None:
    """A column whose value the text of a row has not kept, and SET does not give; None for none."""
    assigned_columns = {fold(a.column) for a in statement.assignments}
    columns = (c for c in group.columns if fold(c.name) not in assigned_columns)
    return next((c for c in columns if not _survives(c)), None)


def _lost_error(column: Column, statement: st.RetryQuarantine) -> CtsqlError:
    name, task = quote(column.name), statement.target.span.text
    what = f"RETRY QUARANTINE of rows with {schemas.plain_type(column.type).upper()} in {name}"
    why = "The quarantine has them as JSON, which says less of such a value than it is."
    hint = (
        f"Give the column a value: RETRY QUARANTINE {task} SET {name} = ... (row_json is the text)"
    )
    return not_supported(statement.target.span, what, why=why, hint=hint)


def _survives(column: Column) -> bool:
    return survives_json(T.DataType.fromDDL(schemas.plain_type(column.type)))


def _are_there(stored_rows: DataFrame, groups: Sequence[Group]) -> Sequence[bool]:
    """Whether a quarantine has rows of each group; one job."""
    row = stored_rows.agg(*(F.max(F.expr(group.which)) for group in groups)).first()
    assert row is not None  # an aggregate without groups gives one row
    return [bool(is_there) for is_there in row]


def _as_stored(group: Group) -> list[SparkColumn]:
    """The columns of mended rows as their table stores them: CHAR padded, VARCHAR not too long."""
    return [as_stored(F.col(f"{RETRIED}.{backtick(c.name)}"), c) for c in group.columns]


def _mend(
    warehouse: Warehouse,
    group: Group,
    statement: st.RetryQuarantine,
    there: DataFrame,
    quarantine: Item,
    at: int,
) -> DataFrame:
    """Rows of the quarantine that the statement means, each with what it becomes in ``RETRIED``."""
    session = warehouse.gateway.session
    context = Context(session, EmptySources(session, lambda _: ()), at, clock_at=at)
    values = {
        schemas.get(group.columns, a.column, span=a.span).name: a for a in statement.assignments
    }
    # What the text has not kept is given by SET, or the rows are not sent.
    types = {c.name: schemas.plain_type(c.type) for c in group.columns if _survives(c)}
    types = types or {RETRIED: "STRING"}
    shape = ", ".join(f"{backtick(name)} {kind}" for name, kind in types.items())
    options = ", ".join(
        quote_text(part) for pair in {**AS_JSON, "mode": "FAILFAST"}.items() for part in pair
    )
    alias = quote(group.name)
    pieces: list[str | lp.Query] = [f"SELECT {quote(quarantine.name.name)}.*, named_struct("]
    for place, column in enumerate(group.columns):
        pieces.append(f"{', ' if place else ''}{quote_text(column.name)}, CAST(")
        value = values.get(column.name)
        if value is None and column.name not in types:
            pieces.append("NULL")
        elif value is None:
            pieces.append(f"{alias}.{backtick(column.name)}")
        elif value.value is None:
            pieces.append("NULL")
        else:
            pieces += ["(", lp.Query(sql=value.value, relations=(), columns=()), ")"]
        pieces.append(f" AS {schemas.plain_type(column.type)})")
    names = ", ".join(backtick_all(list(types)))
    pieces.append(
        f") AS {RETRIED} FROM {{rows}} AS {quote(quarantine.name.name)} LATERAL VIEW inline(array("
        f"from_json(row_json, {quote_text(shape)}, map({options})))) {alias} AS {names}"
    )
    if statement.where is not None:
        pieces += [" WHERE (", lp.Query(sql=statement.where, relations=(), columns=()), ")"]
    with translate_spark_errors():
        return View(OutputState(None), context).run(pieces, {"rows": there})


def retry_statement(text: str) -> st.RetryQuarantine:
    """The statement that a definition keeps."""
    return parse_as(st.RetryQuarantine, text, "RETRY QUARANTINE")


def count_rows(retry: RetriedRows | None) -> int:
    """How many rows are sent through again."""
    return 0 if retry is None else sum(_counts(rows for _, rows in retry.groups))


def _counts(frames: Iterable[DataFrame]) -> Iterable[int]:
    return (int(frame.select(F.count("*")).first()[0]) for frame in frames)  # type: ignore[index]
