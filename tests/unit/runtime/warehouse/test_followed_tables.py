"""Which tables something follows; no Spark."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from ctsql.catalog.catalog import Catalog, StoredSubscription
from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item, ObjectKind, Storage, Unreadable
from ctsql.runtime.warehouse.followed_tables import followed_tables, keep_logs
from tests.helpers.items import an_item, reading

KINDS = {
    "t": ObjectKind.TABLE,
    "v": ObjectKind.VIEW,
    "m": ObjectKind.MATERIALIZED_VIEW,
    "c": ObjectKind.CONTINUAL_TASK,
}


def _item(name: str, *reads: str) -> Item:
    readings = tuple(reading(r) for r in reads)
    kind = KINDS[name[0]]
    location = None if kind is ObjectKind.VIEW else f"memory:{name}"
    return an_item(kind, name, reads=readings, location=location)


def _catalog(items: Iterable[Item], *subscribed: str) -> Catalog:
    catalog = Catalog.of(items)
    for name in subscribed:
        one = StoredSubscription(
            id=name, name=name, object_id=name, start=1, snapshot=False, definition=""
        )
        catalog = catalog.with_subscription(one)
    return catalog


T1, T2 = _item("t1"), _item("t2")
ATTACHED = replace(T1, storage=Storage(location="file:/t1", managed=False))
_V1 = _item("v1", "t1")
DAMAGED = Unreadable(id="v1", name=_V1.name, definition=_V1.definition, detail="damaged")
CASES: list[tuple[list[Item], tuple[str, ...], set[str]]] = [
    ([T1, T2], (), set()),
    ([T1, T2, _item("v1", "t1")], (), set()),
    ([T1, T2, _item("m1", "t1")], (), {"t1"}),
    ([T1, T2, _item("c1", "t1", "t2")], (), {"t1", "t2"}),
    ([T1, T2, _item("v1", "t1"), _item("v2", "v1"), _item("m1", "v2")], (), {"t1"}),
    ([T1, T2, _item("m1", "t1"), _item("c1", "m1", "t2")], (), {"t1", "t2"}),
    ([T1, T2], ("t2",), {"t2"}),
    ([T1, T2, _item("v1", "t1")], ("v1",), {"t1"}),
    ([ATTACHED, _item("m1", "t1")], (), set()),
    ([T1, DAMAGED], (), {"t1"}),
]


@pytest.mark.parametrize(("items", "subscribed", "expected"), CASES)
def test_followed_tables(
    items: list[Item], subscribed: tuple[str, ...], expected: set[str]
) -> None:
    """Tables of the warehouse that a task, a view or a subscription reads, through views too."""
    assert followed_tables(_catalog(items, *subscribed)) == expected


class _Warehouse:
    """Notes which logs are to be kept; ``lost`` is a table that is gone."""

    def __init__(self, catalog: Catalog, lost: str = "") -> None:
        self.catalog, self.gateway, self.lost = catalog, self, lost
        self.noted: dict[str, bool] = {}

    def keep_log(self, location: str, *, keeps: bool) -> None:
        if location == f"memory:{self.lost}":
            raise error("NOT_A_DELTA_TABLE", location=location)
        self.noted[location.removeprefix("memory:")] = keeps


def _kept(warehouse: Any, before: set[str] | None) -> dict[str, bool]:
    keep_logs(warehouse, before)
    found: dict[str, bool] = warehouse.noted
    return found


def test_only_what_has_changed_is_written() -> None:
    """Or all, where nothing is known; a table that was dropped or lost is passed over."""
    catalog = _catalog([T1, T2, _item("m1", "t1")])
    assert _kept(_Warehouse(catalog), {"t1"}) == {}
    assert _kept(_Warehouse(catalog), {"t2", "dropped"}) == {"t1": True, "t2": False}
    assert _kept(_Warehouse(catalog), None) == {"t1": True, "t2": False}
    assert _kept(_Warehouse(catalog, lost="t1"), None) == {"t2": False}


def test_a_subscription_that_cannot_be_read() -> None:
    """Nobody knows what it follows, so each log that is kept stays so."""
    catalog = _catalog([T1, T2, _item("m1", "t1")], "t1")
    damaged = replace(catalog.subscriptions["t1"], problem="damaged", object_id="")
    catalog = catalog.with_subscription(damaged)
    assert _kept(_Warehouse(catalog), {"t2"}) == {"t1": True}


def test_other_errors_are_raised() -> None:
    class Full(_Warehouse):
        def keep_log(self, location: str, *, keeps: bool) -> None:
            raise error("STORAGE_ERROR", message="the disk is full", detail=location)

    with pytest.raises(CtsqlError, match="disk is full"):
        _kept(Full(_catalog([T1, _item("m1", "t1")])), set())
