"""Times are given to commits in one order, and strictly increase."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from ctsql.runtime.log.actions import Commit, DataFile
from ctsql.runtime.warehouse.times.timeline import Binding, TaskState, UnboundCommit, assign
from ctsql.runtime.warehouse.times.timestamp_assignment import candidates_of


def test_order_is_by_timestamp_then_name_then_version() -> None:
    """[T-from-timestamp], in the order the rule names."""
    candidates = [
        UnboundCommit(200, "default.a", 7, "id-a"),
        UnboundCommit(100, "default.b", 2, "id-b"),
        UnboundCommit(100, "default.a", 6, "id-a"),
        UnboundCommit(100, "default.a", 5, "id-a"),
    ]
    assert assign(candidates, 0) == [
        Binding(100, "id-a", 5),
        Binding(101, "id-a", 6),
        Binding(102, "id-b", 2),
        Binding(200, "id-a", 7),
    ]


@pytest.mark.parametrize(("time_ms", "time"), [(50, 1_001), (1_000, 1_001), (5_000, 5_000)])
def test_a_commit_keeps_its_timestamp_if_that_is_free(time_ms: int, time: int) -> None:
    """One before the newest T comes after it: a clock that went back gives times that do not."""
    assert assign([UnboundCommit(time_ms, "t", 1, "t")], 1_000) == [Binding(time, "t", 1)]


CANDIDATES = st.lists(
    st.builds(
        UnboundCommit,
        time_ms=st.integers(0, 50),
        name=st.sampled_from(["default.a", "default.b", "s.c"]),
        version=st.integers(0, 50),
        source=st.sampled_from(["1", "2"]),
    ),
    unique_by=(lambda c: (c.name, c.version), lambda c: (c.source, c.version)),
)


@given(CANDIDATES, st.integers(-1, 60))
def test_times_strictly_increase(candidates: list[UnboundCommit], last: int) -> None:
    """[T-increases], and no T is before its commit."""
    bindings = assign(candidates, last)
    times = [b.time for b in bindings]
    assert times == sorted(set(times))
    assert all(time > last for time in times)
    ordered = sorted(candidates, key=lambda c: (c.time_ms, c.name, c.version))
    for binding, candidate in zip(bindings, ordered, strict=True):
        assert binding.time >= candidate.time_ms
        assert (binding.source, binding.version) == (candidate.source, candidate.version)


@given(CANDIDATES, st.randoms(use_true_random=False))
def test_order_of_the_listing_does_not_matter(
    candidates: list[UnboundCommit], chance: object
) -> None:
    """Two processes that list sources in another order assign the same."""
    shuffled = list(candidates)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert assign(shuffled, 10) == assign(candidates, 10)


def test_definitions_in_force() -> None:
    """What was bound last counts, from its T on; before any, the first definition."""
    state = TaskState(((10, 1), (20, 2), (15, 3)))
    assert [state.revision_at(t) for t in (9, 10, 14, 15, 25)] == [0, 1, 1, 3, 3]
    assert state.spans(5, 30) == [(5, 9, 0), (9, 14, 1), (14, 19, 3), (19, 30, 3)]
    assert state.spans(9, 9) == []
    assert state.spans(9, 10) == [(9, 10, 1)]
    assert TaskState().spans(5, 30) == [(5, 30, 0)]


def test_a_transaction_gets_one_time() -> None:
    """[one-T-per-transaction]: its commits are bound together, what comes before and after them in
    their order.
    """
    candidates = [
        UnboundCommit(100, "default.a", 1, "a", "x"),
        UnboundCommit(110, "default.a", 2, "a"),
        UnboundCommit(120, "default.b", 5, "b"),
        UnboundCommit(130, "default.b", 6, "b", "x"),
        UnboundCommit(105, "default.c", 9, "c"),
    ]
    waiting = {"x": frozenset("ab")}
    assert assign(candidates, 0, waiting=waiting) == [
        Binding(105, "c", 9),
        Binding(120, "b", 5),
        Binding(130, "a", 1),
        Binding(130, "b", 6),
        Binding(131, "a", 2),
    ]
    missing = [c for c in candidates if (c.source, c.version) != ("b", 6)]
    assert assign(missing, 0, waiting=waiting) == [Binding(105, "c", 9), Binding(120, "b", 5)]


def test_a_tick_shares_a_time() -> None:
    """[in-order-of-timestamp]: commits of one interval share the T of the last of them; of a source
    the newest.
    """
    candidates = [
        UnboundCommit(1_010, "default.a", 1, "a"),
        UnboundCommit(1_500, "default.b", 4, "b"),
        UnboundCommit(1_999, "default.a", 2, "a"),
        UnboundCommit(2_000, "default.a", 3, "a"),
    ]
    assert assign(candidates, 0, tick_ms=1_000) == [
        Binding(1_999, "a", 2),
        Binding(1_999, "b", 4),
        Binding(2_000, "a", 3),
    ]
    assert assign(candidates, 5_000, tick_ms=1_000) == [
        Binding(5_001, "a", 2),
        Binding(5_001, "b", 4),
        Binding(5_002, "a", 3),
    ]


@given(CANDIDATES, st.integers(0, 20), st.integers(-1, 60), st.data())
def test_nothing_is_lost_or_taken_out_of_order(
    candidates: list[UnboundCommit], tick_ms: int, last: int, data: st.DataObject
) -> None:
    """[times-increase], [versions-in-order]: with groups and ticks too, whatever there is is bound,
    each source in its order.
    """
    by_source = {c.source: c for c in candidates if c.version % 3 == 0}
    group = data.draw(st.sets(st.sampled_from(sorted(by_source)))) if by_source else set()
    grouped = [
        replace(c, group="x") if by_source.get(c.source) is c and c.source in group else c
        for c in candidates
    ]
    waiting = {"x": frozenset(group)} if group else {}
    bindings = assign(grouped, last, waiting=waiting, tick_ms=tick_ms)
    times = [b.time for b in bindings]
    assert times == sorted(times)
    assert all(time > last for time in times)
    assert len({(b.time, b.source) for b in bindings}) == len(bindings)
    of_group = {
        next(b.time for b in bindings if b.source == c.source and b.version == c.version)
        for c in grouped
        if c.group and any(b.source == c.source and b.version == c.version for b in bindings)
    }
    assert len(of_group) <= 1
    for source in {c.source for c in candidates}:
        chain = sorted(
            (c for c in candidates if c.source == source),
            key=lambda c: (c.time_ms, c.name, c.version),
        )
        bound = [b.version for b in bindings if b.source == source]
        assert bound[-1] == chain[-1].version


def test_what_is_taken_back_gets_no_time() -> None:
    """A transaction's commit and the commit that undoes it are passed over.

    What somebody committed between the two is bound where the transaction's rows are gone again.
    """

    def commit(version: int, **said: str) -> Commit:
        change = DataFile.of({"path": "f"})
        info = json.dumps(said)
        return Commit(version, version, (change,), (), (), (), (), info)

    commits = [commit(1), commit(2, transaction="x"), commit(3), commit(4, undoes="x")]
    assert [c.version for c in candidates_of("a", "default.a", commits)] == [1, 4]
    assert [c.version for c in candidates_of("a", "default.a", [*commits, commit(5)])] == [1, 4, 5]
    taken_back = [commit(2, transaction="x"), commit(3, undoes="x")]
    assert candidates_of("a", "default.a", taken_back) == []
    (_, second, _) = candidates_of("a", "default.a", commits[:3])
    assert second == UnboundCommit(2, "default.a", 2, "a", "x")


def test_a_part_without_rows_is_bound_with_the_others() -> None:
    """It may say how far a writer is; a commit without rows beside a transaction is no change."""

    def commit(version: int, **said: str) -> Commit:
        return Commit(version, version, (), (), (), (), (), json.dumps(said))

    found = candidates_of("a", "default.a", [commit(1), commit(2, transaction="x")])
    assert found == [UnboundCommit(2, "default.a", 2, "a", "x")]
    undone = [commit(2, transaction="x"), commit(3, undoes="x")]
    assert candidates_of("a", "default.a", undone) == []
