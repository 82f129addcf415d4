"""An auxiliary table of a view: a state table or an expiry table.

    auxiliary table at T  -->  commit    then    view at T, naming that version  -->  commit

It is in a folder named by its digest below the view's folder. Only the view's commits refer to it.

[only-what-is-named] a version that a view's commit at T names belongs to the view's query as of T.
    Only the version named by the last commit is used, and only if it is the table's newest and no
    other writer committed to the table. Otherwise the table is ignored until it is rebuilt.
[crash-between-is-harmless] so a crash or a rival between the two commits is harmless: the view
    still names the version of its own T. A version already written for this T, from the same
    sources and definition, is named unchanged.
[one-table-per-digest] the digest is that of the table's definition: another query has another
    table, and the old folder is removed once no commit names it.
[refusal-handed-on] a table that cannot be built has a refusal code, which each commit stores for
    the next: it is not tried again until the view is recomputed by hand.
[only-time-is-lost] a lost auxiliary table costs time, never correctness.
"""

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pyspark.sql import types as T

from ctsql.catalog.errors import EnvironmentProblem
from ctsql.catalog.items import Item, MaterializedView
from ctsql.catalog.names import backtick
from ctsql.planner.lowering.spark_types import type_name
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.staging import OutputBatch, discard_on_error
from ctsql.runtime.log.write_handle import Committed, Output
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.warehouse.versions import DEFINITION
from ctsql.runtime.warehouse.warehouse import Warehouse

_PROPERTIES = {"delta.enableChangeDataFeed": "false", "delta.checkpointInterval": "137"}
STATE = "state"  # in the metadata of a view's commit: the pointer to its state table
EXPIRIES = "expiries"  # the same: the list of pointers to its expiry tables
DAMAGED = ("HISTORY_LOST", "NOT_A_DELTA_TABLE", "STORED_DATA_INVALID")
"""Errors that make a table unusable."""


class SideTableKind(Enum):
    """The contents of an auxiliary table of a view; the value is the name shown to users."""

    STATE = "state table"
    EXPIRIES = "expiry table"

    @property
    def folder(self) -> str:
        """The folder of tables of this kind, below the view's folder."""
        return "_state" if self is SideTableKind.STATE else "_expiries"

    @property
    def suffix(self) -> str:
        """The suffix of the application ids of their writers."""
        return STATE if self is SideTableKind.STATE else EXPIRIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """What a view's commit records about an auxiliary table.

    Attributes:
        digest: of the table's definition. table, version: the table's Delta id and version; version
            is -1 with a refusal. refusal: a code, why there is no table.
    """

    digest: str
    table: str = ""
    version: int = -1
    refusal: str | None = None

    @staticmethod
    def of(metadata: object) -> "Pointer | None":
        """From the metadata of a commit; None if it has no pointer."""
        if not isinstance(metadata, dict) or "digest" not in metadata:
            return None
        return Pointer(
            digest=str(metadata["digest"]),
            table=str(metadata.get("table", "")),
            version=int(metadata.get("version", -1)),
            refusal=metadata.get("refused"),
        )

    @staticmethod
    def all_of(metadata: object) -> "tuple[Pointer, ...]":
        """From a list in the metadata; empty if there is no list."""
        entries = metadata if isinstance(metadata, list) else []
        return tuple(pointer for one in entries if (pointer := Pointer.of(one)) is not None)

    def to_metadata(self) -> dict[str, Any]:
        """The pointer as metadata of a commit."""
        if self.refusal is not None:
            return {"digest": self.digest, "refused": self.refusal}
        return {"digest": self.digest, "table": self.table, "version": self.version}


def is_current(
    pointer: Pointer, *, table: str, last_write: int | None, has_foreign_rows: bool
) -> bool:
    """Whether the table is the one that a view's last commit named [only-what-is-named].

    Args:
        table: its Delta id. last_write: the version of its last write by ctsql, None if unknown.
            has_foreign_rows: whether another writer has committed since.
    """
    return (
        pointer.refusal is None
        and pointer.table == table
        and pointer.version == last_write
        and not has_foreign_rows
    )


