"""The state of a table at a version, without its files: what its log has recorded up to there.

Source: the Delta protocol, "Change Metadata", "Transaction Identifiers", "Domain Metadata",
"Protocol Evolution".
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ctsql.catalog.errors import error
from ctsql.runtime.log.actions import Commit
from ctsql.runtime.log.table_metadata import TableMetadata

_READER_VERSIONS = (1, 2, 3)
_READ_ALIKE = {
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "variantType",
    "variantType-preview",
}
"""Reader features that Delta 4.4 has, and that leave commits and checksum files as they are."""


class Snapshot:
    """The state of a table at a version; -1 before the first commit."""

    def __init__(self, version: int, fields: Mapping[str, Any]) -> None:
        """Args: fields: table, protocol, transactions and domains; None for what is missing."""
        self.version = version
        self._table: TableMetadata | None = fields.get("table")
        self._protocol: dict[str, Any] = fields.get("protocol") or {}
        self._transactions: dict[str, int] = dict(fields.get("transactions") or {})
        self._domains: dict[str, str] = dict(fields.get("domains") or {})

    def after(self, commits: Iterable[Commit]) -> "Snapshot":
        """The state after the commits that follow."""
        fields = {
            "table": self._table,
            "protocol": self._protocol,
            "transactions": self._transactions,
            "domains": self._domains,
        }
        snapshot = Snapshot(self.version, fields)
        for commit in commits:
            snapshot._add(commit)
        return snapshot

    def _add(self, commit: Commit) -> None:
        self.version = commit.version
        self._table = commit.table or self._table
        self._protocol = commit.protocol or self._protocol
        self._transactions.update(commit.transactions)
        for name, configuration in commit.domains:
            self._domains.pop(name, None)
            if configuration is not None:
                self._domains[name] = configuration

    @property
    def is_understood(self) -> bool:
        """Whether ctsql reads the log of a table with this protocol."""
        features = set(self._protocol.get("readerFeatures") or ())
        version = self._protocol.get("minReaderVersion")
        return version in _READER_VERSIONS and features <= _READ_ALIKE

    @property
    def table_id(self) -> str:
        """The table's globally unique id."""
        return self.metadata.id

    @property
    def metadata(self) -> TableMetadata:
        """The metadata; raises STORED_DATA_INVALID if the log has none."""
        if self._table is None:
            detail = f"No commit up to version {self.version} has the table's columns."
            hint = "Restore the log from a copy and run it again."
            what = "the log of a table"
            raise error("STORED_DATA_INVALID", what=what, detail=detail, hint=hint)
        return self._table

    def transaction(self, app: str) -> int | None:
        """The newest version of an application id."""
        return self._transactions.get(app)

    def domains(self) -> dict[str, str]:
        """The domain metadata: name to configuration."""
        return dict(self._domains)

    def has_feature(self, name: str) -> bool:
        """Whether the protocol lists a table feature."""
        kinds = ("readerFeatures", "writerFeatures")
        return any(name in (self._protocol.get(kind) or ()) for kind in kinds)
