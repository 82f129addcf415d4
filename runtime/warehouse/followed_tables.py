"""Tables with followers keep their logs; the others are left to Delta's own cleanup.

Tasks, materialized views and named subscriptions follow the tables that they read, also through
plain views. Properties of attached tables are not changed.
"""

from collections.abc import Iterable, Set as AbstractSet

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import all_readers
from ctsql.catalog.errors import suppress_conditions
from ctsql.catalog.items import Item, Maintained, Table
from ctsql.runtime.warehouse.times.replaced_tables import UNREADABLE
from ctsql.runtime.warehouse.warehouse import Warehouse


def followed_tables(catalog: Catalog) -> frozenset[str]:
    """The ids of the tables in the warehouse that something follows."""
    subscribed_ids = {s.object_id for s in catalog.subscriptions.values() if not s.problem}

    def is_follower(item: Item) -> bool:
        return bool(isinstance(item, Maintained) or item.problem or item.id in subscribed_ids)

    own = filter(_is_own, catalog)
    return frozenset(t.id for t in own if any(map(is_follower, (t, *all_readers(catalog, t.id)))))


def keep_logs(warehouse: Warehouse, before: AbstractSet[str] | None = None) -> frozenset[str]:
    """Make tables with followers keep their logs, and no other table; returns their ids.

    ``before``: the tables that were followed; only differences are checked. None for all.
    """
    catalog = warehouse.catalog
    now = followed_tables(catalog)
    all_ids = {i.id for i in catalog if _is_own(i)}
    free_ids = (all_ids if before is None else before) - now
    if any(s.problem for s in catalog.subscriptions.values()):
        free_ids = set()  # what it follows is unknown
    _keep(warehouse, (catalog.items[i] for i in now - (before or set())), keeps=True)
    _keep(warehouse, (catalog.items[i] for i in free_ids & all_ids), keeps=False)
    return now


def _keep(warehouse: Warehouse, tables: Iterable[Item], *, keeps: bool) -> None:
    for item in tables:
        assert item.location is not None  # a table has a location
        # If its log is gone or damaged, its readers raise the error.
        with suppress_conditions(*UNREADABLE):
            warehouse.gateway.keep_log(item.location, keeps=keeps)


def _is_own(item: Item) -> bool:
    return isinstance(item, Table) and item.managed and not item.problem
