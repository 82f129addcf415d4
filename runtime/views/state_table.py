"""The state table beside a view: stored groups with the counts and sums that the view hides.

    state table at T  -->  commit    then    view at T, naming that version  -->  commit

It lies in the view's own folder, ``_state/<digest>``, is written by a write handle of its own
before the view, and is known to nobody but by what the view's commit says of it.

S1: a version that a view's commit at T names holds the groups of the view's query as of T. Only
    what the last commit names is used, and only while it is the table's newest write and nobody
    else wrote into the table. Anything else is left alone until it is compared in full.
S2: so a crash between the two commits is harmless, and so is a rival: the view still names what
    belongs to its own T. A state that is already written for the very T, from the same versions
    and by the same definition, is named as it is.
S3: the digest is of the text that fills the table and of the columns read: another query has
    another table, and the old one goes with the folder that nobody names.
S4: a state that cannot be had (a sum overflows, averages are not exact) is refused, with a code
    that each commit hands on: it is not tried again until the view is recomputed by hand.
S5: a view is right without its state; whatever goes wrong with it costs a recomputation.

A refresh that recomputes leaves the state behind; one that follows brings it along.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import DataFrame, functions as F, types as T

from ctsql.catalog.errors import EnvironmentProblem
from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.names import backtick
from ctsql.planner.ivm import ChangePlan, StateNeed, StatePlan, name_by
from ctsql.planner.ivm.rules.counting import BOUND
from ctsql.planner.lowering.type_names import type_name
from ctsql.runtime.delta.keyed_scan import StoredRows
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.staging import Batch, discard_on_error
from ctsql.runtime.log.write_handle import Committed, Output
from ctsql.runtime.rows.row_set import RowSet, persisted
from ctsql.runtime.rows.types import DIGITS_SUMMED, adds_exactly
from ctsql.runtime.spark.errors import translate_spark_errors
from ctsql.runtime.views.change_plans import Prepared
from ctsql.runtime.warehouse.versions import DEFINITION
from ctsql.runtime.warehouse.warehouse import Warehouse

FOLDER = "_state"
_PROPERTIES = {
    "delta.enableChangeDataFeed": "false",
    # Whoever maintains the view writes checkpoints more often, beside the commits.
    "delta.checkpointInterval": "10069",
}
STATE = "state"
"""In the metadata of a view's commit: what it says of its state table."""
STATE_DID = "state_did"
"""There too: what became of the state table."""
DAMAGED = ("HISTORY_LOST", "NOT_A_DELTA_TABLE", "STORED_DATA_INVALID")
"""A table of which one of these is said is of no use."""
GROUPS_MAX = 200_000
"""Groups that a state table may have if all of them are read at each refresh."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What a view's commit says of its state table.

    Attributes:
        digest: of what the table holds. table, version: where that is; the table's Delta id.
        refused: why there is none, a code; then version is -1.
    """

    digest: str
    table: str = ""
    version: int = -1
    refused: str | None = None

    @staticmethod
    def of(said: object) -> "Named | None":
        """From the metadata of a commit; None where it says nothing."""
        if not isinstance(said, dict) or "digest" not in said:
            return None
        return Named(
            digest=str(said["digest"]),
            table=str(said.get("table", "")),
            version=int(said.get("version", -1)),
            refused=said.get("refused"),
        )

    def to_metadata(self) -> dict[str, Any]:
        """For the metadata of a commit."""
        if self.refused is not None:
            return {"digest": self.digest, "refused": self.refused}
        return {"digest": self.digest, "table": self.table, "version": self.version}


def is_current(named: Named, *, table: str, written: int | None, has_foreign_rows: bool) -> bool:
    """Does a state table hold what a view's last commit named (S1)?

    Args:
        table: its Delta id. written: the version of its last write by ctsql, None where the log
            does not say. has_foreign_rows: whether somebody else wrote since.
    """
    return (
        named.refused is None
        and named.table == table
        and named.version == written
        and not has_foreign_rows
    )


def is_to_build(
    need: StateNeed, named: Named | None, *, rows_went: bool, retry: bool = False
) -> bool:
    """Is a state table that is not current to be filled from all rows?

    Args:
        named: what the last commit said, of the same digest. rows_went: groups had to be
            recomputed because rows of them went. retry: also where it was refused before.
    """
    if named is not None and named.refused is not None:
        return retry
    return need is StateNeed.ALWAYS or rows_went or named is not None


def groups_max(plan: ChangePlan) -> int | None:
    """How many groups a plan's state table may have; None for any number."""
    return GROUPS_MAX if plan.reads_all_groups else None


