"""A table's data files, as its log describes them. Pure.

Source: the Delta protocol, "Add File and Remove File", "Deletion Vectors", "Per-file Statistics".
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

_COUNT_FIRST = re.compile(r'\{"numRecords": ?(\d+)[,}]', re.ASCII)
TIME_TAG = "ctsql.t"
"""Tag of a file: the T of its rows, in a commit that several Ts share."""


class DataFile:
    """A file with rows of a table, by the JSON line of its ``add`` or ``remove`` action.

    The fields of the action are not to be changed.
    """

    def __init__(self, line: str, action: dict[str, Any] | None = None) -> None:
        self.line = line
        if action is not None:
            self.action = action

    @cached_property
    def action(self) -> dict[str, Any]:
        """The fields of the action."""
        (fields,) = json.loads(self.line).values()
        return dict(fields)

    @property
    def path(self) -> str:
        """Its path as the log writes it."""
        return str(self.action["path"])

    @property
    def size(self) -> int:
        """In bytes."""
        return int(self.action["size"])

    @property
    def partition(self) -> tuple[tuple[str, str | None], ...]:
        """Its partition values; only files with equal ones may be compacted together."""
        return tuple(sorted((self.action.get("partitionValues") or {}).items()))

    @property
    def data_change(self) -> bool:
        """Whether the action changes rows; that of OPTIMIZE, for example, does not."""
        return bool(self.action.get("dataChange", True))

    @property
    def time(self) -> int | None:
        """The T of its rows, in a commit that several Ts share."""
        time = (self.action.get("tags") or {}).get(TIME_TAG)
        return None if time is None else int(time)

    @property
    def vector(self) -> dict[str, Any] | None:
        """The descriptor of its deletion vector."""
        return self.action.get("deletionVector")

    @property
    def vector_id(self) -> str:
        """Identifies its deletion vector; empty if it has none."""
        vector = self.vector
        if vector is None:
            return ""
        offset = f"@{vector['offset']}" if vector.get("offset") is not None else ""
        return f"{vector['storageType']}{vector['pathOrInlineDv']}{offset}"

    @property
    def deleted_count(self) -> int:
        """The number of its rows that the vector marks as deleted."""
        return 0 if self.vector is None else int(self.vector["cardinality"])

    @property
    def statistics(self) -> str | None:
        """Statistics of its values, as JSON."""
        return self.action.get("stats")

    @cached_property
    def records_count(self) -> int | None:
        """The number of its rows, deleted ones included; None without statistics."""
        text = self.statistics or "{}"
        # The bounds of the columns take longer to read than all the rest of a commit.
        first = _COUNT_FIRST.match(text)
        if first is not None and text.endswith("}"):
            return int(first[1])
        count = json.loads(text).get("numRecords")
        return None if count is None else int(count)

    @property
    def rows_count(self) -> int | None:
        """The number of its live rows; None without statistics."""
        return None if self.records_count is None else self.records_count - self.deleted_count

    @property
    def deleted_share(self) -> float:
        """The fraction of its rows that is deleted, between 0 and 1; 1 if it is unknown."""
        if not self.deleted_count:
            return 0.0
        return self.deleted_count / self.records_count if self.records_count else 1.0

    @property
    def live_bytes(self) -> int:
        """Its estimated size without deleted rows."""
        return round(self.size * (1 - self.deleted_share))

    def with_vector(self, vector: dict[str, Any]) -> Self:
        """The same file with another deletion vector, as a commit that changes rows adds it."""
        action = {**self.action, "deletionVector": vector, "dataChange": True}
        if self.statistics is not None:
            # The minimum or the maximum may be that of a deleted row.
            action["stats"] = json.dumps({**json.loads(self.statistics), "tightBounds": False})
        return type(self)(json.dumps({"add": action}))

    def without_vector(self) -> Self:
        """The same file with all of its rows."""
        if self.vector is None:
            return self
        action = {k: v for k, v in self.action.items() if k != "deletionVector"}
        return type(self)(json.dumps({"add": action}))


def select_changed(
    files: Mapping[str, DataFile], others: Mapping[str, DataFile]
) -> dict[str, DataFile]:
    """The files, by path, that are missing among others or have another deletion vector there."""
    return {
        path: file
        for path, file in files.items()
        if path not in others or others[path].vector_id != file.vector_id
    }


def is_elsewhere(path: str) -> bool:
    """Whether a file is named by its whole path, as a shallow clone names those of its origin.

    >>> [is_elsewhere(p) for p in ("file:/a/b", "s3a://a/b", "/a/b", "x=file%3A/b")]
    [True, True, True, False]
    """
    return path.startswith(("/", "file:")) or "://" in path


Bin = tuple[DataFile, ...]
"""Files that are rewritten together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file in a table's folder. ``path`` is relative and decoded; ``modified_ms`` its time."""

    path: str
    size: int
    modified_ms: int
