"""What a version of a table says of its columns, and how two versions differ in that. Pure.

Rows lie in files that do not change; what they look like is said by the newest ``metaData`` action
of the log: which columns there are, of which types, by which names the files know them, and which
of them are no columns of the files at all but the partition's values. So the rows of a version are
those of its files *by its own metadata*, and a commit without any file may change what every row
looks like.

Of two versions a column is compared with the one of the same name, as who reads it knows no more
of it. Where there is none of that name, it is the one that files know by the same name: a renamed
column.

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
_COUNTING = (PHYSICAL, "delta.columnMapping.id", "delta.typeChanges", "__CHAR_VARCHAR_TYPE_STRING",
             "__COLLATIONS")  # fmt: skip
"""Of what is said beside a column, what decides how it is read."""
_INTEGERS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
"""The whole numbers, from the narrowest, with the digits that each may have."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column as a version has it: ``field`` is as the log writes it."""

    field: Mapping[str, Any]
    is_partition: bool

    @property
    def name(self) -> str:
        """As who reads the table knows it."""
        return str(self.field["name"])

    @property
    def physical(self) -> str:
        """As the files know it."""
        return _physical(self.field)

    @property
    def type(self) -> str:
        """Its type, for a person."""
        kind = self.field["type"]
        return kind.upper() if isinstance(kind, str) else str(kind["type"]).upper()


class TableMetadata:
    """The metadata of a table at a version.

    Attributes:
        id: the table's own id; one that replaces a table in its own log may have another.
        schema_text: the columns as the log writes them. configuration: the table properties.
    """

    def __init__(self, action: Mapping[str, Any]) -> None:
        """From what the ``metaData`` action says; raises KeyError if it is none."""
        self.id = str(action["id"])
        self.schema_text = str(action["schemaString"])
        self.partition_columns: tuple[str, ...] = tuple(action.get("partitionColumns") or ())
        self.configuration: dict[str, str] = dict(action.get("configuration") or {})

    @property
    def maps_columns(self) -> bool:
        """Do files know columns by other names than who reads the table?"""
        return self.configuration.get(MODE, "none") != "none"

    @cached_property
    def _fields(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.schema_text)["fields"]
        return found

    @cached_property
    def columns(self) -> dict[str, TableColumn]:
        """The columns by their folded names, in order."""
        parts = {fold(p) for p in self.partition_columns}
        named = ((fold(f["name"]), f) for f in self._fields)
        return {name: TableColumn(f, name in parts) for name, f in named}

    @cached_property
    def layout(self) -> str:
        """All that decides how files are read; equal for versions that read a file alike."""
        told = [_comparable(f) for f in self._fields]
        return json.dumps([told, self.partition_columns, self.maps_columns], sort_keys=True)

    def counterpart(self, column: TableColumn) -> TableColumn | None:
        """This version's column for a column of another one; None if it has none."""
        same = self.columns.get(fold(column.name))
        if same is not None:
            return same
        return next((c for c in self.columns.values() if c.physical == column.physical), None)


@dataclass(frozen=True, slots=True)
class Reshaped:
    """How columns of a version differ from those of an earlier one, by name.

    Attributes:
        gone: no longer there. come: there now, and of no column that was. other: rows that stay
            have other values. untold: of a type as which its old values cannot be shown.
        eased: of a wider type, or stored otherwise, with the same values.
    """

    gone: tuple[str, ...] = ()
    come: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()
    eased: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.gone or self.come or self.other or self.untold or self.eased)

    @property
    def changes_rows(self) -> bool:
        """Do rows that stay look otherwise, so that no file tells it?"""
        return bool(self.gone or self.other or self.untold)


def compare_columns(
    old: TableMetadata, new: TableMetadata, columns: Collection[str] | None = None
) -> Reshaped:
    """How two versions differ.

    Args:
        columns: those that count; None for all.
    """
    names = list({**old.columns, **new.columns}) if columns is None else [*map(fold, columns)]
    found: dict[str, list[str]] = {}
    for name in names:
        is_now, was = new.columns.get(name), old.columns.get(name)
        if is_now is None:
            if was is not None:
                found.setdefault("gone", []).append(was.name)
            continue
        before = old.counterpart(is_now)
        how = "come" if before is None else _difference(before, is_now, renamed=was is None)
        if how:
            found.setdefault(how, []).append(is_now.name)
    return Reshaped(**{how: tuple(those) for how, those in found.items()})


