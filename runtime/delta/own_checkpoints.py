"""Spares commits the lists and checkpoints that a checkpoint written beside them makes needless.

Delta's snapshot names each commit behind the checkpoint that its last list found, and the next one
all of them and its own (``LogSegment``). So a checkpoint that is written beside the commits is not
taken until the log is listed, for which all commits wait: on a local disk half a second for ten
thousand of them. Which commits are behind the checkpoint is known without that.

Every so many commits (``delta.checkpointInterval``) Delta writes a checkpoint in the commit itself,
which waits for it, whether or not there is a newer one.
"""

from functools import lru_cache
from typing import Any

from ctsql.runtime.spark.java_source import new_object
from ctsql.runtime.spark.scala import singleton

_SOURCE = """
package ctsql;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.spark.sql.delta.CapturedSnapshot;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.delta.LogSegment;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.UninitializedV1OrV2ParquetCheckpointProvider;
import scala.Option;
import scala.collection.immutable.Seq;

public class NAME {
    public UninitializedV1OrV2ParquetCheckpointProvider checkpoint(
            long version, FileStatus file, DeltaLog log) {
        return new UninitializedV1OrV2ParquetCheckpointProvider(
            version, file, log.logPath(), Option.empty());
    }

    public Snapshot begin(DeltaLog log, UninitializedV1OrV2ParquetCheckpointProvider checkpoint)
            throws IOException {
        ReentrantLock lock = log.snapshotLock();
        lock.lock();
        try {
            CapturedSnapshot captured = log.getCapturedSnapshot();
            Snapshot newest = captured.snapshot();
            LogSegment segment = newest.logSegment();
            long older = segment.checkpointProvider().version();
            long version = checkpoint.version();
            boolean isLater = older < version && version <= segment.version();
            if (!isLater || segment.deltas().size() != segment.version() - older) return newest;
            if (!isThere(log, checkpoint.fileStatus())) return newest;
            LogSegment shorter = segment.copy(
                segment.logPath(), segment.version(),
                (Seq) segment.deltas().drop((int) (version - older)),
                checkpoint, segment.lastCommitFileModificationTimestamp());
            Snapshot same = log.createSnapshot(
                shorter, Option.empty(), Option.empty(), newest.checksumOpt());
            // It is as fresh as it was: nothing was looked for in the store.
            return log.installSnapshot(same, captured.updateTimestamp());
        } finally {
            lock.unlock();
        }
    }

    private boolean isThere(DeltaLog log, FileStatus file) throws IOException {
        FileSystem files = file.getPath().getFileSystem(log.newDeltaHadoopConf());
        try {
            FileStatus now = files.getFileStatus(file.getPath());
            return now.getLen() == file.getLen()
                && now.getModificationTime() == file.getModificationTime();
        } catch (FileNotFoundException problem) {
            return false;
        }
    }
}
"""


@lru_cache(maxsize=1)
def own_checkpoints(jvm: Any) -> "OwnCheckpoints":
    """Those of a JVM; the class in it is compiled for the first one."""
    return OwnCheckpoints(jvm)


class OwnCheckpoints:
    """The checkpoints that this process wrote last, by the table's location."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._java: Any = None
        self._checkpoints: dict[str, Any] = {}

    def remember(self, location: str, log: Any, version: int, file: Any) -> None:
        """Remember a checkpoint in one file. Args: file: its status."""
        if self._java is None:
            self._java = new_object(self._jvm, _SOURCE, log)
        self._checkpoints[location] = self._java.checkpoint(version, file, log)

    def begin_at_own(self, location: str, log: Any) -> Any | None:
        """Let Delta's newest snapshot begin at the table's checkpoint, if it begins before that.

        The checkpoint's file is looked at first: it may have been trimmed since, or be that of a
        table that was at this place before. A commit that had begun on the snapshot before puts
        back what that named: ask again later.

        Returns:
            The newest snapshot that Delta holds; None without a checkpoint.
        """
        checkpoint = self._checkpoints.get(location)
        return None if checkpoint is None else self._java.begin(log, checkpoint)


def leave_out_checkpoint(hooks: Any, log: Any, txn: Any) -> None:
    """Let a commit write no checkpoint if one was written in the last half of the interval.

    Args:
        hooks: Delta's package of that name. log: the table's. txn: a transaction on it.
    """
    snapshot = txn.snapshot()
    version = int(snapshot.version()) + 1
    if not txn.isCheckpointNeeded(version, snapshot):
        return
    interval = int(log.checkpointInterval(snapshot.metadata()))
    if version - int(snapshot.checkpointProvider().version()) <= interval // 2:
        txn.postCommitHooks().subtractOne(singleton(hooks, "CheckpointHook"))
