"""Staged batches: written but not committed, as plain values and as JSON text. Pure.

A batch belongs to one output and holds its changes in ``[lower, upper)``, in one part for each T.
If another writer committed some of these Ts, the parts below the upper are cut. A batch with a
schema replaces the table's columns and all its rows.

Inserted rows are files in the table's folder, described by Delta's ``add`` action. Deleted rows are
positions in a stored file at the version the batch was made from: the file's next ``add``, or
``None`` if no row of the file remains. If a part deletes a row that an earlier part of the batch
inserts, both are left out. A text is validated before use, its format number included.

Source: the Delta protocol, "Add File and Remove File", "Deletion Vectors".
"""

import json
import re
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Self
from urllib.parse import unquote

from ctsql.catalog.errors import error
from ctsql.catalog.times import CLOSED

FORMAT = 1
KIND = "ctsql batch"
_WRITER = re.compile(r"w[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_OUTSIDE = re.compile(r"^/|^[A-Za-z][A-Za-z0-9+.-]*:|(^|/)\.\.(/|$)")


def new_writer_id() -> str:
    """An id for one write handle, stored in the metadata of every commit it makes."""
    return f"w{uuid.uuid4()}"


def check_writer_id(text: str) -> None:
    """Raise INVALID_NAME unless the text is ``w`` and a UUID in lower case."""
    if not _WRITER.fullmatch(text):
        detail = "A writer id is w followed by a UUID in lower case."
        raise error("INVALID_NAME", name=text, detail=detail)


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file of rows to insert, by its path in the log, with Delta's ``add`` as JSON."""

    path: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedDelete:
    """Rows of one stored file to delete."""

    path: str
    rows_count: int
    known_vector: str  # the unique id of the deletion vector it had; empty for none
    action: str | None  # the ``add`` it gets, as JSON; None if no row of it remains
    vector_file: str | None  # the file with the new vector, below the table's folder


@dataclass(frozen=True, slots=True)
class BatchPart:
    """The changes at one T."""

    time: int
    inserts: tuple[StagedFile, ...] = ()
    deletes: tuple[StagedDelete, ...] = ()

    def own_files(self) -> set[str]:
        """The files staged for it, by decoded path below the table's folder."""
        vectors = {one.vector_file for one in self.deletes if one.vector_file is not None}
        return vectors | {unquote(one.path) for one in self.inserts}


def own_files(parts: Iterable[BatchPart]) -> set[str]:
    """The files staged for some parts."""
    return set[str]().union(*(part.own_files() for part in parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchText:
    """A batch as a value."""

    batch_id: str
    writer: str  # id of the handle that staged it
    table_id: str  # table_id, app: of its output
    app: str
    lower: int  # lower, upper: in T; upper exclusive
    upper: int
    version: int  # the output's version it was made from
    parts: tuple[BatchPart, ...]
    schema: str | None = None  # the table's new columns, as the log writes them; None keeps them

    def to_json(self) -> str:
        """The text form."""
        return json.dumps({"kind": KIND, "format": FORMAT, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a text form; raises BATCH_INVALID."""
        raw = _object(text)
        if raw.get("kind") != KIND:
            raise _invalid(f'It does not contain "kind": "{KIND}".')
        number = raw.get("format")
        if number is True or number != FORMAT:
            raise _invalid(f"Its format is {number!r}; this version of ctsql reads {FORMAT}.")
        try:
            batch = cls(
                **{n: _is(str, raw[n]) for n in ("batch_id", "writer", "table_id", "app")},
                **{n: _is(int, raw[n]) for n in ("lower", "upper", "version")},
                parts=tuple(_part(part) for part in _is(list, raw["parts"])),
                schema=None if raw["schema"] is None else _is(str, raw["schema"]),
            )
            check_bounds(batch.lower, batch.upper, [part.time for part in batch.parts])
        except KeyError as problem:
            raise _invalid(f"It lacks {problem}.") from problem
        except TypeError as problem:
            raise _invalid(f"{problem}.") from problem
        return batch

    def at(self, lower: int, upper: int) -> Self:
        """The batch with other bounds and all parts at the last T."""
        parts = tuple(replace(part, time=upper - 1) for part in self.parts)
        return replace(self, lower=lower, upper=upper, parts=parts)

    def truncate(self, upper: int) -> tuple[Self, tuple[BatchPart, ...]]:
        """The batch without the parts below an upper, and these parts."""
        before = tuple(part for part in self.parts if part.time < upper)
        rest = tuple(part for part in self.parts if part.time >= upper)
        return (replace(self, parts=rest) if before else self), before


def check_bounds(lower: int, upper: int, times: Iterable[int]) -> None:
    """Check bounds in T, upper exclusive, and that updates are within them.

    Raises:
        OUTPUT_CLOSED: updates after the last upper. BOUNDS_INVALID: upper < lower, or an update
            before the lower, or at or past the upper.
    """
    updates = list(times)
    if lower == CLOSED and updates:
        raise error("OUTPUT_CLOSED", time=updates[0])
    if upper < lower:
        message = f"the bounds of a write go backwards: from {lower} to {upper}"
        raise error("BOUNDS_INVALID", message=message)
    for time in updates:
        if not lower <= time < upper:
            bound = f"before the lower {lower}" if time < lower else f"at or past the upper {upper}"
            raise error("BOUNDS_INVALID", message=f"an update at T = {time} is {bound}")


def _object(text: str) -> dict[str, Any]:
    try:
        raw = json.loads(text)
    except json.JSONDecodeError as problem:
        raise _invalid(f"It is not JSON: {problem}.") from problem
    if not isinstance(raw, dict):
        raise _invalid(f"It is JSON, but a {type(raw).__name__}.")
    return raw


def _part(raw: Any) -> BatchPart:
    _is(dict, raw)
    return BatchPart(
        time=_is(int, raw["time"]),
        inserts=tuple(
            StagedFile(_path(f["path"]), _add(f["action"], f["path"]))
            for f in _is(list, raw["inserts"])
        ),
        deletes=tuple(
            StagedDelete(
                path=_is(str, d["path"]),
                rows_count=_is(int, d["rows_count"]),
                known_vector=_is(str, d["known_vector"]),
                action=None if d["action"] is None else _add(d["action"], d["path"]),
                vector_file=None if d["vector_file"] is None else _path(d["vector_file"]),
            )
            for d in _is(list, raw["deletes"])
        ),
    )


def _is(kind: type, value: Any) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{value!r:.60} is no {kind.__name__}")
    return value


def _path(value: Any) -> str:
    """A path below the table. Others are refused: a rejected batch's files are deleted."""
    path: str = _is(str, value)
    if not path or _OUTSIDE.search(unquote(path)):
        raise TypeError(f"{path!r} is no file below a table")
    return path


def _add(value: Any, path: str) -> str:
    action: str = _is(str, value)
    add = _object(action).get("add")
    if not isinstance(add, dict) or add.get("path") != path:
        raise TypeError(f"{action!r:.60} is no add of {path}")
    return action


def _invalid(detail: str) -> Exception:
    return error("BATCH_INVALID", detail=detail)
