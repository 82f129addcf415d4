"""BEGIN ... COMMIT: statements over several tables whose changes get one T.

Spark runs each statement on a copy of its table that is private to the transaction: a shallow
clone, in a folder of its own below the table's, so what the statements write are files that the
table can take as they are. A statement sees what earlier ones of the transaction did, for it reads
the copies, and all else as of the T at which the transaction began. COMMIT compares each copy with
what it was cloned from, and that difference is the batch which :mod:`ctsql.runtime.intents`
commits in all tables or in none.

Isolation is that of snapshots: no statement sees what others commit meanwhile, and of two
transactions that write the same table the first to commit wins. What is only read is not checked.

Views and tasks show what they held when the transaction began, without its own changes.

When the process dies before COMMIT has decided, nothing is visible. The copies' files stay in the
folder, until VACUUM takes them as it takes all files that no version of the table names.
"""

import json
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item
from ctsql.runtime import faults
from ctsql.runtime.batches import BatchText, Part, StagedDelete, StagedFile
from ctsql.runtime.delta_log import DeltaTable, Gateway
from ctsql.runtime.delta_transaction import relative_path
from ctsql.runtime.delta_vectors import vector_id
from ctsql.runtime.engine import Engine
from ctsql.runtime.intents import APP, Change, Overtaken, decide, settle, whole_file
from ctsql.runtime.locks import commit_lock
from ctsql.runtime.spark_errors import converted
from ctsql.runtime.writer_ids import WriterId

FOLDER = "txn-"
_ID_LENGTH = 20  # of a deletion vector's file id, behind its folder, in the protocol's encoding
_NEW_FILE_DROPS = ("baseRowId", "defaultRowCommitVersion")
"""What a copy gave a new file for row tracking; the table gives its own."""


@dataclass(frozen=True, slots=True)
class _Copy:
    """A table's private copy; ``version`` is the table's version that it was made from."""

    item: Item
    version: int
    location: str


@dataclass
class OpenTransaction:
    """One transaction, from BEGIN to COMMIT or ROLLBACK.

    Attributes:
        at: the T that it reads.
    """

    engine: Engine
    at: int
    group: str = field(default_factory=lambda: uuid.uuid4().hex)
    _copies: dict[str, _Copy] = field(default_factory=dict)

    @property
    def copies(self) -> dict[str, str]:
        """Where the tables that were written are to be read instead, by object id."""
        return {object_id: copy.location for object_id, copy in self._copies.items()}

    def location(self, item: Item) -> str:
        """Where a statement of the transaction writes a table; the copy is made on first use."""
        found = self._copies.get(item.id)
        if found is None:
            version = self.engine.objects.version_at(item, self.at)
            if version is None:
                raise self._conflict(item, "It was made after the transaction began.")
            location = f"{item.location}/{FOLDER}{self.group}"
            with converted():
                self.engine.session.sql(
                    f"CREATE TABLE delta.`{location}` SHALLOW CLONE delta.`{item.location}` "
                    f"VERSION AS OF {version} TBLPROPERTIES "
                    "('delta.enableChangeDataFeed' = 'false')"
                )
            found = self._copies[item.id] = _Copy(item, version, location)
        return found.location

    def rollback(self) -> None:
        """Forget all of it."""
        for copy in self._copies.values():
            self.engine.gateway.forget(copy.location)
            self.engine.gateway.delete_tree(copy.location)
        self._copies.clear()

    def commit(self) -> int:
        """Make all changes visible at one T; returns the newest T.

        Raises:
            TRANSACTION_CONFLICT: somebody else changed one of the tables first; nothing of the
                transaction is in.
        """
        try:
            changes = {i: c for i, copy in self._copies.items() if (c := self._change(copy))}
            faults.point("transaction_staged")
            if changes:
                self.engine.mint()  # intents that a crash left are not ours to wait for
                self._commit(changes)
        except BaseException:
            if self.group not in self.engine.timeline.intents:
                self.rollback()  # else it is decided, and whoever mints next commits the rest
            raise
        self._clean_up()
        return self.engine.mint()

    def _commit(self, changes: dict[str, Change]) -> None:
        engine = self.engine
        tables = engine.objects.sources()
        for object_id in changes:
            if object_id not in tables:
                raise self._conflict(self._copies[object_id].item, "It was dropped.")
        with ExitStack() as locks:
            for location in sorted(str(self._copies[i].item.location) for i in changes):
                locks.enter_context(commit_lock(location))
            try:
                decide(engine.timeline, self.group, changes, tables)
                overtaken = settle(engine.timeline, self.group, tables)
            except Overtaken as first:
                overtaken = first
        if overtaken is not None:
            raise self._conflict(
                self._copies[overtaken.source].item,
                f"Its version {overtaken.version} was committed since, by somebody else.",
            )

    def _conflict(self, item: Item, detail: str) -> CtsqlError:
        return error("TRANSACTION_CONFLICT", name=str(item.name), detail=detail)

    def _clean_up(self) -> None:
        """Delete what is left of the copies, but for the files that the tables took."""
        for copy in self._copies.values():
            mine = self.engine.gateway.table(copy.location)
            newest = mine.version()
            made = {a.path for v in range(1, newest + 1) for a in mine.commit_at(v).adds}
            mine.discard(made - mine.files(newest).keys() - mine.files(0).keys())
            self.engine.gateway.forget(copy.location)
            for folder in ("_delta_log", "_change_data"):
                self.engine.gateway.delete_tree(f"{copy.location}/{folder}")
        self._copies.clear()

    # ---- what a copy differs in

    def _change(self, copy: _Copy) -> Change | None:
        """What the transaction did to a table; None for nothing."""
        gateway, item = self.engine.gateway, copy.item
        table, mine = self.engine.objects.table(item), gateway.table(copy.location)
        newest = mine.version()
        if any(mine.commit_at(v).changes_schema for v in range(1, newest + 1)):
            raise error(
                "NOT_SUPPORTED",
                what=f"a transaction that changes columns or properties of {item.name}",
                why="Its identity columns count on with every row, for example.",
                hint="Run the statement by itself.",
            )
        before, after = mine.files(0), mine.files(newest)
        named = _Names(gateway, copy, table)
        inserts = [named.inserted(path, add) for path, add in after.items() if path not in before]
        deletes = [
            named.deleted(path, after.get(path))
            for path, add in before.items()
            if path not in after or vector_id(after[path]) != vector_id(add)
        ]
        if not inserts and not deletes:
            return None
        text = BatchText(
            batch_id=str(uuid.uuid4()),
            writer=str(WriterId.new()),
            table_id=table.table_id,
            app=APP,
            lower=0,
            upper=1,
            version=copy.version,
            parts=(Part(0, tuple(inserts), tuple(deletes)),),
        )
        return Change(copy.version, text)


