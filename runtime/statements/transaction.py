"""BEGIN ... COMMIT: statements over several tables whose changes get one T.

Rows that INSERT appends are staged as files of the table. Spark runs any other statement on a
private copy of its table: a shallow clone in a folder below the table's, so that the table can take
over the files written. The copy begins with what was staged. A statement reads what earlier ones
made, and everything else as of the T at which the transaction began. COMMIT takes the staged files,
or compares the copy with its origin; that is the batch which
:mod:`ctsql.runtime.warehouse.multi_table_commit` commits in all tables or in none.

Isolation is snapshot isolation: no statement sees concurrent commits, and of two transactions that
write the same table the first to commit wins. Tables that are only read are not checked.

Views and tasks show their contents as of the start of the transaction, without its changes.

If the process dies before COMMIT has decided, nothing is visible. The files written stay until they
are removed like all files that no version of the table names.
"""

import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item
from ctsql.runtime.delta.appends import Appends
from ctsql.runtime.delta.clones import Clone
from ctsql.runtime.delta.locks import commit_lock
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.batches import BatchText, Part, new_writer_id
from ctsql.runtime.warehouse.multi_table_commit import APP, Change, WriteConflict, prepare, resolve


@dataclass
class OpenTransaction:
    """One transaction, from BEGIN to COMMIT or ROLLBACK.

    Attributes:
        at: the T that it reads.
    """

    engine: Engine
    at: int
    group: str = field(default_factory=lambda: uuid.uuid4().hex)
    _copies: dict[str, Clone | Appends] = field(default_factory=dict)
    _items: dict[str, Item] = field(default_factory=dict)

    @property
    def written(self) -> dict[str, Callable[[], DataFrame]]:
        """What gives the rows of each table that it has written, by object id."""
        return {object_id: copy.frame for object_id, copy in self._copies.items()}

    def appends(self, item: Item) -> Appends | None:
        """What takes the rows that it appends to a table; None once the table has a copy."""
        found = self._copies.get(item.id)
        if found is None:
            version = self._version(item)
            table = self.engine.relations.table(item)
            found = self._copies[item.id] = Appends(table, version)
        return found if isinstance(found, Appends) else None

    def location(self, item: Item) -> str:
        """The location of a table's copy, created on first use."""
        found = self._copies.get(item.id)
        if not isinstance(found, Clone):
            version = self._version(item)
            table = self.engine.relations.table(item)
            copy = Clone(self.engine.gateway, table, version, self.group)
            if found is not None and found.files:
                copy.take(found.files)
            found = self._copies[item.id] = copy
        return found.location

    def _version(self, item: Item) -> int:
        """The version of a table that it sees."""
        version = self.engine.versions.version_at(item, self.at)
        if version is None:
            raise self._conflict(item, "It was made after the transaction began.")
        self._items[item.id] = item
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

        Raises:
            TRANSACTION_CONFLICT: another writer changed or dropped one of the tables first;
                nothing is committed.
        """
        try:
            self._check_there()
            changes = {i: c for i, copy in self._copies.items() if (c := self._change(copy))}
            faults.point("transaction_staged")
            if changes:
                self.engine.mint()  # resolves intents that a crash left
                self._commit(changes)
        except BaseException as problem:
            if self.group not in self.engine.timeline.intents:
                self.rollback()  # otherwise it is decided, and the next mint commits the rest
                if isinstance(problem, CtsqlError) and problem.condition == "STORAGE_ERROR":
                    self._check_there()  # the copy may have been dropped with the table
            raise
        for copy in self._copies.values():
            copy.release()
        self._copies.clear()
        return self.engine.mint()

    def _check_there(self) -> None:
        """Raise TRANSACTION_CONFLICT if a written table was dropped."""
        known = self.engine.refresh_catalog().items
        for item in self._items.values():
            if item.id not in known:
                raise self._conflict(item, "Another writer dropped it since.")

    def _commit(self, changes: dict[str, Change]) -> None:
        engine = self.engine
        tables = engine.relations.sources()
        for object_id in changes:
            if object_id not in tables:
                raise self._conflict(self._items[object_id], "Another writer dropped it since.")
        with ExitStack() as locks:
            for location in sorted(self._copies[i].origin.location for i in changes):
                locks.enter_context(commit_lock(location))
            try:
                prepare(engine.timeline, self.group, changes, tables)
                conflict = resolve(engine.timeline, self.group, tables)
            except WriteConflict as first:
                conflict = first
        if conflict is not None:
            raise self._conflict(
                self._items[conflict.source],
                f"Another writer committed its version {conflict.version} since.",
            )

    def _conflict(self, item: Item, detail: str) -> CtsqlError:
        return error("TRANSACTION_CONFLICT", name=str(item.name), detail=detail)

    def _change(self, copy: Clone | Appends) -> Change | None:
        """The change of a table; None if there is none."""
        inserts, deletes = copy.changes()
        if not inserts and not deletes:
            return None
        text = BatchText(
            batch_id=str(uuid.uuid4()),
            writer=new_writer_id(),
            table_id=copy.origin.table_id,
            app=APP,
            lower=0,
            upper=1,
            version=copy.version,
            parts=(Part(0, inserts, deletes),),
        )
        return Change(copy.version, text)
