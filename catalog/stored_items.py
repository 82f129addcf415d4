"""Objects as text for the catalog's table: one JSON object each, by the fields of its record."""

import json
from dataclasses import fields, is_dataclass, replace
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from ctsql.catalog.errors import CatalogError, not_readable
from ctsql.catalog.items import RECORDS, Definition, Item, ObjectKind, Storage, Unreadable
from ctsql.catalog.names import DEFAULT_SCHEMA, Name


def item_text(item: Item) -> str:
    """An object as text; its kind is the tag."""
    return json.dumps({"kind": item.kind.value, **_values(item)})


def read_item(text: str) -> Item:
    """The object of a text; raises STORED_DATA_INVALID if it is unreadable."""
    try:
        raw: dict[str, Any] = json.loads(text)
        item: Item = _read(RECORDS[ObjectKind(raw["kind"])], raw)
    except (ValueError, KeyError, TypeError) as problem:
        hint = "Restore the warehouse's _ctsql/catalog table to an earlier version."
        raise not_readable("an entry of the catalog", problem, hint) from problem
    return item


def item_of_entry(object_id: str, text: str) -> Item:
    """The object of an entry; an unreadable one raises its error only when it is used.

    It is damaged, or of a newer version of ctsql. Its name stays in use; its folder and the objects
    that it reads are not removed.
    """
    try:
        return read_item(text)
    except CatalogError as problem:
        return _unreadable(object_id, text, problem.detail or problem.message)


def _unreadable(object_id: str, text: str, problem: str) -> Item:
    name = Name(DEFAULT_SCHEMA, f"unreadable_{object_id[:8]}")
    unknown = Unreadable(id=object_id, name=name, detail=problem)
    try:
        raw = json.loads(text)
        return replace(
            unknown,
            name=_read(Name, raw["name"]),
            definition=_read(Definition, raw["definition"]),
            storage=_read(Storage | None, raw["storage"]),
            created_at=_read(int, raw["created_at"]),
            is_outlined=True,
        )
    except (ValueError, KeyError, TypeError):
        return unknown


def _values(value: Any) -> Any:
    """A record, or a field of one, as JSON has it."""
    if isinstance(value, tuple):
        return [_values(one) for one in value]
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        return {f.name: _values(getattr(value, f.name)) for f in fields(value)}
    return value


def _read(kind: Any, raw: Any) -> Any:
    """Read a value of :func:`_values` as a type; raises KeyError, TypeError or ValueError."""
    if hasattr(kind, "from_json"):
        return kind.from_json(raw)
    if isinstance(kind, type) and is_dataclass(kind):
        types = _types(kind)
        return kind(**{f.name: _read(types[f.name], raw[f.name]) for f in fields(kind)})
    if isinstance(kind, UnionType):  # with None
        return None if raw is None else _read(get_args(kind)[0], raw)
    if get_origin(kind) is tuple:
        first, *others = get_args(kind)
        inside = [first] * len(raw) if others == [...] else [first, *others]
        return tuple(_read(one, value) for one, value in zip(inside, raw, strict=True))
    if not isinstance(raw, kind):
        raise TypeError(f"{raw!r} is no {kind.__name__}")
    return raw


_types = cache(get_type_hints)
