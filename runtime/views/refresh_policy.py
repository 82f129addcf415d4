"""Chooses how a view is refreshed, at every refresh, by cost only. Pure: no Spark, no log.

docs/views.md lists the ways; each leaves the same rows.

The inputs are row counts from the tables' logs, and what this view's refreshes have shown
(:class:`Costs`; each commit stores them for the next refresh). A refresh that takes longer than a
recomputation is stopped (:mod:`ctsql.runtime.views.time_limit`), and the view is recomputed. After
such a refresh changes of at least half its size are recomputed; smaller ones are followed as
before. After some recomputations such a change is followed again: tables grow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

from ctsql.runtime.log.actions import sum_known

RECOMPUTED_ROWS_MAX = 10_000
"""If the view's tables have fewer rows in total, recompute."""
CHANGED_PART_MAX = 0.5
"""If the inserted and deleted rows are more than this part of a table, recompute."""
WORTH_MS = 2_000  # over small tables, following is tried if recomputing took this long
READING_MS = 200
"""Assumed cost of planning one table's change at one place of a query, until it is measured."""
STOPPED_AT, GRACE_MS = 0.9, 300
"""A refresh is stopped after this part of a recomputation's time, and so many milliseconds.

Both together should take at most twice as long as the recomputation.
"""
COLD_TIMES = 4
"""A view's first refresh in a process takes about so many times as long, by either way."""
SLOWER_MAX = 1.2
"""A refresh was slow if it took more than so many times as long as recomputing."""
FEW_ROWS_MAX = 500_000
"""With fewer rows in the view's tables, Spark's planning is most of the first computation."""
UNKNOWN_ROWS = 2**62  # the size of a change whose rows are not counted
UNTRIED_MAX = 20  # after so many recomputations following is tried again

LOOKED_AHEAD_MS = (60_000, 7_200_000, 604_800_000)
LOOKED_THROUGH_MAX = 100_000  # rows of a table that are searched at once for the next expiry
EXPIRIES_BY = "expiries_by"
"""In the metadata of a view's commit, by window: how expiring rows were found."""


class Policy(Enum):
    """The values of ``REFRESH POLICY``."""

    AUTO = "auto"  # the cheapest way
    INCREMENTAL = "incremental"  # follow the changes if possible
    STRICT = "strict"  # the same, and a query without a change plan is refused
    FULL = "full"  # always recompute and compare


class Strategy(Enum):
    """A way to refresh a view, as its commit and EXPLAIN name it."""

    NO_CHANGE = "no change"
    INCREMENTAL = "incremental"
    STATE_TABLE = "state table"
    AFFECTED_KEYS = "affected keys"
    FIRST_ROWS = "first rows"
    RECOMPUTE = "recompute and diff"


RECOMPUTE_REASONS = {
    "CANNOT_COMPARE": "the view has a column whose values Spark cannot compare",
    "ERROR_HELD": "the view's contents were an error",
    "FIRST_WRITE": "the view was not written before",
    "FOREIGN_ROWS": "another writer wrote into the view's table",
    "FULL_ASKED": "REFRESH MATERIALIZED VIEW .. FULL",
    "HISTORY_LOST": "versions of a table since the last refresh no longer exist",
    "LARGE_CHANGE": "so much of a table changed that recomputing costs less",
    "MOST_KEYS": "most of the view's rows have a changed key",
    "NOT_STORED": "a view that it reads was not stored as of the last refresh",
    "PLAN_LARGE": "its query reads tables at so many places that recomputing costs less",
    "POLICY_FULL": "REFRESH POLICY = full",
    "REDEFINED": "the view's definition was replaced",
    "ROUND_TRIP": "Spark does not read the query as its change plan does",
    "ROWS_DIFFER": "the stored rows are not those of the last refresh",
    "ROWS_MOVED_UP": "rows that were not stored have moved up among the first ones",
    "SCHEMA_CHANGED": "the columns of a table changed",
    "SLOWER_BEFORE": "refreshes after changes of this size took longer than recomputing",
    "SMALL_TABLES": "the tables are so small that recomputing costs less",
    "STATE_LARGE": "its groups are too many for all of them to be read each time",
    "STATE_ROUNDS": "its sums or averages would not be exact",
    "TEXTS_FAILED": "a query of the change plan failed",
    "TOOK_LONGER": "the incremental refresh was stopped, as recomputing should take less time",
}
"""Why a view with a change plan was recomputed, by code; sorted.

``STATE_LARGE``, ``STATE_ROUNDS`` and ``TEXTS_FAILED`` are also why a view has no state table.
"""

