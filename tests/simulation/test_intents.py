"""Transactions over two tables in memory: killed at every call to the store, and in conflict."""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.log import clock
from ctsql.runtime.log.batches import BatchText
from ctsql.runtime.log.write_handle import Output
from ctsql.runtime.warehouse.times import multi_table_commit
from ctsql.runtime.warehouse.times.multi_table_commit import (
    APP,
    WriteConflict,
    mint_resolved,
    prepare,
    resolve,
)
from ctsql.runtime.warehouse.times.timeline import UNKNOWN_KEPT, Timeline, check_not_stuck
from tests.simulation.memory_log import MemoryGateway, MemoryTable, Rows
from tests.simulation.memory_store import Bag, Fate, Kill, SentCommit, Store

pytestmark = pytest.mark.thorough

TIMELINE = "timeline"
KEPT, GONE, NEW, FOREIGN = ("kept",), ("gone",), ("new",), ("foreign",)
STEPS_MAX = 400


class Link:
    """A process's way to the store.

    Args:
        dies_at: how many calls the process lives for. lost_commit: the number of the commit whose
            answer is lost. at: the number of the call before which ``happens`` runs.
    """

    def __init__(
        self,
        name: str,
        dies_at: int = STEPS_MAX,
        lost_commit: int = -1,
        at: int = -1,
        happens: Callable[[], None] = lambda: None,
    ) -> None:
        self.name, self.dies_at, self.lost_commit = name, dies_at, lost_commit
        self.at, self.happens = at, happens
        self.steps = self.commits = 0

    def step(self, call: str, where: str) -> None:
        self.steps += 1
        if self.steps > self.dies_at:
            raise Kill
        if self.steps == self.at:
            self.happens()

    def fate(self, *, rows: bool) -> Fate:
        self.commits += 1
        return Fate.LOST if self.commits == self.lost_commit else Fate.ANSWERED

    def noted(self, what: str, *, rows: bool | None = None) -> None:
        """Nothing is counted."""


class Process:
    """One process: its timeline and its tables."""

    def __init__(self, store: Store, link: Link) -> None:
        self.gateway = MemoryGateway(store, link)
        self.timeline = Timeline(self.gateway, TIMELINE)  # type: ignore[arg-type]
        self.tables: dict[str, MemoryTable] = {n: self.gateway.table(n) for n in ("a", "b")}

    @property
    def sources(self) -> dict:  # type: ignore[type-arg]
        """As the timeline is given them."""
        return {name: (name, table) for name, table in self.tables.items()}

    def mint(self) -> int:
        """As the engine does it."""
        newest = self.timeline.mint(self.sources)
        while self.timeline.intents:
            for group in list(self.timeline.intents):
                resolve(self.timeline, group, self.sources)
            newest = self.timeline.mint(self.sources)
        return newest

    def change(self, name: str, row: tuple[str, ...] = NEW) -> BatchText:
        """A row inserted and the row ``GONE`` deleted, staged against what there is."""
        table = self.tables[name]
        batch = Output(table, APP).batch(0, 1)  # type: ignore[arg-type]
        batch.at(0).stage(Rows([row]))  # type: ignore[arg-type]
        located = table.locate_rows(table.version())
        places = [p for r, p in zip(located.rows, located.places, strict=True) if r == GONE]
        if places:
            ((path, number),) = places
            batch.at(0).delete_rows([(path, frozenset({number}))])  # type: ignore[list-item]
        return BatchText.from_json(batch.describe())

    def prepare(self, group: str = "x") -> Any:
        """Decide a transaction that changes both tables."""
        changes = {name: self.change(name) for name in self.tables}
        return prepare(self.timeline, group, changes, self.sources)

    def commit(self, group: str, *names: str) -> bool:
        """A whole transaction; False when somebody else was first."""
        changes = {name: self.change(name) for name in names}
        try:
            intent = prepare(self.timeline, group, changes, self.sources)
            conflict = resolve(self.timeline, group, self.sources, intent)
        except WriteConflict:
            return False
        self.mint()
        return conflict is None


