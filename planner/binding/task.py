"""Binding of a continual task: its inputs, its outputs and their columns, its body."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import outputs_of
from ctsql.catalog.errors import StatementError, error, invalid
from ctsql.catalog.items import Item
from ctsql.catalog.names import Name, fold
from ctsql.catalog.refreshes import Every
from ctsql.catalog.schemas import Column, check_unique, plain_type, same_columns
from ctsql.planner import nodes as lp
from ctsql.planner.binding.binder import Binder, BoundDefinition, Leaf, Role, qualify
from ctsql.planner.binding.checks import check_storable, name_unnamed, refuse_nondeterministic
from ctsql.planner.binding.definitions import definition_of, is_no_definition, reading_definition
from ctsql.planner.binding.writes import BodyBinder
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.statements.options import FIXPOINT, ITERATIONS_MAX


def bind_task(
    binder: Binder, statement: st.CreateContinualTask, own: Item, outputs: Sequence[Item]
) -> BoundDefinition:
    """Bind CREATE CONTINUAL TASK.

    Args:
        own: the task's item. With an analyst and columns, this is a new definition of an existing
            task. outputs: the items of OUTPUTS (...), in the definition's order.
    """
    # The body of a replacement calls its outputs by the names of the task's.
    task_name = qualify(statement.replaces or statement.target, binder.search_schema)
    column_defs = {task_name: statement.columns}
    output_items = [own]
    if statement.outputs:
        column_defs = _read_outputs(binder, statement, task_name)
        output_items = list(outputs)
    binder.own = dict(zip(column_defs, output_items, strict=True))
    inputs = _inputs(binder, statement, own)
    wants_snapshot = option_of(statement, "SNAPSHOT") is not False
    binder.with_snapshot = wants_snapshot and statement.backfill is None
    binder.inputs = dict(zip((i.id for i in inputs), statement.inputs, strict=True))
    roles: dict[str, Role] = {i.id: lp.InsertsInput for i in inputs}
    roles |= {o.id: lp.SelfReference for o in output_items}
    for name, output in binder.own.items():
        binder.own[name] = _with_columns(binder, statement, output, column_defs[name], roles)
    output_items = list(binder.own.values())
    bodies = {o.id: BodyBinder(binder, o, roles, column_defs[n]) for n, o in binder.own.items()}
    statements = tuple(bodies[_target(binder, s.target, own).id].bind(s) for s in statement.body)
    iterations = option_of(statement, "ITERATIONS") or 1
    assert isinstance(iterations, int) or iterations == FIXPOINT  # the parser gives nothing else
    transaction = lp.Transaction(
        statements=statements,
        iterations=iterations if isinstance(iterations, int) else ITERATIONS_MAX,
        fixpoint=iterations == FIXPOINT,
        constraints=_bind_constraints(binder, statement, bodies),
    )
    columns = () if statement.outputs else output_items[0].columns
    input_nodes = [
        binder.rows_of(i, qualify(task_input.ref, binder.search_schema), lp.InsertsInput)
        for i, task_input in zip(inputs, statement.inputs, strict=True)
    ]
    changes = _find_changes(input_nodes, transaction)
    plan = lp.TaskWrite(
        object_id=own.id,
        name=own.name,
        columns=columns,
        outputs=tuple(
            lp.WrittenOutput(object_id=o.id, name=o.name, columns=o.columns)
            for o in output_items
            if statement.outputs
        ),
        inputs=changes,
        input_views=tuple(node for node in input_nodes if isinstance(node, lp.ViewReference)),
        times=lp.TimesReduce(times=lp.TimesExtract(inputs=changes)),
        transaction=transaction,
        skip_errors=option_of(statement, "ON ERROR") == "skip",
        quarantine_errors=option_of(statement, "ON ERROR") == "quarantine",
        trim=_every(statement, "TRIM EVERY"),
        coalesce=_every(statement, "COALESCE"),
    )
    if binder.analyst is not None:
        refuse_nondeterministic(plan, "continual task", binder.analyst.is_deterministic)
    return BoundDefinition(plan, columns, tuple(binder.reads.values()))


def _bind_constraints(
    binder: Binder, statement: st.CreateContinualTask, bodies: Mapping[str, BodyBinder]
) -> tuple[lp.Constraint, ...]:
    constraints_of = {
        qualify(o.target, binder.search_schema): o.constraints for o in statement.outputs
    }
    if not constraints_of:
        own = statement.replaces or statement.target
        constraints_of = {qualify(own, binder.search_schema): statement.constraints}
    return tuple(
        bodies[binder.own[name].id].bind_constraint(constraint)
        for name, constraints in constraints_of.items()
        for constraint in constraints
    )


def _read_outputs(
    binder: Binder, statement: st.CreateContinualTask, task_name: Name
) -> dict[Name, tuple[st.ColumnDef, ...]]:
    """The column lists of OUTPUTS (...), by what the definition calls each output."""
    columns_of: dict[Name, tuple[st.ColumnDef, ...]] = {}
    for output in statement.outputs:
        name = qualify(output.target, binder.search_schema)
        if name in columns_of or name == task_name:
            other = "another output" if name in columns_of else "the task"
            message = f'output "{name}" has the name of {other}'
            raise invalid(output.target.span, message, "Each output is a separate object.")
        columns_of[name] = output.columns
    return columns_of


def _with_columns(
    binder: Binder,
    statement: st.CreateContinualTask,
    output: Item,
    column_list: Sequence[st.ColumnDef],
    roles: dict[str, Role],
) -> Item:
    """An output with its columns, which are inferred if the definition has no list."""
    if binder.analyst is None:
        return output
    if not output.columns:  # or else it exists: ALTER changes no column
        columns = tuple(declare(c) for c in column_list)
        check_unique(columns, [c.span for c in column_list])
        columns = columns or _infer_columns(binder, statement, output, roles)
        check_storable(columns, statement.span)
        output = replace(output, columns=columns)
    binder.analyst.set_own(output.id, output.columns)
    return output


def _target(binder: Binder, ref: st.RelationRef, own: Item) -> Item:
    name = qualify(ref, binder.search_schema)
    output = binder.own.get(name)
    if output is None:
        raise error(
            "TASK_WRITES_FOREIGN_TABLE",
            span=ref.span,
            task=str(own.name),
            name=str(name),
            outputs=" or ".join(f'"{n}"' for n in binder.own),
        )
    return output


def option_of(statement: st.CreateContinualTask, name: str) -> object:
    """The value of an option; None if it is not given."""
    return next((o.value for o in statement.options if o.name == name), None)


def _every(statement: st.CreateContinualTask, name: str) -> Every | None:
    value = option_of(statement, name)
    return value if isinstance(value, Every) else None


def _inputs(binder: Binder, statement: st.CreateContinualTask, own: Item) -> list[Item]:
    sources: dict[str, Item] = {}  # by the id of what is followed
    aliases: set[str] = set()
    for task_input in statement.inputs:
        ref = task_input.ref
        if binder.own_of(ref) is not None:
            detail = "A task runs for each change of its input, so it would run for ever."
            hint = "Read it in the body instead: there it has its rows before the change."
            name = str(own.name)
            raise error("RECURSIVE_DEFINITION", span=ref.span, name=name, detail=detail, hint=hint)
        source = binder.resolve(ref)
        followed_item = binder.followed_item(source, ref.span)
        if followed_item.id in sources:
            message = f'"{followed_item.name}" is an input twice'
            raise invalid(ref.span, message, hint="Put both conditions into the body.")
        sources[followed_item.id] = source
        if task_input.alias is not None:
            if (
                Name(binder.search_schema, task_input.alias) in binder.own
                or fold(task_input.alias) in aliases
            ):
                message = f'"{task_input.alias}" is the name of something else in the body'
                raise invalid(task_input.span, message, hint="Choose another alias.")
            aliases.add(fold(task_input.alias))
    return list(sources.values())


def _find_changes(
    nodes: Sequence[Leaf | lp.ViewReference], transaction: lp.Transaction
) -> tuple[lp.Node, ...]:
    """The changes that a task runs for: its inputs' inserts, and deletes where it reads deletes."""
    reads_deletes = {
        n.object_id
        for n in lp.descend(transaction)
        if isinstance(n, lp.DeletesInput | lp.ChangesInput)
    }
    changes: list[lp.Node] = []
    for rows in nodes:
        node = next(n for n in lp.descend(rows) if isinstance(n, lp.InsertsInput))
        changes.append(node)
        if rows.object_id in reads_deletes:
            deletes = lp.DeletesInput(
                object_id=node.object_id, name=node.name, columns=node.columns
            )
            changes.append(deletes)
    return tuple(changes)