REASONS_THAT_FILL_EXPIRIES = ("FIRST_WRITE", "FULL_ASKED", "REDEFINED")
"""A view recomputed for one of these gets its expiry tables; else an incremental refresh does."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of rows; None if the log does not contain them."""

    tables: tuple[int | None, ...]  # in each table that the view reads
    changes: tuple[int | None, ...]  # in the change of each of these
    readings: int = 0  # places at which the query reads a table

    @property
    def changed(self) -> int:
        """The changed rows of all tables."""
        return size_of(sum_known(self.changes))

    @property
    def are_few(self) -> bool:
        """Whether computing the view costs little compared with planning it."""
        return _are_below(self.tables, FEW_ROWS_MAX)


@dataclass(frozen=True, slots=True)
class Costs:
    """What a view's refreshes have shown of their costs."""

    full_ms: int | None = None  # what recomputing takes; None if it was not used yet
    fulls: int = 0  # recomputations, counted up to 2
    is_followed: bool = False  # an incremental refresh was not slow
    slow_change: int | None = None  # the changed rows of the last slow refresh; None for none
    untried: int = 0  # recomputations since following such a change was tried

    def expected_full_ms(self, sizes: Sizes, *, is_cold: bool = False) -> int | None:
        """What recomputing should take: a part of the first time, when the query is new to Spark.

        Measured on TPC-DS and TPC-H: about a quarter over few rows, half over many.

        Args:
            is_cold: it is the view's first refresh in this process.
        """
        if self.full_ms is None:
            return None
        part = (4 if sizes.are_few else 2) if self.is_guess else 1
        return self.full_ms // part * (COLD_TIMES if is_cold else 1)

    @property
    def is_guess(self) -> bool:
        """Whether the expected time of a recomputation is guessed from the first one."""
        return self.fulls == 1

    @staticmethod
    def of(metadata: object) -> "Costs":
        """From the metadata of a commit; without metadata no cost is known."""
        if not isinstance(metadata, Mapping):
            return Costs()
        return Costs(
            full_ms=metadata.get("full_ms"),
            fulls=int(metadata.get("fulls", 0)),
            is_followed=bool(metadata.get("is_followed", False)),
            slow_change=metadata.get("slow_change"),
            untried=int(metadata.get("untried", 0)),
        )

    def to_metadata(self) -> dict[str, Any]:
        """The costs as metadata of a commit."""
        return asdict(self)

    def anew(self) -> "Costs":
        """Reset the costs of incremental refreshes, as from now on they have expiry tables."""
        return replace(self, is_followed=False, slow_change=None, untried=0)

    def after(
        self,
        strategy: Strategy,
        ms: int,
        *,
        tried_ms: int = 0,
        changed: int = 0,
        expected_ms: int | None = None,
    ) -> "Costs":
        """The costs after one more refresh.

        Args:
            strategy: of the refresh. ms: what it took. tried_ms: what an incremental refresh took
                before the view was recomputed; 0 if none was tried. changed: the changed rows.
                expected_ms: what recomputing should have taken instead; None if unknown.
        """
        match strategy:
            case Strategy.NO_CHANGE:
                return self  # it does not show what a change of a table costs
            case Strategy.RECOMPUTE:
                before = self.full_ms if self.fulls > 1 else None
                costs = replace(
                    self,
                    full_ms=_mix(before, ms),
                    untried=self.untried + 1,
                    fulls=min(self.fulls + 1, 2),
                )
                # By a guess the refresh may have been stopped too early.
                is_slow = tried_ms > 0 and (self.fulls > 1 or tried_ms >= ms)
                return costs._slow(changed) if is_slow else costs
            case _:
                most_ms = max(expected_ms or 0, self.full_ms or 0)
                if expected_ms is not None and ms > SLOWER_MAX * most_ms:
                    return self._slow(changed)
                if self.slow_change is not None and not self.is_slow(changed):
                    return replace(self, is_followed=True)
                return replace(self, is_followed=True, slow_change=None, untried=0)

    def _slow(self, changed: int) -> "Costs":
        return replace(self, slow_change=changed, untried=0)

    def is_slow(self, changed: int) -> bool:
        """Whether an incremental refresh after a change of so many rows is likely to be slow.

        It counts as of the size of the slow one if it is at least half of it. Without changed rows
        only time has passed: that is another size.
        """
        slow = self.slow_change
        return slow is not None and (2 * changed >= slow > 0 or changed == slow == 0)