def made(gone: bool = True) -> Store:
    """Two tables with rows, bound."""
    store = Store()
    for name in (TIMELINE, "a", "b"):
        store.make(name)
    for name in ("a", "b"):
        foreign(store, name, KEPT, *([GONE] if gone else []))
    Process(store, Link("setup")).mint()
    return store


def foreign(store: Store, name: str, *rows: tuple[str, ...]) -> None:
    """Somebody who knows nothing of us inserts rows."""
    folder = store.folders[name]
    file = folder.write_file(rows, "foreign")
    store.clock_ms += 10
    folder.append(SentCommit("foreign", folder.newest, [file.line("add", data_change=True)]))


def half_done(store: Store, *, mints: bool = False) -> Process:
    """A process that died when its transaction was decided and its part in a committed."""
    process = Process(store, Link("killed"))
    if mints:
        process.mint()
    process.prepare()
    resolve(process.timeline, "x", {"a": process.sources["a"]})
    return process


def rows_now(store: Store, name: str) -> Bag:
    """What a table holds now, bound or not."""
    return store.folders[name].contents(store.folders[name].newest)


def seen(store: Store) -> Iterator[tuple[Bag, Bag]]:
    """What both tables hold at every T, read by a process of its own."""
    process = Process(store, Link("reader"))
    now = process.mint()
    bound = {b.time for n in ("a", "b") for b in process.timeline.bindings_between(n, -1, now)}
    for time in sorted(bound | {now}):
        versions = [process.timeline.version_at(n, time) for n in ("a", "b")]
        if None not in versions:
            a, b = (
                store.folders[n].contents(v if v is not None else -1)
                for n, v in zip("ab", versions, strict=True)
            )
            yield a, b


def check(store: Store) -> bool:
    """At every T both tables hold the transaction or neither does; does the last?"""
    last = False
    for a, b in seen(store):
        for bag in (a, b):
            assert bag[KEPT] == 1
            assert bag[NEW] + bag[GONE] == 1, "its insert and its delete go together"
        assert a[NEW] == b[NEW], "all or none"
        last = a[NEW] == 1
    return last


@pytest.mark.parametrize("conflict", ["", "a", "b"])
def test_killed_at_every_call(conflict: str) -> None:
    """Whoever comes next completes it or undoes it; a foreign row that came between stays."""
    ends = {True: 0, False: 0}
    for dies_at in itertools.count():
        store = made()
        link = Link("first", dies_at)
        finished = True
        try:
            Process(store, link).commit("x", "a", "b")
        except Kill:
            finished = False
        if conflict:
            foreign(store, conflict, FOREIGN)
        is_in = check(store)
        ends[is_in] += 1
        assert not finished or is_in
        ((a, b),) = list(seen(store))[-1:]
        assert (a + b)[FOREIGN] == bool(conflict)
        again = Process(store, Link("again"))
        assert again.commit("y", "a", "b"), "the tables can be written again"
        ((a, b),) = list(seen(store))[-1:]
        assert a[NEW] == b[NEW] == (2 if is_in else 1)
        if finished:
            break
    assert all(ends.values()), "some calls come before the decision and some after"


@pytest.mark.parametrize("lost", range(1, 6))
def test_a_lost_answer(lost: int) -> None:
    """A commit that is in although its answer was an error is not made twice."""
    store = made()
    process = Process(store, Link("first", lost_commit=lost))
    with suppress(CtsqlError):
        process.commit("x", "a", "b")
    is_in = check(store)
    assert is_in or lost <= 3, "from the intent on it is decided"


