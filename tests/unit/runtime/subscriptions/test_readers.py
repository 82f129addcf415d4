"""A named reader that another process drops while it is registered."""

from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import ObjectKind
from ctsql.runtime.subscriptions.cursors import Position, Readers
from tests.helpers.items import an_item

ITEM = an_item(ObjectKind.TABLE, "t")


def test_who_registers_a_reader_that_is_dropped_is_told() -> None:
    """It is in the catalog that was changed, and not in the one that is looked at then."""
    changed: list[Catalog] = []
    catalog = Catalog.of([ITEM])
    engine: Any = SimpleNamespace(
        catalog=catalog,
        catalog_store=SimpleNamespace(table=SimpleNamespace(location="w/_ctsql/catalog")),
        gateway=SimpleNamespace(exists=lambda _: True),
        change_catalog=lambda change: changed.append(change(catalog)),
    )
    with pytest.raises(CtsqlError, match="UNKNOWN_RELATION"):
        Readers(engine).register("nightly", ITEM, Position(1))
    assert "nightly" in changed[0].subscriptions
