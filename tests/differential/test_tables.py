"""The tables of the battery are whole: names differ, pairs fit, and every type is somewhere."""

import pytest

from tests.differential.arrivals import HOMES
from tests.differential.cells import Cell, chosen, together
from tests.differential.expected import KEYED
from tests.differential.kinds import BY_NAME as KIND, KINDS
from tests.differential.tasks import BY_NAME as TASK, TASK_WAYS
from tests.differential.test_differential import FIXED, FIXED_ROUNDS, FIXED_TASKS, MULTIPLYING
from tests.differential.ways import BY_NAME as WAY, WAYS


@pytest.mark.parametrize("size", [1, 8])
def test_every_pair_is_in_one_view(size: int) -> None:
    """Views have names of their own and hold each fitting pair once."""
    cells = list(together(KINDS, WAYS, size))
    assert len({cell.view for cell in cells}) == len(cells)
    pairs = [(kind.name, cell.way.name) for cell in cells for kind in cell.kinds]
    assert sorted(pairs) == sorted((k.name, w.name) for w in WAYS for k in KINDS if w.fits(k))


def test_names_differ() -> None:
    """A table has each name once."""
    for made, table in ((KIND, KINDS), (WAY, WAYS), (TASK, TASK_WAYS)):
        assert len(made) == len(table)
    assert len({home.name for home in HOMES}) == len(HOMES)
    assert set(WAY) >= KEYED | set(MULTIPLYING)


def test_the_fixed_part() -> None:
    """Its pairs fit, and it has every type."""
    for way, kinds in FIXED.items():
        assert all(WAY[way].fits(KIND[kind]) for kind in kinds), way
    assert all(TASK[way].fits(KIND[kind]) for way, kind in FIXED_TASKS)
    assert {a.name for home in HOMES for a in home.arrivals} >= set(FIXED_ROUNDS)
    used = {kind for kinds in FIXED.values() for kind in kinds}
    assert used == set(KIND)


def test_a_choice_repeats() -> None:
    """The same seed chooses the same views; each way comes about as often."""
    cells = list(together(KINDS, WAYS, 1))
    some = chosen(cells, 2 * len(WAYS), 7)
    assert some == chosen(cells, 2 * len(WAYS), 7)
    counted = [sum(cell.way.name == way.name for cell in some) for way in WAYS]
    assert max(counted) - min(counted) <= 1
    assert isinstance(some[0], Cell)
