"""Named readers of an object's changes, as the catalog stores them, without positions."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from ctsql.catalog.errors import RESTORE, error


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSubscription:
    """A named reader."""

    id: str  # never used again, so that a new reader of the same name starts from the beginning
    name: str  # as the user gave it
    object_id: str  # what it follows
    start: int  # the T it began at
    snapshot: bool  # it was given the contents as of ``start`` first
    # a short text that changes with the definition of a plain view; else empty.
    definition: str = ""
    problem: str = ""  # what is wrong with the entry of one that cannot be read; else empty

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
        """The reader of an entry; an unreadable one raises its error only when used."""
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
