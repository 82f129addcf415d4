"""The system tables of a query, as DataFrames of no more rows than the query asks for.

On a local disk the rows are read by a reader of logs that needs no Spark: it knows nothing of what
a read-only engine has computed in memory, and opening a table's log costs it no call of the JVM.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ctsql.catalog.names import Name
from ctsql.catalog.system_tables import SYSTEM_SCHEMA, SYSTEM_TABLES, SystemTable
from ctsql.runtime.delta.local_log import NeedsSpark
from ctsql.runtime.log_reader import LocalLogReader, LogReader
from ctsql.runtime.monitoring.quarantined import NAME as QUARANTINE, quarantined
from ctsql.runtime.monitoring.scan_filters import asked_of
from ctsql.runtime.monitoring.system_tables import as_tuples, system_rows
from ctsql.runtime.monitoring.wanted import ALL, Wanted
from ctsql.runtime.rows.given_rows import rows_for
from ctsql.runtime.spark.empty_tables import empty


class SystemQueries:
    """Gives the rows of system tables to queries of one session.

    Args:
        reader: reads the logs where Spark is needed for that.
    """

    def __init__(self, session: SparkSession, reader: LogReader) -> None:
        self._session = session
        self._reader = reader
        self._local: LocalLogReader | None = None

    def frames(
        self, tables: Mapping[int, str], lower: Callable[[Mapping[int, DataFrame]], DataFrame]
    ) -> dict[int, DataFrame]:
        """The rows that a query asks for, by the places of the tables in it.

        Args:
            tables: the tables' names, without schema, by place. lower: plans the query over given
                rows for these places.
        """
        unknown = {
            i: empty(self._session, SYSTEM_TABLES[name].columns, with_not_null=True)
            for i, name in tables.items()
        }
        asked = asked_of(lower(unknown), unknown)
        return {
            i: self._frame(SYSTEM_TABLES[name], asked[i]) if i in asked else unknown[i]
            for i, name in tables.items()
        }

    def all_rows(self, name: str) -> DataFrame:
        """All rows of a system table, for a statement that is no query."""
        return self._frame(SYSTEM_TABLES[name], ALL)

    def _frame(self, table: SystemTable, wanted: Wanted) -> DataFrame:
        if table.name == QUARANTINE:
            return quarantined(self._session, self._reader, table.columns, wanted)
        found = as_tuples(table.name, self._rows(table.name, wanted))
        name = str(Name(SYSTEM_SCHEMA, table.name))
        # Spark is not told of NOT NULL: it takes Arrow's columns as they are.
        columns = [replace(c, nullable=True) for c in table.columns]
        return rows_for(self._session, found, columns, name)

    def _rows(self, name: str, wanted: Wanted) -> list[Any]:
        try:
            if self._local is None:
                self._local = LocalLogReader(self._reader.location, may_create=False)
            return system_rows(self._local, name, wanted)
        except NeedsSpark:
            return system_rows(self._reader, name, wanted)
