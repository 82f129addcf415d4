"""The columns of a table at a version, and how those of two versions differ. Pure.

The newest ``metaData`` action of a log defines how files are read: the columns, their types, their
names in files, and which are partition columns. So a version's rows are those of its files *by its
own metadata*, and a commit without files may change every row.

A column corresponds to the column of the same name in another version, or else to the one with the
same name in files: it was renamed.

Source: the Delta protocol, "Change Metadata", "Column Mapping", "Type Widening", "Schema
Serialization Format". docs/decisions/0065-rows-by-their-own-version.md
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ctsql.catalog.names import fold
from ctsql.catalog.schemas import decimal_size

PHYSICAL = "delta.columnMapping.physicalName"
MODE = "delta.columnMapping.mode"
CURRENT_DEFAULT = "CURRENT_DEFAULT"  # key in a column's metadata: its DEFAULT, as text
_OF_VALUES = ("delta.typeChanges", "__CHAR_VARCHAR_TYPE_STRING", "__COLLATIONS")
_COUNTING = (PHYSICAL, "delta.columnMapping.id", *_OF_VALUES)
"""Keys in a column's metadata that decide how it is read."""
_PARTS = {"array": ("elementType",), "map": ("keyType", "valueType")}
_INTEGERS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
"""The integer types, narrowest first, with the most digits of each."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column at a version; ``field`` is as the log writes it."""

    field: Mapping[str, Any]
    is_partition: bool

    @property
    def name(self) -> str:
        """Its logical name."""
        return str(self.field["name"])

    @property
    def is_not_null(self) -> bool:
        """Whether each row has a value in it."""
        return not self.field.get("nullable", True)

    @property
    def physical(self) -> str:
        """Its name in files."""
        return _physical(self.field)

    @property
    def type(self) -> str:
        """Its type, for display."""
        kind = self.field["type"]
        return kind.upper() if isinstance(kind, str) else str(kind["type"]).upper()


class TableMetadata:
    """The metadata of a table at a version. CREATE OR REPLACE changes the id within one log."""

    def __init__(self, action: Mapping[str, Any]) -> None:
        """Read a ``metaData`` action; raises KeyError if it is none."""
        self.id = str(action["id"])
        self.schema_text = str(action["schemaString"])
        self.partition_columns: tuple[str, ...] = tuple(action.get("partitionColumns") or ())
        self.configuration: dict[str, str] = dict(action.get("configuration") or {})

    @property
    def maps_columns(self) -> bool:
        """Whether columns have other names in files (column mapping)."""
        return self.configuration.get(MODE, "none") != "none"

    @cached_property
    def _fields(self) -> list[dict[str, Any]]:
        fields: list[dict[str, Any]] = json.loads(self.schema_text)["fields"]
        return fields

    @cached_property
    def columns(self) -> dict[str, TableColumn]:
        """The columns by their folded names, in order."""
        partition = {fold(p) for p in self.partition_columns}
        pairs = ((fold(f["name"]), f) for f in self._fields)
        return {name: TableColumn(f, name in partition) for name, f in pairs}

    @cached_property
    def layout(self) -> str:
        """All that decides how files are read; equal for versions that read a file alike."""
        fields = [_comparable(f) for f in self._fields]
        return json.dumps([fields, self.partition_columns, self.maps_columns], sort_keys=True)

    def counterpart(self, column: TableColumn) -> TableColumn | None:
        """The column that corresponds to one of another version; None if there is none."""
        same = self.columns.get(fold(column.name))
        if same is not None:
            return same
        return next((c for c in self.columns.values() if c.physical == column.physical), None)


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """How columns of a version differ from those of an earlier one, by name."""

    removed_columns: tuple[str, ...] = ()
    added_columns: tuple[str, ...] = ()
    other: tuple[str, ...] = ()  # existing rows have other values
    lossy_columns: tuple[str, ...] = ()  # the type cannot represent the old values
    widened_columns: tuple[str, ...] = ()  # of a wider type, with the same values
    moved_columns: tuple[str, ...] = ()  # stored in another way, with the same type

    def __bool__(self) -> bool:
        return self.changes_types or bool(self.moved_columns)

    @property
    def changes_types(self) -> bool:
        """Whether there are other columns, other values or other types."""
        return bool(
            self.removed_columns
            or self.added_columns
            or self.other
            or self.lossy_columns
            or self.widened_columns
        )

    @property
    def changes_rows(self) -> bool:
        """Whether existing rows change although no file does."""
        return bool(self.removed_columns or self.other or self.lossy_columns)


def compare_columns(
    old: TableMetadata, new: TableMetadata, columns: Collection[str] | None = None
) -> ColumnChanges:
    """Compare the columns of two versions, or some of them by name."""
    names = list({**old.columns, **new.columns}) if columns is None else [*map(fold, columns)]
    differences: dict[str, list[str]] = {}
    for name in names:
        is_now, was = new.columns.get(name), old.columns.get(name)
        if is_now is None:
            if was is not None:
                differences.setdefault("removed_columns", []).append(was.name)
            continue
        before = old.counterpart(is_now)
        how = "added_columns"
        if before is not None:
            how = _difference(before, is_now, renamed=was is None)
        if how:
            differences.setdefault(how, []).append(is_now.name)
    return ColumnChanges(**{how: tuple(those) for how, those in differences.items()})