def stopped_after(expected_ms: int) -> int:
    """The milliseconds after which an incremental refresh is stopped.

    ``expected_ms``: what recomputing should take.
    """
    return int(STOPPED_AT * expected_ms) + GRACE_MS


def size_of(rows: int | None) -> int:
    """The size of a change with this number of rows; an unknown number counts as the largest."""
    return UNKNOWN_ROWS if rows is None else rows


def _mix(before: int | None, now: int) -> int:
    """The new average; a slower time counts a quarter, because it may be a process's first."""
    return now if before is None or now < before else (3 * before + now) // 4


def recompute_why(policy: Policy, sizes: Sizes, costs: Costs) -> str | None:
    """A code of :data:`RECOMPUTE_REASONS` if recomputing is cheaper; None if following is.

    A table without row counts in its log is large. A change of unknown size is followed: it is read
    first, and may then be too large. A view over small tables is recomputed until following
    has been measured as cheaper.
    """
    match policy:
        case Policy.FULL:
            return "POLICY_FULL"
        case Policy.INCREMENTAL | Policy.STRICT:
            return None
        case Policy.AUTO:
            small = are_small(sizes.tables)
            for rows, changes in zip(sizes.tables, sizes.changes, strict=True):
                if rows is not None and changes is not None and changes > CHANGED_PART_MAX * rows:
                    return "SMALL_TABLES" if small else "LARGE_CHANGE"
            full_ms = costs.full_ms
            if not costs.is_followed and small and (full_ms or 0) < WORTH_MS:
                return "SMALL_TABLES"
            if full_ms is None or costs.untried >= UNTRIED_MAX:
                return None
            if costs.is_slow(sizes.changed):
                return "SLOWER_BEFORE"
            is_large = not costs.is_followed and sizes.readings * READING_MS > full_ms
            return "PLAN_LARGE" if is_large else None


def are_small(tables: Sequence[int | None]) -> bool:
    """Whether tables with these row counts are small together; not if a count is None."""
    return _are_below(tables, RECOMPUTED_ROWS_MAX)


def _are_below(tables: Sequence[int | None], limit: int) -> bool:
    counts = [rows for rows in tables if rows is not None]
    return len(counts) == len(tables) and sum(counts) < limit


def looked_ahead(counts: Sequence[int | None], at: int) -> list[int | None]:
    """How far to search for the next expiry at once: large tables are searched in short spans.

    ``counts``: the rows of each table; None if unknown.
    """
    is_small = all(n is not None and n < LOOKED_THROUGH_MAX for n in counts)
    return [None] if is_small else [*(at + ms for ms in LOOKED_AHEAD_MS), None]
