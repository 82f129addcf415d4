"""Groups that a query compares with one another: the largest of all totals, shares of their sum.

Such a query reads the same groups at several places, once as a whole in an uncorrelated scalar
subquery. A change of one group may then change any row, so no key is affected alone, and a change
rule would read the groups' input twice. Instead, all groups after the change come from a state
table; the rest of the query is computed from them, and compared with the view's rows.
"""

from collections.abc import Collection, Iterator
from typing import Any

from ctsql.planner.ivm.algebra.nodes import Aggregate, Col, Node, Project, Scan, SubqueryKind
from ctsql.planner.ivm.algebra.traversal import (
    descend,
    free,
    inputs,
    own_subqueries,
    pass_through,
    rebuild,
    rename,
    replace_nodes,
    tables,
)
from ctsql.planner.ivm.rewrites.column_pruning import prune
from ctsql.planner.ivm.rules.context import DeltaDerivation, StepRole
from ctsql.planner.ivm.rules.counting import RULE, all_groups, state_of, stored_groups

_TOP_RULE = "all rows, from all groups"


def compared_groups(query: Node) -> tuple[Aggregate, ...]:
    """The groups that a query compares, if a state table can hold them; () if there are none.

    A CTE is one node at all its places; a repeated subquery is several. The groups' input must not
    be read elsewhere, because the rest of the query is recomputed.
    """
    alike: dict[Node, list[Aggregate]] = {}
    for below in descend(query):
        if isinstance(below, Aggregate) and tables(below) and not free(below):
            alike.setdefault(_renumber(below), []).append(below)
    for read in alike.values():
        places = dict.fromkeys(read)
        if (
            len(read) > 1
            and state_of(read[0], 1) is not None
            and not places.keys().isdisjoint(_nodes_read_whole(query))
            and tables(read[0]).isdisjoint(_tables_elsewhere(query, places))
        ):
            return tuple(places)
    return ()


def compared_rows(query: Node, changes: DeltaDerivation) -> Node | None:
    """All rows of a query after the change, from its compared groups; None without a change."""
    places = compared_groups(query)
    if not places or not changes.touches(query):
        return None
    first = places[0]
    rows = all_groups(first, changes)
    if rows is None:  # something else changed
        rows = stored_groups(first, changes)
    if rows is None:
        raise ValueError("the groups have no state table")
    step = changes.step(StepRole.ALL_GROUPS, rows)
    replacements = {place: rename(step, step.columns, place.columns) for place in places}
    for place in places:
        changes.note(place, RULE)
    changes.note(query, _TOP_RULE)
    return replace_nodes(query, replacements)


def widen(query: Node, whole: Node) -> Node:
    """A query in which all compared groups have the columns of ``whole``, the unpruned query."""
    aggregates = [below for below in descend(whole) if isinstance(below, Aggregate)]
    read: dict[Aggregate, dict[Aggregate, None]] = {}
    for below in descend(query):
        if isinstance(below, Aggregate) and below.columns:
            own = next(one for one in aggregates if set(below.columns) <= set(one.columns))
            read.setdefault(own, {})[below] = None
    wide_query = query
    for own, places in read.items():
        if len(places) > 1:
            one = prune(own, {col for place in places for col in place.columns})
            wide = {
                p: Project(child=one, items=pass_through(p.columns)) for p in places if p != one
            }
            wide_query = replace_nodes(wide_query, wide)
    return wide_query if compared_groups(wide_query) else query


def _renumber(node: Node) -> Node:
    """A form that is equal for nodes that differ only in column numbers."""
    new_columns: dict[Col, Col] = {}

    def change(thing: Any) -> Any:
        if not isinstance(thing, Col):
            return thing
        return new_columns.setdefault(thing, Col(len(new_columns) + 1))

    copy: Node = rebuild(node, change)
    return copy


def _nodes_read_whole(query: Node) -> Iterator[Node]:
    """All nodes in uncorrelated scalar subqueries."""
    for below in descend(query):
        for subquery in own_subqueries(below):
            if subquery.kind is SubqueryKind.SCALAR and not free(subquery.node):
                yield from descend(subquery.node)


def _tables_elsewhere(node: Node, places: Collection[Node]) -> Iterator[str]:
    """The tables that are read outside of some nodes."""
    if node in places:
        return
    if isinstance(node, Scan):
        yield node.table
    for child in inputs(node):
        yield from _tables_elsewhere(child, places)
    for subquery in own_subqueries(node):
        yield from _tables_elsewhere(subquery.node, places)
