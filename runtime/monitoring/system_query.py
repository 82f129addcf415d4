"""Queries over system tables, of which no more rows are made than a query asks for.

On a local disk the rows are read by a reader of logs that needs no Spark: it knows nothing of what
a read-only engine has computed in memory, and opening a table's log costs it no call of the JVM.
They go to Spark as Arrow, without the values of columns that nobody looks at. A query of few rows
is computed at once, without code for it (docs/decisions/0158-few-rows-without-code.md).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession, types as T

from ctsql.catalog.names import fold
from ctsql.catalog.system_tables import SYSTEM_TABLES, SystemTable
from ctsql.runtime.delta.local_log import NeedsSpark
from ctsql.runtime.log_reader import LocalLogReader, LogReader
from ctsql.runtime.monitoring.quarantined import NAME as QUARANTINE, quarantined
from ctsql.runtime.monitoring.row_request import ALL, RowRequest
from ctsql.runtime.monitoring.scan_filters import asked_of
from ctsql.runtime.monitoring.system_tables import as_arrow, system_rows
from ctsql.runtime.rows.declined import Declined
from ctsql.runtime.rows.prepared_rows import WITHOUT_CODE_MAX, compute
from ctsql.runtime.rows.row_set import LocalRows
from ctsql.runtime.rows.sorted_rows import sorted_here
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
        self._schemas: dict[str, T.StructType] = {}

    def run(
        self,
        tables: Mapping[int, str],
        lower: Callable[[Mapping[int, DataFrame]], DataFrame],
        *,
        is_alone: bool,
    ) -> DataFrame:
        """The result of a query; computed now if it reads few rows of system tables alone.

        Args:
            tables: the tables' names, without schema, by place. lower: plans the query over given
                rows for these places.
            is_alone: whether it reads nothing else.
        """
        # All may be NULL, as the rows are given: else Spark would count rows for count(object), and
        # of a column that it does not name there are no values.
        unknown = {
            i: empty(self._session, SYSTEM_TABLES[name].columns) for i, name in tables.items()
        }
        requests = asked_of(lower(unknown), unknown)
        frames, few = dict(unknown), {}
        for i, name in tables.items():
            if i not in requests:
                continue
            if name == QUARANTINE:
                frames[i] = self._quarantined_rows(requests[i])
                continue
            few[i] = self._row_set(SYSTEM_TABLES[name], requests[i])
        rows = lower({**frames, **{i: local_rows.plain_frame for i, local_rows in few.items()}})
        if not is_alone or len(few) < len(tables):
            return rows
        if sum(local_rows.row_count for local_rows in few.values()) > WITHOUT_CODE_MAX:
            return rows
        sorted_rows = sorted_here(rows)
        return self._compute_if_few(few, lower, rows) if sorted_rows is None else sorted_rows

    def _compute_if_few(
        self,
        few: Mapping[int, LocalRows],
        lower: Callable[[Mapping[int, DataFrame]], DataFrame],
        rows: DataFrame,
    ) -> DataFrame:
        """The result of a query of few rows, computed now if it is few rows itself."""
        names = [fold(name) for name in rows.columns]
        if len(set(names)) < len(names):
            return rows  # computed rows are known by the names of their columns
        local_rows = compute(
            list(few.values()), lambda frames: lower(dict(zip(few, frames, strict=True)))
        )
        return rows if isinstance(local_rows, Declined) else local_rows.plain_frame

    def all_rows(self, name: str) -> DataFrame:
        """All rows of a system table, for a statement that is no query."""
        if name == QUARANTINE:
            return self._quarantined_rows(ALL)
        return self._row_set(SYSTEM_TABLES[name], ALL).plain_frame

    def _quarantined_rows(self, request: RowRequest) -> DataFrame:
        columns = SYSTEM_TABLES[QUARANTINE].columns
        return quarantined(self._session, self._reader, columns, request)

    def _row_set(self, table: SystemTable, request: RowRequest) -> LocalRows:
        schema = self._schemas.get(table.name)
        if schema is None:
            # Spark is not told of NOT NULL: of columns that nobody looks at there are no values.
            columns = [replace(c, nullable=True) for c in table.columns]
            schema = self._schemas[table.name] = empty(self._session, columns).schema
        arrow = as_arrow(self._rows(table.name, request), request, schema)
        return LocalRows(self._session, schema, arrow)

    def _rows(self, name: str, request: RowRequest) -> list[Any]:
        try:
            if self._local is None:
                self._local = LocalLogReader(self._reader.location, may_create=False)
            return system_rows(self._local, name, request)
        except NeedsSpark:
            return system_rows(self._reader, name, request)
