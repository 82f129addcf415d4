"""Tables of outputs: their checkpoints, and what a creation that fails leaves."""

from itertools import combinations
from math import gcd
from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.items import ObjectKind, Storage
from ctsql.runtime.statements.definitions.output_tables import (
    checkpoint_interval,
    undo_on_failure,
)
from ctsql.runtime.warehouse.times.timeline import ARCHIVE_EVERY_COMMITS, CHECKPOINT_EVERY_COMMITS
from tests.helpers.items import an_item, changed


def test_folders_that_were_there_stay() -> None:
    """An attached table is another's; a registered object holds its rows."""
    made = an_item(ObjectKind.TABLE, "made", location="file:/made")
    attached = changed(made, id="attached", storage=Storage(location="file:/theirs", managed=False))
    registered = changed(made, id="registered", storage=Storage(location="file:/held"))
    deleted: list[str] = []
    gateway = SimpleNamespace(forget=lambda _: None, delete_tree=deleted.append)
    engine: Any = SimpleNamespace(
        catalog=Catalog.of([registered]), refresh_catalog=lambda: None, gateway=gateway
    )
    with pytest.raises(KeyboardInterrupt), undo_on_failure(engine, [made, attached, registered]):
        raise KeyboardInterrupt
    assert deleted == ["file:/made"]


def test_no_two_intervals_of_checkpoints_have_a_common_divisor() -> None:
    """So two tables that move in step meet once in thousands of commits."""
    outputs = {checkpoint_interval(f"{number:032x}") for number in range(100)}
    assert len(outputs) == 6
    intervals = [*outputs, CHECKPOINT_EVERY_COMMITS, 103]  # of inputs
    assert all(gcd(a, b) == 1 for a, b in combinations(intervals, 2))
    assert gcd(CHECKPOINT_EVERY_COMMITS, ARCHIVE_EVERY_COMMITS) == 1
