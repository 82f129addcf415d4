"""The input of a refresh strategy."""

from dataclasses import dataclass

from ctsql.catalog.errors import Declined
from ctsql.catalog.items import Item
from ctsql.planner.ivm import ChangePlan, StatePlan
from ctsql.planner.nodes import ViewWrite
from ctsql.runtime.delta.keyed_scan import StoredRows
from ctsql.runtime.log.staging import OutputBatch, Staging
from ctsql.runtime.rows.row_set import RowSet
from ctsql.runtime.views.expiry_table import ExpiryTables
from ctsql.runtime.views.plan_runner import PlanRunner
from ctsql.runtime.views.refresh_policy import Policy
from ctsql.runtime.views.state_table import ViewState
from ctsql.runtime.views.time_limit import TimeLimit
from ctsql.runtime.warehouse.warehouse import Warehouse

LARGE_MIN = 2_000
"""With more changed rows, filtered tables that they join are read before the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedChanges:
    """The changes of the tables that a view reads, and the plan that follows them."""

    plan: ChangePlan
    changed_tables: tuple[str, ...]  # those with a change that is not empty
    at: int  # the T whose contents the view is to show
    state_plan: StatePlan | None  # the state table that the plan keeps; None for none
    runner: PlanRunner  # runs the plan's texts

    @property
    def large(self) -> tuple[str, ...]:
        """The tables with changes so large that a step that reduces them is worthwhile."""
        rows = self.runner.relations.changes
        return tuple(name for name in self.changed_tables if _is_large(rows[name]))


def _is_large(rows: RowSet) -> bool:
    local_rows = rows.local
    return isinstance(local_rows, Declined) or local_rows.row_count > LARGE_MIN


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshContext:
    """One refresh of one view to T = ``time``.

    Attributes:
        batch: where to stage, and the version of the view's table that is compared with. state,
            expiries: the auxiliary tables. limit: of the time that following may take.
    """

    warehouse: Warehouse
    item: Item
    view: ViewWrite
    batch: OutputBatch
    time: int
    state: ViewState
    expiries: ExpiryTables
    limit: TimeLimit | None = None

    @property
    def policy(self) -> Policy:
        """The view's REFRESH POLICY."""
        return Policy(self.view.policy)

    @property
    def columns(self) -> list[str]:
        """The view's columns, in order."""
        return [c.name for c in self.view.columns]

    @property
    def staging(self) -> Staging:
        """Where the difference is staged."""
        return self.batch.at(self.time)

    @property
    def stored_rows(self) -> StoredRows:
        """The view's rows."""
        return StoredRows(self.warehouse.relations.table(self.item), self.batch.version_read)

    def is_strict_arithmetic(self) -> bool:
        """Whether an overflowing sum is an error; if it is NULL, a change cannot be added to it."""
        return self.warehouse.gateway.session.conf.get("spark.sql.ansi.enabled") == "true"
