"""Delta's own store of deletion vectors."""

from functools import cached_property
from typing import Any

from ctsql.runtime.delta.internals.handle import DeltaHandle
from ctsql.runtime.delta.internals.jvm import JvmObjects
from ctsql.runtime.log.actions import DataFile


class VectorStore:
    """Reads and writes the deletion vectors of one table (``DeletionVectorStore``).

    No public API does; Delta Kernel reads them only with all rows of a file. Needed: without it,
    ctsql deletes no rows.
    """

    def __init__(self, jvm: JvmObjects, handle: DeltaHandle) -> None:
        """Args: handle: Delta's own, of the table's log."""
        self._jvm = jvm
        self._handle = handle

    @cached_property
    def _store(self) -> Any:
        return self._jvm.vector_classes.stores.createInstance(self._handle.hadoop)

    @cached_property
    def _folder(self) -> Any:
        """The folder of the table."""
        return self._handle.log.dataPath()

    def read(self, file: DataFile) -> bytes:
        """The vector of a file, as its own file has it."""
        vector = self._jvm.add_file(file).deletionVector()
        bitmap = self._store.read(vector, self._folder)
        return bytes(bitmap.serializeAsByteArray(self._jvm.vector_classes.portable))

    def inline(self, data: bytes, count: int) -> str:
        """The text of a vector of ``count`` rows that stands in the log."""
        return str(self._jvm.vector_classes.descriptors.inlineInLog(data, count).pathOrInlineDv())

    def create(self, number: str) -> "VectorWriter":
        """A new file of vectors. Args: number: a UUID."""
        classes, none = self._jvm.vector_classes, self._jvm.none
        uuid = classes.uuid_of(number)
        descriptor = classes.descriptors.onDiskWithRelativePath(uuid, "", 0, 0, none, none)
        folder = self._store.pathWithFileSystem(self._folder)
        file = self._store.createWriter(self._store.generateFileNameInTable(folder, uuid, ""))
        return VectorWriter(str(descriptor.pathOrInlineDv()), file)


class VectorWriter:
    """A new file of vectors.

    No public API writes one. Needed: without it, ctsql deletes no rows.

    Attributes:
        id_in_log: what the log calls it.
    """

    def __init__(self, id_in_log: str, writer: Any) -> None:
        self.id_in_log = id_in_log
        self._writer = writer

    def write(self, data: bytes) -> int:
        """Write a vector; returns its offset."""
        return int(self._writer.write(data).offset())

    def close(self) -> None:
        """Close it."""
        self._writer.close()
