"""Lowering of a task's body: a fold over its statements.

A statement writes one output and may read all of them: their remaining stored rows and the proposed
rows (:class:`OutputState`). A DELETE removes from both; a row that two DELETEs match is deleted
once, because the second does not see it. An UPDATE and a MERGE remove rows and propose others.

Limit: everything is one lazy plan for each output; a body of n statements that remove rows reads
the output's files n times at most.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog import schemas
from ctsql.catalog.errors import Declined, error
from ctsql.catalog.names import backtick, backtick_all
from ctsql.catalog.reserved_columns import COLUMN_, COPY, VALUE_
from ctsql.planner import nodes as lp
from ctsql.planner.bodies.delete_by_key import sole_lookup
from ctsql.planner.bodies.reads import reads_of
from ctsql.planner.lowering.constraints import mark_broken
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.merge import lower_merge
from ctsql.planner.lowering.output_state import OutputState, StatementView, union_all, value_pieces
from ctsql.planner.lowering.queries import lower_query
from ctsql.planner.lowering.spark_types import type_name
from ctsql.planner.lowering.store_assignment import as_stored, may_store, value_text
from ctsql.planner.lowering.view import check_count


def lower_transaction(node: lp.Transaction, context: Context) -> dict[str, OutputState]:
    """Return what one run of the statements proposes at ``context.at``, as :func:`proposals`."""
    return proposals(
        node, context, lower_statements(node, context, base(node, context, by_key=True))
    )


def proposals(
    node: lp.Transaction, context: Context, outputs: Mapping[str, OutputState]
) -> dict[str, OutputState]:
    """The outputs after a body; inserts have ``BROKEN`` if the output has constraints.

    Inserts and victims are as proposed, not consolidated.
    """
    return {
        o: replace(state, inserts=mark_broken(node.constraints_of(o), state.inserts, context))
        for o, state in outputs.items()
    }


def base(node: lp.Transaction, context: Context, *, by_key: bool = False) -> dict[str, OutputState]:
    """Each output's rows as of T - 1, if a statement reads them.

    ``by_key``: for one run. If only a DELETE by key reads the stored rows, they are left out, and
    its victims are found at the start.
    """
    read, outputs = reads_of(node).outputs, {}
    for o in outputs_of(node):
        lookup = sole_lookup(node, o) if by_key else None
        victims = (
            Declined("not by key") if lookup is None else context.sources.stored_with_keys(lookup)
        )
        if not isinstance(victims, Declined):
            outputs[o] = OutputState(None, None, victims)
        else:
            outputs[o] = OutputState(context.sources.stored_rows(o) if o in read else None)
    return outputs


def outputs_of(node: lp.Transaction) -> list[str]:
    """Return the ids of the outputs that a body writes or reads, sorted."""
    return sorted({*reads_of(node).outputs, *map(lp.output_of, node.statements)})


def lower_statements(
    node: lp.Transaction,
    context: Context,
    outputs: Mapping[str, OutputState],
    *,
    keep: bool = False,
) -> dict[str, OutputState]:
    """Return the outputs' state after the statements.

    ``keep`` computes the stored rows that are left; else only those that later statements read.
    """
    states = dict(outputs)
    for i, statement in enumerate(node.statements):
        own = lp.output_of(statement)
        behind = (o for s in node.statements[i + 1 :] for o in reads_of(s).outputs)
        ctes = None if isinstance(statement, lp.Insert | lp.Merge) else statement.ctes
        view = StatementView(states[own], context, ctes, states)
        states = {**states, own: _step(statement, view, keep or own in behind)}
    return states


def _step(
    statement: lp.Insert | lp.Delete | lp.Update | lp.Merge, view: StatementView, later: bool
) -> OutputState:
    """The output after a statement; ``later``: whether stored rows are needed then."""
    output = view.output
    match statement:
        case lp.Insert():
            rows = _insert(statement, view)
            if len(statement.query.relations) > 1:  # a subquery has a relation of its own
                rows = _planned_apart(rows)
            inserts = union_all(output.inserts, rows)
            return OutputState(output.stored_rows, inserts, output.victims)
        case lp.Merge():
            return lower_merge(statement, view, later=later)
        case lp.Delete():
            fresh = []
        case lp.Update():
            parts = (output.stored_rows, output.inserts)
            fresh = [_update(statement, view, part) for part in parts if part is not None]
    where, alias = statement.where, statement.alias
    stored_rows, inserts, victims = output.stored_rows, output.inserts, output.victims
    if stored_rows is not None:
        victims = union_all(victims, matching_rows(view, stored_rows, alias, where, keep=False))
    if where is None:
        return OutputState(None, union_all(*fresh), victims)
    if stored_rows is not None and later:
        stored_rows = matching_rows(view, stored_rows, alias, where, keep=True)
    if inserts is not None:
        inserts = matching_rows(view, inserts, alias, where, keep=True)
    return OutputState(stored_rows, union_all(inserts, *fresh), victims)


def lower_inserts(node: lp.Transaction, context: Context, *extra_columns: str) -> DataFrame:
    """Return what a body of INSERTs proposes, with ``extra_columns`` of its queries at the end."""
    view = StatementView(OutputState(None), context)
    inserts = [s for s in node.statements if isinstance(s, lp.Insert)]
    rows = union_all(*(_insert(s, view, extra_columns) for s in inserts))
    marked_rows = mark_broken(node.constraints_of(inserts[0].object_id), rows, context)
    assert marked_rows is not None  # there is a statement
    return marked_rows


def _insert(
    statement: lp.Insert, view: StatementView, extra_columns: tuple[str, ...] = ()
) -> DataFrame:
    """The rows of an INSERT, under the output's columns and of their types."""
    query, context = statement.query, view.context
    rows = lower_query(query, context, view.output_frames(query.relations))
    into = statement.into
    if into is None:
        names = rows.columns[: len(rows.columns) - len(extra_columns)]
        span = query.sql.span
        into = tuple(schemas.get(statement.target, n, span=span).name for n in names)
    place = {name: i for i, name in enumerate(into)}
    check_count(len(into) + len(extra_columns), rows, query)
    _check_types(statement, into, rows)
    positional = rows.toDF(*(f"{COLUMN_}{i}" for i in range(len(into))), *extra_columns)
    defaults = {a.column: a.value for a in statement.defaults}
    types = [type_name(field.dataType) for field in rows.schema.fields]
    columns = []
    for column in statement.target:
        source, value_type = F.lit(None), ""
        default = defaults.get(column.name)
        if column.name in place:
            source = F.col(f"{COLUMN_}{place[column.name]}")
            value_type = types[place[column.name]]
        elif default is not None:
            source = F.expr(value_text(default, context))
        columns.append(as_stored(source, column, value_type))
    return positional.select(*columns, *extra_columns)


