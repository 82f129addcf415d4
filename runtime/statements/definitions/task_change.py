"""A new definition of a task, from a T on.

CREATE OR REPLACE, ALTER CONTINUAL TASK, APPLY REPLACEMENT, REPLAY and a folder all make a
:class:`ctsql.runtime.statements.definitions.cutover.Redefinition` of the task from SQL text.
If a replacement has built the rows, the cutover has two definitions:

    at its T                  DELETE FROM task; INSERT INTO task SELECT ... FROM replacement
    from the next T on        the body of the replacement

Every process that runs the task at that T writes the same difference. A task that failed before
that T skips all Ts up to it (:class:`ctsql.runtime.tasks.sink.TaskSink`). The quarantine of the
replacement is copied at the same T (:func:`ctsql.runtime.tasks.proposals.taken_over`).
"""

from collections.abc import Sequence
from dataclasses import replace

from ctsql.catalog.catalog import still_there
from ctsql.catalog.dependencies import check_no_cycle, outputs_of
from ctsql.catalog.items import Item, Task
from ctsql.catalog.schemas import Schema
from ctsql.planner.binding.task import bind_task
from ctsql.planner.syntax import ast as st, parse_as
from ctsql.runtime.engine import Engine
from ctsql.runtime.statements.definitions.cutover import Redefinition
from ctsql.runtime.statements.inspect.show import current_definition
from ctsql.runtime.statements.objects.name_resolution import Namespace, new_quarantine


def task_and_definition(
    names: Namespace, ref: st.RelationRef
) -> tuple[Task, st.CreateContinualTask]:
    """A task, and its definition in force with current names."""
    item, engine = names.of_kind(ref, Task), names.engine
    engine.timeline.refresh()
    engine.refresh_catalog()
    item = still_there(engine.relations.catalog, item)
    return item, definition_statement(engine, item)


def redefinition(
    names: Namespace,
    task: Task,
    text: str,
    *,
    body: tuple[st.BodyStatement, ...] | None = None,
    columns: tuple[Schema, ...] = (),
) -> Redefinition:
    """The redefinition of a task by a text, bound in the schema of its creation.

    Args:
        body: the body in the user's statement, for the positions of errors. columns: of each
            output; empty if unchanged.

    Raises RECURSIVE_DEFINITION if the new body reads something that reads the task.
    """
    catalog, before = names.engine.catalog, task
    stored = outputs = outputs_of(catalog, task)
    if columns and outputs:
        outputs = [replace(o, columns=c) for o, c in zip(outputs, columns, strict=True)]
    elif columns:
        task = replace(task, columns=columns[0])
    statement = parse_as(st.CreateContinualTask, text, f"definition of {task.name}")
    span = statement.target.span
    statement = replace(statement, body=body) if body else statement
    binder = names.in_schema(task.search_schema).binder()
    bound = bind_task(binder, statement, task, outputs)
    for reading in bound.reads:
        detail = f'The new body reads "{reading.name}", which reads the task.'
        check_no_cycle(names.catalog(), task, [reading], span, detail)
    new = list[Item]()
    if bound.task.has_quarantine and task.quarantine is None:
        new.append(new_quarantine(names, task, span))
        task = replace(task, quarantine=new[0].id)
    task = replace(task, definition=task.definition.followed_by(text, bound.reads))
    pairs = ((before, task), *zip(stored, outputs, strict=True))
    return Redefinition(bound_on=catalog, changes=pairs, new=tuple(new), span=span)


def shape_of(output: Item) -> str:
    """An output with its columns, for messages."""
    return f"{output.name} ({', '.join(c.ddl() for c in output.columns)})"


def definition_statement(engine: Engine, item: Item) -> st.CreateContinualTask:
    """The task's definition in force, with current names."""
    text = current_definition(engine, engine.relations.current(item))
    return parse_as(st.CreateContinualTask, text, f"definition of {item.name}")


def column_list(item: Item, old: st.CreateContinualTask) -> Sequence[st.Edit]:
    """The edit that fixes columns which were inferred from the first INSERT."""
    if old.columns or old.outputs:
        return ()
    columns = ", ".join(c.ddl() for c in item.columns)
    if old.columns_span is not None:  # a list of constraints alone
        place = old.span.source.at(old.columns_span.start + 1)
        return (st.Edit(span=place, text=f"{columns}, "),)
    return (st.Edit(span=old.target.span.behind, text=f" ({columns})"),)
