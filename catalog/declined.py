"""The one answer of what cannot do a thing, where something else can."""

from dataclasses import dataclass

from ctsql.catalog.spans import Span


@dataclass(frozen=True, slots=True)
class Declined:
    """Not this way."""

    reason: str  # why: a sentence for developers, or a code if users see it
    detail: str = ""  # for example, which table
    span: Span | None = None  # the piece of a definition that is to blame
