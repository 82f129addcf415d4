"""Deletion vectors: the rows of a data file that are deleted.

Here they are bitmaps, because each operation in the JVM would cost a call. Delta's own store reads
and writes their bytes.

Source: the Delta protocol, "Deletion Vectors" and "Deletion Vector Format": a magic number, and a
    64-bit Roaring bitmap in the portable format.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from pyroaring import BitMap64

from ctsql.runtime.delta.bounded_cache import BoundedCache
from ctsql.runtime.delta.internals.handle import DeltaHandle, VectorStore, VectorWriter
from ctsql.runtime.delta.internals.jvm import JvmObjects
from ctsql.runtime.log.actions import DataFile
from ctsql.runtime.spark.failures.errors import translate_spark_errors

_MAGIC = (1681511377).to_bytes(4, "little")
INLINE_CHARS_MAX = 45_000
"""Delta encodes the text again for tasks, a third longer, by ``writeUTF``: at most 65,535 bytes."""
ALWAYS_SHORT = 3_000
"""This many rows always fit such a text: each takes at most 10 bytes, 12.5 characters."""
BYTES_MAX = 32 * 1024 * 1024  # bytes of all cached vectors, of all tables
_BITMAP_BYTES = 1_024  # memory of a bitmap with its name, in addition to its bytes


_bitmaps: BoundedCache[BitMap64] = BoundedCache(BYTES_MAX)
"""By vector id, which is random or the bitmap itself: no two tables share one."""


class Vectors:
    """The deletion vectors of one table."""

    def __init__(self, jvm: JvmObjects, handle: DeltaHandle) -> None:
        self.store = VectorStore(jvm, handle)

    def deleted_rows(self, file: DataFile) -> BitMap64:
        """The deleted rows of a file; read-only."""
        if not file.vector_id:
            return BitMap64()
        cached = _bitmaps.find(file.vector_id)
        if cached is not None:
            return cached
        with translate_spark_errors():
            data = self.store.read(file)
        bitmap = BitMap64.deserialize(data.removeprefix(_MAGIC))
        self.remember(file.vector_id, bitmap, len(data))
        return bitmap

    def distinguish(self, before: DataFile, after: DataFile) -> bool:
        """Whether the difference of two vectors of a file is short enough for a task."""
        if before.deleted_count + after.deleted_count <= ALWAYS_SHORT:
            return True
        differ = self.deleted_rows(before) ^ self.deleted_rows(after)
        return _is_short(_MAGIC + differ.serialize())

    def show_only(self, file: DataFile, rows: BitMap64, count: int) -> DataFile | None:
        """A file of ``count`` rows, with a vector that deletes all but some rows.

        None if the vector is too long for a task that reads the file.
        """
        others = BitMap64()
        others.add_range(0, count)
        others -= rows
        others.run_optimize()
        data = _MAGIC + others.serialize()
        if not _is_short(data):
            return None
        return file.with_vector(
            {
                "storageType": "i",
                "pathOrInlineDv": self.store.inline(data, len(others)),
                "sizeInBytes": len(data),
                "cardinality": len(others),
            }
        )

    def remember(self, vector_id: str, bitmap: BitMap64, size: int) -> None:
        """Cache a vector of ``size`` bytes."""
        _bitmaps.keep(vector_id, bitmap, size + _BITMAP_BYTES)


def _is_short(data: bytes) -> bool:
    """Whether a vector's text is short: Base85 writes four bytes as five characters."""
    return -(-len(data) // 4) * 5 <= INLINE_CHARS_MAX


class VectorFile:
    """A new file of deletion vectors, created with the first one."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._number = str(uuid.uuid4())
        self._writer: VectorWriter | None = None
        self.name = f"deletion_vector_{self._number}.bin"

    def close(self) -> bool:
        """Close it; returns whether there is a file."""
        if self._writer is not None:
            self._writer.close()
        return self._writer is not None

    def write(self, file: DataFile, deleted_rows: BitMap64) -> DataFile:
        """Write a vector of a file; returns the file with it."""
        if self._writer is None:
            self._writer = self._vectors.store.create(self._number)
        data = _MAGIC + deleted_rows.serialize()
        new_file = file.with_vector(
            {
                "storageType": "u",
                "pathOrInlineDv": self._writer.id_in_log,
                "offset": self._writer.write(data),
                "sizeInBytes": len(data),
                "cardinality": len(deleted_rows),
            }
        )
        self._vectors.remember(new_file.vector_id, deleted_rows, len(data))
        return new_file


@contextmanager
def vector_file(vectors: Vectors, discard: Callable[[Iterable[str]], None]) -> Iterator[VectorFile]:
    """A file that is closed after the block, and deleted if the block raises."""
    file = VectorFile(vectors)
    try:
        yield file
    except BaseException:
        if file.close():
            discard([file.name])
        raise
    file.close()
