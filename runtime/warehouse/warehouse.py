"""An opened warehouse: its parts, created together and fixed."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctsql.catalog.catalog import Catalog
from ctsql.runtime.warehouse.relations import Relations
from ctsql.runtime.warehouse.schedules import Schedules
from ctsql.runtime.warehouse.times.timeline import Timeline
from ctsql.runtime.warehouse.versions import Versions

if TYPE_CHECKING:
    from ctsql.runtime.delta.table import Gateway
    from ctsql.runtime.warehouse.query_engine import QueryEngine


@dataclass(frozen=True, slots=True)
class Warehouse:
    """The registry of objects, the versions of their tables, and the times of changes."""

    gateway: "Gateway"
    queries: "QueryEngine"
    timeline: Timeline
    relations: Relations
    versions: Versions
    schedules: Schedules

    @staticmethod
    def over(gateway: "Gateway", timeline_at: str, queries: "QueryEngine") -> "Warehouse":
        """The parts over a timeline; the catalog is not loaded yet."""
        timeline = Timeline(gateway, timeline_at)
        relations = Relations(gateway, timeline)
        versions = Versions(relations, timeline)
        schedules = Schedules(relations, versions, timeline)
        return Warehouse(gateway, queries, timeline, relations, versions, schedules)

    @property
    def catalog(self) -> Catalog:
        """The catalog, as last loaded."""
        return self.relations.catalog
