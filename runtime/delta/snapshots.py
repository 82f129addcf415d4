"""What a table's log says as of a version: its metadata, and what its commits have recorded."""

from abc import ABC, abstractmethod

from ctsql.runtime.log.table_metadata import TableMetadata


class Snapshot(ABC):
    """The state of a table at a version, without its rows."""

    version: int

    @property
    @abstractmethod
    def table_id(self) -> str:
        """The table's globally unique id."""

    @property
    @abstractmethod
    def metadata(self) -> TableMetadata:
        """The metadata."""

    @abstractmethod
    def transaction(self, app: str) -> int | None:
        """The newest version of an application id."""

    @abstractmethod
    def domains(self) -> dict[str, str]:
        """The domain metadata: name to configuration."""

    @abstractmethod
    def has_feature(self, name: str) -> bool:
        """Whether the protocol lists a table feature."""
