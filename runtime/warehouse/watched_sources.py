"""What comes into tables by itself: files of a folder, messages of a topic."""

from collections.abc import Callable

from ctsql.catalog.items import Item, KafkaSource
from ctsql.runtime.log.actions import Commit
from ctsql.runtime.warehouse.warehouse import Warehouse
from ctsql.runtime.warehouse.watched_files import WatchedFiles
from ctsql.runtime.warehouse.watched_topics import WatchedTopics


class WatchedSources:
    """The tables of a warehouse that something comes into."""

    def __init__(self, warehouse: Warehouse, complete: Callable[[], object]) -> None:
        """``complete`` completes the transaction of a process that was killed."""
        self._files = WatchedFiles(warehouse, complete)
        self._topics = WatchedTopics(warehouse, complete)

    def has_new(self, item: Item) -> bool:
        """Whether there is something to take in."""
        return self._of(item).has_new(item)

    def take_in(self, item: Item) -> list[Commit]:
        """Let in what has come; returns the commits of this process."""
        return self._of(item).take_in(item)

    def _of(self, item: Item) -> WatchedFiles | WatchedTopics:
        return self._topics if isinstance(item.feed, KafkaSource) else self._files
