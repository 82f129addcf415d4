"""The result of a function that leaves its work to another function."""

from dataclasses import dataclass

from ctsql.catalog.spans import Span


@dataclass(frozen=True, slots=True)
class Declined:
    """The function did nothing; the caller uses another way."""

    reason: str  # the reason: a sentence for developers, or a code if users see it
    detail: str = ""  # for example, which table
    span: Span | None = None  # the responsible part of a definition
