"""Tables that files come into: each file once, whatever crashes.

    look   list the folder: which paths are not in the record?             no Spark job
    plan   the record's next entry names them                              a commit of the record
    load   their rows, with the entry's number as transaction identifier   a commit of the table

The record is a Delta table in the table's own folder, ``_files``, written by a write handle whose
upper counts the entries.

[one-open-entry] an entry is made only when the table's log says that the one before it is in. So at
    most the last one is open, and whoever looks next loads it first: that is all that a kill
    leaves.
[entry-once] the commit that loads an entry moves the table's transaction identifier to the entry's
    number, and Delta takes no second commit of that number: its rows are in once.
[one-makes-entry] two processes that find a file at once both try to make the next entry. The write
    handle lets one of them; the other loads that entry, or finds it in.
[gone-is-passed] a file that is gone before its entry is in does not come in, and holds up nothing.
[kept-constraints-too] where the table has constraints that ctsql keeps, an entry is loaded by a
    transaction whose commit of the table moves the identifier, too; rows that are set aside are in
    with it. It is no commit if the identifier is not the one that was read before.

A path is looked at once: what is written into a file later is not seen. So files are to be moved
into the folder whole. The paths are kept in memory, as those of the folder are when it is listed.

Tests: tests/spark/warehouse/test_watched_files.py, tests/crash/test_watched_files_killed.py.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import SparkSession, types as T

from ctsql.catalog.items import FileSource, Item
from ctsql.catalog.spans import Source
from ctsql.planner.syntax.ast import FileRef
from ctsql.runtime.delta.files import optimize
from ctsql.runtime.delta.keyed_scan import rows_of
from ctsql.runtime.delta.table import Gateway
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.actions import Commit
from ctsql.runtime.log.table_metadata import keeps_any
from ctsql.runtime.log.uppers import commits_to
from ctsql.runtime.log.write_handle import Committed, Output, Rows
from ctsql.runtime.rows.declined import Declined
from ctsql.runtime.rows.row_set import LocalRows
from ctsql.runtime.spark.errors import translate_spark_errors
from ctsql.runtime.warehouse.loaded_files import insert_rows, rows_to_load
from ctsql.runtime.warehouse.location import SYSTEM_TABLE
from ctsql.runtime.warehouse.multi_table_commit import AppendKept, WriterProgress, alone
from ctsql.runtime.warehouse.warehouse import Warehouse

FOLDER = "_files"
RECORD_FILES_MAX = 100
"""With more small files the record is rewritten as one."""
_SCHEMA = T.StructType(
    [T.StructField("path", T.StringType()), T.StructField("entry", T.LongType())]
)
_IDENTIFIER = "spark.databricks.delta.write.txnAppId"
_NUMBER = "spark.databricks.delta.write.txnVersion"


class WatchedFiles:
    """The tables of a warehouse that files come into, and the records of these files."""

    def __init__(
        self, warehouse: Warehouse, complete: Callable[[], object], append_kept: AppendKept
    ) -> None:
        """``complete`` completes the transaction of a process that was killed."""
        self._warehouse = warehouse
        self._complete = complete
        self._append_kept = append_kept
        self._records: dict[str, _Record] = {}

    def has_new(self, item: Item) -> bool:
        """Whether there is something to take in; starts no Spark job unless another process did."""
        record = self._follow(item)
        return record.last > self._newest_loaded(item) or bool(self._find(item, record))

    def take_in(self, item: Item) -> list[Commit]:
        """Let the files in that have come since; returns the commits of this process.

        That is one for all of them, and one for those that a killed process had begun with.

        Raises:
            DATA_ERROR, UNKNOWN_COLUMN, COLUMN_COUNT_MISMATCH, FILE_UNREADABLE, CONSTRAINT_VIOLATED:
                a file does not fit the table. All files of its entry wait until it is mended or
                gone.
        """
        record = self._follow(item)
        commits = self._load(item, record)
        if paths := self._find(item, record):
            record.add(paths)
            faults.point("files_planned")
            commits += self._load(item, self._follow(item))
        return commits

    def _follow(self, item: Item) -> "_Record":
        for item_id in self._records.keys() - self._warehouse.catalog.items.keys():
            del self._records[item_id]  # its table was dropped
        record = self._records.get(item.id)
        if record is None:
            record = self._records[item.id] = _Record(self._warehouse.gateway, item)
        record.follow()
        return record

    def _newest_loaded(self, item: Item) -> int:
        """The number of the last entry that is in the table; 0 for none."""
        return self._warehouse.relations.table(item).application_version(_app(item)) or 0

    def _find(self, item: Item, record: "_Record") -> list[str]:
        """The paths that are not in the record."""
        return self._warehouse.gateway.list_files(_source(item).path, known_files=record.entries)

    def _load(self, item: Item, record: "_Record") -> list[Commit]:
        """Load the last entry unless it is in; returns the commit."""
        number = record.last
        if self._newest_loaded(item) >= number:
            return []
        gateway, table = self._warehouse.gateway, self._warehouse.relations.table(item)
        timeline, catalog = self._warehouse.timeline, self._warehouse.relations.load_stored
        with alone(timeline, item, self._complete, catalog) as location:
            newest = self._newest_loaded(item)
            if newest >= number:
                return []
            before = table.version()
            paths = gateway.still_there(_source(item).path, record.paths(number))
            if paths:
                self._insert(item, location, paths, newest, number)
            else:
                handle = Output(table, _app(item), shared=True)
                handle.compare_and_append([], expected=newest, new=number)
            faults.point("files_loaded")
            return commits_to(table, _app(item), number, after=before)

    def _insert(
        self, item: Item, location: str, paths: Sequence[str], newest: int, number: int
    ) -> None:
        source = _source(item)
        span = Source(source.path, f"<files of {item.name}>").whole()
        file = FileRef(path=source.path, span=span, format=source.format, options=source.options)
        columns = self._warehouse.relations.columns_now(item)
        gateway = self._warehouse.gateway
        with translate_spark_errors(None, span):
            rows = rows_to_load(gateway, file, columns, str(item.name), paths=paths)
        if keeps_any(self._warehouse.relations.table(item).configuration()):
            progress = WriterProgress(app=_app(item), expected=newest, upper=number)
            self._append_kept(item, rows, progress, span)
            return
        with _identified(gateway.session, item, number):
            insert_rows(location, rows, span, gateway.session.sql)


class _Record:
    """The paths that have an entry: those that are in a table, or come in next."""

    def __init__(self, gateway: Gateway, item: Item) -> None:
        self._gateway = gateway
        location = f"{item.location}/{FOLDER}"
        if not gateway.exists(location):
            with translate_spark_errors():
                gateway.create_table(location, "path STRING, entry BIGINT", SYSTEM_TABLE)
        self._table = gateway.table(location)
        self._output = Output(self._table, _app(item))
        self._version = -1
        self.entries: dict[str, int] = {}

    @property
    def last(self) -> int:
        """The number of the last entry; 0 for none."""
        return max(self.entries.values(), default=0)

    def paths(self, entry: int) -> list[str]:
        """The paths of an entry."""
        return sorted(path for path, number in self.entries.items() if number == entry)

    def follow(self) -> None:
        """Read what other processes have added."""
        version = self._table.version()
        if version == self._version:
            return
        near = rows_of(self._table, version, _SCHEMA.names)
        with translate_spark_errors():
            if isinstance(near, Declined):
                rows = self._table.frame(version).toArrow()
            else:
                rows = near.arrow
        columns = (rows.column(name).to_pylist() for name in _SCHEMA.names)
        self.entries = dict(zip(*columns, strict=True))
        self._version = version

    def add(self, paths: Sequence[str]) -> None:
        """Make the next entry, unless another process is first."""
        number = self.last + 1
        session = self._gateway.session
        if len(self._table.files(self._version)) >= RECORD_FILES_MAX:
            optimize(self._table)
        arrow = pa.table([list(paths), pa.array([number] * len(paths), pa.int64())], _SCHEMA.names)
        rows = LocalRows(session, _SCHEMA, arrow)
        outcome = self._output.compare_and_append(
            [Rows(number - 1, rows)], expected=number - 1, new=number
        )
        if isinstance(outcome, Committed) and outcome.version == self._version + 1:
            self.entries |= dict.fromkeys(paths, number)
            self._version = outcome.version


def _source(item: Item) -> FileSource:
    assert isinstance(item.feed, FileSource)  # callers ask for tables with files
    return item.feed


def _app(item: Item) -> str:
    return f"{item.app}:files"


@contextmanager
def _identified(session: SparkSession, item: Item, number: int) -> Iterator[None]:
    """Inside, Delta gives what is written this transaction identifier, or leaves it if it is in."""
    properties = {_IDENTIFIER: _app(item), _NUMBER: str(number)}
    try:
        for name, value in properties.items():
            session.conf.set(name, value)
        yield
    finally:
        for name in properties:
            session.conf.unset(name)
