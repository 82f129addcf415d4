"""The one answer of what cannot do a thing, where something else can."""

from dataclasses import dataclass

from ctsql.catalog.spans import Span


@dataclass(frozen=True, slots=True)
class Declined:
    """Not this way."""

    reason: str  # why, as a sentence for developers; or as a code where users are told
    detail: str = ""  # which table, say
    span: Span | None = None  # the piece of a definition that is to blame
