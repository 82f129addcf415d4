"""An engine by hand for tests of the service: outputs are brought up by noting it."""

from types import SimpleNamespace
from typing import Any

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import sources
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item
from ctsql.runtime.warehouse.advance_context import AdvanceContext

NOW, NEWEST = 7, 1_000
"""The T, and the version up to which each log was seen."""


class Table:
    """A log of some versions, or a place where the table is not."""

    def __init__(self, location: str | None) -> None:
        self.location = str(location)
        self.problem: CtsqlError | None = None
        self.newest = 0
        self.identity = SimpleNamespace(newest=NEWEST)

    def version(self) -> int:
        """As of a real one: another table is refused, whatever is asked."""
        self.check_same()
        return self.newest

    def check_same(self, *, near: bool = False) -> None:
        """The same."""
        if self.problem is not None:
            raise self.problem

    def has(self, version: int) -> bool:
        """Up to the newest one."""
        return self.problem is None and version <= self.newest


class Engine:
    """An engine whose outputs are brought up by noting it.

    Attributes:
        advanced_names: those of the outputs, in order.
    """

    location = "memory:/warehouse"

    def __init__(self, *items: Item) -> None:
        self.warehouse = object()
        self.catalog = Catalog.of(items)
        self.tables = {i.id: Table(i.location) for i in items}
        self.catalog_store = SimpleNamespace(table=Table("catalog"))
        self.timeline: Any = SimpleNamespace(
            table=Table("timeline"),
            read_to=0,
            intents={},
            damaged_sources=set(),
            now=NOW,
        )
        self.relations: Any = SimpleNamespace(
            table=lambda i: self.tables[i.id],
            sources=lambda: {i.id: ("", self.tables[i.id]) for i in sources(self.catalog)},
            timeline=self.timeline,
        )
        self.schedules: Any = SimpleNamespace(
            read_times=lambda *_, **__: set(),
            is_refresh_due=lambda _: False,
        )
        self.advanced_names: list[str] = []

    def refresh_catalog(self) -> Catalog:
        """As it is."""
        return self.catalog

    def mint_for(self, _: object) -> int:
        """The newest T that is told."""
        return int(self.timeline.now)

    def advance_one(self, output: Item, _until: int, *, context: AdvanceContext) -> None:
        """Note it, or fail as its table does."""
        context.check_stop()
        self.tables[output.id].version()
        self.advanced_names.append(output.name.name)
