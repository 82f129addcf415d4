"""BEGIN ... COMMIT: statements over several tables whose changes get one T.

INSERTs are staged as files of the table. Other statements run on a private copy: a shallow clone in
a folder below the table's, which begins with the staged files. COMMIT takes the staged files, or
compares the copy with its origin; :mod:`ctsql.runtime.warehouse.times.multi_table_commit` commits
this batch in all tables or in none.

Isolation is snapshot isolation: a statement reads the transaction's changes, and everything else as
of its start, views and tasks included. Of two transactions that write the same table the first to
commit wins. Tables that are only read are not checked.

If the process dies before COMMIT has decided, nothing is visible, and MAINTAIN removes the files.
"""

import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item
from ctsql.runtime.delta.clones import Appends, Clone
from ctsql.runtime.delta.stores.locks import commit_lock
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.batches import BatchPart, BatchText, new_writer_id
from ctsql.runtime.warehouse.times.multi_table_commit import (
    APP,
    WriteConflict,
    prepare,
    resolve,
)


@dataclass
class OpenTransaction:
    """One transaction, from BEGIN to COMMIT or ROLLBACK."""

    engine: Engine
    at: int  # the T that it reads
    may_be_in: bool = False  # its files may be committed, now or later, also after an error
    group: str = field(default_factory=lambda: uuid.uuid4().hex)
    _copies: dict[str, Clone | Appends] = field(default_factory=dict)
    _items: dict[str, Item] = field(default_factory=dict)

    @property
    def own_writes(self) -> dict[str, Callable[[], DataFrame]]:
        """The rows of each table that it has written, by object id."""
        return {object_id: copy.frame for object_id, copy in self._copies.items()}

    def appends(self, item: Item) -> Appends | None:
        """The appended rows of a table; None once the table has a copy."""
        copy = self._copies.get(item.id)
        if copy is None:
            version = self._version(item)
            table = self.engine.relations.table(item)
            copy = self._copies[item.id] = Appends(table, version)
        return copy if isinstance(copy, Appends) else None

    def location(self, item: Item) -> str:
        """The location of a table's copy, created on first use."""
        copy = self._copies.get(item.id)
        if not isinstance(copy, Clone):
            version = self._version(item)
            table = self.engine.relations.table(item)
            clone = Clone(self.engine.gateway, table, version, self.group)
            if copy is not None and copy.files:
                clone.take(copy.files)
            copy = self._copies[item.id] = clone
        return copy.location

    def _version(self, item: Item) -> int:
        version = self.engine.versions.version_at(item, self.at)
        if version is None:
            raise self._conflict(item, "It was made after the transaction began.")
        self._items[item.id] = item
        # The newest version with the same rows and columns: changes of properties have no T.
        table = self.engine.relations.table(item)
        layout = table.metadata_at(version).layout
        while version < table.version() and not table.commit_at(version + 1).changes_data:
            if table.metadata_at(version + 1).layout != layout:
                break
            version += 1
        return version

    def __enter__(self) -> "OpenTransaction":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def rollback(self) -> None:
        """Drop all copies."""
        for copy in self._copies.values():
            copy.drop()
        self._copies.clear()

    def commit(self) -> int:
        """Make all changes visible at one T; returns the newest T.

        Raises TRANSACTION_CONFLICT, with nothing committed, if another writer changed or dropped
        one of the tables first.
        """
        try:
            self._check_there()
            changes = {i: c for i, copy in self._copies.items() if (c := self._change(i, copy))}
            faults.point("transaction_staged")
            if changes:
                self.engine.mint()  # resolves intents that a crash left
                self._commit(changes)
                self.may_be_in = True
        except BaseException as problem:
            if self.group in self.engine.timeline.intents:
                self.may_be_in = True  # it is decided, and the next T commits the rest
            elif not self.may_be_in or self._is_out_after(problem):
                self.may_be_in = False
                self.rollback()
                if isinstance(problem, CtsqlError) and problem.condition == "STORAGE_ERROR":
                    self._check_there()  # the copy may have been dropped with the table
            raise
        for copy in self._copies.values():
            copy.release()
        self._copies.clear()
        return self.engine.mint()

    def _is_out_after(self, problem: BaseException) -> bool:
        """Whether a commit that raised is certain not to be committed, now or later."""
        if not isinstance(problem, CtsqlError) or problem.condition == "COMMIT_UNKNOWN":
            return False
        if problem.condition == "TRANSACTION_CONFLICT":
            return True
        tables = [self.engine.timeline.table, *(copy.origin for copy in self._copies.values())]
        if any(table.answers_late for table in tables):
            return False
        try:
            return not self._is_in()
        except CtsqlError:
            return False  # another read of a log may have failed after the commit

    def _is_in(self) -> bool:
        """Whether the timeline has decided on it, or a table has its part."""
        timeline = self.engine.timeline
        timeline.refresh()  # first: it is removed there after its parts are committed
        return self.group in timeline.intents or any(
            self.group in copy.origin.commit_at(version).metadata.get("batches", ())
            for copy in self._copies.values()
            for version in range(copy.version + 1, copy.origin.version() + 1)
        )

    def _check_there(self) -> None:
        items = self.engine.refresh_catalog().items
        for item in self._items.values():
            if item.id not in items:
                raise self._conflict(item, "Another writer dropped it since.")

    def _commit(self, changes: dict[str, BatchText]) -> None:
        engine = self.engine
        tables = engine.relations.sources()
        for object_id in changes:
            if object_id not in tables:
                raise self._conflict(self._items[object_id], "Another writer dropped it since.")
        conflict: WriteConflict | None = None
        with ExitStack() as locks:
            for location in sorted(self._copies[i].origin.location for i in changes):
                locks.enter_context(commit_lock(location))
            self.may_be_in = True
            try:
                intent = prepare(engine.timeline, self.group, changes, tables)
                conflict = resolve(engine.timeline, self.group, tables, intent)
            except WriteConflict as first:
                conflict = first
        if conflict is not None:
            raise self._conflict(
                self._items[conflict.source],
                f"Another writer committed its version {conflict.version} since.",
            )

    def _conflict(self, item: Item, detail: str) -> CtsqlError:
        return error("TRANSACTION_CONFLICT", name=str(item.name), detail=detail)

    def _change(self, object_id: str, copy: Clone | Appends) -> BatchText | None:
        inserts, deletes = copy.changes()
        if not inserts and not deletes:
            return None
        return BatchText(
            batch_id=self.group,  # of one table there is one
            writer=new_writer_id(),
            table_id=copy.origin.table_id,
            app=APP,
            lower=0,
            upper=1,
            version=copy.version,
            parts=(BatchPart(0, inserts, deletes),),
        )