def _infer_columns(
    binder: Binder, statement: st.CreateContinualTask, own: Item, roles: dict[str, Role]
) -> tuple[Column, ...]:
    """The columns of the first INSERT's query, nullable, because later rows may have NULL.

    If that query reads the task: the input's columns, if the INSERT then returns these.
    """
    queries = [query for s in statement.body if (query := _inserted_query(s)) is not None]
    if not queries:
        message = "a task without an INSERT needs a column list"
        detail = "Its columns cannot be distinguished from another statement."
        raise invalid(statement.target.span, message, detail, _columns_hint(statement))
    alone = [q for q in queries if not any(binder.own_of(r) for r in q.relations)]
    if alone:
        return _query_columns(binder, alone[0], roles)
    assert binder.analyst is not None  # the caller looked
    if len(statement.inputs) == 1:
        of_input = binder.columns_of(binder.resolve(statement.inputs[0].ref))
        guess = tuple(replace(c, nullable=True) for c in of_input)
        name = next(n for n, output in binder.own.items() if output.id == own.id)
        binder.own[name] = replace(own, columns=guess)
        binder.analyst.set_own(own.id, guess)
        if _fits(binder, queries[0], roles, guess):
            return guess
        binder.own[name] = own
    message = "a task whose first INSERT reads the task itself needs a column list"
    detail = "Its columns cannot be inferred from that INSERT, and they are not those of one input."
    raise invalid(queries[0].span, message, detail, _columns_hint(statement))


