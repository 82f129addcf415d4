"""Views that are about to be followed: written at every T before the catalog knows by whom.

A view that nobody follows is brought straight to the newest T. A task that is made on one begins
at a T, and is in the catalog some time later; what commits come meanwhile it is to see one by one.

    catalog: the views count as followed, until some T      timeline: the T at which it begins
    catalog: the task

[expected-at-every-T] a process that knows a T bound after the first step has read a catalog that
    has it, so writes the views at that T and each before it that is later than the beginning. What
    others write later, of Ts that they knew before, is not later than the beginning, and lost.

If the task is never made the views are written at every T for a day, which costs time only.
"""

from collections.abc import Iterable
from dataclasses import replace

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import closure
from ctsql.catalog.items import Item, MaterializedView
from ctsql.runtime.engine import Engine

EXPECTED_MS = 86_400_000


def expect_follower(engine: Engine, reads: Iterable[Item]) -> None:
    """Let views be written at every T for who will read them [expected-at-every-T].

    Args:
        reads: what it will read; what these read is followed, too.
    """
    views = [
        i.id
        for i in closure(engine.catalog, [r.id for r in reads])
        if isinstance(i, MaterializedView) and not engine.relations.is_followed(i)
    ]
    if not views:
        return
    until = engine.timeline.now + EXPECTED_MS

    def expect(current: Catalog) -> Catalog:
        there = [current.items[i] for i in views if i in current.items]
        return current.with_items(
            replace(i, following=replace(i.following, until=until))
            for i in there
            if isinstance(i, MaterializedView)
        )

    engine.change_catalog(expect)
