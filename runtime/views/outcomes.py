"""What a way to refresh a view answers."""

from dataclasses import dataclass

from ctsql.runtime.views.refresh_policy import Strategy


@dataclass(frozen=True, slots=True)
class Staged:
    """The difference is staged; ``strategy`` says how it was found."""

    strategy: Strategy


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """This way is not for this view, or not for this refresh; nothing is staged."""


@dataclass(frozen=True, slots=True)
class Fallback:
    """The changes cannot be followed this time; what is staged is to be discarded.

    Attributes:
        code: of ``refresh_policy.WHY``, or of the planner's reasons. detail: which table, say.
    """

    code: str
    detail: str = ""


Outcome = Staged | NotApplicable | Fallback
