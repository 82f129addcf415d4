"""ALTER MATERIALIZED VIEW ... SET, RESET, ADD and DROP CONSTRAINT.

It is CREATE OR REPLACE with the stored query and other options or constraints.
"""

from dataclasses import replace

from ctsql.catalog.items import MaterializedView
from ctsql.planner.syntax import ast as st, parse_as
from ctsql.runtime.statements.definitions.alter_task import changed_constraints
from ctsql.runtime.statements.definitions.create import Creation
from ctsql.runtime.statements.definitions.cutover import cut_over
from ctsql.runtime.statements.definitions.view_change import view_text
from ctsql.runtime.statements.inspect.show import view_definition
from ctsql.runtime.statements.objects.name_resolution import Namespace

_DONE = "ALTER MATERIALIZED VIEW"


def set_view_options(names: Namespace, statement: st.SetOptions) -> str:
    """Change options; raises as CREATE OR REPLACE MATERIALIZED VIEW does."""
    item, old = _definition(names, statement.target)
    option_names = {o.name for o in statement.options} | set(statement.reset)
    options = [o for o in old.options if o.name not in option_names] + [*statement.options]
    before, after = (
        sorted((o.name, repr(o.value)) for o in some) for some in (old.options, options)
    )
    if before != after:
        _redefine(names, item, view_text(old, options))
    return _DONE


def change_view_constraints(names: Namespace, statement: st.ChangeConstraints) -> str:
    """ADD a constraint or DROP CONSTRAINT; the view's rows are compared with the new contents.

    Raises UNKNOWN_CONSTRAINT, INVALID_STATEMENT and the errors of CREATE OR REPLACE.
    """
    item, old = _definition(names, statement.target)
    constraints = changed_constraints(item, old.constraints, statement)
    if constraints is not None:
        _redefine(names, item, view_text(replace(old, constraints=constraints), old.options))
    return _DONE


def _definition(
    names: Namespace, target: st.RelationRef
) -> tuple[MaterializedView, st.CreateMaterializedView]:
    item = names.of_kind(target, MaterializedView)
    return item, view_definition(names.engine, item)


def _redefine(names: Namespace, item: MaterializedView, text: str) -> None:
    there = Namespace(names.engine, item.search_schema)
    definition = parse_as(st.CreateMaterializedView, text, f"definition of {item.name}")
    creation = Creation(there, item.flow)
    creation.check_goes_on(item, definition)
    cut_over(names.engine, creation.redefined(item, definition))