def _difference(old: TableColumn, new: TableColumn, *, renamed: bool) -> str:
    """The field of :class:`ColumnChanges` for a column; empty if it does not differ."""
    if not fits(old.field["type"], new.field["type"]):
        return "lossy_columns"
    if old.physical != new.physical or not _same_places(old.field["type"], new.field["type"]):
        return "other"
    if renamed:
        return "added_columns"
    was = (_comparable(old.field), old.is_partition)
    if was == (_comparable(new.field), new.is_partition):
        return ""
    return "moved_columns" if _meaning(old.field) == _meaning(new.field) else "widened_columns"


def fits(old: Any, new: Any) -> bool:
    """Whether a type represents every value of an older one, distinct ones distinctly.

    >>> fits("integer", "long"), fits("long", "integer"), fits("integer", "string")
    (True, False, False)
    >>> fits("decimal(10,2)", "decimal(12,2)"), fits("long", "double")
    (True, False)
    """
    if isinstance(old, str) or isinstance(new, str):
        return old == new or (isinstance(old, str) and isinstance(new, str) and _widens(old, new))
    if old["type"] != new["type"]:
        return False
    pairs = _nested(old, new)
    return all(fits(a, b) for a, b in pairs) if pairs is not None else bool(old == new)


def _widens(old: str, new: str) -> bool:
    """Whether Delta allows to widen one plain type to another."""
    if old in _INTEGERS:
        if new in _INTEGERS:
            return _INTEGERS[old] <= _INTEGERS[new]
        if new == "double":
            return old != "long"  # a double cannot represent all of its values
        wide = decimal_size(new)
        return wide is not None and wide[0] - wide[1] >= _INTEGERS[old]
    narrow, wide = decimal_size(old), decimal_size(new)
    if narrow is not None and wide is not None:
        return wide[1] >= narrow[1] and wide[0] - wide[1] >= narrow[0] - narrow[1]
    return (old, new) in (("float", "double"), ("date", "timestamp_ntz"))


def _same_places(old: Any, new: Any) -> bool:
    """Whether equally named parts of a nested type have the same names in files."""
    if isinstance(old, str) or isinstance(new, str) or old["type"] != new["type"]:
        return True
    if new["type"] == "struct":
        for field in new["fields"]:
            was = _find_nested(old, field)
            if was is not None and _physical(was) != _physical(field):
                return False
    return all(_same_places(a, b) for a, b in _nested(old, new) or ())


def _nested(old: Any, new: Any) -> list[tuple[Any, Any]] | None:
    """The types within two types of one kind that correspond; None for a kind without any."""
    if new["type"] == "struct":
        fields = ((_find_nested(old, f), f) for f in new["fields"])
        return [(was["type"], f["type"]) for was, f in fields if was is not None]
    parts = _PARTS.get(new["type"])
    return None if parts is None else [(old[part], new[part]) for part in parts]


def _find_nested(
    struct: Mapping[str, Any], other_field: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """The field of a struct that corresponds to a field of another version of it."""
    fields: list[Mapping[str, Any]] = struct["fields"]
    same = (f for f in fields if fold(f["name"]) == fold(other_field["name"]))
    other = (f for f in fields if _physical(f) == _physical(other_field))
    return next(same, None) or next(other, None)


def _physical(column: Mapping[str, Any]) -> str:
    return str((column.get("metadata") or {}).get(PHYSICAL, column["name"]))


def _meaning(field: Mapping[str, Any]) -> Any:
    """The type of a column, with the metadata about its values."""
    metadata = field.get("metadata") or {}
    return field["type"], {k: metadata.get(k) for k in _OF_VALUES}


def _comparable(part: Any) -> Any:
    """A field or a type, reduced to the parts that decide how rows are read."""
    if isinstance(part, str):
        return part
    if "name" in part:
        metadata = {k: v for k, v in (part.get("metadata") or {}).items() if k in _COUNTING}
        return [part["name"], _comparable(part["type"]), metadata]
    kind = part["type"]
    if kind == "struct":
        return ["struct", *map(_comparable, part["fields"])]
    return [kind, *(_comparable(part[p]) for p in _PARTS[kind])] if kind in _PARTS else part


def is_on(configuration: Mapping[str, str], key: str) -> bool | None:
    """The value of a true or false property, in any case; None if it is not set.

    >>> is_on({"delta.appendOnly": "True"}, "delta.appendOnly"), is_on({}, "delta.appendOnly")
    (True, None)
    """
    value = configuration.get(key)
    return None if value is None else value.strip().lower() == "true"
