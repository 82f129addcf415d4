"""A table's data files, as its log describes them. Pure.

Source: the Delta protocol, "Add File and Remove File", "Deletion Vectors", "Per-file Statistics".
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from sys import getsizeof
from typing import Any, Self

_COUNT_FIRST = re.compile(r'\{"numRecords": ?(\d+)[,}]', re.ASCII)
OBJECT_BYTES = 384
"""What a :class:`DataFile` takes without its texts."""
TIME_TAG = "ctsql.t"
"""Tag of a file: the T of its rows, in a commit that several Ts share."""


class DataFile:
    """A file with rows of a table, by the JSON line of its ``add`` or ``remove`` action.

    Many are kept in memory, so what is seldom asked for stays text.

    Attributes:
        path: as the log writes it.
        data_change: whether the action changes rows; that of OPTIMIZE, for example, does not.
        time: the T of its rows, in a commit that several Ts share.
        statistics: of its values, as JSON.
        records_count: the number of its rows, deleted ones included; None without statistics.
        vector_id: identifies its deletion vector; empty if it has none.
        deleted_count: the number of its rows that the vector marks as deleted.
        memory: the bytes that this object takes, its place in a list by paths included.
    """

    __slots__ = (
        "__weakref__", "_others", "data_change", "deleted_count", "memory", "path", "records_count",
        "statistics", "time", "vector_id",
    )  # fmt: skip

    def __init__(self, line: str) -> None:
        """Raises KeyError, TypeError, ValueError or AttributeError if the action is damaged."""
        (action,) = json.loads(line).values()
        self._take(action)

    @classmethod
    def of(cls, action: Mapping[str, Any]) -> Self:
        """That of the fields of an action; raises as the constructor does."""
        made = cls.__new__(cls)
        made._take(action)
        return made

    def _take(self, action: Mapping[str, Any]) -> None:
        others = dict(action)
        self.path = str(others["path"])
        self.data_change = bool(others.get("dataChange", True))
        time = (others.get("tags") or {}).get(TIME_TAG)
        self.time = None if time is None else int(time)
        self.statistics: str | None = others.pop("stats", None)
        self.records_count = _records_count(self.statistics or "{}")
        vector = others.get("deletionVector")
        self.vector_id = "" if vector is None else _vector_id(vector)
        self.deleted_count = 0 if vector is None else int(vector["cardinality"])
        self._others = json.dumps(others)
        texts = (self.path, self.statistics or "", self._others, self.vector_id)
        self.memory = OBJECT_BYTES + sum(map(getsizeof, texts))

    @property
    def action(self) -> dict[str, Any]:
        """The fields of the action."""
        fields: dict[str, Any] = json.loads(self._others)
        return fields if self.statistics is None else {**fields, "stats": self.statistics}

    @property
    def line(self) -> str:
        """The action as a line of a log: that of an ``add``."""
        return json.dumps({"add": self.action})

    @property
    def size(self) -> int:
        """In bytes."""
        return int(self.action["size"])

    @property
    def partition(self) -> tuple[tuple[str, str | None], ...]:
        """Its partition values; only files with equal ones may be compacted together."""
        return tuple(sorted((self.action.get("partitionValues") or {}).items()))

    @property
    def vector(self) -> dict[str, Any] | None:
        """The descriptor of its deletion vector."""
        return self.action.get("deletionVector")

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
        return type(self).of(action)

    def without_vector(self) -> Self:
        """The same file with all of its rows."""
        if self.vector is None:
            return self
        return type(self).of({k: v for k, v in self.action.items() if k != "deletionVector"})


def _records_count(statistics: str) -> int | None:
    # The bounds of the columns take longer to read than all the rest of a commit.
    first = _COUNT_FIRST.match(statistics)
    if first is not None and statistics.endswith("}"):
        return int(first[1])
    count = json.loads(statistics).get("numRecords")
    return None if count is None else int(count)


def _vector_id(vector: Mapping[str, Any]) -> str:
    offset = f"@{vector['offset']}" if vector.get("offset") is not None else ""
    return f"{vector['storageType']}{vector['pathOrInlineDv']}{offset}"


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
