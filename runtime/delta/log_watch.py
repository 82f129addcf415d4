"""Watches Delta logs for new versions, by polling for one file of each log."""

from collections.abc import Iterable

from ctsql.runtime.delta.log.table_log import LOOKS_APART_MS
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.log import clock


class LogWatch:
    """The newest noted version of each table."""

    def __init__(self) -> None:
        self._versions: dict[str, int] = {}
        self._asked_ms = clock.now_ms()

    def note(self, table: DeltaTable, version: int) -> None:
        """Note that a table was read up to a version."""
        self._versions[table.location] = version

    def has_new_version(self, tables: Iterable[DeltaTable]) -> bool:
        """Whether any of these tables has, or may have, a version that was not noted."""
        asked_ms, self._asked_ms = self._asked_ms, clock.now_ms()
        if self._asked_ms - asked_ms >= LOOKS_APART_MS:
            self._versions.clear()  # the commits that come next may have been cleaned up
        for table in tables:
            version = self._versions.get(table.location)
            if version is None or table.has(version + 1):
                return True
        return False
