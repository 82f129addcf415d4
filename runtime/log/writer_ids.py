"""Writer ids: who wrote a commit or staged a batch. Pure.

A writer is one handle of one process; its id stands in the metadata of every commit it makes, so
that a person who looks at the log of an output sees how many wrote it and which of them won.
"""

import re
import uuid
from dataclasses import dataclass

from ctsql.catalog.errors import error

_TEXT = re.compile(r"w([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})")


@dataclass(frozen=True, slots=True)
class WriterId:
    """An id; its text form is ``w`` and the UUID in lower case."""

    value: uuid.UUID

    @staticmethod
    def new() -> "WriterId":
        """An id that nobody else has."""
        return WriterId(uuid.uuid4())

    @staticmethod
    def parse(text: str) -> "WriterId":
        """The id of its text form.

        >>> WriterId.parse("w00000000-0000-0000-0000-000000000007")
        WriterId(value=UUID('00000000-0000-0000-0000-000000000007'))

        Raises:
            WRITER_ID_INVALID: it is any other text; the error shows it.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise error("WRITER_ID_INVALID", text=text)
        return WriterId(uuid.UUID(match[1]))

    def __str__(self) -> str:
        return f"w{self.value}"
