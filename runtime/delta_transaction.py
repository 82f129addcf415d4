"""One optimistic transaction on a Delta table, and the JVM objects it is made of.

Part of the adapter to Delta (:mod:`ctsql.runtime.delta_log`): nothing else touches Delta's
classes. Deletion vectors are built on the driver, one file's row numbers at a time.

Source: the Delta protocol, "Deletion Vectors", "Transaction Identifiers", "Domain Metadata".
"""

import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from pyspark.sql import DataFrame

from ctsql.runtime.locks import commit_lock
from ctsql.runtime.spark_errors import conflicts, converted

if TYPE_CHECKING:
    from ctsql.runtime.delta_log import DeltaTable


class Conflict(Exception):
    """A commit was refused because another one came first; nothing of it is in the table."""


class Transaction:
    """One optimistic Delta transaction: all of it becomes one commit, or nothing."""

    def __init__(self, table: "DeltaTable", txn: Any) -> None:
        self.table = table
        self.gateway = table.gateway
        self.txn = txn
        self.version_read = int(txn.readVersion())
        self._actions: list[Any] = []
        self._vector_files: list[str] = []

    def snapshot(self) -> Any:
        """The snapshot that the transaction reads."""
        return self.txn.snapshot()

    def read_application(self, app: str) -> None:
        """Depend on an application id: a commit that moves it first makes this one fail."""
        self.txn.readTxn().addOne(app)

    def set_application(self, app: str, version: int, now_ms: int) -> None:
        """Record the application id's new version."""
        self.txn.updateSetTransaction(app, version, self.gateway.option(now_ms))

    def set_domain(self, domain: str, configuration: str, *, removed: bool = False) -> None:
        """Write a domain metadata action, which checkpoints keep and readers of rows ignore."""
        make = self.gateway.delta.actions.DomainMetadata
        self._actions.append(make(domain, configuration, removed))

    def stage(self, rows: DataFrame) -> list[Any]:
        """Write rows into files of the table's folder; nobody sees them until committed."""
        with converted():
            return list(scala_items(self.txn.writeFiles(rows._jdf)))

    def add_files(self, staged: Iterable[Any]) -> None:
        """Add staged files."""
        self._actions.extend(staged)

    def delete_rows(self, victims: Iterable[tuple[str, bytes]], files: dict[str, Any]) -> None:
        """Delete rows by deletion vectors.

        Args:
            victims: (file's full path as ``_metadata.file_path`` gives it, row indexes as
                big-endian 64-bit integers), each file once.
            files: the live files of the version read.
        """
        gateway, delta = self.gateway, self.gateway.delta
        store = gateway.singleton(delta.storage.dv, "DeletionVectorStore").createInstance(
            self.table._hadoop
        )
        vector_id = gateway.jvm.java.util.UUID.fromString(str(uuid.uuid4()))
        data_path = self.table.log.dataPath()
        target = store.generateFileNameInTable(store.pathWithFileSystem(data_path), vector_id, "")
        descriptors = gateway.singleton(delta.actions, "DeletionVectorDescriptor")
        portable = delta.deletionvectors.RoaringBitmapArrayFormat.Portable()
        by_name = {_tail(path, self.table.location): add for path, add in files.items()}
        writer = None
        try:
            for file_path, packed in victims:
                add = by_name[_tail(file_path, self.table.location)]
                bitmap = self._bitmap(store, add, packed)
                physical = add.numPhysicalRecords()
                self.txn.trackFilesRead(gateway.seq([add]))
                if physical.isDefined() and physical.get() == bitmap.cardinality():
                    now_ms = int(gateway.jvm.java.lang.System.currentTimeMillis())
                    self._actions.append(add.removeWithTimestamp(now_ms, True))
                    continue
                if writer is None:
                    writer = store.createWriter(target)
                    self._vector_files.append(f"deletion_vector_{vector_id.toString()}.bin")
                data = bitmap.serializeAsByteArray(portable)
                placed = writer.write(data)
                vector = descriptors.onDiskWithRelativePath(
                    vector_id,
                    "",
                    len(data),
                    bitmap.cardinality(),
                    gateway.option(placed.offset()),
                    gateway.option(None),
                )
                pair = add.removeRows(vector, True, True)
                self._actions += [pair._1(), pair._2()]
        finally:
            if writer is not None:
                writer.close()

    def _bitmap(self, store: Any, add: Any, packed: bytes) -> Any:
        """The file's deleted rows so far, and the new ones; one call for any number of rows."""
        jvm = self.gateway.jvm
        old = add.deletionVector()
        if old is not None:
            bitmap = store.read(old, self.table.log.dataPath())
        else:
            bitmap = self.gateway.delta.deletionvectors.RoaringBitmapArray()
        longs = self.gateway.py4j.new_array(jvm.long, len(packed) // 8)
        jvm.java.nio.ByteBuffer.wrap(packed).asLongBuffer().get(longs)
        bitmap.addAll(jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(longs))
        return bitmap

    def commit(self, *, label: str, epoch: int, metadata: str) -> int:
        """Commit; returns the new version.

        Args:
            label: who commits, for the table's history. epoch: a number for the history.
            metadata: text kept as the commit's user metadata.

        Raises:
            Conflict: another commit came first; nothing of this one is in.
        """
        delta = self.gateway.delta
        operation = getattr(delta, "DeltaOperations$StreamingUpdate")(
            self.gateway.jvm.org.apache.spark.sql.streaming.OutputMode.Update(),
            label,
            epoch,
            self.gateway.option(metadata),
        )
        with commit_lock(self.table.location):
            try:
                return int(self.txn.commit(self.gateway.seq(self._actions), operation))
            except conflicts() as conflict:
                raise Conflict(type(conflict).__name__) from conflict

    def discard_vectors(self) -> None:
        """Delete the deletion vector files of a transaction that lost."""
        for name in self._vector_files:
            self.table.discard_path(name)
        self._vector_files.clear()

    def release_vectors(self) -> None:
        """The deletion vector files are in the table: they are not deleted any more."""
        self._vector_files.clear()


def scala_items(scala: Any) -> Iterator[Any]:
    """The items of a Scala collection."""
    iterator = scala.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _tail(path: str, location: str) -> str:
    """A data file's path relative to its table, decoded, however the path is written."""
    plain = unquote(urlparse(path).path) if "://" in path or path.startswith("file:") else None
    if plain is None:
        return unquote(path)
    root = unquote(urlparse(location).path) if ":" in location else location
    root = root.rstrip("/")
    return plain[len(root) :].lstrip("/") if plain.startswith(root) else plain
