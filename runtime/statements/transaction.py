"""BEGIN ... COMMIT: statements over several tables whose changes get one T.

Spark runs each statement on a copy of its table that is private to the transaction: a shallow
clone, in a folder of its own below the table's, so what the statements write are files that the
table can take as they are. A statement sees what earlier ones of the transaction did, for it reads
the copies, and all else as of the T at which the transaction began. COMMIT compares each copy with
what it was cloned from, and that difference is the batch which
:mod:`ctsql.runtime.warehouse.multi_table_commit` commits in all tables or in none.

Isolation is that of snapshots: no statement sees what others commit meanwhile, and of two
transactions that write the same table the first to commit wins. What is only read is not checked.

Views and tasks show what they held when the transaction began, without its own changes.

When the process dies before COMMIT has decided, nothing is visible. The copies' files stay in the
folder, until VACUUM takes them as it takes all files that no version of the table names.
"""

import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item
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
    _copies: dict[str, Clone] = field(default_factory=dict)
    _items: dict[str, Item] = field(default_factory=dict)

    @property
    def copies(self) -> dict[str, str]:
        """Where the tables that were written are to be read instead, by object id."""
        return {object_id: copy.location for object_id, copy in self._copies.items()}

    def location(self, item: Item) -> str:
        """Where a statement of the transaction writes a table; the copy is made on first use."""
        found = self._copies.get(item.id)
        if found is None:
            version = self.engine.versions.version_at(item, self.at)
            if version is None:
                raise self._conflict(item, "It was made after the transaction began.")
            self._items[item.id] = item
            table = self.engine.relations.table(item)
            found = self._copies[item.id] = Clone(self.engine.gateway, table, version, self.group)
        return found.location

    def rollback(self) -> None:
        """Forget all of it."""
        for copy in self._copies.values():
            copy.drop()
        self._copies.clear()

    def commit(self) -> int:
        """Make all changes visible at one T; returns the newest T.

        Raises:
            TRANSACTION_CONFLICT: somebody else changed or dropped one of the tables first;
                nothing of the transaction is in.
        """
        try:
            self._check_there()
            changes = {i: c for i, copy in self._copies.items() if (c := self._change(copy))}
            faults.point("transaction_staged")
            if changes:
                self.engine.mint()  # intents that a crash left are not ours to wait for
                self._commit(changes)
        except BaseException as problem:
            if self.group not in self.engine.timeline.intents:
                self.rollback()  # else it is decided, and whoever mints next commits the rest
                if isinstance(problem, CtsqlError) and problem.condition == "STORAGE_ERROR":
                    self._check_there()  # the copy went with the table, while it was looked at
            raise
        for copy in self._copies.values():
            copy.release()
        self._copies.clear()
        return self.engine.mint()

    def _check_there(self) -> None:
        """The tables that were written are still those that there are; names do not matter."""
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

    def _change(self, copy: Clone) -> Change | None:
        """What the transaction did to a table; None for nothing."""
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