class ViewState:
    """The state table of one view during one refresh: used, filled, handed on, or refused.

    Attributes:
        named: what the view's last commit said of it. told: what the next one will say.
        rows_went: groups were recomputed for the want of it. is_used: the change is, or was to
        be, added to it. is_filled: from all rows. did: what became of it, for EXPLAIN ANALYZE.
    """

    def __init__(self, warehouse: Warehouse, item: Item, time: int) -> None:
        """Nothing is known yet; ``time`` is the T that the view is brought to."""
        self.warehouse = warehouse
        self.item = item
        self.time = time
        self.named: Named | None = None
        self.told: Named | None = None
        self.rows_went = False
        self.is_used = self.is_filled = False
        self.did = ""
        self._batch: Batch | None = None
        self._digest = ""

    # ---- what it is

    def look(self, plan: ChangePlan, made: Prepared) -> tuple[StatePlan, StateNeed] | None:
        """The state table that a plan keeps; None if it keeps none, or nothing may be written."""
        kept = plan.kept_state
        if kept is None or self.warehouse.gateway.read_only:
            return None
        text = plan.initial_state(kept[0].number).sql(name_by(lambda use: use.table))
        columns = [(name, c.name, c.type) for name, t in made.tables.items() for c in t.columns]
        told = f"{text}\n{kept[0].columns}\n{sorted(columns)}"
        self._digest = hashlib.sha256(told.encode()).hexdigest()[:16]
        if self.named is not None and self.named.digest != self._digest:
            self.named = None
        return kept

    @property
    def location(self) -> str:
        """Where its table is."""
        assert self.item.location is not None  # a view has a table
        return f"{self.item.location}/{FOLDER}/{self._digest}"

    @property
    def is_refused(self) -> bool:
        """Did the view's last commit say that there is to be none?"""
        return self.named is not None and self.named.refused is not None

    def unchanged(self) -> None:
        """Nothing that the view reads has changed: what was true of the state is."""
        self.told = self.named

    def refuse(self, code: str) -> None:
        """There is to be none (S4)."""
        self.discard()
        self.told = Named(digest=self._digest, refused=code)

    # ---- using it

    def stored(self) -> StoredRows | None:
        """The groups as of the view's last write; None where these are not known.

        What they change to is then staged by :meth:`stage`.
        """
        if self.named is None or self.is_refused:
            return None
        try:
            return self._current(self.named)
        except EnvironmentProblem as problem:
            if problem.condition not in DAMAGED:
                raise
            return None  # it is made anew

    def _current(self, named: Named) -> StoredRows | None:
        if not self.warehouse.gateway.exists(self.location):
            return None
        output = self._opened()
        if output.table.table_id != named.table:
            self._forget()  # deleted and made anew by another process, once or more
            output = self._opened()
        if output.fetch_recent_upper() > self.time:
            return None
        batch = output.batch(output.upper, self.time + 1)
        # This looks at the newest version, not before that of the batch; the last write after it.
        has_foreign_rows = output.has_foreign_rows()
        last = output.uppers.last
        found = is_current(
            named,
            table=output.table.table_id,
            written=None if last is None else last.version,
            has_foreign_rows=has_foreign_rows,
        )
        if not found:
            return None
        self._batch = batch
        self.is_used = True
        return StoredRows(self.table, batch.version_read)

    @property
    def table(self) -> DeltaTable:
        """Its table, once it is there."""
        return self.warehouse.gateway.table(self.location)

    def stage(self, after: RowSet, before: RowSet) -> None:
        """Stage what the groups that change become; ``before`` are these as stored, located."""
        batch = self._batch
        assert batch is not None  # it is staged after stored() gave groups
        columns = [f.name for f in self.table.schema.fields]
        self.did = "the change was added to its groups"
        queries = self.warehouse.queries
        if not queries.stage(batch.at(self.time), after, before, columns, small=True):
            self._batch = None
            self.told = self.named

    # ---- filling it

    def build(self, plan: StatePlan, rows: DataFrame, at: int, rows_max: int | None = None) -> None:
        """Stage what makes the table hold these rows; or refuse it.

        Args:
            rows: the groups as of ``at``, the T whose contents the view shows. rows_max: with
                more the state is of no use.
        """
        kinds = [f.dataType.simpleString() for f in rows.schema.fields]
        if not all(adds_exactly(kind, DIGITS_SUMMED) for kind in kinds[plan.key_columns :]):
            self.refuse("STATE_ROUNDS")
            return
        self._make(rows.schema)
        output = self._opened()
        if output.fetch_recent_upper() > self.time:
            self.told = self._of_rival(at)  # S2
            return
        with persisted(rows) as kept:
            if is_above(kept, plan.bounded):
                self.refuse("STATE_ROUNDS")
                return
            if rows_max is not None and kept.count() > rows_max:
                self.refuse("STATE_LARGE")
                return
            batch = self._batch = output.batch(output.upper, self.time + 1)
            with discard_on_error([batch]):
                table, version = self.table, batch.version_read
                stored = table.locate_rows(version) if table.files(version) else None
                columns = [f.name for f in rows.schema.fields]
                self.warehouse.queries.stage(
                    batch.at(self.time), kept, stored, columns, small=False
                )
        self.is_filled = True
        self.did = "it was filled from all rows"

    def _make(self, schema: T.StructType) -> None:
        """Make the table if it is not there, and drop those of other definitions (S3)."""
        gateway = self.warehouse.gateway
        if gateway.exists(self.location):
            return
        self._forget()
        columns = ", ".join(f"{backtick(f.name)} {type_name(f.dataType)}" for f in schema.fields)
        with translate_spark_errors():
            gateway.create_table(self.location, columns, _PROPERTIES)
        for other in self._others():
            gateway.forget(other)
            gateway.delete_tree(other)

    def remove(self) -> None:
        """Delete the table, which is damaged; the next refresh may make it anew."""
        self.discard()
        self.told = None
        self._forget()
        self.warehouse.gateway.delete_tree(self.location)

    def _others(self) -> list[str]:
        folder, own = self.location.rsplit("/", 1)
        names = self.warehouse.gateway.entries(folder) or []
        return [f"{folder}/{name}" for name in names if name != own]

    def _opened(self) -> Output:
        """Its write handle, which lives as long as the process: it may have files to see after."""
        found = self.warehouse.relations.states.get(self.location)
        if found is None:
            found = Output(self.table, f"{self.item.app}:{STATE}")
            self.warehouse.relations.states[self.location] = found
        return found

    def _forget(self) -> None:
        """What this process knows of the table is that of one that is gone."""
        self.warehouse.gateway.forget(self.location)
        self.warehouse.relations.states.pop(self.location, None)

    # ---- writing it

    def commit(self, at: int) -> dict[str, Any]:
        """Commit what is staged; gives what the view's commit is to say.

        Where a rival was first the view is told of none, unless it wrote the same (S2).
        """
        batch = self._batch
        if batch is not None:
            with discard_on_error([self]):
                output = self._opened()
                lower, upper = batch.text.lower, batch.text.upper
                said = self.warehouse.versions.reads_at(self.item, at)
                done = output.compare_and_append([batch], expected=lower, new=upper, metadata=said)
            self._batch = None
            if isinstance(done, Committed):
                faults.point("state_committed")
                self.told = Named(
                    digest=self._digest, table=output.table.table_id, version=done.version
                )
            else:
                self.told = self._of_rival(at)
        if self.told is None:
            return {}
        return {STATE: self.told.to_metadata(), **({STATE_DID: self.did} if self.did else {})}

    def _of_rival(self, at: int) -> Named | None:
        """What is written for this T already, if it is what would be written now."""
        output = self._opened()
        if output.fetch_recent_upper() != self.time + 1 or output.has_foreign_rows():
            return None
        last = output.uppers.last
        if last is None:
            return None
        said, wanted = (
            output.table.commit_at(last.version).metadata,
            self.warehouse.versions.reads_at(self.item, at),
        )
        if any(said.get(key) != wanted[key] for key in ("t", "bindings", DEFINITION)):
            return None
        return Named(digest=self._digest, table=output.table.table_id, version=last.version)

    def discard(self) -> None:
        """Delete what is staged."""
        if self._batch is not None:
            self._batch.discard()
            self._batch = None
        self.did = ""


