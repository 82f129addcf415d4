"""Definitions in the catalog that wait for the T of their cutover.

A cutover holds new and changed objects, dropped ones, and schemas. The timeline binds it to a T
(:mod:`ctsql.runtime.warehouse.times.timeline`); before that no process sees it.
"""

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from ctsql.catalog.catalog import Catalog, DropEntry
from ctsql.catalog.errors import RESTORE, not_readable
from ctsql.catalog.items import Item, item_of_entry, item_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutover:
    """Changes of the catalog that take effect at one T."""

    items: tuple[Item, ...] = ()  # new and changed objects, as they will be
    # the ids of those that are created at the T.
    new_ids: frozenset[str] = field(default_factory=frozenset)
    drop: DropEntry | None = None  # the entry of dropped objects; None for nothing
    schemas: tuple[str, ...] = ()  # new schemas
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def in_force(self, catalog: Catalog, at: int) -> Catalog:
        """The catalog from T on."""
        for schema in self.schemas:
            catalog = catalog.with_schema(schema)
        items = (replace(i, created_at=at) if i.id in self.new_ids else i for i in self.items)
        catalog = catalog.with_items(items)
        if self.drop is not None:
            catalog = catalog.with_dropped(self.drop)
        return catalog

    def is_no_change(self, catalog: Catalog) -> bool:
        """Whether the cutover would change nothing in the catalog."""
        is_other = self.new_ids or self.schemas or self.drop is not None
        return not is_other and all(catalog.items.get(i.id) == i for i in self.items)

    def to_json(self) -> str:
        """The cutover as text for the store."""
        return json.dumps(
            {
                "items": {i.id: item_text(i) for i in self.items},
                "begun": sorted(self.new_ids),
                "gone": None if self.drop is None else [self.drop.id, self.drop.to_json()],
                "schemas": list(self.schemas),
            }
        )


@dataclass(frozen=True, slots=True)
class StoredCatalog:
    """The stored catalog, with a cutover that may be in force."""

    catalog: Catalog
    cutover: Cutover | None = None

    def in_force(self, at: int | None) -> Catalog:
        """The catalog with the cutover in force from T on; without it if T is None."""
        if self.cutover is None or at is None:
            return self.catalog
        return self.cutover.in_force(self.catalog, at)


def cutover_of(entries: Iterable[tuple[str, str]]) -> Cutover | None:
    """The cutover of a catalog's entries (id and text), at most one; STORED_DATA_INVALID."""
    entry = next(iter(entries), None)
    if entry is None:
        return None
    proposal_id, text = entry
    try:
        raw: dict[str, Any] = json.loads(text)
        drop = raw["gone"]
        return Cutover(
            id=proposal_id,
            items=tuple(item_of_entry(k, v) for k, v in raw["items"].items()),
            new_ids=frozenset(raw["begun"]),
            drop=None if drop is None else DropEntry.of_entry(*drop),
            schemas=tuple(raw["schemas"]),
        )
    except (ValueError, KeyError, TypeError) as problem:
        what = "a catalog entry with definitions of a pending cutover"
        hint = f"{RESTORE} to an earlier version."
        raise not_readable(what, problem, hint) from problem
