"""Delta's classes and objects in the JVM.

Each dot of a name below ``jvm`` costs a call of a tenth of a millisecond or more, so the names for
every commit are looked up once. Lists of thousands of files are parsed from JSON by few calls.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from ctsql.runtime.log.actions import DataFile
from ctsql.runtime.spark.internals.java import java, java_session, singleton, typed

FILES_A_CALL = 5_000
_ANY_FILE = (
    '{"add":{"path":"p","partitionValues":{},"size":0,"modificationTime":0,"dataChange":true}}'
)


class JvmObjects:
    """The classes and objects of the JVM for one Spark session's commits.

    No public API opens a log or makes actions and operations of commits. Needed: without it, ctsql
    writes nothing.
    """

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self.jvm: Any = java(session)  # engine_session refuses Spark Connect
        self.jsession: Any = java_session(session)
        self.delta: Any = self.jvm.org.apache.spark.sql.delta
        self.path: Any = self.jvm.org.apache.hadoop.fs.Path
        self._action_of: Any = self.delta.actions.Action.fromJson
        self.option: Any = self.jvm.scala.Option.apply
        """A Scala Option; None becomes the empty one."""
        self.none: Any = self.option(None)
        self._update_mode: Any = self.jvm.org.apache.spark.sql.streaming.OutputMode.Update()
        self._streaming_update: Any = getattr(self.delta, "DeltaOperations$StreamingUpdate")
        self._to_seq: Any = self.jvm.org.apache.spark.api.python.PythonUtils.toSeq
        self._list: Any = self.jvm.java.util.ArrayList

    @cached_property
    def vector_classes(self) -> "_VectorClasses":
        """The classes of deletion vectors."""
        return _VectorClasses(self)

    @cached_property
    def _parse_adds(self) -> Callable[[str], Any]:
        mapper = singleton(self.delta.util, "JsonUtils").mapper()
        kind = self.parse_action(_ANY_FILE).getClass()
        adds = mapper.getTypeFactory().constructCollectionType(self._list().getClass(), kind)
        return lambda text: mapper.readValue(text, adds)

    def file_list(self, files: Sequence[DataFile]) -> Any:
        """A Java list of Delta's own objects (AddFile)."""
        java_list = self._list()
        for first in range(0, len(files), FILES_A_CALL):
            actions = [file.action for file in files[first : first + FILES_A_CALL]]
            java_list.addAll(self._parse_adds(json.dumps(actions)))
        return java_list

    def add_files(self, files: Iterable[DataFile]) -> Any:
        """A Scala Seq of Delta's own objects for some files."""
        return typed(object, self._to_seq(self.file_list(list(files))))

    def seq(self, items: Iterable[Any]) -> Any:
        """A Scala Seq of JVM objects."""
        java_list = self._list()
        for item in items:
            java_list.add(item)
        return typed(object, self._to_seq(java_list))

    def hadoop_settings(self) -> Any:
        """A Hadoop configuration with the session's settings, for file systems."""
        return typed(object, self.jsession.sessionState().newHadoopConf())

    def open_log(self, location: str) -> Any:
        """Delta's cached handle on the log of a table."""
        return typed(object, self.delta.DeltaLog.forTable(self.jsession, location))

    def forget_log(self, path: Any) -> None:
        """Let Delta drop its handle; ``path`` is Hadoop's."""
        self.delta.DeltaLog.invalidateCache(self.jsession, path)

    def vector_path(self, file: DataFile, folder: Any) -> Any | None:
        """The path of the file with a file's vector; None if the vector is in the log."""
        vector = self.add_file(file).deletionVector()
        return (
            typed(object, vector.absolutePath(folder)) if typed(bool, vector.isOnDisk()) else None
        )

    @cached_property
    def _metric_classes(self) -> tuple[Any, Any, Any]:
        sql = self.jvm.org.apache.spark.sql.execution.metric.SQLMetrics
        maps = self.jvm.org.apache.spark.api.python.PythonUtils
        return sql.createMetric, self.jvm.java.util.HashMap, maps.toScalaMap

    def metrics(self, counts: Mapping[str, int]) -> Any:
        """Counts as Spark's metrics of an operation."""
        create, new_map, to_scala = self._metric_classes
        context, metrics = self.jsession.sparkContext(), new_map()
        for name, count in counts.items():
            metric = create(context, name)
            metric.set(count)
            metrics.put(name, metric)
        return typed(object, to_scala(metrics))

    def append_operation(self) -> Any:
        """The operation of an INSERT's commit."""
        append, not_partitioned = self.jvm.org.apache.spark.sql.SaveMode.Append, self.seq(())
        others = (self.none for _ in range(7))
        write = getattr(self.delta, "DeltaOperations$Write")
        return typed(object, write(append, self.option(not_partitioned), *others))

    def output_operation(self, label: str, epoch: int, metadata: str) -> Any:
        """The operation of an output's commit: a batch of a stream."""
        update, described = self._streaming_update, self.option(metadata)
        return typed(object, update(self._update_mode, label, epoch, described))

    def optimize_operation(self) -> Any:
        """The operation of a compaction's commit."""
        empty = self.seq(())
        optimize = getattr(self.delta, "DeltaOperations$Optimize")
        return typed(object, optimize(empty, empty, False, self.none, False))

    def add_file(self, file: DataFile) -> Any:
        """Delta's own object (AddFile) for a file."""
        return self.parse_action(file.line)

    def parse_action(self, line: str) -> Any:
        """Delta's own object for a line of the log."""
        return typed(object, self._action_of(line))


class _VectorClasses:
    def __init__(self, jvm: JvmObjects) -> None:
        self.stores = singleton(jvm.delta.storage.dv, "DeletionVectorStore")
        self.descriptors = singleton(jvm.delta.actions, "DeletionVectorDescriptor")
        self.uuid_of = jvm.jvm.java.util.UUID.fromString
        self.portable = jvm.delta.deletionvectors.RoaringBitmapArrayFormat.Portable()
