"""Delta's own transactions, and the actions that they are to commit."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame

from ctsql.runtime.delta.internals.jvm import JvmObjects
from ctsql.runtime.log.actions import DataFile
from ctsql.runtime.log.batches import StagedFile
from ctsql.runtime.spark.internals.java import java_frame, scala_items


class DeltaTransaction:
    """One transaction (``OptimisticTransaction``) with the actions that it is to commit.

    No public API deletes some rows and inserts others in one commit that fails after a conflicting
    one. Needed: without it, ctsql writes nothing.

    Attributes:
        version_read: the version that it is based on.
    """

    def __init__(self, jvm: JvmObjects, started: Any) -> None:
        self._jvm = jvm
        self._txn = started
        self._actions: list[Any] = []
        self.version_read = int(started.readVersion())

    def snapshot(self) -> Any:
        """The snapshot that it reads."""
        return self._txn.snapshot()

    # ---- what must not change before it commits

    def depend_on_application(self, app: str) -> None:
        """The version of an application id."""
        self._txn.readTxn().addOne(app)

    def depend_on_all(self) -> None:
        """Every row."""
        self._txn.readWholeTable()

    def depend_on_files(self, files: Iterable[Any]) -> None:
        """Files, as :meth:`JvmObjects.add_file` makes them."""
        self._txn.trackFilesRead(self._jvm.seq(files))

    # ---- what it commits

    def set_application(self, app: str, version: int, now_ms: int) -> None:
        """A new version of an application id."""
        self._txn.updateSetTransaction(app, version, self._jvm.option(now_ms))

    def set_domain(self, domain: str, configuration: str, *, removed: bool) -> None:
        """A domain metadata action."""
        make = self._jvm.delta.actions.DomainMetadata
        self._actions.append(make(domain, configuration, removed))

    def add(self, action: str) -> None:
        """An action, as a line of the log."""
        self._actions.append(self._jvm.parse_action(action))

    def remove(self, file: DataFile, now_ms: int) -> Any:
        """The removal of a file with its rows; returns the file for :meth:`depend_on_files`."""
        add = self._jvm.add_file(file)
        self._actions.append(add.removeWithTimestamp(now_ms, True))
        return add

    def replace(self, files: Iterable[DataFile], now_ms: int) -> None:
        """The removal of files whose rows other files have; fails if one is removed before."""
        adds = [self._jvm.add_file(file) for file in files]
        self.depend_on_files(adds)
        self._actions += [add.removeWithTimestamp(now_ms, False) for add in adds]

    def write(self, rows: DataFrame) -> list[StagedFile]:
        """Write rows into new files by Spark; nothing is committed."""
        return _staged(self._txn.writeFiles(java_frame(rows)))

    def write_compact(self, rows: DataFrame) -> list[StagedFile]:
        """Write rows that other files have into one new file by Spark; nothing is committed."""
        jvm = self._jvm
        jrows = java_frame(rows.coalesce(1))
        return _staged(self._txn.writeFiles(jrows, jvm.none, True, jvm.seq(())))

    def metadata(self) -> Any:
        """The table's ``metaData`` action, to be compared by ``equals`` and read by ``json()``."""
        return self._txn.metadata()

    def metadata_action(self) -> dict[str, Any]:
        """The table's ``metaData`` action, as the log has it."""
        return dict(json.loads(self._txn.metadata().json()))

    def set_metadata(self, action: Mapping[str, Any]) -> None:
        """Another ``metaData`` action, for rows written from now on."""
        self._txn.updateMetadata(self._jvm.parse_action(json.dumps(action)), False)

    def features_of(self, action: Mapping[str, Any]) -> list[str]:
        """The features that a new table with a ``metaData`` action has, by its columns."""
        jvm = self._jvm
        metadata = jvm.parse_action(json.dumps(action))
        protocol = jvm.delta.actions.Protocol.forNewTable(jvm.jsession, jvm.option(metadata))
        return list(map(str, scala_items(protocol.readerAndWriterFeatureNames())))

    def set_counts(self, counts: Mapping[str, int]) -> None:
        """What DESCRIBE HISTORY shows of it."""
        self._txn.registerSQLMetrics(self._jvm.jsession, self._jvm.metrics(counts))

    def commit(self, operation: Any) -> int:
        """Commit; returns the version. Args: operation: one of :class:`JvmObjects`."""
        return int(self._txn.commit(self._jvm.seq(self._actions), operation))


def _staged(files: Any) -> list[StagedFile]:
    return [StagedFile(file.path(), file.json()) for file in scala_items(files)]
