"""What runs in the place of Spark: the Python functions that the world's definitions mean."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, cast
from unittest import mock

from ctsql.catalog.errors import error
from ctsql.catalog.items import Catalog, Item
from ctsql.planner.binding import Bound, bind_stored
from ctsql.planner.lowering import Context, Proposal
from ctsql.planner.nodes import Transaction, ViewWrite
from ctsql.runtime.delta import change_feed as input_changes
from ctsql.runtime.delta.change_feed import added_rows
from ctsql.runtime.log.staging import Staging
from ctsql.runtime.log.table_changes import tagged
from ctsql.runtime.rows.multiset_local import cancel
from ctsql.runtime.spark.job_metrics import Work
from ctsql.runtime.tasks import runs, sink as ct
from ctsql.runtime.tasks.runs import Run
from ctsql.runtime.views import change_plans as plans, refresh, sink as mv
from ctsql.runtime.views.outcomes import Fallback
from ctsql.runtime.views.refresh import RefreshOutcome
from ctsql.runtime.views.refresh_context import RefreshContext
from ctsql.runtime.views.refresh_policy import Strategy
from ctsql.runtime.views.strategies import recompute
from ctsql.runtime.warehouse import relations, sources, timeline, versions
from ctsql.runtime.warehouse.warehouse import Warehouse
from tests.simulation.definitions import COLUMNS, DEFINED, Fails, Part, Several, Task, View
from tests.simulation.memory_log import Functions, Rows
from tests.simulation.memory_store import Bag


def _failed() -> Exception:
    return error("DATA_ERROR", message="division by zero", detail="", hint="")


class Inserts:
    """An input's change of which the bodies here see the inserts only."""

    def __init__(
        self, _nothing: object, added: Any = None, held: Any = None, changed: Any = None
    ) -> None:
        self.inserts = added if added is not None else changed


def lower_transaction(node: Transaction, context: Context) -> dict[str, Proposal]:
    """What a body proposes, by its Python function."""
    found: Any = context.sources
    first = DEFINED[next(iter(found.outputs))]
    task = first.task if isinstance(first, Part) else first
    assert isinstance(task, Task | Several)
    outputs = task.outputs if isinstance(task, Several) else (task.name,)
    new = found.inserts(task.reads, context.at).bag()
    stored: list[Rows] = [found.stored(o) or Rows(()) for o in outputs]
    held = [s.bag() for s in stored]
    try:
        made = task.body(held, new) if isinstance(task, Several) else [task.body(held[0], new)]
    except Fails:
        raise _failed() from None
    return {o: _proposal(s, *m) for o, s, m in zip(outputs, stored, made, strict=True)}


def _proposal(stored: Rows, deletes: Bag, inserts: Bag) -> Proposal:
    victims, places, left = [], [], Counter(deletes)
    for row, place in zip(stored.rows, stored.places, strict=True):
        if left[row] > 0:
            left[row] -= 1
            victims.append(row)
            places.append(place)
    proposal: Any = Proposal
    return proposal(inserts=Rows(inserts.elements()), victims=Rows(victims, places))  # type: ignore[no-any-return]


def lower_view(plan: ViewWrite, context: Context) -> Rows:
    """A view's rows, by its Python function."""
    view = DEFINED[plan.object_id]
    assert isinstance(view, View)
    found: Any = context.sources
    read = [found.contents(name, context.at).bag() for name in view.reads]
    try:
        return Rows(view.query(*read).elements())
    except Fails:
        raise _failed() from None


