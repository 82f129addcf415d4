"""Objects for tests, by flat fields: what they do not say is empty."""

from dataclasses import fields, replace
from typing import Any

from ctsql.catalog.items import RECORDS, Item, ObjectKind, Reading, Record, Storage
from ctsql.catalog.names import DEFAULT_SCHEMA, Name

_OF_DEFINITION = {
    "definition": "text",
    "search_schema": "search_schema",
    "reads": "reads",
    "revision": "number",
    "flow": "flow",
    "copies_rows": "copies_rows",
}
_OF_FOLLOWING = {"stretches": "stretches", "followed_until": "until"}


def an_item(kind: ObjectKind, id: str, *, name: Name | None = None, **given: Any) -> Item:
    """An object of a kind, in the default schema under its id unless a name is given."""
    made = RECORDS[kind](id=id, name=name or Name(DEFAULT_SCHEMA, id))
    has = {f.name for f in fields(made)}
    return changed(made, **{n: v for n, v in given.items() if v or n in has})


def reading(name: str) -> Reading:
    """What a definition reads: an object of the default schema whose id is its name."""
    return Reading(name=Name(DEFAULT_SCHEMA, name), object_id=name, columns=())


def changed(item: Record, **given: Any) -> Record:
    """An object with other fields; those of its definition, storage and following flat as well."""
    for field, parts in (("definition", _OF_DEFINITION), ("following", _OF_FOLLOWING)):
        values = {own: given.pop(n) for n, own in parts.items() if n in given}
        if values:
            given[field] = replace(getattr(item, field), **values)
    if "location" in given:
        location, table_id = given.pop("location"), given.pop("table_id", None)
        given["storage"] = location and Storage(location=location, table_id=table_id)
    return replace(item, **given)
