"""Cutovers as text, and what they make of a catalog."""

import pytest

from ctsql.catalog.catalog import Catalog, DropEntry
from ctsql.catalog.cutovers import Cutover, cutover_of
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.names import Name
from tests.helpers.items import an_item


def _item(name: str, **given: object) -> Item:
    made = {
        "id": name,
        "kind": ObjectKind.MATERIALIZED_VIEW,
        "name": Name("default", name),
        "columns": (),
    }
    return an_item(**{**made, **given})  # type: ignore[arg-type]


CUTOVER = Cutover(
    id="p",
    items=(_item("new"), _item("old", definition="b", replaces="x", staged_in=("y", 2))),
    new_ids=frozenset({"new"}),
    drop=DropEntry(id="d", at_ms=7, items=(_item("gone"),)),
    schemas=("s",),
)


def test_as_text() -> None:
    """What is stored is what was proposed."""
    assert cutover_of([("p", CUTOVER.to_json())]) == CUTOVER
    assert cutover_of([]) is None
    with pytest.raises(CtsqlError) as caught:
        cutover_of([("p", "{}")])
    assert caught.value.condition == "STORED_DATA_INVALID"


def test_in_force() -> None:
    """New objects begin at the T, others keep theirs; what goes is kept beside."""
    before = Catalog.of([_item("old", created_at=3), _item("gone"), _item("stays")])
    after = CUTOVER.in_force(before, 42)
    assert {i.id: i.created_at for i in after} == {"old": 0, "stays": 0, "new": 42}
    assert after.items["old"].definition.text == "b"
    assert set(after.schemas) == {"default", "s"}
    assert [i.id for _, i in after.all_dropped()] == ["gone"]
