"""Delta's transaction, which goes on from the newest version where commits in between allow it.

[moves-over-rewrites] where other commits came in between that only rewrote files, as a compaction
    does, and none that this one rests on, it goes on from the newest version; so does a compaction
    of rows that this process wrote, over rows of others that leave its files alone.

Delta comes to the same answer, but lists the log for it under a lock for which the table's other
commits wait: half a second where there are ten thousand.
"""

from collections.abc import Callable, Iterable
from typing import Any

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.delta.locks import local_path
from ctsql.runtime.delta.own_checkpoints import own_checkpoints
from ctsql.runtime.delta.snapshots import Snapshot
from ctsql.runtime.delta.spark_log import java_of
from ctsql.runtime.delta.table_rows import DeltaRows
from ctsql.runtime.log.actions import Commit
from ctsql.runtime.log.data_files import DataFile
from ctsql.runtime.log.protocol import Conflict


def start_on(table: DeltaRows, newest: Snapshot) -> Any:
    """A transaction of Delta's on the newest version, for which it would else list the log."""
    gateway, log, java = table.gateway, table.log, java_of(newest)
    txn = log.startTransaction(gateway.none, gateway.option(java))
    return own_checkpoints(gateway.jvm).spare(txn, log, java, newest.version + 1)


class MovableTransaction:
    """What Delta's transaction is told, so that another one on a newer version can be told it.

    Attributes:
        txn: Delta's transaction.
        only_rewrites: whether it changes no row.
    """

    def __init__(self, table: DeltaRows, txn: Any) -> None:
        self.txn = txn
        self.only_rewrites = False
        self._table = table
        self._version_read = int(txn.readVersion())
        self._steps: list[Callable[[Any], object]] = []
        self._files_read: list[DataFile] = []
        self._may_move = True

    def tell(self, step: Callable[[Any], object]) -> None:
        """Tell Delta's transaction something, and any that takes its place."""
        step(self.txn)
        self._steps.append(step)

    def rest_on(self, files: Iterable[DataFile]) -> None:
        """Depend on files being as they are."""
        self._files_read += files

    def stay(self) -> None:
        """Leave all commits that come in between to Delta: its transaction knows more."""
        self._may_move = False

    def commit(self, actions: Any, operation: Any) -> int:
        """Commit once, from the newest version if that is allowed; returns the version.

        To be called under the lock of the table's commits: where it is one, no commit of ctsql
        comes in between, and elsewhere nothing is moved.

        Raises:
            Conflict: a file that this one rests on was rewritten. What Delta raises.
        """
        if local_path(self._table.location) is not None and self._may_move:
            version = self._last_passed()
            newest = self._table.update() if version > self._version_read else None
            if newest is not None and newest.version == version:
                self._move(newest)
        self._may_move = False  # what is committed twice is for Delta to tell
        return int(self.txn.commit(actions, operation))

    def _last_passed(self) -> int:
        """The newest version, if all commits behind the one read may be passed; asks no Delta.

        Else the one read.
        """
        version = self._version_read
        try:
            while self._table.has(version + 1):
                version += 1
                if not self._may_pass(self._table.commit_at(version)):
                    return self._version_read
        except CtsqlError as problem:
            if problem.condition != "HISTORY_LOST":
                raise
            return self._version_read
        return version

    def _may_pass(self, commit: Commit) -> bool:
        """Whether a commit concerns this one by the files that it removes, and by nothing else."""
        if commit.table is not None or commit.protocol is not None:
            return False
        return self.only_rewrites or not (
            commit.changes_data or commit.transactions or commit.domains
        )

    def _move(self, newest: Snapshot) -> None:
        table = self._table
        live = table.files(newest.version) if self._files_read else {}
        for file in self._files_read:
            there = live.get(file.path)
            if there is None or there.vector_id != file.vector_id:
                raise Conflict(f"{file.path} was rewritten")
        self.txn = start_on(table, newest)
        for step in self._steps:
            step(self.txn)
