"""ALTER CONTINUAL TASK: another body, other options, SUSPEND and RESUME."""

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import types as T

from ctsql.catalog.dependencies import outputs_or_itself
from ctsql.catalog.errors import not_supported
from ctsql.catalog.items import Item, Task
from ctsql.catalog.names import fold, quote
from ctsql.catalog.schemas import Column, Schema, same_columns
from ctsql.planner.binding.binder import qualify
from ctsql.planner.binding.task import bind_task
from ctsql.planner.lowering.spark_types import type_name
from ctsql.planner.syntax import ast as st, splice
from ctsql.planner.syntax.statements.columns import column_text
from ctsql.planner.syntax.statements.constraints import constraint_text, with_names
from ctsql.planner.syntax.statements.options import KEPT_OPTIONS, fixed_options
from ctsql.runtime.statements.definitions.cutover import Redefinition, cut_over
from ctsql.runtime.statements.definitions.task_change import (
    column_list,
    redefinition,
    shape_of,
    task_and_definition,
)
from ctsql.runtime.statements.dml.stored_rules import unknown_constraint
from ctsql.runtime.statements.objects.name_resolution import Namespace, OnNames
from ctsql.runtime.warehouse.output_columns import check_takes
from ctsql.runtime.warehouse.times.timeline import TaskState

DONE = "ALTER CONTINUAL TASK"
_ELSEWHERE = (
    "Create a task under another name, change its readers to read that one, then drop this one."
)


class TaskAlteration(OnNames):
    """ALTER CONTINUAL TASK ... AS, SET, ADD, DROP, SUSPEND and so on; each returns the status."""

    def switch(self, statement: st.ControlTask) -> str:
        """SUSPEND or RESUME, unless the task is in that state already."""
        only = "A view is not suspended. To refresh it less often: "
        only += f"ALTER MATERIALIZED VIEW {statement.target.span.text} SET (REFRESH EVERY '1 day')"
        item = self.names.of_kind(statement.target, Task, only=only)
        engine, suspends = self.engine, statement.verb == "SUSPEND"
        engine.mint()
        if engine.relations.is_suspended(item) == suspends:
            return f"{DONE} (was {'suspended' if suspends else 'running'} already)"

        def switch(state: TaskState, now: int) -> TaskState:
            return replace(state, suspended=now if suspends else None)

        sources, tick_ms = engine.relations.sources(), engine.tick_ms
        engine.timeline.mint(sources, tasks={item.id: switch}, tick_ms=tick_ms)
        return DONE

    def replace_body(self, statement: st.ReplaceBody) -> str:
        """AS ( statements ): the new body runs from the next T on."""
        item, old = task_and_definition(self.names, statement.target)
        edit = st.Edit(span=old.body_span, text=statement.body_span.text)
        return self._edit(item, old, [*column_list(item, old), edit], statement.body)

    def set_options(self, statement: st.SetOptions) -> str:
        """SET (option = value, ...), or RESET (option, ...)."""
        item, old = task_and_definition(self.names, statement.target)
        options = merged_options(old, statement.options, reset=statement.reset)
        return self._edit(item, old, [*column_list(item, old), options_edit(old, options)])

    def change_constraints(self, statement: st.ChangeConstraints) -> str:
        """ADD a constraint or DROP CONSTRAINT, from the next T on."""
        item, old = task_and_definition(self.names, statement.target)
        if old.outputs:
            what = "another constraint for a task with OUTPUTS (...)"
            why = "It does not say for which output."
            hint = (
                "Type CREATE OR REPLACE CONTINUAL TASK with the constraint in that output's list."
            )
            raise not_supported(statement.target.span, what, why=why, hint=hint)
        edits = _columns_edit(item, old, statement)
        return DONE if edits is None else self._edit(item, old, edits)

    def _edit(
        self,
        item: Task,
        old: st.CreateContinualTask,
        edits: Sequence[st.Edit],
        body: tuple[st.BodyStatement, ...] | None = None,
    ) -> str:
        text = splice(old.span, edits).text
        cut_over(self.engine, redefinition(self.names, item, text, body=body))
        return DONE


def replacing(
    names: Namespace, item: Task, statement: st.CreateContinualTask, columns: tuple[Schema, ...]
) -> Redefinition:
    """The redefinition of a task by a statement, with the columns of each output."""
    new_item = item if item.outputs else replace(item, columns=columns[0])
    text = splice(statement.span, column_list(new_item, statement)).text
    return redefinition(names, item, text, body=statement.body, columns=columns)


