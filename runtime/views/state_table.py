"""The state table of a view: stored groups with their counts and sums.

See :mod:`ctsql.runtime.views.side_table`. It is refused if a sum overflows or averages are not
exact. A refresh that follows changes updates it, or fills it if it is not current; one that
recomputes fills it if it is the first, or was stopped for the first time.
"""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.names import backtick
from ctsql.planner.ivm import ChangePlan, StatePlan
from ctsql.planner.ivm.rules.counting import BOUND
from ctsql.runtime.delta.keyed_scan import StoredRows
from ctsql.runtime.log.staging import discard_on_error
from ctsql.runtime.rows.row_set import RowSet
from ctsql.runtime.rows.types import sums_exactly
from ctsql.runtime.views.change_plans import PreparedQuery
from ctsql.runtime.views.side_table import STATE, SideTable, SideTableKind

STATE_DID = "state_did"  # in the metadata of a view's commit: the outcome for the state table
GROUPS_MAX = 200_000  # the most groups of a state table that is read whole at each refresh


def groups_max(plan: ChangePlan) -> int | None:
    """The most groups that a plan's state table may have; None for any number."""
    return GROUPS_MAX if plan.reads_all_groups else None


class ViewState(SideTable):
    """The state table of one view during one refresh.

    Attributes:
        is_used: the refresh reads its groups, or fills it.
    """

    kind = SideTableKind.STATE
    is_used = False

    def look(self, query: PreparedQuery) -> StatePlan | None:
        """The state table that a view keeps; None if it keeps none, or nothing may be written."""
        state = query.plan.kept_state
        if state is None or self.warehouse.gateway.read_only:
            return None
        self.digest = query.state_digest
        if self.pointer is not None and self.pointer.digest != self.digest:
            self.pointer = None
        return state

    def stored_groups(self) -> StoredRows | None:
        """The groups as of the view's last write; None if the state table is not current.

        Their new contents are then staged by :meth:`stage`.
        """
        self.is_used = True
        batch = self.find()
        return None if batch is None else StoredRows(self.table, batch.version_read)

    def stage(self, after: RowSet, before: RowSet) -> None:
        """Stage the new contents of changed groups; ``before``: the stored ones, located."""
        batch = self._batch
        assert batch is not None  # it is staged after stored() gave groups
        columns = [f.name for f in self.table.schema.fields]
        self.did = "the change was added to its groups"
        queries = self.warehouse.queries
        if not queries.stage(batch.at(self.time), after, before, columns, small=True):
            self.leave_unchanged()

    def build(self, plan: StatePlan, groups: RowSet, at: int, count_max: int | None = None) -> None:
        """Stage these groups as all contents of the table, or refuse it.

        Args:
            groups: as of ``at``, the T of the view's contents; read several times. count_max: more
                groups are of no use.
        """
        columns = groups.schema.names
        kinds = [f.dataType.simpleString() for f in groups.schema.fields]
        if not all(map(sums_exactly, kinds[plan.key_columns :])):
            self.refuse("STATE_ROUNDS")
            return
        batch = self.start(groups.schema, at)
        if batch is None:
            return
        with discard_on_error([self]):
            if is_above(groups.plain_frame, plan.bounded_columns):
                self.refuse("STATE_ROUNDS")
                return
            if count_max is not None and groups.row_count > count_max:
                self.refuse("STATE_LARGE")
                return
            stage = self.warehouse.queries.stage
            stage(batch.at(self.time), groups, None, columns, small=groups.is_local)
        self.is_filled = True
        self.did = "it was filled from all rows"

    def commit(self, at: int) -> dict[str, Any]:
        """Commit what is staged; returns what the view's commit records about it."""
        self.write(at)
        if self.next_pointer is None:
            return {}
        return {
            STATE: self.next_pointer.to_metadata(),
            **({STATE_DID: self.did} if self.did else {}),
        }


def is_above(rows: DataFrame, columns: Sequence[str]) -> bool:
    """Whether a value in these columns is above the bound up to which averages are exact."""
    if not columns:
        return False
    above = [F.col(backtick(c)) > BOUND for c in columns]
    return not rows.where(reduce(or_, above)).isEmpty()
