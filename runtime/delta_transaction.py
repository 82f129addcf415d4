"""One optimistic transaction on a Delta table, and the JVM objects it is made of.

Part of the adapter to Delta (:mod:`ctsql.runtime.delta_log`): nothing else touches Delta's
classes.

Source: the Delta protocol, "Deletion Vectors", "Transaction Identifiers", "Domain Metadata".
"""

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from pyspark.sql import DataFrame

from ctsql.runtime.batches import StagedDelete, StagedFile
from ctsql.runtime.delta_vectors import VectorFile, scala_items, vector_id
from ctsql.runtime.locks import commit_lock
from ctsql.runtime.log import Conflict, RowsGone
from ctsql.runtime.spark_errors import conflicts, converted

if TYPE_CHECKING:
    from ctsql.runtime.delta_log import DeltaTable


class Transaction:
    """One optimistic Delta transaction: all of it becomes one commit, or nothing."""

    def __init__(self, table: "DeltaTable", txn: Any) -> None:
        self.table = table
        self.gateway = table.gateway
        self.txn = txn
        self.version_read = int(txn.readVersion())
        self._actions: list[Any] = []

    def snapshot(self) -> Any:
        """The snapshot that the transaction reads."""
        return self.txn.snapshot()

    def read_application(self, app: str) -> None:
        """Depend on an application id: a commit that moves it first makes this one fail."""
        self.txn.readTxn().addOne(app)

    def depend_on_all(self) -> None:
        """Depend on every row: a commit that changes any first makes this one fail."""
        self.txn.readWholeTable()

    def set_application(self, app: str, version: int, now_ms: int) -> None:
        """Record the application id's new version."""
        self.txn.updateSetTransaction(app, version, self.gateway.option(now_ms))

    def set_domain(self, domain: str, configuration: str, *, removed: bool = False) -> None:
        """Write a domain metadata action, which checkpoints keep and readers of rows ignore."""
        make = self.gateway.delta.actions.DomainMetadata
        self._actions.append(make(domain, configuration, removed))

    def stage(self, rows: DataFrame) -> list[StagedFile]:
        """Write rows into files of the table's folder; nobody sees them until committed."""
        with converted():
            made = scala_items(self.txn.writeFiles(rows._jdf))
            return [StagedFile(add.path(), add.json()) for add in made]

    def add_files(self, staged: Iterable[StagedFile]) -> None:
        """Add staged files."""
        self._actions.extend(self.gateway.parse_action(file.action) for file in staged)

    def stage_deletes(self, victims: Iterable[tuple[str, bytes]]) -> list[StagedDelete]:
        """Write down rows of the version read to delete, as deletion vectors in one new file.

        Args:
            victims: (file's full path as ``_metadata.file_path`` gives it, row indexes as
                big-endian 64-bit integers), each file once.
        """
        by_name = {
            relative_path(path, self.table.location): add
            for path, add in self.table.files(self.version_read).items()
        }
        staged = []
        with converted(), VectorFile(self.table) as vectors:
            for file_path, packed in victims:
                add = by_name[relative_path(file_path, self.table.location)]
                bitmap = vectors.deleted_rows(add)
                before = bitmap.cardinality()
                vectors.add_rows(bitmap, packed)
                staged.append(
                    StagedDelete(
                        path=add.path(),
                        rows_count=bitmap.cardinality() - before,
                        known_vector=vector_id(add),
                        **self._written(vectors, add, bitmap),
                    )
                )
        return staged

    def _written(self, vectors: VectorFile, add: Any, bitmap: Any) -> dict[str, str | None]:
        """What a file becomes by a bitmap of deleted rows."""
        physical = add.numPhysicalRecords()
        if physical.isDefined() and physical.get() == bitmap.cardinality():
            return {"action": None, "vector_file": None}
        action = add.removeRows(vectors.write(bitmap), True, True)._1().json()
        return {"action": action, "vector_file": vectors.name}

    def delete(self, staged: Iterable[StagedDelete]) -> set[str]:
        """Add staged deletions; gives the vector files that the commit will name.

        Where a file has lost other rows since, or several deletions are of one file, their
        vectors are joined in a new file.

        Raises:
            RowsGone: a row is not where it was; no file was made.
        """
        by_file: dict[str, list[StagedDelete]] = {}
        for one in staged:
            by_file.setdefault(one.path, []).append(one)
        live = self.table.files(self.version_read)
        used: set[str] = set()
        with converted(), VectorFile(self.table) as vectors:
            for path, deletes in by_file.items():
                add = live.get(path)
                if add is None:
                    raise RowsGone(path)
                self.txn.trackFilesRead(self.gateway.seq([add]))
                if len(deletes) > 1 or deletes[0].known_vector != vector_id(add):
                    deletes = [self._joined(vectors, add, deletes)]
                (one,) = deletes
                if one.vector_file is not None:
                    used.add(one.vector_file)
                self._replace(add, one)
        return used

    def _joined(
        self, vectors: VectorFile, add: Any, deletes: Sequence[StagedDelete]
    ) -> StagedDelete:
        """One deletion for several of a file, or for one that was made from another state of it."""
        bitmap = vectors.deleted_rows(add)
        rows_count = sum(one.rows_count for one in deletes)
        wanted = bitmap.cardinality() + rows_count
        for one in deletes:
            if one.action is None:
                raise RowsGone(one.path)  # it takes every row that was left, and some are gone
            vectors.join(bitmap, vectors.deleted_rows(self.gateway.parse_action(one.action)))
        if bitmap.cardinality() != wanted:
            raise RowsGone(add.path())
        return StagedDelete(
            path=add.path(),
            rows_count=rows_count,
            known_vector=vector_id(add),
            **self._written(vectors, add, bitmap),
        )

    def _replace(self, add: Any, by: StagedDelete) -> None:
        """Remove a file and, unless all of its rows go, add it with another vector."""
        if by.action is None:
            now_ms = int(self.gateway.jvm.java.lang.System.currentTimeMillis())
            self._actions.append(add.removeWithTimestamp(now_ms, True))
            return
        vector = self.gateway.parse_action(by.action).deletionVector()
        pair = add.removeRows(vector, True, True)
        self._actions += [pair._1(), pair._2()]

    def take_back(self, version: int) -> None:
        """Add the reverse of what a version did: its files go, what it removed comes back.

        Raises:
            RowsGone: somebody changed its files since; no file was made.
        """
        before, after = self.table.files(version - 1), self.table.files(version)
        live = self.table.files(self.version_read)
        made = [
            (path, add)
            for path, add in after.items()
            if path not in before or vector_id(before[path]) != vector_id(add)
        ]
        for path, add in made:
            if path not in live or vector_id(live[path]) != vector_id(add):
                raise RowsGone(path)
        self.delete(whole_file(path, add) for path, add in made)
        for path, old in before.items():
            if path not in after or vector_id(after[path]) != vector_id(old):
                action = {**json.loads(old.json())["add"], "dataChange": True}
                self.add_files([StagedFile(path, json.dumps({"add": action}))])

    def commit(self, *, label: str, epoch: int, metadata: str) -> int:
        """Commit; returns the new version.

        Args:
            label: who commits, for the table's history. epoch: a number for the history.
            metadata: text kept as the commit's user metadata.

        Raises:
            Conflict: another commit came first; nothing of this one is in.
        """
        gateway = self.gateway
        operation = gateway.streaming_update(
            gateway.update_mode, label, epoch, gateway.option(metadata)
        )
        return self._commit(operation)

    def _commit(self, operation: Any) -> int:
        with commit_lock(self.table.location):
            try:
                return int(self.txn.commit(self.gateway.seq(self._actions), operation))
            except conflicts() as conflict:
                raise Conflict(type(conflict).__name__) from conflict

    def rewrite(self, files: Sequence[Any]) -> list[StagedFile]:
        """Write the live rows of some files of one partition into one new file; no row changes.

        Gives the new file's action. It counts as part of this transaction; a commit that takes
        away one of the old files first makes this one fail, one that only adds files does not.
        """
        gateway = self.gateway
        with converted():
            rows = self.table.log.createDataFrame(
                self.snapshot(), gateway.seq(files), False, gateway.option("Optimize")
            )
            made = self.txn.writeFiles(
                rows.coalesce(1), gateway.option(None), True, gateway.seq(())
            )
            staged = [StagedFile(a.path(), _unchanging(a.json())) for a in scala_items(made)]
        self.txn.trackFilesRead(gateway.seq(files))
        now_ms = int(gateway.jvm.java.lang.System.currentTimeMillis())
        self.add_files(staged)
        self._actions += [file.removeWithTimestamp(now_ms, False) for file in files]
        return staged

    def commit_rewrites(self) -> int:
        """Commit what :meth:`rewrite` made, as Delta's OPTIMIZE would; returns the new version.

        Raises:
            Conflict: another commit took away or changed a file first; nothing of this one is in.
        """
        none = self.gateway.option(None)
        empty = self.gateway.seq(())
        optimize = getattr(self.gateway.delta, "DeltaOperations$Optimize")
        return self._commit(optimize(empty, empty, False, none, False))


def whole_file(path: str, add: Any) -> StagedDelete:
    """The deletion of all rows that a stored file (an AddFile) still holds."""
    counted = add.numLogicalRecords()
    return StagedDelete(
        path=path,
        rows_count=int(counted.get()) if counted.isDefined() else 0,
        known_vector=vector_id(add),
        action=None,
        vector_file=None,
    )


def _unchanging(add: str) -> str:
    """An add action that says of itself that it changes no row."""
    action = json.loads(add)
    action["add"]["dataChange"] = False
    return json.dumps(action)


def relative_path(path: str, location: str) -> str:
    """A data file's path relative to its table, decoded, however the path is written."""
    plain = unquote(urlparse(path).path) if "://" in path or path.startswith("file:") else None
    if plain is None:
        return unquote(path)
    root = unquote(urlparse(location).path) if ":" in location else location
    root = root.rstrip("/")
    return plain[len(root) :].lstrip("/") if plain.startswith(root) else plain