def test_the_recovery_is_killed_too() -> None:
    """A kill while somebody undoes or completes what a killed process left."""
    for first, second in itertools.product(range(20, 90, 7), range(0, 90, 7)):
        store = made()
        for dies_at, name in ((first, "first"), (second, "second")):
            process = Process(store, Link(name, dies_at))
            with suppress(Kill):
                if name == "first":
                    process.commit("x", "a", "b")
                else:
                    foreign(store, "b", FOREIGN)
                    process.mint()
        check(store)


def rewrite_all(store: Store, name: str) -> None:
    """Compact a table to one file."""
    folder = store.folders[name]
    files = list(folder.live[-1].values())
    rows = [row for file in files for _, row in folder.rows(file)]
    one = folder.write_file(rows, "compaction")
    removes = [file.line("remove", data_change=False) for file in files]
    folder.append(
        SentCommit("compaction", folder.newest, [*removes, one.line("add", data_change=False)])
    )


@pytest.mark.parametrize("is_rewritten", [False, True])
@pytest.mark.parametrize("keeps", [(), (KEPT,)], ids=["a_whole_file_goes", "some_rows_go"])
def test_two_undo_at_once(keeps: tuple[tuple[str, ...], ...], is_rewritten: bool) -> None:
    """[undone-on-timeline]: what one took back is not added again, and is not in the way."""
    for at in itertools.count(1):
        store = made(gone=False)
        foreign(store, "a", GONE, *keeps)
        killed = Process(store, Link("killed"))
        killed.mint()
        changes = {name: killed.change(name) for name in ("a", "b")}
        parts = tuple(replace(part, inserts=()) for part in changes["a"].parts)
        changes["a"] = replace(changes["a"], parts=parts)
        prepare(killed.timeline, "x", changes, killed.sources)
        resolve(killed.timeline, "x", {"a": killed.sources["a"]})
        foreign(store, "b", FOREIGN)

        def undo(store: Store = store) -> None:
            Process(store, Link("other")).mint()
            if is_rewritten:
                rewrite_all(store, "a")

        link = Link("second", at=at, happens=undo)
        Process(store, link).mint()
        # Nothing is bound to an undoing: the next commit in the table would show its rows.
        for name in ("a", "b"):
            foreign(store, name, NEW)
        a, b = list(seen(store))[-1]
        assert a == Counter([KEPT, GONE, NEW, *keeps])
        assert b == Counter([KEPT, FOREIGN, NEW])
        if link.steps < at:
            break


def while_another_undoes(is_dropped: bool = False) -> Iterator[tuple[Store, Process]]:
    """A store and a process that is to commit; at each of its calls another undoes what it did.

    Args:
        is_dropped: to the other one b is dropped.
    """
    for at in itertools.count(1):
        store = made()

        newest: dict[str, Any] = {}

        def undo(store: Store = store, newest: dict[str, Any] = newest) -> None:
            foreign(store, "b", FOREIGN)
            other = Process(store, Link("other"))
            if is_dropped:
                del other.tables["b"]
            other.mint()
            newest.clear()
            newest.update(other.sources)

        link = Link("first", at=at, happens=undo)
        process = Process(store, link)
        newest.update(process.sources)
        process.timeline.reload = lambda newest=newest: newest
        yield store, process
        if link.steps < at:
            break


@pytest.mark.parametrize("is_dropped", [False, True])
def test_the_committer_is_told_the_outcome(is_dropped: bool) -> None:
    """Also if another process has ended it meanwhile: on a conflict the files are deleted.

    If b was dropped, a's part is committed for all.
    """
    told: Counter[bool] = Counter()
    for store, process in while_another_undoes(is_dropped):
        is_told = process.commit("x", "a", "b")
        told[is_told] += 1
        assert is_told == (rows_now(store, "a")[NEW] if is_dropped else check(store))
    assert told[True], "at some calls it is too late"
    assert told[False], "at others it is not"


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_table_that_was_replaced_in_its_log(name: str) -> None:
    """CREATE OR REPLACE TABLE by another engine undoes it, whether its part was in or not."""
    store = made()
    half_done(store)
    rewrite_all(store, name)
    if name == "a":
        foreign(store, "b", FOREIGN)
    process = Process(store, Link("second"))
    process.tables[name].own_id = "another"
    process.mint()
    assert not process.timeline.intents
    (other,) = {"a", "b"} - {name}
    assert not rows_now(store, other)[NEW]


