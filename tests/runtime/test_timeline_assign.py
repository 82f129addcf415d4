"""Times are given to commits in one order, and strictly increase."""

from hypothesis import given
from hypothesis import strategies as st

from ctsql.runtime.timeline import Binding, Candidate, TaskState, assign


def test_order_is_by_timestamp_then_name_then_version() -> None:
    """I4, in the order the rule names."""
    candidates = [
        Candidate(200, "default.a", 7, "id-a"),
        Candidate(100, "default.b", 2, "id-b"),
        Candidate(100, "default.a", 6, "id-a"),
        Candidate(100, "default.a", 5, "id-a"),
    ]
    assert assign(candidates, 0) == [
        Binding(100, "id-a", 5),
        Binding(101, "id-a", 6),
        Binding(102, "id-b", 2),
        Binding(200, "id-a", 7),
    ]


def test_a_commit_before_the_newest_time_comes_after_it() -> None:
    """A clock that went back gives times that do not."""
    assert assign([Candidate(50, "default.t", 1, "t")], 1_000) == [Binding(1_001, "t", 1)]


def test_a_commit_after_the_newest_time_keeps_its_timestamp() -> None:
    """T is the commit's own timestamp where that is free."""
    assert assign([Candidate(5_000, "default.t", 1, "t")], 1_000) == [Binding(5_000, "t", 1)]


CANDIDATES = st.lists(
    st.builds(
        Candidate,
        time_ms=st.integers(0, 50),
        name=st.sampled_from(["default.a", "default.b", "s.c"]),
        version=st.integers(0, 50),
        source=st.sampled_from(["1", "2"]),
    ),
    unique_by=lambda c: (c.name, c.version),
)


@given(CANDIDATES, st.integers(-1, 60))
def test_times_strictly_increase(candidates: list[Candidate], last: int) -> None:
    """I1, and no T is before its commit."""
    bindings = assign(candidates, last)
    times = [b.time for b in bindings]
    assert times == sorted(set(times))
    assert all(time > last for time in times)
    ordered = sorted(candidates, key=lambda c: (c.time_ms, c.name, c.version))
    for binding, candidate in zip(bindings, ordered, strict=True):
        assert binding.time >= candidate.time_ms
        assert (binding.source, binding.version) == (candidate.source, candidate.version)


@given(CANDIDATES, st.randoms(use_true_random=False))
def test_order_of_the_listing_does_not_matter(candidates: list[Candidate], chance: object) -> None:
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
