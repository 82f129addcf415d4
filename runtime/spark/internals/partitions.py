"""Reads the rows of a query partition by partition, each through a temporary file."""

import pickle
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from pyspark import SparkContext
from pyspark.sql import DataFrame, Row

from ctsql.runtime.spark.internals.java import java, java_frame, typed

_SIZE_BYTES = 4  # Spark writes the size of a batch before it


def partition_rows(rows: DataFrame) -> Iterator[Row]:
    """The rows of a query, by one job for each partition; the driver's JVM holds none of them.

    The public API, ``toLocalIterator``, keeps partitions in the JVM until all their rows were read,
    and longer. Needed: without it, a few slow readers of large results use up the driver's memory.
    """
    batches: Any = typed(object, java_frame(rows).javaToPython())
    count = typed(int, batches.getNumPartitions())  # runs all stages but the last
    writer = _writer(java(rows.sparkSession))
    return (row for number in range(count) for row in _read(writer.file_of(batches, number)))


def _read(file: BinaryIO) -> Iterator[Row]:
    with file:
        while size := file.read(_SIZE_BYTES):
            batch = file.read(int.from_bytes(size))
            yield from pickle.loads(batch, encoding="bytes")  # noqa: S301  Spark wrote it


class _Writer:
    """The JVM's classes that write a partition to a file."""

    def __init__(self, jvm: Any) -> None:
        self.int = jvm.int
        self.file = jvm.java.io.FileOutputStream
        self.stream = jvm.java.io.DataOutputStream
        self.as_scala = jvm.scala.jdk.javaapi.CollectionConverters.asScala
        self.write = jvm.org.apache.spark.api.python.PythonRDD.writeIteratorToStream

    def file_of(self, batches: Any, number: int) -> BinaryIO:
        """A partition of an RDD of pickled batches, in an open file that has no name any more."""
        gateway = SparkContext._gateway
        assert gateway is not None  # the RDD is in its JVM
        numbers = gateway.new_array(self.int, 1)
        numbers[0] = number
        found = batches.collectPartitions(numbers)[0]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "rows")
            stream = self.stream(self.file(str(path)))
            self.write(self.as_scala(found.iterator()), stream)
            stream.close()
            return path.open("rb")


_writer = lru_cache(maxsize=2)(_Writer)
