"""The one answer of what cannot do a thing, where something else can."""

from dataclasses import dataclass

from ctsql.catalog.spans import Span


@dataclass(frozen=True, slots=True)
class Declined:
    """Not this way.

    Attributes:
        reason: why, as a sentence for developers; or as a code where users are told.
        detail: which table, say. span: the piece of a definition that is to blame.
    """

    reason: str
    detail: str = ""
    span: Span | None = None
