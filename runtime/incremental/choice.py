"""Which way a view is refreshed, decided anew at every refresh. Pure: no Spark, no log.

The ways, from the cheapest:

    no change            the commits since the last refresh touch nothing that the view reads
    incremental          the signed change of the view, from the changes of its tables
    affected keys        the view's rows with an affected key are replaced
    first rows           ORDER BY .. LIMIT from the rows that the view holds and the change
    recompute and diff   the whole query, compared with the stored rows

Any of them leaves the same rows behind, so the choice is about cost only. What is known of cost
are numbers of rows, from the tables' logs.

The bounds are estimates until a benchmark sets them: on two cores the planning, log reads and small
jobs of an incremental refresh cost about as much as scanning and grouping a million rows.
"""

from dataclasses import dataclass
from enum import Enum

RECOMPUTED_ROWS_MAX = 1_000_000
"""Below so many rows in all tables that a view reads, recomputing costs less than following."""
CHANGED_PART_MAX = 0.2
"""When more than this part of a table changed, most of what was computed is computed again."""


class Policy(Enum):
    """What ``REFRESH POLICY`` asks for."""

    AUTO = "auto"  # what is cheapest
    INCREMENTAL = "incremental"  # follow the changes wherever that is possible
    STRICT = "strict"  # the same, and a query without a change plan is refused
    FULL = "full"  # recompute and compare, always


class Strategy(Enum):
    """A way to refresh a view, as its commit and EXPLAIN name it."""

    NO_CHANGE = "no change"
    INCREMENTAL = "incremental"
    AFFECTED_KEYS = "affected keys"
    FIRST_ROWS = "first rows"
    RECOMPUTE = "recompute and diff"


WHY = {
    "CANNOT_COMPARE": "the view has a column whose values Spark cannot compare",
    "ERROR_HELD": "the view's contents were an error",
    "FIRST_WRITE": "the view was not written before",
    "FOREIGN_ROWS": "somebody else wrote into the view's table",
    "FULL_ASKED": "REFRESH MATERIALIZED VIEW .. FULL",
    "HISTORY_LOST": "versions of a table since the last refresh are no longer there",
    "LARGE_CHANGE": "so much of a table changed that recomputing costs less",
    "NOT_STORED": "a view that it reads was not stored as of the last refresh",
    "POLICY_FULL": "REFRESH POLICY = full",
    "REDEFINED": "the view's definition was replaced",
    "ROUND_TRIP": "Spark reads the query otherwise than its change plan does",
    "ROWS_DIFFER": "the stored rows are not those of the last refresh",
    "ROWS_MOVED_UP": "rows that were not stored have moved up among the first ones",
    "SCHEMA_CHANGED": "the columns of a table changed",
    "SMALL_TABLES": "the tables are so small that recomputing costs less",
    "TEXTS_FAILED": "a query of the change plan failed",
}
"""Why a view that has a change plan was recomputed all the same, by code; sorted."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of rows, None where the log does not say.

    Attributes:
        tables: of each table that the view reads. changed: of the change of each of these.
    """

    tables: tuple[int | None, ...]
    changed: tuple[int | None, ...]


def recompute_why(policy: Policy, sizes: Sizes) -> str | None:
    """A code of :data:`WHY` if recomputing is the better way; None if following is.

    A table whose log does not say its rows is a large one. A change of which nothing is known
    is followed: it is looked at before anything else is read, and may be found too large then.
    """
    match policy:
        case Policy.FULL:
            return "POLICY_FULL"
        case Policy.INCREMENTAL | Policy.STRICT:
            return None
        case Policy.AUTO:
            known = [rows for rows in sizes.tables if rows is not None]
            if len(known) == len(sizes.tables) and sum(known) < RECOMPUTED_ROWS_MAX:
                return "SMALL_TABLES"
            for rows, changed in zip(sizes.tables, sizes.changed, strict=True):
                if rows is not None and changed is not None and changed > CHANGED_PART_MAX * rows:
                    return "LARGE_CHANGE"
            return None
