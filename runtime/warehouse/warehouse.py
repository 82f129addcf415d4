"""An opened warehouse: the parts that belong together, made once and then fixed."""

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
    """What knows the objects, the versions of their tables, and when they change."""

    gateway: "Gateway"
    queries: "QueryEngine"
    timeline: Timeline
    relations: Relations
    versions: Versions
    schedules: Schedules

    @staticmethod
    def over(gateway: "Gateway", timeline_at: str, queries: "QueryEngine") -> "Warehouse":
        """The parts over a timeline; nothing is known of the catalog yet."""
        timeline = Timeline(gateway, timeline_at)
        relations = Relations(gateway, timeline)
        versions = Versions(relations, timeline)
        schedules = Schedules(relations, versions, timeline)
        return Warehouse(gateway, queries, timeline, relations, versions, schedules)

    @property
    def catalog(self) -> Catalog:
        """The catalog as last looked at."""
        return self.relations.catalog