def test_killed_again_before_the_undoing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its part in b cannot come in, and its files are gone: whoever comes next undoes it."""
    store = made()
    process = Process(store, Link("first"))
    process.prepare()
    rewrite_all(store, "b")

    def killed(*_: object) -> None:
        raise Kill

    second = Process(store, Link("second"))
    with monkeypatch.context() as patched:
        patched.setattr(multi_table_commit, "_undoing", killed)
        with pytest.raises(Kill):
            second.mint()
    assert not check(store)
    assert Process(store, Link("again")).commit("y", "a", "b")


def set_back(store: Store, name: str, version: int) -> None:
    """RESTORE TABLE ... TO VERSION AS OF."""
    folder = store.folders[name]
    now, then = folder.live[-1], folder.live[version]
    removes = [f.line("remove", data_change=True) for p, f in now.items() if p not in then]
    adds = [f.line("add", data_change=True) for p, f in then.items() if p not in now]
    info = json.dumps({"commitInfo": {"operation": "RESTORE"}})
    store.clock_ms += 10
    folder.append(SentCommit("foreign", folder.newest, [info, *removes, *adds]))


@pytest.mark.parametrize("back", [0, 1])
def test_a_transaction_that_comes_to_no_end(back: int) -> None:
    """Its tables alone cannot be read, until one is set back to its part, or before."""
    store = made(gone=False)
    store.make("c")
    half_done(store)
    part = store.folders["a"].newest
    rewrite_all(store, "a")
    for name in ("b", "c"):
        foreign(store, name, FOREIGN)
    process = Process(store, Link("second"))
    process.tables["c"] = process.gateway.table("c")
    told_at = 0
    for _ in range(2):
        now = mint_resolved(process.timeline, lambda: process.sources, tick_ms=0)
        assert told_at in (0, process.timeline.now), "it is told once"
        told_at = process.timeline.now
        for name in ("a", "b"):
            with pytest.raises(CtsqlError, match="TRANSACTION_STUCK") as caught:
                check_not_stuck(process.timeline, name)
            assert f"TO VERSION AS OF {part}" in (caught.value.hint or "")
        check_not_stuck(process.timeline, "c")
        reader = Process(store, Link("reader"))
        reader.timeline.refresh()
        with pytest.raises(CtsqlError, match="TRANSACTION_STUCK"):
            check_not_stuck(reader.timeline, "b")
        version = process.timeline.version_at("c", now)
        assert version is not None
        assert store.folders["c"].contents(version)[FOREIGN] == 1
    set_back(store, "a", part - back)
    now = mint_resolved(process.timeline, lambda: process.sources, tick_ms=0)
    assert not process.timeline.intents
    assert rows_now(store, "a") == Counter([KEPT])
    assert rows_now(store, "b") == Counter([KEPT, FOREIGN])
    assert Process(store, Link("again")).commit("y", "a", "b")


def test_a_commit_is_not_bound_before_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody commits to a and then to b, while the sources are looked at."""
    for at in itertools.count(1):
        store = made(gone=False)
        monkeypatch.setattr(clock, "now_ms", lambda store=store: store.clock_ms)

        def commit(store: Store = store) -> None:
            for name in ("a", "b"):
                foreign(store, name, FOREIGN)

        link = Link("first", at=at, happens=commit)
        Process(store, link).mint()
        for a, b in seen(store):
            assert a[FOREIGN] >= b[FOREIGN]
        if link.steps < at:
            break


