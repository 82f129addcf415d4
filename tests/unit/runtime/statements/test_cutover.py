"""From which T the definitions of a task are in force that come with a cutover; and its parts."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from ctsql.catalog.catalog import Catalog, DropEntry
from ctsql.catalog.cutovers import Cutover, cutover_of
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Definition, Item, ObjectKind, Reading
from ctsql.runtime.statements.definitions import cutover
from ctsql.runtime.statements.definitions.cutover import Redefinition, new_starts
from ctsql.runtime.warehouse.times.timeline import TaskState
from tests.helpers.items import an_item, changed

NOW, FAILED = 50, 30
MATERIALIZED = ObjectKind.MATERIALIZED_VIEW


def _task(*copies: bool, first: int = 0) -> Item:
    """A task with as many definitions; those that copy rows are said to."""
    task = an_item(ObjectKind.CONTINUAL_TASK, "x")
    revisions = [
        Definition(number=first + n, text=f"d{first + n}", reads=(), copies_rows=copy)
        for n, copy in enumerate(copies)
    ]
    return replace(task, definition=revisions[-1], earlier=tuple(revisions[:-1]))


CASES = [
    # before, after, the T from which it mends || from which T each number is in force
    (_task(False), _task(False, False), NOW, ((NOW, 1),)),
    (_task(False), _task(False, False), FAILED, ((FAILED, 1),)),
    (_task(False, first=6), _task(False, False, first=6), NOW, ((NOW, 7),)),
    # A swap: rows are copied at the T, whatever failed; then its own body.
    (_task(False), _task(False, True, False), NOW, ((NOW, 1), (NOW + 1, 2))),
    (_task(False), _task(False, True, False), FAILED, ((NOW, 1), (NOW + 1, 2))),
    (_task(False), _task(False), NOW, ()),  # it stays as it is
    (None, _task(False), NOW, ()),
    (None, _task(True, False), NOW, ((NOW + 1, 1),)),  # it begins with the rows of a table
]


@pytest.mark.parametrize(("before", "after", "begin", "wanted"), CASES)
def test_new_starts(
    before: Item | None, after: Item, begin: int, wanted: tuple[tuple[int, int], ...]
) -> None:
    """Each T has one definition: the newest of those that are in force from it or before."""
    starts = new_starts(before, after, begin, NOW)
    assert starts == wanted
    if before is not None and starts:
        assert TaskState(starts).revision_at(NOW + 9) == after.revision


def _item(name: str, kind: ObjectKind = ObjectKind.VIEW) -> Item:
    return an_item(kind, name)


def test_a_cutover_in_force() -> None:
    """What it changes, begins or drops, it does at one T."""
    old, gone, other = _item("old", MATERIALIZED), _item("gone"), _item("other")
    later = changed(old, definition="new", replaces="x", staged_in=("y", 2))
    drop = DropEntry(id="d", at_ms=1, items=(gone, other), subscriptions=(), schema="")
    items = (later, _item("come"))
    whole = Cutover(items=items, new_ids=frozenset({"come"}), drop=drop, schemas=("s",))
    before = Catalog.of([old, gone, other])
    assert cutover_of([("p", whole.to_json())]) == replace(whole, id="p"), "as it is stored"
    after = whole.in_force(before, NOW)
    assert {i.id for i in after} == {"old", "come"}
    assert after.items["old"] == later
    assert after.items["come"].created_at == NOW
    assert "s" in after.schemas
    assert [i.id for d in after.drops.values() for i in d.items] == ["gone", "other"]


def test_a_stored_cutover_that_cannot_be_read() -> None:
    """An error of the warehouse; without an entry there is none."""
    assert cutover_of([]) is None
    with pytest.raises(CtsqlError, match="STORED_DATA_INVALID"):
        cutover_of([("p", "{}")])


def test_no_change() -> None:
    """Nothing is bound for a definition that is there already."""
    item = _item("v")
    catalog = Catalog.of([item])
    assert Cutover(items=(item,)).is_no_change(catalog)
    assert Cutover().is_no_change(catalog)
    assert not Cutover(items=(item,), new_ids=frozenset({"v"})).is_no_change(catalog)
    assert not Cutover(items=(changed(item, definition="w"),)).is_no_change(catalog)


class _Stored(Exception):
    """The cutover has come as far as the store."""


def test_readers_are_advanced_before_a_view_below_them_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also through other plain views, and whether or not the statement names them."""
    text = {"definition": "CREATE VIEW v AS SELECT 1"}
    below = an_item(ObjectKind.VIEW, "below", **text)
    between = an_item(ObjectKind.VIEW, "between", reads=(_reading(below),), **text)
    above = an_item(
        ObjectKind.MATERIALIZED_VIEW, "above", reads=(_reading(between),), location="file:/a"
    )
    ended: list[str] = []
    monkeypatch.setattr(cutover, "end_if_followed", lambda _, item: ended.append(item.name.name))
    known = Catalog.of([below, between, above])

    def add_cutover(_: object) -> None:
        raise _Stored

    engine: Any = SimpleNamespace(
        refresh_catalog=lambda: known,
        catalog=known,
        catalog_store=SimpleNamespace(add_cutover=add_cutover),
    )
    later = replace(below, definition=below.definition.followed_by("", ()))
    with pytest.raises(_Stored):
        cutover.cut_over(engine, Redefinition(bound_on=known, changes=((below, later),)))
    assert "above" in ended


def _reading(item: Item) -> Reading:
    return Reading(name=item.name, object_id=item.id, columns=())


def test_a_definition_fits_only_what_it_was_bound_to() -> None:
    """Of a task as of a view: what its new definition reads may be dropped while it is prepared."""
    table = an_item(ObjectKind.TABLE, "t", location="file:/t")
    for kind in (ObjectKind.CONTINUAL_TASK, ObjectKind.VIEW):
        item = an_item(kind, "x", definition="")
        bound_on = Catalog.of([table, item])
        later = replace(item, definition=item.definition.followed_by("", (_reading(table),)))
        current = bound_on.without([table.id])

        def add_cutover(make: Any, current: Catalog = current) -> None:
            make(current)

        engine: Any = SimpleNamespace(
            refresh_catalog=lambda bound_on=bound_on: bound_on,
            catalog=bound_on,
            catalog_store=SimpleNamespace(add_cutover=add_cutover),
        )
        with (
            mock.patch.object(cutover, "advance_to_now", return_value=None),
            pytest.raises(CtsqlError, match="UNKNOWN_RELATION"),
        ):
            cutover.cut_over(engine, Redefinition(bound_on=bound_on, changes=((item, later),)))
