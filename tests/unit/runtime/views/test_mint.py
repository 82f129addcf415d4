"""The materialized-view sink's decisions: what to write next, and what to do with it then."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from ctsql.runtime.views.mint import Description, Mint, decide
from ctsql.runtime.warehouse.sink_decisions import WAIT, Advance, Wait, Write
from tests.conftest import VECTORS

VECTOR = json.loads((VECTORS / "mv_sink.json").read_text())


def test_vector_of_descriptions() -> None:
    """The vector's steps on one mint; before the first step nothing was minted."""
    mint = Mint()
    for step in VECTOR["batch_descriptions"]["steps"]:
        if step.get("read_only") is True:
            mint = Mint(minted_at=mint.minted_at, read_only=True)
        elif step.get("read_only") is False:
            mint = replace(mint, read_only=False)
        mint, decision = mint.next(desired=step["desired"], stored_upper=step["stored"])
        if step["mint"] is None:
            assert decision == WAIT, step
        else:
            assert decision == Write(step["mint"][1], Description(*step["mint"])), step


@pytest.mark.parametrize("case", VECTOR["append"], ids=lambda c: f"at {c['upper']}")
def test_vector_of_appends(case: dict[str, object]) -> None:
    """Commit, advance and commit, or drop, by the upper that the output has now."""
    description = Description(*case["description"])  # type: ignore[misc]
    upper = case["upper"]
    assert isinstance(upper, int)
    action = decide(description, upper)
    match str(case["result"]).split()[0].rstrip(","):
        case "committed":
            assert action == Write(description.upper, description)
        case "advance":
            assert action == Advance(description.lower)
        case "dropped":
            assert action == WAIT
        case other:
            raise AssertionError(other)


def test_an_empty_description_is_refused() -> None:
    """[t, t) holds no time."""
    with pytest.raises(ValueError, match="empty description"):
        Description(3, 3)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20))
def test_minting_moves_forward(moves: list[tuple[int, int]]) -> None:
    """[lowers-increase], [uppers-monotone]: whatever the frontiers do, lowers strictly increase and
    uppers never go back.
    """
    mint, desired, stored = Mint(), 0, 0
    made: list[Description] = []
    for wanted, written in moves:
        desired, stored = max(desired, wanted), max(stored, written)
        mint, decision = mint.next(desired=desired, stored_upper=stored)
        if isinstance(decision, Write):
            made.append(decision.what)
    lowers, uppers = [d.lower for d in made], [d.upper for d in made]
    assert lowers == sorted(set(lowers))
    assert uppers == sorted(uppers)


@given(st.integers(0, 9), st.integers(0, 9))
def test_a_mint_gives_one_description_at_a_time(desired: int, stored: int) -> None:
    """[one-in-flight]: without a move of the stored upper there is no second one."""
    mint, first = Mint().next(desired=desired, stored_upper=stored)
    _, second = mint.next(desired=desired + 5, stored_upper=stored)
    assert isinstance(first, Wait) or isinstance(second, Wait)