def digest_of(text: str) -> str:
    """The digest of a text, such as one that defines a table's contents [one-table-per-digest]."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class SideTable:
    """An auxiliary table of one view during one refresh: used, filled, unchanged or refused.

    Attributes:
        digest: of its definition; empty until computed. pointer: of the view's last commit.
            next_pointer: for the next one. did: the outcome, for display.
        is_filled: from all rows.
    """

    kind: SideTableKind

    def __init__(self, warehouse: Warehouse, item: Item, time: int) -> None:
        """``time`` is the T of the refresh."""
        self.warehouse = warehouse
        self.item = item
        self.time = time
        self.digest = ""
        self.pointer: Pointer | None = None
        self.next_pointer: Pointer | None = None
        self.is_filled = False
        self.did = ""
        self._batch: OutputBatch | None = None

    # ---- identity

    @property
    def location(self) -> str:
        """The location of its table."""
        assert self.item.location is not None  # a view has a table
        return f"{self.item.location}/{self.kind.folder}/{self.digest}"

    @property
    def is_refused(self) -> bool:
        """Whether the view's last commit recorded a refusal."""
        return self.pointer is not None and self.pointer.refusal is not None

    @property
    def is_to_fill(self) -> bool:
        """Whether it is neither current nor refused."""
        return not self.is_refused and self.find() is None

    @property
    def table(self) -> DeltaTable:
        """Its table, once created."""
        return self.warehouse.gateway.table(self.location)

    def leave_unchanged(self) -> None:
        """Keep the pointer of the last commit."""
        self._batch = None
        self.next_pointer = self.pointer

    def refuse(self, code: str) -> None:
        """Refuse the table for a reason [refusal-handed-on]."""
        self.discard()
        self.next_pointer = Pointer(digest=self.digest, refusal=code)

    # ---- using it

    def find(self) -> OutputBatch | None:
        """A batch over the contents as of the view's last write; None if they are not current."""
        if self._batch is not None:
            return self._batch
        if self.pointer is None or self.is_refused:
            return None
        try:
            return self._current(self.pointer)
        except EnvironmentProblem as problem:
            if problem.condition not in DAMAGED:
                raise
            return None  # it is rebuilt

    def _current(self, pointer: Pointer) -> OutputBatch | None:
        if not self.warehouse.gateway.exists(self.location):
            return None
        output = self._open()
        if output.table.table_id != pointer.table:
            self._forget()  # another process has deleted and rebuilt it
            output = self._open()
        if output.fetch_recent_upper() > self.time:
            return None
        batch = output.batch(output.upper, self.time + 1)
        # Read the newest version (at least that of the batch) before the last write.
        has_foreign_rows = output.has_foreign_rows()
        last = output.uppers.last
        found = is_current(
            pointer,
            table=output.table.table_id,
            last_write=None if last is None else last.version,
            has_foreign_rows=has_foreign_rows,
        )
        if not found:
            return None
        self._batch = batch
        return batch

    # ---- building it

    def start(
        self, schema: T.StructType, at: int, other_digests: Collection[str] = ()
    ) -> OutputBatch | None:
        """A batch that replaces all rows, for those as of a T; the table is created if needed.

        None if it is already written for the view's T; the same contents are then named.
        ``other_digests``: of the view's other tables of this kind.
        """
        self._make(schema, other_digests)
        output = self._open()
        if output.fetch_recent_upper() > self.time:
            self.next_pointer = self._of_rival(at)
            return None
        batch = self._batch = output.batch(output.upper, self.time + 1)
        if self.table.files(batch.version_read):
            batch.overwrite_with_schema(self.table.schema_text())
        return batch

    def _make(self, schema: T.StructType, other_digests: Collection[str]) -> None:
        """Create the table if it does not exist, and drop those of other definitions."""
        gateway = self.warehouse.gateway
        if gateway.exists(self.location):
            return
        self._forget()
        columns = ", ".join(f"{backtick(f.name)} {type_name(f.dataType)}" for f in schema.fields)
        with translate_spark_errors():
            gateway.create_table(self.location, columns, _PROPERTIES)
        for other in self._others(other_digests):
            gateway.forget(other)
            gateway.delete_tree(other)

    def remove(self) -> None:
        """Delete the table, which is damaged; the next refresh may rebuild it."""
        self.discard()
        self.next_pointer = None
        self._forget()
        self.warehouse.gateway.delete_tree(self.location)

    def _others(self, other_digests: Collection[str]) -> list[str]:
        folder, own = self.location.rsplit("/", 1)
        names = self.warehouse.gateway.entries(folder) or []
        return [f"{folder}/{name}" for name in names if name != own and name not in other_digests]

    def _open(self) -> Output:
        """Its write handle, kept for the process, because it may have files to clean up."""
        output = self.warehouse.relations.states.get(self.location)
        if output is None:
            output = Output(self.table, f"{self.item.app}:{self.kind.suffix}")
            self.warehouse.relations.states[self.location] = output
        return output

    def _forget(self) -> None:
        """Forget what this process has cached of a table that was removed."""
        self.warehouse.gateway.forget(self.location)
        self.warehouse.relations.states.pop(self.location, None)

    # ---- writing it

    def write(self, at: int) -> None:
        """Commit what is staged, and set the pointer for the view's commit.

        If a rival was first the pointer names no table, unless the rival wrote the same.
        """
        batch = self._batch
        if batch is None:
            return
        with discard_on_error([self]):
            output = self._open()
            lower, upper = batch.text.lower, batch.text.upper
            metadata = self.warehouse.versions.reads_at(self.item, at)
            outcome = output.compare_and_append(
                [batch], expected=lower, new=upper, metadata=metadata
            )
        self._batch = None
        if isinstance(outcome, Committed):
            faults.point("state_committed")
            self.next_pointer = Pointer(
                digest=self.digest, table=output.table.table_id, version=outcome.version
            )
        else:
            self.next_pointer = self._of_rival(at)

    def _of_rival(self, at: int) -> Pointer | None:
        """The version that a rival has written for this T, if it has the same contents."""
        output = self._open()
        if output.fetch_recent_upper() != self.time + 1 or output.has_foreign_rows():
            return None
        last = output.uppers.last
        if last is None:
            return None
        metadata = output.table.commit_at(last.version).metadata
        reads = self.warehouse.versions.reads_at(self.item, at)
        if any(metadata.get(key) != reads[key] for key in ("t", "bindings", DEFINITION)):
            return None
        return Pointer(digest=self.digest, table=output.table.table_id, version=last.version)

    def discard(self) -> None:
        """Delete what is staged."""
        if self._batch is not None:
            self._batch.discard()
            self._batch = None
        self.is_filled, self.did = False, ""