def follow_changes(
    context: RefreshContext,
    made: object,
    plan: object,
    kept: object,
    moves: object,
    span: tuple[int, int],
) -> RefreshOutcome | Fallback:
    """A view's change: its query at both times, and the rows that go among those stored."""
    view = DEFINED[context.view.object_id]
    assert isinstance(view, View)
    outputs = {context.item.id: (context.item, context.batch.version_read)}
    found: Any = sources.StoredSources(context.warehouse, outputs=outputs)
    try:
        old, new = (
            view.query(*[found.contents(name, time).bag() for name in view.reads]) for time in span
        )
    except Fails:
        raise _failed() from None
    stored: Rows = found.stored(context.item.id) or Rows(())
    gone, victims = old - new, dict[str, set[int]]()
    for row, (path, number) in zip(stored.rows, stored.places, strict=True):
        if gone[row] > 0:
            gone[row] -= 1
            victims.setdefault(path, set()).add(number)
    if +gone:
        return Fallback("ROWS_DIFFER")
    staging: Any = context.staging
    if fresh := new - old:
        staging.stage(Rows(fresh.elements()))
    if victims:
        staging.delete_rows([(path, frozenset(numbers)) for path, numbers in victims.items()])
    return RefreshOutcome(strategy=Strategy.INCREMENTAL)


def stage(
    staging: Staging, desired: Rows | None, stored: Rows | None, columns: list[str], *, small: bool
) -> bool:
    """Stage the difference as the engine's small way does, with the same cancelling."""
    wanted, held = desired or Rows(()), stored or Rows(())
    left = cancel(wanted.rows, held.rows)
    handle: Any = staging
    if left.inserts:
        handle.stage(Rows(wanted.rows[i] for i in left.inserts))
    victims: dict[str, set[int]] = {}
    for i in left.deletes:
        path, number = held.places[i]
        victims.setdefault(path, set()).add(number)
    if victims:
        handle.delete_rows([(path, frozenset(at)) for path, at in victims.items()])
    return bool(left.inserts or victims)


def stage_together(
    warehouse: Warehouse, item: Item, staging: Staging, runs: list[Run]
) -> list[int]:
    """Stage what the body inserts at each of several Ts, by its Python function."""
    task, handle = DEFINED[item.id], cast("Any", staging)
    assert isinstance(task, Task)
    found = []
    for run in runs:
        ((object_id, movement),) = run.movements
        rows: Any = added_rows(
            warehouse.relations.table(warehouse.relations.item(object_id)), movement
        )
        try:
            _, inserts = task.body(Counter(), rows.bag())
        except Fails:
            raise _failed() from None
        if inserts:
            staged = handle._txn.stage(Rows(inserts.elements()))
            handle._inserts += [tagged(file, run.time) for file in staged]
            found.append(run.time)
    return found


class Idle:
    """Counts what Spark does where there is none."""

    def ms(self) -> int:
        """No time."""
        return 0

    def work(self) -> Work:
        """Nothing."""
        return Work()


_bound: dict[Item, Bound] = {}


def bind(wanted: Item, catalog: Catalog) -> Bound:
    """What the engine's binder makes of a definition, bound once for all runs."""
    if wanted not in _bound:
        _bound[wanted] = bind_stored(wanted, catalog)
    return _bound[wanted]


@contextmanager
def without_spark() -> Iterator[None]:
    """The functions above in the place of those that build DataFrames."""
    with ExitStack() as stack:
        for module, name, function in (
            (ct, "propose", lambda node, context, _: lower_transaction(node, context)),
            (ct, "stage", stage),
            (ct, "stage_together", stage_together),
            (runs, "few", lambda rows: rows),
            (runs, "only_inserts", lambda rows: rows),
            (runs, "InputChange", Inserts),
            (refresh, "follow_changes", follow_changes),
            (plans.Prepared, "refusal", lambda _: None),
            (recompute, "lower_view", lower_view),
            (mv, "Meter", lambda _: Idle()),
            (recompute, "stage", stage),
            (sources, "lower_view", lower_view),
            (timeline, "F", Functions),
            (relations, "bind_stored", bind),
            (input_changes, "F", Functions),
            (input_changes, "DataFrame", Rows),
            (versions, "net_change", lambda rows, _: rows),
            (relations.Relations, "stored_columns", lambda *_: COLUMNS),
            (versions.Versions, "columns_at", lambda *_: COLUMNS),
            (versions.Versions, "present", lambda *given: list(given[-1])),
        ):
            stack.enter_context(mock.patch.object(module, name, function))
        yield
