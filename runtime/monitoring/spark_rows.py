"""The rows of system tables for Spark, made from logs.

On a local disk the rows are read by a reader of logs that needs no Spark: it knows nothing of what
a read-only engine has computed in memory, and opening a table's log costs it no call of the JVM.
"""

from typing import Any

from pyspark.sql import DataFrame, SparkSession, types as T

from ctsql.catalog.system_tables import SYSTEM_TABLES
from ctsql.runtime.delta.log.local_log import NeedsSpark
from ctsql.runtime.log_reader import LocalLogReader, LogReader
from ctsql.runtime.monitoring.quarantined import NAME as QUARANTINE, quarantined
from ctsql.runtime.monitoring.system_tables import as_arrow, system_rows
from ctsql.runtime.rows.row_set import LocalRows
from ctsql.runtime.spark.internals.plans import empty


class SystemRows:
    """Gives the rows of system tables to one session.

    Args:
        reader: reads the logs where Spark is needed for that.
    """

    def __init__(self, session: SparkSession, reader: LogReader) -> None:
        self._session = session
        self._reader = reader
        self._local: LocalLogReader | None = None
        self._schemas: dict[str, T.StructType] = {}

    def of(self, name: str) -> DataFrame:
        """All rows of a system table, by its name without the schema."""
        columns = SYSTEM_TABLES[name].columns
        if name == QUARANTINE:
            return quarantined(self._session, self._reader, columns)
        schema = self._schemas.get(name)
        if schema is None:
            schema = self._schemas[name] = empty(self._session, columns).schema
        return LocalRows(self._session, schema, as_arrow(self._rows(name), schema)).plain_frame

    def _rows(self, name: str) -> list[Any]:
        try:
            if self._local is None:
                self._local = LocalLogReader(self._reader.location, may_create=False)
            return system_rows(self._local, name)
        except NeedsSpark:
            return system_rows(self._reader, name)