class _Names:
    """The files of a copy as its table names them."""

    def __init__(self, gateway: Gateway, copy: _Copy, table: DeltaTable) -> None:
        self.folder = f"{FOLDER}{copy.location.rsplit(FOLDER, 1)[1]}"
        self.root = copy.location
        self.vector_root = gateway.jvm.org.apache.hadoop.fs.Path(copy.location)
        self.origin = table.location
        self.stored = {
            relative_path(path, table.location): (path, add)
            for path, add in table.files(copy.version).items()
        }

    def inserted(self, path: str, add: Any) -> StagedFile:
        """A file that the transaction made."""
        action = json.loads(add.json())["add"]
        action = {k: v for k, v in action.items() if k not in _NEW_FILE_DROPS}
        action["path"] = f"{self.folder}/{path}"
        action["dataChange"] = True
        if "deletionVector" in action:
            action["deletionVector"] = self._vector(action["deletionVector"])
        return StagedFile(action["path"], json.dumps({"add": action}))

    def deleted(self, path: str, now: Any) -> StagedDelete:
        """A file of the table that lost rows; ``now`` is its AddFile in the copy, or None."""
        original, old = self.stored[relative_path(path, self.origin)]
        if now is None:
            return whole_file(original, old)
        made = json.loads(now.json())["add"]
        action = {**json.loads(old.json())["add"], "dataChange": True, "stats": made.get("stats")}
        action["deletionVector"] = self._vector(made["deletionVector"])
        before = old.deletionVector()
        return StagedDelete(
            path=original,
            rows_count=int(now.deletionVector().cardinality())
            - (0 if before is None else int(before.cardinality())),
            known_vector=vector_id(old),
            action=json.dumps({"add": action}),
            vector_file=self._vector_file(now.deletionVector()),
        )

    def _vector(self, vector: dict[str, Any]) -> dict[str, Any]:
        """A deletion vector of the copy; the folder goes before its file's id."""
        if vector["storageType"] != "u":
            return vector
        folder = vector["pathOrInlineDv"][:-_ID_LENGTH]
        named = f"{self.folder}/{folder}" if folder else self.folder
        return {**vector, "pathOrInlineDv": named + vector["pathOrInlineDv"][-_ID_LENGTH:]}

    def _vector_file(self, vector: Any) -> str | None:
        if vector.storageType() != "u":
            return None
        path = str(vector.absolutePath(self.vector_root).toString())
        return f"{self.folder}/{relative_path(path, self.root)}"
