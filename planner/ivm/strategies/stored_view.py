"""The stored view itself as the former result: keys at the top, and the first rows.

If the topmost operator is local to keys that the view shows, the view's rows with an affected key
*are* its former result there, so the difference to write is

    (op(R' restricted to S) through the filters and projections above)  -  (V restricted to S)

Only the view is read as of before. Wrong rows of affected keys are corrected, and results that
depend on the order of rows (sums of doubles, any_value) need not be computed again.

For ORDER BY .. LIMIT n at the top, the new first rows are those of V plus the change of LIMIT's
input. This needs at least n of these to be no later than the last row of V: unchanged rows after
V's last row remain after it. If V held fewer than n rows, it held all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.traversal import (
    columns_in,
    is_same_if_equal,
    own_subqueries,
    pass_through,
    union_all,
)
from ctsql.planner.ivm.rules.context import DeltaDerivation, StepRole
from ctsql.planner.ivm.rules.recompute_keys import (
    Keyed,
    affected_keys,
    inputs_and_keys,
    replace_inputs,
    restrict_all,
)


@dataclass(frozen=True, slots=True)
class KeyedTop:
    """A topmost operator whose keys the view shows."""

    operator: Keyed  # the operator
    above: tuple[alg.Filter | alg.Project, ...]  # filters and projections above it, from the top
    # for each of its keys, the view's column; None if the view lacks it.
    places: tuple[int | None, ...]


def below_filters(node: alg.Node) -> tuple[alg.Node, tuple[alg.Filter | alg.Project, ...]]:
    """The node below filters and projections without subqueries, and these, from the top."""
    above: list[alg.Filter | alg.Project] = []
    while isinstance(node, alg.Filter | alg.Project) and not own_subqueries(node):
        above.append(node)
        node = node.child
    return node, tuple(above)


def put_above(above: Sequence[alg.Filter | alg.Project], node: alg.Node) -> alg.Node:
    """The node with filters and projections above it again."""
    for one in reversed(above):
        node = replace(one, child=node)
    return node


def keyed_top(node: alg.Node) -> KeyedTop | None:
    """The topmost operator, if it is local to keys and the view shows one of them."""
    operator, above = below_filters(node)
    keys: Sequence[alg.Col]
    match operator:
        case alg.Aggregate(sets=None):
            keys = tuple(k.col for k in operator.keys)
        case alg.Window():
            keys = operator.keys
        case alg.Distinct() | alg.SetOperation():
            keys = operator.columns
        case _:
            return None
    places = tuple(place_of(col, above, node) for col in keys)
    if all(place is None for place in places):
        return None
    return KeyedTop(operator, above, places)


def place_of(col: alg.Col, above: Sequence[alg.Filter | alg.Project], top: alg.Node) -> int | None:
    """The view's column for an operator's column, through the nodes above; None if none."""
    here: alg.Col | None = col
    for node in reversed(above):
        if isinstance(node, alg.Project):
            here = next((i.col for i in node.items if i.expr.column == here), None)
        if here is None:
            return None
    return next((i for i, c in enumerate(top.columns) if c == here), None)


def desired_rows(
    top: KeyedTop, changes: DeltaDerivation
) -> tuple[alg.Node, alg.Step, tuple[tuple[int, alg.Col], ...]] | None:
    """The desired rows of the affected keys.

    Returns: the rows; the step with the keys; and which of the view's columns equals which column
        of the step. None if nothing changed.
    """
    indexes = [i for i, place in enumerate(top.places) if place is not None]
    children, keys = inputs_and_keys(top.operator)
    key_columns = [[cols[i] for i in indexes] for cols in keys]
    step_and_names = affected_keys(children, key_columns, changes)
    if step_and_names is None:
        return None
    step, names = step_and_names
    operator = replace_inputs(
        top.operator, restrict_all(children, key_columns, step, names, changes)
    )
    node = put_above(top.above, operator)
    places = [place for place in top.places if place is not None]
    return node, step, tuple(zip(places, names, strict=True))


def limit_top(node: alg.Node) -> alg.Limit | None:
    """A topmost LIMIT that can be kept from the view's rows: no offset, its order shown."""
    columns = set(node.columns)
    while isinstance(node, alg.Project) and all(i.expr.column == i.col for i in node.items):
        node = node.child
    if not isinstance(node, alg.Limit) or node.offset:
        return None
    is_shown = all(columns_in(o.expr) <= columns for o in node.order)
    return node if is_shown and not own_subqueries(node) else None


def first_rows(
    node: alg.Node, limit: alg.Limit, names: Sequence[str], changes: DeltaDerivation
) -> tuple[alg.Node, alg.Step, alg.StoredGroups] | None:
    """The view's new rows, the step with the candidates, and the stored rows."""
    delta = changes.of(limit.child)
    if delta is None:
        return None
    columns = node.columns
    stored_rows = alg.StoredGroups(number=alg.VIEW, names=tuple(names), columns=columns)
    signed_columns = (*columns, alg.DIFF)
    change = alg.Project(child=delta, items=pass_through(signed_columns))
    both = union_all([alg.ConstantDiff(child=stored_rows, diff=1), change], signed_columns)
    copies = changes.fresh("copies", "bigint")
    total = alg.call_of("sum", alg.DIFF, copies)
    groups, values = _equal_rows(both, columns, total, changes)
    there = alg.Filter(child=groups, predicates=(alg.Expr.of(copies, ">", "0"),))
    each = changes.repeat(there, alg.Expr.of(copies))
    items = tuple(alg.Projection(alg.Expr.of(values.get(c, c)), c) for c in columns)
    step = changes.step(StepRole.CANDIDATES, alg.Project(child=each, items=items))
    return replace(limit, child=step), step, stored_rows


def _equal_rows(
    rows: alg.Node, columns: Sequence[alg.Col], call: alg.AggregateCall, changes: DeltaDerivation
) -> tuple[alg.Aggregate, dict[alg.Col, alg.Col]]:
    """Rows grouped by identical values in some columns, and the columns with the values.

    GROUP BY equates 0.0 and -0.0 and returns 0.0. So the texts of such values are keys too, and the
    values themselves are kept in other columns.
    """
    inexact = [c for c in columns if not is_same_if_equal(c)]
    texts = {c: changes.fresh("text", "string") for c in inexact}
    values = {c: changes.copy(c) for c in inexact}
    calls = (alg.call_of("any_value", c, value) for c, value in values.items())
    keys = tuple(alg.Key(source=c, col=c) for c in (*columns, *texts.values()))
    if texts:
        items = (
            alg.Projection(alg.Expr.of("CAST (", c, "AS STRING )"), text)
            for c, text in texts.items()
        )
        rows = alg.Project(child=rows, items=(*pass_through(rows.columns), *items))
    return alg.Aggregate(child=rows, keys=keys, calls=(call, *calls)), values