def is_above(rows: DataFrame, columns: Sequence[str]) -> bool:
    """Is any value in these columns above the bound up to which averages are exact?"""
    if not columns:
        return False
    above = [F.col(backtick(c)) > BOUND for c in columns]
    return not rows.where(reduce(or_, above)).isEmpty()


def state_table(warehouse: Warehouse, item: Item) -> DeltaTable | None:
    """The state table that a view's last commit names; None if there is none."""
    found = named_state(warehouse, item)
    return None if found is None else found[0]


def state_log_floor(table: DeltaTable, named: Named) -> int:
    """The oldest version of a state table whose commit tells that it may be used (S1)."""
    if not table.has(named.version):
        return table.version()
    return int(table.commit_at(named.version).metadata.get("version_read", named.version))


def named_state(warehouse: Warehouse, item: Item) -> tuple[DeltaTable, Named] | None:
    """The state table that a view's last commit names, and how; None if there is none."""
    if item.kind is not ObjectKind.MATERIALIZED_VIEW or item.location is None:
        return None
    output = warehouse.relations.output(item)
    upper = output.fetch_recent_upper()
    entries = output.entries(since=upper) if upper else []
    table = warehouse.relations.table(item)
    if not entries or not table.has(entries[-1].version):
        return None
    named = Named.of(table.commit_at(entries[-1].version).metadata.get(STATE))
    if named is None or named.refused is not None:
        return None
    location = f"{item.location}/{FOLDER}/{named.digest}"
    if not warehouse.gateway.exists(location):
        return None
    return warehouse.gateway.table(location), named
