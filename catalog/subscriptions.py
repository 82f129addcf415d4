"""Named readers of an object's changes, as the catalog keeps them.

What changes all the time, how far a reader has come, is not here but in a separate table; here
stand the name, what it follows and where it began.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from ctsql.catalog.errors import RESTORE, error


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSubscription:
    """A named reader.

    Attributes:
        id: never used again, so that a new reader of the same name starts from the beginning.
        name: as the user gave it. object_id: what it follows.
        start: the T it began at. snapshot: it was given the contents as of ``start`` first.
        definition: a short text that changes with the definition of a plain view; else empty.
        problem: what is wrong with the entry of one that cannot be read; else empty.
    """

    id: str
    name: str
    object_id: str
    start: int
    snapshot: bool
    definition: str = ""
    problem: str = ""

    def check(self) -> "StoredSubscription":
        """The reader; raises STORED_DATA_INVALID when its entry could not be read."""
        if self.problem:
            what = f"the entry of subscription '{self.name}' in the catalog"
            hint = f"{RESTORE}, or give it up: DROP SUBSCRIPTION '{self.name}'"
            raise error("STORED_DATA_INVALID", what=what, detail=self.problem, hint=hint)
        return self

    @property
    def app(self) -> str:
        """The application id under which its position is kept."""
        return f"sub-{self.name}-{self.id[:8]}"

    def to_json(self) -> str:
        """The reader as text for the store."""
        return json.dumps({k: v for k, v in asdict(self).items() if k != "problem"})

    @staticmethod
    def of_entry(name: str, text: str) -> "StoredSubscription":
        """The reader of an entry; an unreadable one raises its error only where it is used.

        Args:
            name: under which it is kept.
        """
        try:
            raw: dict[str, Any] = json.loads(text)
            subscription = StoredSubscription(**raw)
        except (ValueError, TypeError) as problem:
            return StoredSubscription(
                id="",
                name=name,
                object_id="",
                start=0,
                snapshot=False,
                problem=f"{type(problem).__name__}: {problem}.",
            )
        return subscription
