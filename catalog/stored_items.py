"""Objects as text for the catalog's table: one JSON object each, with its kind as the tag."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ctsql.catalog.errors import CatalogError, not_readable
from ctsql.catalog.items import (
    RECORDS,
    Definition,
    Following,
    Item,
    Maintained,
    MaterializedView,
    ObjectKind,
    Reading,
    Storage,
    Table,
    Task,
    Unreadable,
)
from ctsql.catalog.names import DEFAULT_SCHEMA, Name
from ctsql.catalog.refreshes import Stretch
from ctsql.catalog.schemas import Column, Schema


def item_text(item: Item) -> str:
    """An object as text."""
    storage, own = item.storage, dict[str, Any]()
    if isinstance(item, Table):
        own = {"alterations": item.alterations}
    if isinstance(item, Maintained):
        own = {"quarantine": item.quarantine, "replaces": item.replaces}
    if isinstance(item, Task):
        earlier = [_definition_values(d) for d in item.earlier]
        own |= {"earlier": earlier, "outputs": item.outputs, "backfill": item.backfill}
    if isinstance(item, MaterializedView):
        own |= {
            "built_beside": item.built_beside,
            "stretches": [s.to_json() for s in item.stretches],
            "continues": item.continues,
            "followed_until": item.following.until,
        }
    return json.dumps(
        {
            "kind": item.kind.value,
            "id": item.id,
            "schema": item.name.schema,
            "name": item.name.name,
            "columns": _column_values(item.columns),
            "comment": item.comment,
            "definition": _definition_values(item.definition),
            "location": None if storage is None else storage.location,
            "managed": item.managed,
            "table_id": None if storage is None else storage.table_id,
            "created": item.created_at,
            **own,
        }
    )


def read_item(text: str) -> Item:
    """The object of a text; raises STORED_DATA_INVALID when it is none."""
    try:
        raw: dict[str, Any] = json.loads(text)
        kind = ObjectKind(raw["kind"])
        return RECORDS[kind](
            id=raw["id"],
            name=Name(raw["schema"], raw["name"]),
            columns=_columns(raw["columns"]),
            comment=raw["comment"],
            definition=_definition(raw["definition"]),
            storage=_storage(raw),
            created_at=int(raw["created"]),
            **_own_fields(kind, raw),
        )
    except (ValueError, KeyError, TypeError) as problem:
        hint = "Restore the warehouse's _ctsql/catalog table to an earlier version."
        raise not_readable("an entry of the catalog", problem, hint) from problem


def item_of_entry(object_id: str, text: str) -> Item:
    """The object of an entry; an unreadable one raises its error only where it is used.

    A newer version of ctsql may have written it, or it is damaged. What can be read of it is
    kept: its name stays taken, its folder and what it reads are not removed.
    """
    try:
        return read_item(text)
    except CatalogError as problem:
        return _unreadable(object_id, text, problem.detail or problem.message)


def _own_fields(kind: ObjectKind, raw: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a kind alone."""
    fields: dict[str, Any] = {}
    if kind is ObjectKind.TABLE:
        fields = {"alterations": tuple(raw["alterations"])}
    if kind in (ObjectKind.MATERIALIZED_VIEW, ObjectKind.CONTINUAL_TASK):
        fields = {"quarantine": raw["quarantine"], "replaces": raw["replaces"]}
    if kind is ObjectKind.CONTINUAL_TASK:
        earlier = tuple(map(_definition, raw["earlier"]))
        fields |= {
            "earlier": earlier,
            "outputs": tuple(raw["outputs"]),
            "backfill": raw["backfill"],
        }
    if kind is ObjectKind.MATERIALIZED_VIEW:
        pair = raw["built_beside"]
        fields["built_beside"] = None if pair is None else (str(pair[0]), int(pair[1]))
        fields["following"] = Following(
            stretches=tuple(map(Stretch.from_json, raw["stretches"])),
            continues=raw["continues"] is True,
            until=int(raw["followed_until"]),
        )
    return fields


def _unreadable(object_id: str, text: str, problem: str) -> Item:
    name = Name(DEFAULT_SCHEMA, f"unreadable_{object_id[:8]}")
    unknown = Unreadable(id=object_id, name=name, detail=problem)
    try:
        raw = json.loads(text)
        return replace(
            unknown,
            name=Name(str(raw["schema"]), str(raw["name"])),
            definition=_definition(raw["definition"]),
            storage=_storage(raw),
            created_at=int(raw["created"]),
            is_outlined=True,
        )
    except (ValueError, KeyError, TypeError):
        return unknown


def _storage(raw: Mapping[str, Any]) -> Storage | None:
    location = raw["location"]
    if location is None:
        return None
    return Storage(location=str(location), managed=raw["managed"] is True, table_id=raw["table_id"])


def _definition_values(definition: Definition) -> dict[str, Any]:
    return {
        "text": definition.text,
        "search_schema": definition.search_schema,
        "reads": [
            [r.name.schema, r.name.name, r.object_id, list(r.columns)] for r in definition.reads
        ],
        "number": definition.number,
        "flow": definition.flow,
        "once": definition.once,
        "columns": list(map(_column_values, definition.columns)),
    }


def _definition(raw: Mapping[str, Any]) -> Definition:
    return Definition(
        text=raw["text"],
        search_schema=raw["search_schema"],
        reads=tuple(
            Reading(name=Name(schema, name), object_id=object_id, columns=tuple(columns))
            for schema, name, object_id, columns in raw["reads"]
        ),
        number=int(raw["number"]),
        flow=raw["flow"],
        once=raw["once"],
        columns=tuple(map(_columns, raw["columns"])),
    )


def _column_values(columns: Schema) -> list[Any]:
    return [column.to_json() for column in columns]


def _columns(raw: Iterable[Any]) -> Schema:
    return tuple(map(Column.from_json, raw))
