"""Change plans: how a view's query follows the changes of its tables.

:func:`change_plan` reads a query and gives a :class:`ChangePlan`, or says why there is none. Pure:
it makes SQL texts and does not run them.
"""

from ctsql.planner.ivm.parse.query import PlainView, Relation
from ctsql.planner.ivm.plan import (
    ChangePlan,
    ChangeTexts,
    KeyedTexts,
    Naming,
    NoChangePlan,
    StateNeed,
    StatePlan,
    StepText,
    TableUse,
    Text,
    TopTexts,
    change_plan,
)

__all__ = [
    "ChangePlan",
    "ChangeTexts",
    "KeyedTexts",
    "Naming",
    "NoChangePlan",
    "PlainView",
    "Relation",
    "StateNeed",
    "StatePlan",
    "StepText",
    "TableUse",
    "Text",
    "TopTexts",
    "change_plan",
]
