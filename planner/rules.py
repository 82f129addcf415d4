"""The rewrite rules that turn a bound plan into an executable one, in order.

:func:`resolve_roles` replaces every ``Get`` by the relation of its role:

    Query INSERT ... SELECT ... FROM feed JOIN pages    Query INSERT ... FROM feed JOIN pages
      Get feed (input)                             ->     InsertsInput feed
      Get pages (reference)                               NormalReference pages

:func:`mark_snapshot` is for ``SNAPSHOT = true``: the input's contents at the creation are its
inserts since the beginning of time. :func:`extract_times` and :func:`reduce_times` give the times
at which a task is due, by logs alone: once at each time with inserts, or with deletes that it
reads.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from ctsql.planner import nodes as lp

Root = TypeVar("Root", bound=lp.Node)  # a plan that is no ``Get`` itself

RELATION_OF_ROLE: dict[lp.Role, Callable[..., lp.Node]] = {
    lp.Role.INPUT: lp.InsertsInput,
    lp.Role.DELETES: lp.DeletesInput,
    lp.Role.CHANGES: lp.ChangesInput,
    lp.Role.REFERENCE: lp.NormalReference,
    lp.Role.SELF: lp.SelfReference,
}


def resolve_roles(plan: lp.Node) -> lp.Node:
    """Replace every ``Get`` by the relation of its role; no ``Get`` remains."""

    def change(n: lp.Node) -> lp.Node:
        if not isinstance(n, lp.Get):
            return n
        relation = RELATION_OF_ROLE[n.role]
        return relation(object_id=n.object_id, name=n.name, columns=n.columns)

    return lp.map_nodes(plan, change)


def mark_snapshot(plan: lp.Node) -> lp.Node:
    """Mark the inputs of a task with SNAPSHOT: on the first run they are the snapshot."""
    if not (isinstance(plan, lp.TaskWrite) and plan.snapshot):
        return plan

    def change(n: lp.Node) -> lp.Node:
        if isinstance(n, lp.InsertsInput | lp.ChangesInput) and not n.with_snapshot:
            return replace(n, with_snapshot=True)
        return n

    return lp.map_nodes(plan, change)


def extract_times(plan: lp.Node) -> lp.Node:
    """Take a task's due times from the changes of its inputs."""
    if isinstance(plan, lp.TaskWrite) and plan.times is None:
        return replace(plan, times=lp.TimesExtract(inputs=plan.inputs))
    return plan


def reduce_times(plan: lp.Node) -> lp.Node:
    """Make a task due at most once at each time."""
    if isinstance(plan, lp.TaskWrite) and isinstance(plan.times, lp.TimesExtract):
        return replace(plan, times=lp.TimesReduce(times=plan.times))
    return plan


RULES: tuple[Callable[[lp.Node], lp.Node], ...] = (
    resolve_roles,
    mark_snapshot,
    extract_times,
    reduce_times,
)


def transform(plan: Root) -> Root:
    """Apply all rules. The root keeps its kind."""
    kind = type(plan)
    node: lp.Node = plan
    for rule in RULES:
        node = rule(node)
    assert isinstance(node, kind)
    return node
