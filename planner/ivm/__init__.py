"""Change plans: how a view's query follows the changes of its tables.

:func:`change_plan` reads a query and gives a :class:`ChangePlan`, or says why there is none. Pure:
it makes SQL texts and does not run them.
"""

from ctsql.planner.ivm.parse.query import PlainView, Relation
from ctsql.planner.ivm.plan import ChangePlan, NoChangePlan, change_plan
from ctsql.planner.ivm.sql.queries import ChangeTexts, KeyedTexts, Query, StepText, Text, TopTexts
from ctsql.planner.ivm.sql.spark import Input, Naming, StateUse, StepUse, TableUse
from ctsql.planner.ivm.strategies.state_table import StateNeed, StatePlan

__all__ = [
    "ChangePlan",
    "ChangeTexts",
    "Input",
    "KeyedTexts",
    "Naming",
    "NoChangePlan",
    "PlainView",
    "Query",
    "Relation",
    "StateNeed",
    "StatePlan",
    "StateUse",
    "StepText",
    "StepUse",
    "TableUse",
    "Text",
    "TopTexts",
    "change_plan",
]