def _difference(old: TableColumn, new: TableColumn, *, renamed: bool) -> str:
    """How a column differs, as :class:`Reshaped` calls it; empty for not at all."""
    if not fits(old.field["type"], new.field["type"]):
        return "untold"
    if old.physical != new.physical or not _same_places(old.field["type"], new.field["type"]):
        return "other"
    if renamed:
        return "come"
    was = (_comparable(old.field), old.is_partition)
    return "" if was == (_comparable(new.field), new.is_partition) else "eased"


def fits(old: Any, new: Any) -> bool:
    """Can every value of a type be shown as one of another, and different ones as different ones?

    >>> fits("integer", "long"), fits("long", "integer"), fits("integer", "string")
    (True, False, False)
    >>> fits("decimal(10,2)", "decimal(12,2)"), fits("long", "double")
    (True, False)
    """
    if isinstance(old, str) or isinstance(new, str):
        return old == new or (isinstance(old, str) and isinstance(new, str) and _widens(old, new))
    if old["type"] != new["type"]:
        return False
    match new["type"]:
        case "struct":
            pairs = ((_nested(old, f), f) for f in new["fields"])
            return all(was is None or fits(was["type"], f["type"]) for was, f in pairs)
        case "array":
            return fits(old["elementType"], new["elementType"])
        case "map":
            return fits(old["keyType"], new["keyType"]) and fits(old["valueType"], new["valueType"])
        case _:
            return bool(old == new)


def _widens(old: str, new: str) -> bool:
    """Is a plain type one of the wider ones that Delta lets a column become?"""
    if old in _INTEGERS:
        if new in _INTEGERS:
            return _INTEGERS[old] <= _INTEGERS[new]
        if new == "double":
            return old != "long"  # whose values it has not all
        wide = decimal_size(new)
        return wide is not None and wide[0] - wide[1] >= _INTEGERS[old]
    narrow, wide = decimal_size(old), decimal_size(new)
    if narrow is not None and wide is not None:
        return wide[1] >= narrow[1] and wide[0] - wide[1] >= narrow[0] - narrow[1]
    return (old, new) in (("float", "double"), ("date", "timestamp_ntz"))


def _same_places(old: Any, new: Any) -> bool:
    """Do parts of a nested type that have the same name lie at the same place in the files?"""
    if isinstance(old, str) or isinstance(new, str) or old["type"] != new["type"]:
        return True
    match new["type"]:
        case "struct":
            pairs = [(_nested(old, f), f) for f in new["fields"]]
            return all(
                was is None
                or (_physical(was) == _physical(f) and _same_places(was["type"], f["type"]))
                for was, f in pairs
            )
        case "array":
            return _same_places(old["elementType"], new["elementType"])
        case "map":
            return _same_places(old["keyType"], new["keyType"]) and _same_places(
                old["valueType"], new["valueType"]
            )
        case _:
            return True


def _nested(struct: Mapping[str, Any], wanted: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The field of a struct that stands for a field of another version of it."""
    fields: list[Mapping[str, Any]] = struct["fields"]
    same = (f for f in fields if fold(f["name"]) == fold(wanted["name"]))
    other = (f for f in fields if _physical(f) == _physical(wanted))
    return next(same, None) or next(other, None)


def _physical(column: Mapping[str, Any]) -> str:
    return str((column.get("metadata") or {}).get(PHYSICAL, column["name"]))


def _comparable(part: Any) -> Any:
    """A field or a type without what changes no row."""
    if isinstance(part, str):
        return part
    if "name" in part:
        kept = {k: v for k, v in (part.get("metadata") or {}).items() if k in _COUNTING}
        return [part["name"], _comparable(part["type"]), kept]
    match part["type"]:
        case "struct":
            return ["struct", *(_comparable(f) for f in part["fields"])]
        case "array":
            return ["array", _comparable(part["elementType"])]
        case "map":
            return ["map", _comparable(part["keyType"]), _comparable(part["valueType"])]
        case _:
            return part
