"""What the battery expects to be declined.

A pair that is listed as declined and is not fails as well.
"""

from tests.differential.kinds import GROUP, SORT, Kind
from tests.differential.ways import Way

KEYED = frozenset(
    {
        "group key", "group keys", "key of a state", "hidden key of a state", "rollup", "cube",
        "grouping sets", "groups of groups", "chained groups",
    }
)  # fmt: skip
"""Ways that group by the value."""


def no_plan(kind: Kind, way: Way) -> str | None:
    """Why no change plan follows a pair, as REFRESH POLICY = strict says; None if one does."""
    if way.name in ("pivot", "pivoted"):
        return "CLAUSE_UNSUPPORTED"
    holds_maps = GROUP in kind.can and SORT not in kind.can
    return "GROUPED_BY_MAP" if holds_maps and way.name in KEYED else None
