"""What comes into tables by itself: files of a folder, messages of a topic."""

from collections.abc import Callable

from ctsql.catalog.items import Item, KafkaSource
from ctsql.runtime.log.actions import Commit
from ctsql.runtime.warehouse.multi_table_commit import AppendKept
from ctsql.runtime.warehouse.warehouse import Warehouse
from ctsql.runtime.warehouse.watched_files import WatchedFiles
from ctsql.runtime.warehouse.watched_topics import WatchedTopics


class WatchedSources:
    """The tables of a warehouse that something comes into."""

    def __init__(
        self, warehouse: Warehouse, complete: Callable[[], object], append_kept: AppendKept
    ) -> None:
        """``complete`` completes the transaction of a process that was killed."""
        self._warehouse = warehouse
        self._files = WatchedFiles(warehouse, complete, append_kept)
        self._topics = WatchedTopics(warehouse, complete, append_kept)
        self._coming: set[str] = set()

    def has_new(self, item: Item) -> bool:
        """Whether there is something to take in."""
        return self._of(item).has_new(item)

    def take_in(self, item: Item) -> list[Commit]:
        """Let in what has come; returns the commits of this process.

        First comes in what is to be in the tables that its constraints refer to.
        """
        if item.id in self._coming:
            return []  # what it refers to refers to it
        self._coming.add(item.id)
        try:
            catalog = self._warehouse.catalog
            for other in catalog.closure([i for _, i in item.refers if i in catalog.items]):
                if other.feed is not None:
                    self.take_in(other)
            return self._of(item).take_in(item)
        finally:
            self._coming.remove(item.id)

    def _of(self, item: Item) -> WatchedFiles | WatchedTopics:
        return self._topics if isinstance(item.feed, KafkaSource) else self._files
