"""Incremental view maintenance: plans that compute a view's change from its tables' changes.

:func:`change_plan` returns the :class:`ChangePlan` of a query, or the reason why there is none.
"""

from ctsql.planner.ivm.parse.from_relations import (
    PlainView as PlainView,
    QueryRelation as QueryRelation,
)
from ctsql.planner.ivm.plan import ChangePlan as ChangePlan, change_plan as change_plan
from ctsql.planner.ivm.rules.counting import StatePlan as StatePlan
from ctsql.planner.ivm.sql.queries import (
    ChangeTexts as ChangeTexts,
    KeyedTexts as KeyedTexts,
    PickedColumns as PickedColumns,
    PrintedQuery as PrintedQuery,
    StepText as StepText,
    Text as Text,
    TopTexts as TopTexts,
)
from ctsql.planner.ivm.sql.spark import (
    Input as Input,
    Names as Names,
    StateUse as StateUse,
    StepUse as StepUse,
    TableUse as TableUse,
    name_by as name_by,
)
from ctsql.planner.ivm.temporal import (
    NEVER as NEVER,
    ClockWindow as ClockWindow,
    TemporalPlan as TemporalPlan,
    temporal_plan as temporal_plan,
)