@dataclass(frozen=True, slots=True)
class NamedSideTable:
    """An auxiliary table of a view, as named by the view's last commit."""

    kind: SideTableKind
    table: DeltaTable
    pointer: Pointer

    @property
    def log_floor(self) -> int:
        """The oldest version by whose commit the table may be used [only-what-is-named]."""
        if not self.table.has(self.pointer.version):
            return self.table.version()
        metadata = self.table.commit_at(self.pointer.version).metadata
        return int(metadata.get("version_read", self.pointer.version))


def side_tables_of(warehouse: Warehouse, item: Item) -> Iterator[NamedSideTable]:
    """The auxiliary tables that a view's last commit names."""
    if not isinstance(item, MaterializedView) or item.location is None:
        return
    output = warehouse.relations.output(item)
    upper = output.fetch_recent_upper()
    entries = output.entries(since=upper) if upper else []
    table = warehouse.relations.table(item)
    if not entries or not table.has(entries[-1].version):
        return
    metadata = table.commit_at(entries[-1].version).metadata
    state = Pointer.of(metadata.get(STATE))
    pointers = [(SideTableKind.STATE, state)] if state is not None else []
    pointers += [
        (SideTableKind.EXPIRIES, pointer) for pointer in Pointer.all_of(metadata.get(EXPIRIES))
    ]
    for kind, pointer in pointers:
        location = f"{item.location}/{kind.folder}/{pointer.digest}"
        if pointer.refusal is None and warehouse.gateway.exists(location):
            yield NamedSideTable(kind, warehouse.gateway.table(location), pointer)