def test_the_first_to_commit_wins() -> None:
    """The second, which saw the same version, changes nothing."""
    store = made()
    first, second = Process(store, Link("first")), Process(store, Link("second"))
    changes = {name: second.change(name, ("second",)) for name in ("a", "b")}
    assert first.commit("x", "a")
    with pytest.raises(WriteConflict):
        prepare(second.timeline, "y", changes, second.sources)
    assert not second.timeline.intents
    a, b = list(seen(store))[-1]
    assert (a[("second",)], b[("second",)], a[NEW], b[NEW]) == (0, 0, 1, 0)


def test_a_decided_transaction_keeps_others_out() -> None:
    """[one-intent-per-table]: a table is in one intent at a time."""
    store = made()
    first, second = Process(store, Link("first")), Process(store, Link("second"))
    change = second.change("b")
    first.prepare()
    with pytest.raises(WriteConflict):
        prepare(second.timeline, "y", {"b": change}, second.sources)
    assert first.timeline.mint(first.sources) >= 0, "what is half there is not bound"
    assert resolve(second.timeline, "x", second.sources) is None
    assert check(store)
    assert "x" in json.dumps([c.metadata for c in store.folders["a"].commits])


def test_who_does_not_know_a_new_table_leaves_it_bound() -> None:
    """Else a transaction that changes it would wait for a commit that has no T for good."""
    store = made()
    other, process = Process(store, Link("other")), Process(store, Link("process"))
    process.mint()
    before = process.timeline.bound("b")
    foreign(store, "a", FOREIGN)
    other.timeline.mint({"a": ("a", other.tables["a"])})  # its catalog is from before b was made
    assert other.timeline.bound("b") == before
    process.prepare()
    assert resolve(process.timeline, "x", process.sources) is None
    process.timeline.mint(process.sources)
    assert not process.timeline.intents
    assert check(store)


def test_who_does_not_know_a_table_of_a_transaction_looks_for_it() -> None:
    """Half of the transaction would be bound alone."""
    store = made()
    other, process = Process(store, Link("other")), Process(store, Link("process"))
    process.mint()
    process.prepare()
    resolve(process.timeline, "x", {"a": process.sources["a"]})
    other.timeline.reload = lambda: other.sources
    other.timeline.mint({"a": other.sources["a"]})  # its catalog is from before b was made
    assert other.timeline.intents, "b is still to come"
    assert resolve(process.timeline, "x", process.sources) is None
    assert check(store)


def test_who_undoes_looks_for_tables_that_it_does_not_know() -> None:
    """Else the part in a table that was made after its look at the catalog would stay in."""
    for at in itertools.count(1):
        store = made()
        foreign(store, "b", FOREIGN)

        def prepare_and_die(store: Store = store) -> None:
            half_done(store, mints=True)
            foreign(store, "b", FOREIGN)

        link = Link("other", at=at, happens=prepare_and_die)
        other = Process(store, link)
        known = [{"b": other.sources["b"]}]  # its catalog is from before a was made

        def reload(other: Process = other, known: list[Any] = known) -> Any:
            known[0] = other.sources
            return known[0]

        other.timeline.reload = reload
        mint_resolved(other.timeline, lambda known=known: known[0], tick_ms=0)
        assert not check(store)
        if link.steps < at:
            break


def test_what_is_known_of_dropped_tables_is_bounded() -> None:
    """The newest of them stay, as they may be new."""
    store = Store()
    for name in (TIMELINE, "a", "b"):
        store.make(name)
    process = Process(store, Link("process", dies_at=10**6))
    for number in range(UNKNOWN_KEPT + 5):
        name = f"t{number}"
        store.make(name)
        process.timeline.mint({name: (name, process.gateway.table(name))})
    process.timeline.mint({}, fresh=True)
    known = [n for n in range(UNKNOWN_KEPT + 5) if process.timeline.bound(f"t{n}") is not None]
    assert known == list(range(5, UNKNOWN_KEPT + 5))
