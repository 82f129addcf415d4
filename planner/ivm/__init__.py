"""Change plans: how a view's query follows the changes of its tables.

:func:`change_plan` reads a query and gives a :class:`ChangePlan`, or says why there is none. Pure:
it makes SQL texts and does not run them.
"""

from ctsql.planner.ivm.parse.query import PlainView, Relation
from ctsql.planner.ivm.plan import (
    ChangePlan,
    ChangeTexts,
    Input,
    KeyedTexts,
    Naming,
    NoChangePlan,
    Query,
    StateNeed,
    StatePlan,
    StateUse,
    StepText,
    StepUse,
    TableUse,
    Text,
    TopTexts,
    change_plan,
)

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
