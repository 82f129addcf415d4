"""Cutovers, in memory: killed at every call, and in conflict."""

from dataclasses import replace
from typing import Any

import pytest

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.cutovers import Cutover
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.names import Name
from ctsql.runtime.warehouse.stores.catalog_store import FORMAT, FORMAT_PROPERTY, DeltaCatalog
from ctsql.runtime.warehouse.times.timeline import TaskState, Timeline
from tests.helpers.items import an_item
from tests.simulation.memory_log import MemoryGateway
from tests.simulation.memory_store import Kill, Store
from tests.simulation.test_intents import TIMELINE, Link

CATALOG = "catalog"
OLD, NEW = ("one", "two"), ("one", "three")
STEPS_MAX = 200


def _item(name: str, definition: str = "old") -> Item:
    kind = ObjectKind.CONTINUAL_TASK
    return an_item(
        id=name, kind=kind, name=Name("default", name), columns=(), definition=definition
    )


class Process:
    """A process's catalog and timeline."""

    def __init__(self, store: Store, link: Link) -> None:
        gateway: Any = MemoryGateway(store, link)
        self.timeline = Timeline(gateway, TIMELINE)
        self.catalog = DeltaCatalog(gateway, CATALOG, "memory")
        self.catalog.decisions = self.timeline

    def add_cutover(self, name: str = "p", definition: str = "new") -> Cutover:
        """Object ``one`` gets another definition, ``two`` goes, ``three`` comes."""
        made = Cutover(
            id=name,
            items=(_item("one", definition), _item("three", definition)),
            new_ids=frozenset({"three"}),
        )
        return self.catalog.add_cutover(lambda _: made)[0]

    def bind(self, cutover: Cutover) -> int:
        """Bind it, and the definition of a task with it."""
        change = {"one": lambda state, now: replace(state, revisions=((now, 1),))}
        return self.timeline.mint({}, tasks=change, cutover=cutover.id)

    def seen(self) -> tuple[str, tuple[str, ...], TaskState]:
        """The definition in force, the objects there are, and what is bound of the task."""
        self.timeline.refresh()
        catalog = self.catalog.load()
        return (
            catalog.items["one"].definition.text,
            tuple(sorted(catalog.items)),
            self.timeline.task("one"),
        )


def _made() -> Store:
    store = Store()
    store.make(TIMELINE)
    store.make(CATALOG, **{FORMAT_PROPERTY: str(FORMAT)})
    first = Process(store, Link("setup"))
    first.timeline.mint({})
    first.catalog.change(lambda now: now.with_items([_item("one")]))
    return store


def _add(name: str) -> Any:
    def add(now: Catalog) -> Catalog:
        return now.with_items([_item(name)])

    return add


def test_killed_at_every_call() -> None:
    """All is old or all is new, for whoever looks; who changes the catalog next keeps that."""
    outcomes = set()
    for dies_at in range(STEPS_MAX):
        store = _made()
        process = Process(store, Link("first", dies_at))
        alive = True
        try:
            process.bind(process.add_cutover())
            process.catalog.change(lambda now: now)
        except Kill:
            alive = False
        reader = Process(store, Link("reader"))
        definition, names, state = reader.seen()
        is_new = definition == "new"
        assert names == (("one", "three") if is_new else ("one",)), dies_at
        assert bool(state.revisions) == is_new, dies_at
        if is_new:
            ((at, _),) = state.revisions
            assert reader.catalog.load().items["three"].created_at == at
        Process(store, Link("other")).catalog.change(_add("more"))
        after = Process(store, Link("late")).seen()
        assert after[0] == definition, f"{dies_at}: what was decided stays so"
        assert after[1] == tuple(sorted((*names, "more")))
        outcomes.add((definition, alive))
        if alive:
            break
    assert outcomes == {("old", False), ("new", False), ("new", True)}


def test_a_change_in_between_closes_a_proposal() -> None:
    """It never comes into force on top of another catalog than the one it was made for."""
    store = _made()
    first, other = Process(store, Link("first")), Process(store, Link("other"))
    cutover = first.add_cutover()
    other.catalog.change(_add("more"))
    with pytest.raises(CtsqlError, match="DEFINITIONS_CHANGED"):
        first.bind(cutover)
    assert first.seen()[:2] == ("old", ("more", "one"))


def test_of_two_proposals_one_is_bound() -> None:
    """The second closes the first; a bound one is written by whoever proposes next."""
    store = _made()
    first, other = Process(store, Link("first")), Process(store, Link("other"))
    lost, won = first.add_cutover("a", "lost"), other.add_cutover("b", "won")
    with pytest.raises(CtsqlError):
        first.bind(lost)
    at = other.bind(won)
    assert first.seen()[:2] == ("won", ("one", "three"))
    first.add_cutover("c", "last")
    assert other.seen()[:2] == ("won", ("one", "three"))
    assert other.catalog.load().items["three"].created_at == at


def test_many_decisions_are_not_kept() -> None:
    """Only the newest decisions are on the timeline; a catalog says which one counts."""
    store = _made()
    process = Process(store, Link("one", 100_000))
    for number in range(60):
        process.bind(process.add_cutover(f"p{number}", f"d{number}"))
        process.catalog.change(lambda now: now)
    assert len(process.timeline._cutovers) == 50
    assert Process(store, Link("late")).seen()[0] == "d59"
