"""Answers questions about a warehouse from its logs alone; computes no rows.

It is enough for SHOW, DESCRIBE and the status of outputs, also without Spark
(:mod:`ctsql.runtime.delta.log.local_log`). :class:`ctsql.runtime.engine.Engine` computes.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.errors import error
from ctsql.runtime.delta.log.local_log import LocalGateway, NeedsSpark, OnSpark
from ctsql.runtime.warehouse.stores.catalog_store import DeltaCatalog
from ctsql.runtime.warehouse.stores.location import SYSTEM_FOLDER, check_may_begin
from ctsql.runtime.warehouse.times.timeline import NamedTables
from ctsql.runtime.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from ctsql.runtime.delta.table import Gateway
    from ctsql.runtime.warehouse.query_engine import QueryEngine


class LogReader:
    """One warehouse, opened by one process. Not for several threads at once."""

    gateway: "Gateway"
    queries: "QueryEngine"
    read_only = True
    may_create = False

    def _open_at(self, location: str) -> None:
        """Open the warehouse at a location, by :attr:`gateway`; nothing of it is loaded yet."""
        self.location = self.gateway.qualify(location)
        system = f"{self.location}/{SYSTEM_FOLDER}"
        catalog_at, timeline_at = f"{system}/catalog", f"{system}/timeline"
        if not self.gateway.exists(catalog_at):
            check_may_begin(self.gateway, self.location, location)
            if not self.may_create:
                raise error(
                    "WAREHOUSE_NOT_FOUND",
                    location=location,
                    detail="A read-only connection creates nothing." if self.read_only else "",
                    hint="Check the path. A statement on a connection that may write creates a "
                    "warehouse.",
                )
            self._make(system, catalog_at, timeline_at)
        self.catalog_store = DeltaCatalog(self.gateway, catalog_at, location)
        self._use(Warehouse.over(self.gateway, timeline_at, self.queries))

    def _make(self, system: str, catalog_at: str, timeline_at: str) -> None:
        """Create the warehouse in these folders."""
        raise NeedsSpark("a new warehouse")

    def _use(self, warehouse: Warehouse) -> None:
        self.warehouse, self.timeline = warehouse, warehouse.timeline
        self.relations, self.versions = warehouse.relations, warehouse.versions
        self.schedules = warehouse.schedules
        self.catalog_store.decisions = warehouse.timeline
        self.relations.reload = self.refresh_catalog
        self.relations.load_stored = self.catalog_store.load
        self.timeline.reload = self._newest_sources

    def _newest_sources(self) -> NamedTables:
        self.refresh_catalog()
        return self.relations.sources()

    @contextmanager
    def as_stored(self) -> Iterator[None]:
        """Inside, reads return stored rows; logs contain nothing else."""
        yield

    @property
    def catalog(self) -> Catalog:
        """The catalog, as last loaded."""
        return self.warehouse.catalog

    def refresh_catalog(self) -> Catalog:
        """The newest catalog."""
        self.relations.use(self.catalog_store.load())
        return self.catalog

    def change_catalog(self, change: Callable[[Catalog], Catalog]) -> Catalog:
        """Commit a change of the catalog; returns the newest catalog."""
        self.catalog_store.change(change)
        return self.refresh_catalog()


class LocalLogReader(LogReader):
    """A warehouse on a local disk, read without Spark; raises NeedsSpark for all else."""

    def __init__(self, warehouse: str, *, read_only: bool = False, may_create: bool = True) -> None:
        gateway: Any = LocalGateway()
        self.gateway, self.read_only = gateway, read_only
        self.may_create = may_create and not read_only
        self.queries = cast("QueryEngine", OnSpark())
        self._open_at(warehouse)
