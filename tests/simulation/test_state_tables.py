"""Views with state tables under kills, races and lost answers; and that mistakes are noticed.

Every view keeps one: its rows by ``k``, as counts and sums. The groups that a refresh reads must be
those of the view's last T (:mod:`ctsql.runtime.views.side_table`), whoever was killed, raced, or
wrote into the table.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

from ctsql.catalog.errors import Declined
from ctsql.planner.ivm import StatePlan
from ctsql.runtime.log.actions import Commit
from ctsql.runtime.views import side_table, state_table
from ctsql.runtime.views.refresh import RefreshOutcome
from ctsql.runtime.views.refresh_context import RefreshContext
from ctsql.runtime.views.side_table import Pointer
from ctsql.runtime.views.state_table import ViewState
from ctsql.runtime.views.table_deltas import TableMove
from ctsql.runtime.warehouse.sources import StoredSources
from tests.simulation.memory_log import Rows
from tests.simulation.memory_store import Bag, Folder, SentCommit
from tests.simulation.mistakes import check_noticed
from tests.simulation.model import require
from tests.simulation.model_engine import ModelEngine
from tests.simulation.simulation import Simulation, ran

pytestmark = pytest.mark.thorough

PLAN = StatePlan(number=1, columns=("k", "n", "s"), key_columns=1)


def groups(rows: Bag) -> Bag:
    """The state of a view's rows."""
    counts: Counter[int] = Counter()
    sums: Counter[int] = Counter()
    for (k, v), n in rows.items():
        counts[k] += n
        sums[k] += n * v
    return Counter((k, n, sums[k]) for k, n in counts.items())


class StateTableRun(Simulation):
    """One such run.

    Attributes:
        uses: how often the change was added to stored groups; fills: how often all rows were
            read; halfway: kills between the commit of a state and that of its view.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.queries = StatedEngine()
        self.uses = self.fills = self.halfway = 0
        self.ahead: dict[str, str] = {}  # by view, who committed its state and not yet the view

    def _committed(self, folder: Folder, commit: Commit, attempt: SentCommit) -> None:
        super()._committed(folder, commit, attempt)
        view, _, state = folder.location.partition("/")
        if state:
            if attempt.by.startswith("p"):
                self.ahead[view] = attempt.by
            if folder.location not in self.environment.outputs:
                self.environment.outputs.append(folder.location)
                self.environment.unread_views.append(folder.location)
        elif self.ahead.get(view) == attempt.by:
            del self.ahead[view]
        did = commit.metadata.get(state_table.STATE_DID, "")
        self.uses += "added" in did
        self.fills += "filled" in did

    def mark(self, what: str) -> None:
        """Only a state that is filled conflicts with rows that somebody appends."""
        if not what.startswith("ConcurrentAppend"):
            super().mark(what)

    def note(self, *what: object) -> None:
        """Also count kills halfway."""
        super().note(*what)
        if len(what) > 1 and what[1] == "killed at":
            self.halfway += what[0] in self.ahead.values()

    @contextmanager
    def patched(self) -> Iterator[None]:
        with super().patched(), mock.patch.object(ViewState, "look", _look):
            yield


def _look(state: ViewState, query: object) -> StatePlan:
    state.digest = "d"
    return PLAN


class StatedEngine(ModelEngine):
    """One that uses and fills state tables."""

    def follow(
        self,
        context: RefreshContext,
        query: object,
        state_plan: object,
        moves: Mapping[str, TableMove],
        span: tuple[int, int],
    ) -> RefreshOutcome | Declined:
        """The view's change; what its stored groups become, or all of them where unknown."""
        known = context.state.stored_groups()
        stored: Any = known and known._table.locate_rows(known._version)
        outcome = super().follow(context, query, state_plan, moves, span)
        if isinstance(outcome, Declined):
            return outcome
        if stored is None:
            context.state.build(PLAN, self._groups_at(context, span[1]), span[1])
        else:
            before = next(iter(moves.values())).since
            wanted = self._groups_at(context, before).bag()
            require(
                stored.bag() == wanted,
                "[only-what-is-named]: other groups",
                context.item.id,
                before,
                stored.bag(),
            )
            context.state.stage(self._groups_at(context, span[1]), stored)
        return outcome

    def fill(
        self,
        context: RefreshContext,
        query: object,
        state_plan: StatePlan,
        at: int,
    ) -> None:
        """All groups, and the view's own rows, from the rows of its query."""
        context.state.build(state_plan, self._groups_at(context, at), at)
        if context.state.is_filled:
            outputs = {context.item.id: (context.item, context.batch.version_read)}
            stored: Any = StoredSources(context.warehouse, outputs=outputs)
            rows = self.rows_at(context.view.object_id, StoredSources(context.warehouse), at)
            held = stored.stored_rows(context.item.id)
            self.stage(context.staging, rows, held, context.columns, small=True)

    def _groups_at(self, context: RefreshContext, at: int) -> Any:
        rows = self.rows_at(context.item.id, StoredSources(context.warehouse), at)
        return Rows(groups(rows.bag()).elements())


SEEDS = range(60)
SEEDS_MAX = 300


def test_a_state_is_never_other_than_its_views() -> None:
    """[only-what-is-named]: at every use, also where a run is killed between the two commits."""
    runs = [ran(StateTableRun(seed)) for seed in SEEDS]
    assert sum(r.uses for r in runs) > 50
    assert sum(r.fills for r in runs) > 50
    assert sum(r.halfway for r in runs) > 0


def _newest(state: ViewState, at: int) -> Pointer | None:
    output = state._open()
    output.fetch_recent_upper()
    last = output.uppers.last
    if last is None:
        return None
    return Pointer(digest="d", table=output.table.table_id, version=last.version)


MUTATIONS: dict[str, tuple[object, str, object]] = {
    "what is found is used": (side_table, "is_current", lambda *_, **__: True),
    "what a rival wrote is taken for the same": (ViewState, "_of_rival", _newest),
}
FIRST = {"what a rival wrote is taken for the same": 37}
"""The seed to begin with, where the first to notice is far off."""


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation_is_caught(name: str) -> None:
    """A run of some seed says what is wrong."""
    first = FIRST.get(name, 0)
    check_noticed(name, MUTATIONS[name], lambda seed: ran(StateTableRun(seed)), SEEDS_MAX, first)
