"""Watches Delta logs for new versions. It asks for one file of each log: no scan, no Spark job."""

from collections.abc import Iterable

from ctsql.runtime.delta.table import DeltaTable


class LogWatch:
    """The newest version of each table that was taken into account."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def note(self, table: DeltaTable, version: int) -> None:
        """Everything up to a version of a table was taken into account."""
        self._seen[table.location] = version

    def has_new_version(self, tables: Iterable[DeltaTable]) -> bool:
        """Whether any of these tables has a version that was not noted."""
        for table in tables:
            seen = self._seen.get(table.location)
            if seen is None or table.has(seen + 1):
                return True
        return False
