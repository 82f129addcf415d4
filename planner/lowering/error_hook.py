"""The hook by which the planner has Spark's exceptions translated.

The runtime knows Spark's and Delta's exception classes and sets the converter; the planner only
says which text it gave Spark. Without a converter exceptions pass unchanged.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import ClassVar, Protocol

from ctsql.catalog.spans import Span


class Sent(Protocol):
    """Text given to Spark that knows where its characters come from."""

    @property
    def text(self) -> str:
        """The text that Spark runs."""

    def origin(self, offset: int) -> int:
        """The offset in the user's text of an offset in ``text``."""


Converter = Callable[[Sent, Span, Callable[[str], str]], AbstractContextManager[None]]


class Failures:
    """The converter in force."""

    _converter: ClassVar[Converter | None] = None

    @classmethod
    def convert_by(cls, converter: Converter) -> None:
        """Set the converter for this process."""
        cls._converter = converter

    @classmethod
    def current(cls) -> Converter:
        """The converter; one that does nothing when none was set."""
        return cls._converter or _unchanged


@contextmanager
def _unchanged(_sent: Sent, _span: Span, _relation_name: Callable[[str], str]) -> Iterator[None]:
    yield
