"""The engine in the place of Spark: the Python functions that the world's definitions mean."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ctsql.catalog.errors import Declined, error
from ctsql.catalog.schemas import plain_type
from ctsql.planner.ivm import Text
from ctsql.planner.nodes import TaskWrite, Transaction, ViewWrite
from ctsql.runtime.delta.change_feed import added_rows
from ctsql.runtime.log.table_changes import VersionChange, tag
from ctsql.runtime.rows.multiset import cancel
from ctsql.runtime.spark.job_metrics import Work
from ctsql.runtime.views.refresh import RefreshOutcome
from ctsql.runtime.views.refresh_context import RefreshContext
from ctsql.runtime.views.refresh_policy import Strategy
from ctsql.runtime.warehouse.query_engine import OutputProposal, StoredTable
from ctsql.runtime.warehouse.sources import StoredSources
from tests.simulation.definitions import DEFINED, Fails, Part, Several, Task, View
from tests.simulation.memory_log import Rows
from tests.simulation.memory_store import Bag


class ModelEngine:
    """The :class:`ctsql.runtime.warehouse.query_engine.QueryEngine` of a simulation.

    Rows are :class:`Rows`, sources have those in the place of DataFrames.
    """

    def collect_bounded(self, rows: Rows) -> Rows:
        return rows

    def consolidate_change_feed(self, rows: Rows, columns: list[str]) -> Rows:
        """The same rows: those of the memory's change feed are net."""
        return rows

    def meter(self) -> "Idle":
        return Idle()

    def propose(
        self, body: Transaction, sources: Any, at: int, columns: object
    ) -> Mapping[str, OutputProposal]:
        first = DEFINED[next(iter(sources.outputs))]
        task = first.task if isinstance(first, Part) else first
        assert isinstance(task, Task | Several)
        outputs = task.outputs if isinstance(task, Several) else (task.name,)
        change = sources.inputs[task.reads]
        few = None if change.few is None else change.few.plain_frame
        new = (few or change.added_rows or change.net_change or Rows(())).bag()
        stored: list[Rows] = [sources.stored_rows(o) or Rows(()) for o in outputs]
        held = [s.bag() for s in stored]
        try:
            made = task.body(held, new) if isinstance(task, Several) else [task.body(held[0], new)]
        except Fails:
            raise failed() from None
        return {o: proposal_of(s, *m) for o, s, m in zip(outputs, stored, made, strict=True)}

    def stage_batched_runs(
        self,
        plan: TaskWrite,
        table: Any,
        version_changes: Sequence[tuple[int, VersionChange]],
        staging: Any,
    ) -> list[int]:
        """Stage what the body inserts at each of several Ts, by its Python function."""
        task = DEFINED[plan.transaction.statements[0].object_id]
        assert isinstance(task, Task)
        found = []
        for time, version_change in version_changes:
            rows: Any = added_rows(table, version_change)
            try:
                _, inserts = task.body(Counter(), rows.bag())
            except Fails:
                raise failed() from None
            if inserts:
                staged = staging.txn.stage(Rows(inserts.elements()))
                staging.inserts += [tag(file, time) for file in staged]
                found.append(time)
        return found

    def view_rows(self, view: ViewWrite, sources: Any, at: int, *, small: bool = False) -> Rows:
        return self.rows_at(view.object_id, sources, at)

    def rows_at(self, name: str, sources: Any, at: int) -> Rows:
        """The rows of a view as of a T, of which only the name is known."""
        view = DEFINED[name]
        assert isinstance(view, View)
        read = [sources.contents(name, at).bag() for name in view.reads]
        try:
            return Rows(view.query(*read).elements())
        except Fails:
            raise failed() from None

    def types_given(
        self, view: ViewWrite, text: Text, tables: Mapping[str, StoredTable]
    ) -> tuple[str, ...]:
        return tuple(plain_type(c.type) for c in view.columns)

    def types_of(self, *_: object) -> set[str]:
        """None that matters: all numbers are whole."""
        return set()

    def follow(
        self,
        context: RefreshContext,
        query: object,
        state_plan: object,
        moves: Mapping[str, Any],
        span: tuple[int, int],
    ) -> RefreshOutcome | Declined:
        """A view's change: its query at both times, and the rows that go among those stored."""
        outputs = {context.item.id: (context.item, context.batch.version_read)}
        found: Any = StoredSources(context.warehouse, outputs=outputs)
        old, new = (self.rows_at(context.view.object_id, found, time).bag() for time in span)
        stored: Rows = found.stored_rows(context.item.id) or Rows(())
        gone, victims = old - new, dict[str, set[int]]()
        for row, (path, number) in zip(stored.rows, stored.places, strict=True):
            if gone[row] > 0:
                gone[row] -= 1
                victims.setdefault(path, set()).add(number)
        if +gone:
            return Declined("ROWS_DIFFER")
        staging: Any = context.staging
        if fresh := new - old:
            staging.stage(Rows(fresh.elements()))
        if victims:
            staging.delete_rows([(path, frozenset(numbers)) for path, numbers in victims.items()])
        return RefreshOutcome(strategy=Strategy.INCREMENTAL)

    def fill(
        self,
        context: RefreshContext,
        query: object,
        state_plan: Any,
        at: int,
    ) -> None:
        """No view keeps a state table."""
        raise NotImplementedError

    def stage(
        self,
        staging: Any,
        desired: Rows | None,
        stored: Rows | None,
        columns: list[str],
        *,
        small: bool,
    ) -> bool:
        """Stage the difference as the engine's small way does, with the same cancelling."""
        wanted, held = desired or Rows(()), stored or Rows(())
        inserts, deletes = cancel(wanted.rows, held.rows)
        if inserts:
            staging.stage(Rows(wanted.rows[i] for i in inserts))
        victims: dict[str, set[int]] = {}
        for i in deletes:
            path, number = held.places[i]
            victims.setdefault(path, set()).add(number)
        if victims:
            staging.delete_rows([(path, frozenset(at)) for path, at in victims.items()])
        return bool(inserts or victims)


def failed() -> Exception:
    """What a definition raises that cannot be computed."""
    return error("DATA_ERROR", message="division by zero", detail="", hint="")


def proposal_of(stored: Rows, deletes: Bag, inserts: Bag) -> OutputProposal:
    victims, places, left = [], [], Counter(deletes)
    for row, place in zip(stored.rows, stored.places, strict=True):
        if left[row] > 0:
            left[row] -= 1
            victims.append(row)
            places.append(place)
    proposal: Any = OutputProposal
    return proposal(inserts=Rows(inserts.elements()), victims=Rows(victims, places))  # type: ignore[no-any-return]


class Idle:
    """Counts what Spark does where there is none."""

    def ms(self) -> int:
        return 0

    def work(self) -> Work:
        return Work()
