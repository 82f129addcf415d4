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
import org.apache.spark.sql.delta.OptimisticTransaction;
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

    public OptimisticTransaction start(DeltaLog log, Snapshot snapshot) {
        return new WithoutCheckpoint(log, snapshot);
    }

    public static class WithoutCheckpoint extends OptimisticTransaction {
        public WithoutCheckpoint(DeltaLog log, Snapshot snapshot) {
            super(log, Option.empty(), snapshot);
        }

        public boolean isCheckpointNeeded(long version, Snapshot snapshot) {
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
        self._compiled: Any = None
        self._checkpoints: dict[str, Any] = {}

    def remember(self, location: str, log: Any, version: int, file: Any) -> None:
        """Remember a checkpoint in one file. Args: file: its status."""
        self._checkpoints[location] = self._java(log).checkpoint(version, file, log)

    def begin_at_own(self, location: str, log: Any) -> Any | None:
        """Let Delta's newest snapshot begin at the table's checkpoint, if it begins before that.

        The checkpoint's file is looked at first: it may have been trimmed since, or be that of a
        table that was at this place before. A commit that had begun on the snapshot before puts
        back what that named: ask again later.

        Returns:
            The newest snapshot that Delta holds; None without a checkpoint.
        """
        checkpoint = self._checkpoints.get(location)
        return None if checkpoint is None else self._java(log).begin(log, checkpoint)

    def spare(self, txn: Any, log: Any, snapshot: Any, version: int) -> Any:
        """A transaction, or one like it whose commit neither writes a checkpoint nor computes one.

        That is where Delta would write one, and there is one already, whoever wrote it, from the
        last half of the table's interval.

        Args:
            txn: it is new. snapshot: what it reads. version: of its commit, if none comes between.
        """
        if not txn.isCheckpointNeeded(version, snapshot):
            return txn
        interval = int(log.checkpointInterval(snapshot.metadata()))
        if version - int(snapshot.checkpointProvider().version()) > interval // 2:
            return txn
        return self._java(log).start(log, snapshot)

    def _java(self, log: Any) -> Any:
        if self._compiled is None:
            self._compiled = new_object(self._jvm, _SOURCE, log)
        return self._compiled
