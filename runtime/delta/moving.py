"""A transaction goes on from the newest version where what came in between leaves it alone.

[moves-over-rewrites] where other commits came in between that only rewrote files, as a compaction
    does, and none that this one rests on, it goes on from the newest version; so does a compaction
    over any commit that leaves its files alone.

Delta comes to the same answer, but lists the log for it under a lock for which the table's other
commits wait: half a second where there are ten thousand.
"""

from collections.abc import Callable, Iterable
from typing import Any

from ctsql.runtime.delta.locks import local_path
from ctsql.runtime.delta.spark_log import java_of
from ctsql.runtime.delta.table_rows import DeltaRows
from ctsql.runtime.log.actions import Commit
from ctsql.runtime.log.data_files import DataFile
from ctsql.runtime.log.protocol import Conflict


class Moving:
    """What Delta's transaction is told, so that another one on a newer version can be told it.

    Attributes:
        txn: Delta's transaction.
    """

    def __init__(self, table: DeltaRows, txn: Any) -> None:
        self.txn = txn
        self._table = table
        self._version_read = int(txn.readVersion())
        self._entries: list[Callable[[Any], object]] = []
        self._files_read: list[DataFile] = []
        self._is_rewrite = False
        self._may_move = True

    def enter(self, entry: Callable[[Any], object]) -> None:
        """Tell Delta's transaction something, and any that takes its place."""
        entry(self.txn)
        self._entries.append(entry)

    def rest_on(self, files: Iterable[DataFile], *, is_rewrite: bool = False) -> None:
        """Depend on files being as they are; one that only rewrites depends on nothing else."""
        self._is_rewrite = is_rewrite and (self._is_rewrite or not self._files_read)
        self._files_read += files

    def stay(self) -> None:
        """Leave all commits that come in between to Delta: its transaction knows more."""
        self._may_move = False

    def move(self) -> Any:
        """Delta's transaction on the newest version, if that is allowed; else as it was.

        To be called under the lock of the table's commits: where it is one, no commit of ctsql
        comes in between, and elsewhere nothing is moved.

        Raises:
            Conflict: a file that this one rests on was rewritten.
        """
        table = self._table
        is_local = local_path(table.location) is not None
        if not (is_local and self._may_move and table.has(self._version_read + 1)):
            return self.txn
        newest = table.update()
        commits = map(table.commit_at, range(self._version_read + 1, newest.version + 1))
        if not all(map(self._is_left_alone, commits)):
            return self.txn
        live = table.files(newest.version)
        for file in self._files_read:
            there = live.get(file.path)
            if there is None or there.vector_id != file.vector_id:
                raise Conflict(f"{file.path} was rewritten")
        gateway = table.gateway
        self.txn = table.log.startTransaction(gateway.none, gateway.option(java_of(newest)))
        for entry in self._entries:
            entry(self.txn)
        return self.txn

    def _is_left_alone(self, commit: Commit) -> bool:
        """Whether a commit concerns this transaction by its files alone."""
        if commit.table is not None or commit.protocol is not None:
            return False
        is_of_rows = commit.changes_data or commit.transactions or commit.domains
        return self._is_rewrite or not is_of_rows
