"""Chooses how a view is refreshed, at every refresh, by cost only. Pure: no Spark, no log.

docs/views.md lists the ways; each leaves the same rows.

The inputs are row counts from the tables' logs, and this view's measured times, which have priority
over estimates (:class:`Costs`; each commit stores them for the next refresh). A refresh that has
taken as long as a recomputation is stopped (:mod:`ctsql.runtime.views.time_limit`), and the view is
recomputed; the whole time counts as incremental. One slow refresh may be caused by the process's
start, so the choice changes after the second, over few rows after a much slower first. Recomputing
is measured again after the view's creation. The slower way is retried from time to time: tables
grow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum

RECOMPUTED_ROWS_MAX = 10_000
"""If the view's tables have fewer rows in total, recompute."""
CHANGED_PART_MAX = 0.15
"""If more than this part of a table changed, recompute."""
WORTH_MS = 2_000  # over small tables, following is tried if recomputing took this long
READING_MS = 200
"""Assumed cost of planning one table's change at one place of a query, until it is measured."""
SLOWER_MAX = 1.2  # following is given up if it takes so many times as long
NOTICED_MS = 500  # a difference below this is not worth a measurement
FEW_ROWS_MAX = 500_000
"""With fewer rows in the view's tables, Spark's planning is most of the first computation."""
FOLLOWED_MIN = 2  # following is tried so often before it is given up
FAR_SLOWER = 1.5  # over few rows once, if it took more than so many times as long
UNTRIED_MAX = 20  # after so many refreshes the slower way is tried again


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
    "SLOWER_BEFORE": "the last incremental refresh took longer than recomputing",
    "SMALL_TABLES": "the tables are so small that recomputing costs less",
    "STATE_LARGE": "its groups are too many for all of them to be read each time",
    "STATE_ROUNDS": "its sums or averages would not be exact",
    "TEXTS_FAILED": "a query of the change plan failed",
    "TIMED_ONCE": "recomputing was timed only when the view was created",
    "TOOK_LONGER": "incremental refreshes were stopped after taking as long as recomputing",
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
    def are_few(self) -> bool:
        """Whether computing the view costs little compared with planning it."""
        return _are_below(self.tables, FEW_ROWS_MAX)


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of a view's refreshes in milliseconds; None for a way that was not used yet."""

    full_ms: int | None = None  # recomputing
    follow_ms: int | None = None  # any other way, including one that was given up
    untried: int = 0  # refreshes since the last time that the changes were followed
    fulls: int = 0  # recomputations, counted up to 2
    follows: int = 0  # followed refreshes, counted up to ``FOLLOWED_MIN``

    def expected_full_ms(self, sizes: Sizes) -> int | None:
        """What recomputing should take: a part of the first time, when the query is new to Spark.

        Measured on TPC-DS and TPC-H: about a quarter over few rows, half over many.
        """
        if self.full_ms is None or self.fulls != 1:
            return self.full_ms
        return self.full_ms // (4 if sizes.are_few else 2)

    @staticmethod
    def of(metadata: object) -> "Costs":
        """From the metadata of a commit; without metadata no cost is known."""
        if not isinstance(metadata, Mapping):
            return Costs()
        return Costs(
            full_ms=metadata.get("full_ms"),
            follow_ms=metadata.get("follow_ms"),
            untried=int(metadata.get("untried", 0)),
            fulls=int(metadata.get("fulls", 0)),
            follows=int(metadata.get("follows", 0)),
        )

    def to_metadata(self) -> dict[str, int | None]:
        """The costs as metadata of a commit."""
        return asdict(self)

    def anew(self) -> "Costs":
        """Reset the cost of incremental refreshes, as from now on they have expiry tables."""
        return replace(self, follow_ms=None, untried=0, follows=0)

    def after(self, strategy: Strategy, ms: int, tried_ms: int = 0) -> "Costs":
        """The costs after one more refresh, which may have tried to follow before it recomputed."""
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
                return costs._followed(tried_ms + ms) if tried_ms else costs
            case _:
                return self._followed(ms)

    def _followed(self, ms: int) -> "Costs":
        before = self.follow_ms if self.follows >= FOLLOWED_MIN else None
        follows = min(self.follows + 1, FOLLOWED_MIN)
        return replace(self, follow_ms=_mix(before, ms), untried=0, follows=follows)


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
            full_ms, follow_ms = costs.full_ms, costs.follow_ms
            if follow_ms is None and small and (full_ms or 0) < WORTH_MS:
                return "SMALL_TABLES"
            if full_ms is None or costs.untried >= UNTRIED_MAX:
                return None
            if follow_ms is None:
                return "PLAN_LARGE" if sizes.readings * READING_MS > full_ms else None
            if costs.follows < FOLLOWED_MIN:
                is_known = sizes.are_few and costs.fulls > 1
                return "SLOWER_BEFORE" if is_known and follow_ms > FAR_SLOWER * full_ms else None
            if costs.fulls == 1:
                is_slow = follow_ms >= (costs.expected_full_ms(sizes) or 0) + NOTICED_MS
                return "TIMED_ONCE" if is_slow else None
            return "SLOWER_BEFORE" if follow_ms > SLOWER_MAX * full_ms else None


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
