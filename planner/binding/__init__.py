"""Binding: resolves each name of a statement to an object, a column and a type.

Pure but for one question, which types a query gives: only Spark's analysis knows, and it is asked
through the :class:`Analyst` protocol. Definitions that are stored are bound again with the
objects they were bound to when they were made (``Item.reads``), whatever is called so now.
"""

from ctsql.planner.binding.analyst import Analyst as Analyst
from ctsql.planner.binding.binder import (
    Binder as Binder,
    BoundDefinition as BoundDefinition,
    qualify as qualify,
    refresh_parts as refresh_parts,
)
from ctsql.planner.binding.checks import check_holds_rows as check_holds_rows
from ctsql.planner.binding.definitions import (
    definition_span as definition_span,
    may_wait as may_wait,
)
from ctsql.planner.binding.task import bind_stored as bind_stored, bind_task as bind_task
