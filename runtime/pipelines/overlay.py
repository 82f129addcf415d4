"""Names and columns of a warehouse as they would be: objects are bound that do not exist yet."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.items import Item
from ctsql.catalog.schemas import Column, Schema
from ctsql.runtime.engine import Engine
from ctsql.runtime.spark.analyzer import ColumnsOf, EmptySources, SparkAnalyst
from ctsql.runtime.statements.objects.name_resolution import Namespace
from ctsql.runtime.warehouse.relations import Relations
from ctsql.runtime.warehouse.warehouse import Warehouse


@dataclass
class Overlay:
    """A catalog on top of the stored one."""

    engine: Engine
    stored_catalog: Catalog  # the stored catalog
    catalog: Catalog  # with the definitions that are bound so far
    # the columns that stored tables would have, by id.
    altered_columns: dict[str, Schema] = field(default_factory=dict)
    empty_tables: dict[Schema, DataFrame] = field(default_factory=dict)  # by their columns

    def add(self, items: Sequence[Item]) -> None:
        """Put new or changed objects on top."""
        self.catalog = self.catalog.with_items(items)

    def columns_now(self, item: Item) -> Schema:
        """An object's columns; for a stored table those of its log after its alterations."""
        if item.id in self.altered_columns:
            return self.altered_columns[item.id]
        if item.id in self.stored_catalog.items:
            return self.engine.relations.columns_now(item)
        return item.columns


class PlannedNames(Namespace):
    """Resolves names in an overlay."""

    def __init__(self, overlay: Overlay, search_schema: str) -> None:
        super().__init__(overlay.engine, search_schema)
        self._overlay = overlay

    def catalog(self) -> Catalog:
        """The catalog with the definitions that are bound so far."""
        return self._overlay.catalog

    def warehouse(self) -> Warehouse:
        """The warehouse with the definitions that are bound so far; it has no rows to read."""
        warehouse = self.engine.warehouse
        return replace(warehouse, relations=_PlannedRelations(self._overlay, warehouse.relations))

    def in_schema(self, schema: str) -> "PlannedNames":
        """The same names, with another schema for unqualified ones."""
        return PlannedNames(self._overlay, schema)

    def columns_now(self, item: Item) -> Schema:
        """The columns that an object has, or would have."""
        return self._overlay.columns_now(item)

    def analyst(self, catalog: Catalog) -> SparkAnalyst:
        """Spark's analyser over empty tables, one for each list of columns."""
        session = self.engine.session

        def columns_of(object_id: str) -> Schema:
            return self.columns_now(catalog.items[object_id])

        sources = _SharedSources(session, columns_of, self._overlay.empty_tables)
        return SparkAnalyst(session, columns_of, sources)


class _SharedSources(EmptySources):
    """Empty tables, one for each list of columns."""

    def __init__(
        self, session: SparkSession, columns_of: ColumnsOf, frames: dict[Schema, DataFrame]
    ) -> None:
        super().__init__(session, columns_of)
        self._frames = frames

    def like(self, columns: Sequence[Column]) -> DataFrame:
        """The empty table with these columns."""
        key = tuple(columns)
        if key not in self._frames:
            self._frames[key] = super().like(key)
        return self._frames[key]


class _PlannedRelations(Relations):
    """The registry with the names and columns of an overlay."""

    def __init__(self, overlay: Overlay, relations: Relations) -> None:
        super().__init__(relations.gateway, relations.timeline)
        self._overlay = overlay
        self.catalog = overlay.catalog

    def columns_now(self, item: Item) -> Schema:
        """An object's columns, or those that it would have."""
        return self._overlay.columns_now(item)
