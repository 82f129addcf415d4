"""Runs in which every view keeps a state table: its rows by ``k``, as counts and sums.

What is known of the groups when they are used must be those of the view's last T (S1 of
:mod:`ctsql.runtime.views.state_table`), whoever was killed, raced, or wrote into the table.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from ctsql.planner.ivm import StateNeed, StatePlan
from ctsql.runtime.log.actions import Commit
from ctsql.runtime.views import refresh, state_table as view_state
from ctsql.runtime.views.outcomes import Fallback
from ctsql.runtime.views.refresh import RefreshOutcome, ViewRefresh
from ctsql.runtime.views.refresh_context import RefreshContext
from ctsql.runtime.views.state_table import ViewState
from ctsql.runtime.views.table_deltas import Moved
from ctsql.runtime.warehouse.sources import StoredSources
from tests.simulation import model_engine as in_place_of_spark
from tests.simulation.definitions import DEFINED, Fails, View
from tests.simulation.memory_log import Rows
from tests.simulation.memory_store import Bag, Folder, Sent
from tests.simulation.model import require
from tests.simulation.process import MemoryEngine
from tests.simulation.simulation import Simulation

PLAN = StatePlan(number=1, columns=("k", "n", "s"), key_columns=1)


def groups(rows: Bag) -> Bag:
    """The state of a view's rows."""
    counts: Counter[int] = Counter()
    sums: Counter[int] = Counter()
    for (k, v), n in rows.items():
        counts[k] += n
        sums[k] += n * v
    return Counter((k, n, sums[k]) for k, n in counts.items())


class Stated(Simulation):
    """One such run.

    Attributes:
        used: how often the change was added to stored groups; filled: how often all rows were
            read; halfway: kills between the commit of a state and that of its view.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.used = self.filled = self.halfway = 0
        self.ahead: dict[str, str] = {}  # by view, who committed its state and not yet the view

    def _committed(self, folder: Folder, commit: Commit, sent: Sent) -> None:
        super()._committed(folder, commit, sent)
        view, _, state = folder.location.partition("/")
        if state:
            if sent.by.startswith("p"):
                self.ahead[view] = sent.by
            if folder.location not in self.environment.outputs:
                self.environment.outputs.append(folder.location)
                self.environment.unread_views.append(folder.location)
        elif self.ahead.get(view) == sent.by:
            del self.ahead[view]
        did = commit.metadata.get(view_state.STATE_DID, "")
        self.used += "added" in did
        self.filled += "filled" in did

    def note(self, *what: object) -> None:
        """Also count kills halfway."""
        super().note(*what)
        if len(what) > 1 and what[1] == "killed at":
            self.halfway += what[0] in self.ahead.values()

    @contextmanager
    def _patched(self) -> Iterator[None]:
        with super()._patched(), ExitStack() as stack:
            for owner, name, function in (
                (refresh, "follow_changes", _follow_changes),
                (view_state, "stage", in_place_of_spark.stage),
                (view_state, "StoredRows", lambda table, version: table.located(version)),
                (ViewState, "look", _look),
                (ViewState, "_make", _make),
                (ViewRefresh, "_fill", _fill),
                (RefreshContext, "is_strict_arithmetic", lambda _: True),
                (MemoryEngine, "outputs", _outputs),
            ):
                stack.enter_context(mock.patch.object(owner, name, function))
            yield


def _look(state: ViewState, plan: object, made: object) -> tuple[StatePlan, StateNeed]:
    state._digest = "d"
    return PLAN, StateNeed.ALWAYS


def _make(state: ViewState, schema: object) -> None:
    gateway: Any = state.warehouse.gateway
    if not gateway.exists(state.location):
        gateway.store.make(state.location)


def _fill(done: ViewRefresh, kept: StatePlan, plan: object, made: object, at: int) -> None:
    rows: Any = Rows(_groups_at(done.context, at).elements())
    done.state.build(kept, rows, at)


def _groups_at(context: RefreshContext, at: int) -> Bag:
    view = DEFINED[context.item.id]
    assert isinstance(view, View)
    sources: Any = StoredSources(context.warehouse)
    try:
        return groups(view.query(*[sources.contents(n, at).bag() for n in view.reads]))
    except Fails:
        raise in_place_of_spark._failed() from None


_follow_plainly = in_place_of_spark.follow_changes


def _follow_changes(
    context: RefreshContext,
    made: object,
    plan: object,
    kept: object,
    moves: dict[str, Moved],
    span: tuple[int, int],
) -> RefreshOutcome | Fallback:
    """The view's change, and where the stored groups are known what they become."""
    stored: Any = context.state.stored()
    outcome = _follow_plainly(context, made, plan, kept, moves, span)
    if stored is not None and not isinstance(outcome, Fallback):
        before = next(iter(moves.values())).since
        wanted = _groups_at(context, before)
        require(stored.bag() == wanted, "S1: other groups", context.item.id, before, stored.bag())
        after: Any = Rows(_groups_at(context, span[1]).elements())
        context.state.stage(after, stored)
    return outcome


def _outputs(engine: MemoryEngine) -> Iterator[Any]:
    yield engine.timeline._output
    yield engine.catalog_store._output
    yield from engine.relations._outputs.values()
    yield from engine.relations.states.values()
