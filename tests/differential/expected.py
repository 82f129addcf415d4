"""What the battery expects to be declined.

A pair that is listed as declined and is not fails as well.
"""

from ctsql.runtime.spark.versions import at_least
from tests.differential.kinds import ADD, GROUP, SORT, Kind
from tests.differential.ways import Way

KEYED = frozenset(
    {
        "group key", "group keys", "key of a state", "hidden key of a state", "rollup", "cube",
        "grouping sets", "groups of groups", "chained groups",
    }
)  # fmt: skip
"""Ways that group by the value."""


ORDERED = frozenset({"greatest by", "sorted list"})
"""Ways whose aggregate depends on the order of rows, to a planner that knows no more of it."""


LITERALS = frozenset(
    {
        "compared with values", "in a list", "not in a list", "compared as a value",
        "ordered by comparison",
    }
)  # fmt: skip
"""Ways that compare the value with a literal, which Spark pads beside a CHAR, from 4.1 on."""


def no_plan(kind: Kind, way: Way, *, is_alone: bool) -> str | None:
    """Why no change plan follows a pair, as REFRESH POLICY = strict says; None if one does.

    Args:
        is_alone: it is a view of its own, not a part of one.
    """
    if way.name in ("pivot", "pivoted"):
        return "CLAUSE_UNSUPPORTED"
    is_nested = not is_alone or way.name == "added by a state"  # all rows are one group
    if ADD in way.needs and kind.sql in ("FLOAT", "DOUBLE") and is_nested:
        return "FLOAT_AGGREGATE_NESTED"
    if way.name in ORDERED and not is_alone:
        return "INEXACT_AGGREGATE_NESTED"
    if way.name == "first rows by others" and not is_alone:
        return "LIMIT_TIES"
    if way.name == "value of a window by others":
        return "ROW_ORDER_TIES"
    if way.name in LITERALS and kind.sql.startswith("CHAR") and at_least(4, 1):
        return "ROUND_TRIP"
    holds_maps = GROUP in kind.can and SORT not in kind.can
    return "GROUPED_BY_MAP" if holds_maps and way.name in KEYED else None
