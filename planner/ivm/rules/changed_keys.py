"""The keys of a change that are known before the change is.

An operator above is often recomputed for the keys that a change touches. Where the change holds all
that there was and all that there is of each key, its keys are those of what changed below, and what
is between has to be computed once, for the keys, and not before, to find them:

- an outer join keeps the rows of one side: its change has the rows of that side that changed, and
  those that can see a changed row of the other, as they were and as they are;
- groups, distinct rows and partitions are recomputed for keys themselves.

Any other operator may leave out some of the keys, so its change says which are left.
"""

from collections.abc import Sequence

from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.traversal import key_sources, own_subqueries
from ctsql.planner.ivm.rules.context import DeltaDerivation
from ctsql.planner.ivm.rules.outer_join_and_subquery import changed_keys_of_side_join

Found = list[tuple[alg.Node, Sequence[alg.Col]]]


def changed_keys(node: alg.Node, columns: Sequence[alg.Col], changes: DeltaDerivation) -> Found:
    """Where all values are that some columns have in a node's change; nowhere without a change.

    The change itself is one such place.
    """
    if not columns or not changes.touches(node):
        return _by_change(node, columns, changes)
    match node:
        case alg.OuterOrSemiJoin():
            keys = changed_keys_of_side_join(node, columns, changes)
            return _by_change(node, columns, changes) if keys is None else keys
        case alg.Project() if not own_subqueries(node):
            sources = key_sources(node) or {}
            if all(col in sources for col in columns):
                changes.note(node, "linear")
                return changed_keys(node.child, [sources[col] for col in columns], changes)
    return _by_change(node, columns, changes)


def _by_change(node: alg.Node, columns: Sequence[alg.Col], changes: DeltaDerivation) -> Found:
    delta = changes.of(node)
    return [] if delta is None else [(delta, columns)]