def _fits(
    binder: Binder, query: st.SqlText, roles: dict[str, Role], columns: Sequence[Column]
) -> bool:
    """Whether a query that reads an output with these columns returns these columns."""
    try:
        return same_columns(_query_columns(binder, query, roles), columns)
    except StatementError:  # it names a column that the input has not
        return False


def _columns_hint(statement: st.CreateContinualTask) -> str:
    return f"Write them after the name: {statement.target.parts[-1]} (k INT, ...)."


def _inserted_query(statement: st.BodyStatement) -> st.SqlText | None:
    """The query whose rows a statement inserts with all their columns."""
    if isinstance(statement, st.InsertStatement):
        return statement.query
    if isinstance(statement, st.MergeStatement):
        stars = (c for c in statement.clauses if c.action is st.MergeAction.INSERT and c.star)
        return statement.source if any(stars) else None
    return None


def _query_columns(binder: Binder, query: st.SqlText, roles: dict[str, Role]) -> tuple[Column, ...]:
    query_columns = name_unnamed(binder.query(query, roles).columns or (), query)
    columns = [replace(c, type=plain_type(c.type), nullable=True) for c in query_columns]
    return check_unique(columns, [query.span])


def declare(column: st.ColumnDef) -> Column:
    """A column of a column list with types."""
    assert column.type is not None  # the header grammar asks for one
    return Column(column.name, column.type, column.nullable, column.comment)


def bind_stored(item: Item, catalog: Catalog) -> BoundDefinition:
    """Bind the definition of an object of the catalog; STORED_DATA_INVALID if it cannot be read."""
    for output in outputs_of(catalog, item):
        output.check()
    binder = Binder(catalog, item.search_schema, None, reads=item.reads)
    with reading_definition(item):
        match definition_of(item):
            case st.CreateContinualTask() as statement:
                return bind_task(binder, statement, item, outputs_of(catalog, item))
            case st.CreateMaterializedView() as statement:
                return binder.bind_materialized_view(statement, item)
            case st.CreateView() as statement:
                query = binder.query(statement.query)
                return BoundDefinition(query, item.columns, item.reads)
            case _:
                raise is_no_definition(item)
