"""Brings changes of several definitions into force at one T, or none of them.

    propose:  one commit of the catalog holds all that changes; nobody sees it
    bind:     one commit of the timeline says from which T on it is in force, and binds the first
              versions of new tables and the definitions of changed tasks to the same T
    write:    the catalog has the changes

The commit of the timeline decides (:mod:`ctsql.runtime.warehouse.catalog_store` says how readers
find out). It takes place on top of the very catalog that was proposed on; where somebody changed
that in between, all is proposed again.
"""

from collections.abc import Callable, Iterable, Mapping

from ctsql.catalog.errors import CatalogError, error
from ctsql.catalog.items import Catalog, Item, ObjectKind
from ctsql.catalog.proposals import Proposal
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.warehouse.timeline import TaskState

PROPOSE_TRIES_MAX = 20
TaskChanges = Mapping[str, Callable[[TaskState, int], TaskState]]


def bring_into_force(
    engine: Engine,
    make: Callable[[Catalog], Proposal],
    *,
    tasks: Callable[[Proposal], TaskChanges] = lambda _: {},
    tables: Iterable[Item] = (),
) -> None:
    """Bring a proposal into force and write it into the catalog.

    Args:
        make: the proposal on top of a catalog; it is asked again where another process changed the
            catalog meanwhile, and raises where it no longer fits.
        tasks: what becomes of the states of tasks. tables: new ones, which get their first T.

    Raises:
        DEFINITIONS_CHANGED: other processes were first each time; nothing is in force.
    """
    new = [item for item in tables if item.kind is ObjectKind.TABLE]
    for _ in range(PROPOSE_TRIES_MAX):
        proposal = engine.catalog_store.propose(make)
        faults.point("definitions_proposed")
        sources = engine.relations.sources()
        sources |= {i.id: (i.name.qualified(), engine.relations.table(i)) for i in new}
        try:
            engine.timeline.mint(
                sources, tasks=tasks(proposal), proposal=proposal.id, tick_ms=engine.tick_ms
            )
        except CatalogError as problem:
            if problem.condition != "DEFINITIONS_CHANGED":
                raise
            continue
        faults.point("definitions_in_force")
        engine.change_catalog(lambda catalog: catalog)  # which writes what is in force
        return
    raise error("DEFINITIONS_CHANGED")
