"""Deletion vectors: which rows of a data file count as deleted.

Part of the adapter to Delta (:mod:`ctsql.runtime.delta_log`). Vectors are built on the driver, one
file's row numbers at a time, and those of one staging lie in one file.

Source: the Delta protocol, "Deletion Vectors".
"""

import uuid
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from ctsql.runtime.delta_log import DeltaTable, Gateway


class VectorClasses:
    """The JVM classes that vectors are made with, looked up once: by name each costs a call."""

    def __init__(self, gateway: "Gateway") -> None:
        """Look them up."""
        delta = gateway.delta
        self.stores = gateway.singleton(delta.storage.dv, "DeletionVectorStore")
        self.descriptors = gateway.singleton(delta.actions, "DeletionVectorDescriptor")
        self.bitmap = delta.deletionvectors.RoaringBitmapArray
        self.portable = delta.deletionvectors.RoaringBitmapArrayFormat.Portable()
        self.buffers = gateway.jvm.java.nio.ByteBuffer
        self.sequence = gateway.jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray
        self.long = gateway.jvm.long


class VectorFile:
    """One new file of deletion vectors, made when the first one is written.

    As a context: an error inside deletes the file.
    """

    def __init__(self, table: "DeltaTable") -> None:
        """No file yet."""
        self._table = table
        self._gateway = table.gateway
        self._classes = table.gateway.vector_classes
        self._store = self._classes.stores.createInstance(table._hadoop)
        self._data_path = table.log.dataPath()
        number = str(uuid.uuid4())
        self._id = self._gateway.jvm.java.util.UUID.fromString(number)
        self._writer: Any = None
        self.name = f"deletion_vector_{number}.bin"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is None:
            return
        self._writer.close()
        if problem is not None:
            self._table.discard([self.name])

    def deleted_rows(self, add: Any) -> Any:
        """The rows of a file that count as deleted, as a bitmap of one's own."""
        vector = add.deletionVector()
        if vector is not None:
            return self._store.read(vector, self._data_path)
        return self._classes.bitmap()

    def already_deleted(self, add: Any, packed: bytes) -> bytes:
        """Which of some rows of a file count as deleted; all as big-endian 64-bit integers."""
        if add.deletionVector() is None:
            return b""
        bitmap = self._classes.bitmap()
        self.add_rows(bitmap, packed)
        getattr(bitmap, "and")(self.deleted_rows(add))
        rows = bitmap.values()
        buffer = self._classes.buffers.allocate(8 * len(rows))
        buffer.asLongBuffer().put(rows)
        return bytes(buffer.array())

    def add_rows(self, bitmap: Any, packed: bytes) -> None:
        """Add row indexes, as big-endian 64-bit integers; one call for any number of rows."""
        classes = self._classes
        longs = self._gateway.py4j.new_array(classes.long, len(packed) // 8)
        classes.buffers.wrap(packed).asLongBuffer().get(longs)
        bitmap.addAll(classes.sequence(longs))

    def join(self, bitmap: Any, other: Any) -> None:
        """Add the rows of another bitmap."""
        getattr(bitmap, "or")(other)

    def write(self, bitmap: Any) -> Any:
        """Write a bitmap; gives its descriptor."""
        gateway, classes = self._gateway, self._classes
        if self._writer is None:
            folder = self._store.pathWithFileSystem(self._data_path)
            target = self._store.generateFileNameInTable(folder, self._id, "")
            self._writer = self._store.createWriter(target)
        data = bitmap.serializeAsByteArray(classes.portable)
        placed = self._writer.write(data)
        return classes.descriptors.onDiskWithRelativePath(
            self._id,
            "",
            len(data),
            bitmap.cardinality(),
            gateway.option(placed.offset()),
            gateway.option(None),
        )


def vector_id(add: Any) -> str:
    """The unique id of a file's deletion vector; empty when it has none."""
    vector = add.deletionVector()
    return "" if vector is None else str(vector.uniqueId())


def scala_items(scala: Any) -> Iterator[Any]:
    """The items of a Scala collection."""
    iterator = scala.iterator()
    while iterator.hasNext():
        yield iterator.next()
