"""How this process reaches the files of tables."""

from types import SimpleNamespace
from typing import Any

from ctsql.runtime.delta.stores.connector_store import ConnectorStore
from ctsql.runtime.delta.stores.file_stores import REMOTE_THREADS, path_in_store


def test_locations() -> None:
    """As paths in their store."""
    assert path_in_store("s3a://lake/w/t 1%20") == "lake/w/t 1%20"
    assert path_in_store("file:/w/t%201") == "/w/t%201"


class Classes(SimpleNamespace):
    """Names of the JVM, whatever they are."""

    def __getattr__(self, name: str) -> Any:
        return Classes()


def test_a_remote_store_is_read_with_more_threads() -> None:
    """Its answers take long."""
    assert ConnectorStore(Classes(), "s3a", None).threads == REMOTE_THREADS
