"""Definitions that copy: at one T a task gets the rows that another object holds at that T.

They are in force at that T alone (``once`` of :class:`ctsql.catalog.items.Definition`), so every
process writes the same rows, in one commit. A task created with BACKFILL FROM has one at its
creation; a task whose replacement is applied has one at the T of the swap.
"""

from collections.abc import Sequence
from dataclasses import replace

from ctsql.catalog.errors import bad_option, error, not_supported
from ctsql.catalog.items import (
    Definition,
    Item,
    Maintained,
    ObjectKind,
    Reading,
    Table,
    Task,
    TaskOutput,
)
from ctsql.catalog.names import fold, quote
from ctsql.catalog.schemas import shown_columns
from ctsql.planner.binding.binder import qualify
from ctsql.planner.binding.task import bind_task
from ctsql.planner.syntax import ast as st, parse_as
from ctsql.planner.syntax.statements.constraints import constraint_text
from ctsql.runtime.engine import Engine
from ctsql.runtime.statements.objects.name_resolution import Namespace


def copy_of(
    task: Item,
    outputs: Sequence[Item],
    sources: Sequence[Item],
    follows: Item,
    *,
    constraints: Sequence[st.ConstraintDef] = (),
    clears: bool = False,
    quarantine: Item | None = None,
) -> Definition:
    """The definition that copies the rows of other objects into a task's outputs.

    Args:
        outputs: the objects that hold the task's rows, with their columns.
        follows: the task's input, which is read by name only, because every task has an input.
        constraints: enforced on the rows. clears: whether the task's own rows are deleted first.
        quarantine: the object whose rows the task's quarantine gets.
    """
    body = []
    for output, source in zip(outputs, sources, strict=True):
        own, columns = output.name.qualified(), ", ".join(quote(c.name) for c in output.columns)
        if clears:
            body.append(f"DELETE FROM {own}")
        rows = f"SELECT {columns} FROM contents({source.name.qualified()})"
        body.append(f"INSERT INTO {own} ({columns}) {rows}")
    text = (
        f"CREATE CONTINUAL TASK {task.name.qualified()} {shape_text(outputs, constraints)} "
        f"ON INPUT {follows.name.qualified()} WITH (SNAPSHOT = false) AS ({'; '.join(body)})"
    )
    away = () if quarantine is None else (quarantine,)
    read = {
        i.id: Reading(name=i.name, object_id=i.id, columns=tuple(c.name for c in i.columns))
        for i in (follows, *sources, *away)
    }
    return Definition(
        text=text,
        search_schema=task.search_schema,
        reads=tuple(read.values()),
        flow=task.flow,
        copies_rows=True,
    )


def shape_text(outputs: Sequence[Item], constraints: Sequence[st.ConstraintDef] = ()) -> str:
    """The list of columns of a task, or OUTPUTS (...) with those of each output."""
    lists = [
        f"({', '.join([*(c.ddl() for c in o.columns), *map(constraint_text, constraints)])})"
        for o in outputs
    ]
    if not isinstance(outputs[0], TaskOutput):
        return lists[0]
    pairs = zip(outputs, lists, strict=True)
    return f"OUTPUTS ({', '.join(f'{o.name.qualified()} {inside}' for o, inside in pairs)})"


def followed_by(names: Namespace, statement: st.CreateContinualTask) -> Item:
    """The first of a task's inputs, with its present columns."""
    source = names.binder().resolve(statement.inputs[0].ref)
    return replace(source, columns=names.columns_now(source))


def fill(engine: Engine, items: Sequence[Item], first: Definition | None, until: int) -> None:
    """Advance an object that is not in the catalog to a time.

    Args:
        items: the object and its auxiliary objects; all have tables. first: the definition that
            copies its first rows, at its creation.
    """
    item = items[0]
    if first is not None:
        first_item = replace(item, definition=first)
        engine.relations.add([first_item, *items[1:]])
        engine.advance([first_item], item.created_at)
    engine.relations.add(items)
    engine.advance([i for i in items if isinstance(i, Maintained)], until)


def backfill_of(
    names: Namespace, statement: st.CreateContinualTask, item: Item
) -> Definition | None:
    """The definition that copies a table's rows into a new task; None without BACKFILL FROM.

    Args:
        item: the task, with its columns.

    Raises:
        WRONG_OBJECT_KIND, UNKNOWN_RELATION: it is not a table. BACKFILL_COLUMNS_DIFFER: its columns
            are not the task's. NOT_SUPPORTED, INVALID_OPTION: a clause that excludes BACKFILL.
    """
    if statement.backfill is None:
        return None
    place = statement.backfill.span
    if statement.outputs:
        what = "BACKFILL FROM with OUTPUTS (...)"
        why = "It does not say which output the rows are for."
        hint = "Leave it out; the rows of the inputs then go through the body."
        raise not_supported(place, what, why=why, hint=hint)
    option = next((o for o in statement.options if o.name == "SNAPSHOT"), None)
    if option is not None:
        detail = "The task begins with the rows of BACKFILL FROM, and not with its inputs' rows."
        raise bad_option(option.span, "SNAPSHOT", detail, hint="Leave one of the two out.")
    source = source_of(names, statement.backfill)
    if {fold(c.name) for c in item.columns} != {fold(c.name) for c in source.columns}:
        raise error(
            "BACKFILL_COLUMNS_DIFFER",
            span=place,
            table=str(source.name),
            name=str(item.name),
            there=shown_columns(source.columns),
            wanted=shown_columns(item.columns),
        )
    follows = followed_by(names, statement)
    copy = copy_of(item, [item], [source], follows, constraints=statement.constraints)
    # It is bound for the first time, so that rows which do not fit are refused at once.
    copying = parse_as(st.CreateContinualTask, copy.text, f"BACKFILL FROM of {item.name}")
    bound = bind_task(names.binder(), copying, item, [])
    # Constraints may read more than the rows.
    read = {r.object_id: r for r in (*bound.reads, *copy.reads)}
    return replace(copy, reads=tuple(read.values()))


def source_of(names: Namespace, ref: st.RelationRef) -> Item:
    """The table of BACKFILL FROM, with its present columns."""
    name = qualify(ref, names.search_schema)
    source = names.catalog().get(name, span=ref.span, kind=ObjectKind.TABLE.value)
    if not isinstance(source, Table):
        raise source.wrong_kind(ObjectKind.TABLE.value, _ONLY_TABLES, ref.span)
    return replace(source, columns=names.columns_now(source))


def with_first_rows(item: Task, first: Definition) -> Task:
    """A new task with the definition that copies its first rows, before its own is in force."""
    newest = replace(item.definition, number=first.number + 1)
    return replace(item, definition=newest, earlier=(first,))


_ONLY_TABLES = "A task begins with the rows of a table. Make one of it: CREATE TABLE ... AS SELECT"