def check_same_shape(
    names: Namespace, item: Item, old: st.CreateContinualTask, new: st.CreateContinualTask
) -> tuple[Schema, ...]:
    """The columns of each output by a new definition, which may add some at the end.

    Raises NOT_SUPPORTED if the new definition has other inputs, columns or outputs.
    """
    if fold(names.search_schema) != fold(item.search_schema):
        what = "replacing a task from another schema than the one it was created in"
        why = f'Names of continual task "{item.name}" are looked up in "{item.search_schema}".'
        hint = f"Type first: USE {quote(item.search_schema)}"
        raise not_supported(new.target.span, what, why=why, hint=hint)
    if fixed_options(new.options) != fixed_options(old.options):
        what = f"another {' or '.join(KEPT_OPTIONS)} for an existing continual task"
        why = "They are set when it is created."
        hint = "Keep them, or create a task under another name."
        raise not_supported(new.target.span, what, why=why, hint=hint)
    catalog, schema = names.catalog(), item.search_schema

    def ids(statement: st.CreateContinualTask) -> list[str]:
        inputs = (qualify(i.ref, schema) for i in statement.inputs)
        return sorted(source.id for n in inputs if (source := catalog.find(n)) is not None)

    if ids(new) != ids(old):
        what = "another input for an existing continual task"
        inputs = ", ".join(i.ref.span.text for i in old.inputs)
        why = f'The rows of "{item.name}" come from {inputs}.'
        raise not_supported(new.inputs[0].ref.span, what, why=why, hint=_ELSEWHERE)
    outputs = outputs_or_itself(catalog, item)
    if [qualify(o.target, schema) for o in new.outputs] != [
        o.name for o in outputs if item.outputs
    ]:
        what = "other outputs for an existing continual task"
        why = f"It writes {', '.join(shape_of(o) for o in outputs)}."
        raise not_supported(new.target.span, what, why=why, hint=_ELSEWHERE)
    return _check_columns(names, item, outputs, new)


def _check_columns(
    names: Namespace, item: Item, outputs: Sequence[Item], new: st.CreateContinualTask
) -> tuple[Schema, ...]:
    """The columns of each output by a new definition, which may add some at the end."""
    fresh = [replace(o, columns=()) for o in outputs if item.outputs]
    binder = names.in_schema(item.search_schema).binder()
    plan = bind_task(binder, new, replace(item, columns=()), fresh).task
    schemas = []
    for output, new_output in zip(outputs, plan.all_outputs, strict=True):
        count = len(output.columns)
        prefix, extra = new_output.columns[:count], new_output.columns[count:]
        is_listed = bool(new.columns or new.outputs)
        if not same_columns(_spell(output.columns), _spell(prefix), nullable=is_listed):
            what = "other columns for an existing continual task"
            why = f"It writes {shape_of(output)}. Columns may be added at the end; for NOT NULL of "
            why += "an existing column, CHECK (... IS NOT NULL)."
            raise not_supported(new.target.span, what, why=why, hint=_ELSEWHERE)
        column = next((c for c in extra if not c.nullable), None)
        if column is not None:
            what = f'a NOT NULL column "{column.name}" for an existing continual task'
            why = f'Existing rows of "{output.name}" have NULL in it.'
            hint = "Leave out NOT NULL, or create a task under another name."
            raise not_supported(new.target.span, what, why=why, hint=hint)
        schemas.append((*output.columns, *extra))
        if extra:
            check_takes(names.engine.warehouse, output, schemas[-1])
    return tuple(schemas)


def _spell(columns: Sequence[Column]) -> list[Column]:
    """Columns with their types in Spark's spelling."""
    return [replace(c, type=type_name(T.DataType.fromDDL(c.type))) for c in columns]


def merged_options(
    old: st.CreateContinualTask, options: Sequence[st.Option], reset: Sequence[str] = ()
) -> list[st.Option]:
    """The options of a definition, with some replaced or added."""
    by_name = {o.name: o for o in old.options if o.name not in reset}
    by_name.update((o.name, o) for o in options)
    return list(by_name.values())


def options_edit(old: st.CreateContinualTask, options: list[st.Option]) -> st.Edit:
    """The edit that gives a definition other options."""
    text = f"WITH ({', '.join(o.span.text for o in options)})" if options else ""
    if old.options_span is not None:
        return st.Edit(span=old.options_span, text=text)
    return st.Edit(span=old.as_span.front, text=f"{text} " if text else "")


def changed_constraints(
    item: Item, there: Sequence[st.ConstraintDef], change: st.ChangeConstraints
) -> tuple[st.ConstraintDef, ...] | None:
    """The constraints of an output with one added or dropped; None if nothing changes.

    Raises:
        UNKNOWN_CONSTRAINT: there is none to drop. INVALID_STATEMENT: the name is taken.
    """
    if change.new_constraint is not None:
        return with_names([*there, change.new_constraint])
    dropped_name = fold(change.dropped_name)
    constraints = tuple(c for c in there if fold(c.name) != dropped_name)
    if len(constraints) < len(there):
        return constraints
    if change.if_exists:
        return None
    raise unknown_constraint(item, change, [c.name for c in there])


def _columns_edit(
    item: Item, old: st.CreateContinualTask, change: st.ChangeConstraints
) -> list[st.Edit] | None:
    """The edits that add or drop a constraint in a task's list; None if nothing changes.

    The rewritten list has each constraint after the columns, with its name, so a generated name is
    kept.

    Raises:
        UNKNOWN_CONSTRAINT: there is none to drop. INVALID_STATEMENT: the name is taken.
    """
    constraints = changed_constraints(item, old.constraints, change)
    if constraints is None:
        return None
    column_texts = [column_text(c) for c in old.columns] or [c.ddl() for c in item.columns]
    text = ", ".join([*column_texts, *map(constraint_text, constraints)])
    if old.columns_span is not None:
        return [st.Edit(span=old.columns_span, text=f"({text})")]
    return [st.Edit(span=old.target.span.behind, text=f" ({text})")]