def _check_types(statement: lp.Insert, into: Sequence[str], rows: DataFrame) -> None:
    """TYPE_MISMATCH: a read object's types have changed, and a column cannot store its values."""
    types = {c.name: c.type for c in statement.target}
    for name, field in zip(into, rows.schema.fields, strict=False):
        value_type = type_name(field.dataType)
        if not may_store(value_type, types[name]):
            raise error(
                "TYPE_MISMATCH",
                span=statement.query.sql.span,
                message=(
                    f'column "{name}" is of type {types[name]}, but the query gives {value_type}'
                ),
                detail="The types of what it reads have changed since the task was defined.",
                hint=f"Give the task another body, for example with CAST(... AS {types[name]}).",
            )


def matching_rows(
    view: StatementView, rows: DataFrame, alias: str, where: lp.Query | None, *, keep: bool
) -> DataFrame:
    """The rows for which a predicate is true, or (keep) those for which it is false or NULL."""
    if where is None:
        return rows
    after = ") IS NOT TRUE" if keep else ")"
    return view.run([f"SELECT * FROM {{rows}} AS {alias} WHERE (", where, after], {"rows": rows})


def _update(statement: lp.Update, view: StatementView, rows: DataFrame) -> DataFrame:
    pieces = ["SELECT *", *value_pieces(statement.assignments)]
    pieces.append(f" FROM {{rows}} AS {statement.alias}")
    if statement.where is not None:
        pieces += [" WHERE (", statement.where, ")"]
    matches = view.run(pieces, {"rows": rows})
    if any(a.value is not None and a.value.relations for a in statement.assignments):
        matches = _planned_apart(matches)
    place = {a.column: i for i, a in enumerate(statement.assignments)}
    return matches.select(
        *(
            as_stored(F.col(f"{VALUE_}{place[c.name]}"), c)
            if c.name in place
            else F.col(backtick(c.name))
            for c in statement.target
        )
    )


def _planned_apart(rows: DataFrame) -> DataFrame:
    """The same rows, which Spark's optimizer does not push into a UNION ALL above or below them.

    Its rule CombineUnions fails with "key not found" for a projection with a correlated subquery
    between two UNION ALL. A row generator of one row separates them.
    """
    one = F.explode(F.array(F.lit(0))).alias(COPY)
    return rows.select("*", one).select(*backtick_all(rows.columns))
