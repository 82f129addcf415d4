"""A table's live data files, as its log describes them. Pure.

Source: the Delta protocol, "Add File and Remove File", "Deletion Vectors", "Per-file Statistics".
"""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self


class DataFile:
    """A file that holds rows of a table.

    Attributes:
        line: the ``add`` action that describes it, as JSON.
    """

    def __init__(self, line: str) -> None:
        """The file that an action describes."""
        self.line = line

    @cached_property
    def action(self) -> dict[str, Any]:
        """What the action says; not to be changed."""
        found: dict[str, Any] = json.loads(self.line)["add"]
        return found

    @property
    def path(self) -> str:
        """Its path as the log writes it."""
        return str(self.action["path"])

    @property
    def vector(self) -> dict[str, Any] | None:
        """The descriptor of its deletion vector."""
        return self.action.get("deletionVector")

    @property
    def vector_id(self) -> str:
        """What tells its deletion vector from every other; empty when it has none."""
        vector = self.vector
        if vector is None:
            return ""
        offset = f"@{vector['offset']}" if vector.get("offset") is not None else ""
        return f"{vector['storageType']}{vector['pathOrInlineDv']}{offset}"

    @property
    def deleted_count(self) -> int:
        """How many of its rows count as deleted."""
        return 0 if self.vector is None else int(self.vector["cardinality"])

    @property
    def statistics(self) -> str | None:
        """What is known of its values, as JSON."""
        return self.action.get("stats")

    @cached_property
    def records_count(self) -> int | None:
        """How many rows it holds, deleted ones too; None when the log does not say."""
        count = json.loads(self.statistics or "{}").get("numRecords")
        return None if count is None else int(count)

    @property
    def rows_count(self) -> int | None:
        """How many live rows it holds; None when the log does not say."""
        return None if self.records_count is None else self.records_count - self.deleted_count

    def with_vector(self, vector: dict[str, Any]) -> Self:
        """The same file with another deletion vector, as a commit that changes rows adds it."""
        action = {**self.action, "deletionVector": vector, "dataChange": True}
        if self.statistics is not None:
            # The least and the greatest value may be those of a deleted row.
            action["stats"] = json.dumps({**json.loads(self.statistics), "tightBounds": False})
        return type(self)(json.dumps({"add": action}))

    def without_vector(self) -> Self:
        """The same file with all of its rows."""
        if self.vector is None:
            return self
        action = {k: v for k, v in self.action.items() if k != "deletionVector"}
        return type(self)(json.dumps({"add": action}))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStat:
    """A live file.

    Attributes:
        path: as the log names it. size: in bytes. deleted: rows under its deletion vector.
        rows: rows in the file, deleted ones included; None when it carries no statistics.
        partition: its partition values, equal for files that may become one.
    """

    path: str
    size: int
    rows: int | None = None
    deleted: int = 0
    partition: tuple[tuple[str, str | None], ...] = ()

    @property
    def deleted_share(self) -> float:
        """Which part of its rows is deleted, between 0 and 1; 1 when it cannot be known."""
        if not self.deleted:
            return 0.0
        return self.deleted / self.rows if self.rows else 1.0

    @property
    def live_bytes(self) -> int:
        """About how large it is without its deleted rows."""
        return round(self.size * (1 - self.deleted_share))


Bin = tuple[FileStat, ...]
"""Files that are rewritten together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file in a table's folder. ``path`` is relative and decoded; ``modified_ms`` its time."""

    path: str
    size: int
    modified_ms: int
