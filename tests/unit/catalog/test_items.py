"""Items: what a task's definitions were, and the way to the store and back."""

import dataclasses

import pytest

from ctsql.catalog.catalog import Catalog, DropEntry
from ctsql.catalog.dependencies import (
    all_readers,
    check_outlined,
    closure,
    going_with,
    outputs_of,
    quarantine_copied,
    written_under,
)
from ctsql.catalog.errors import CatalogError
from ctsql.catalog.items import (
    RECORDS,
    Definition,
    Item,
    Maintained,
    ObjectKind,
    Reading,
    item_text,
    read_item,
)
from ctsql.catalog.names import Name
from ctsql.catalog.schemas import Column
from tests.helpers.items import an_item, changed


def _reading(name: str) -> Reading:
    return Reading(name=Name("default", name), object_id=name, columns=("k",))


FIRST = Definition(number=0, text="first", reads=(_reading("a"), _reading("b")))
SECOND = Definition(number=1, text="second", reads=(_reading("a"), _reading("c")))
TASK = an_item(
    ObjectKind.CONTINUAL_TASK,
    "t",
    columns=(Column("k", "int"),),
    definition="first",
    reads=FIRST.reads,
    location="file:/t",
)


def test_a_task_as_it_was_made() -> None:
    """It has one definition, whatever number is asked for."""
    assert read_item(item_text(TASK)) == TASK
    assert TASK.revisions == (FIRST,)
    assert TASK.at_revision(0) == TASK


def test_definitions_by_number() -> None:
    """It reads what all of them read; each is had back as it was."""
    later = dataclasses.replace(TASK, definition=SECOND, earlier=TASK.revisions)
    assert read_item(item_text(later)) == later
    assert {r.object_id for r in later.reads} == {"a", "b", "c"}
    assert later.revisions == (FIRST, SECOND)
    assert later.at_revision(0) == TASK
    then = later.at_revision(1)
    assert (then.definition.text, then.reads, then.revision) == ("second", SECOND.reads, 1)
    assert later.at_revision(7) == then


def test_once_belongs_to_a_definition() -> None:
    """A definition says whether it is in force at one T only."""
    filling = Definition(number=1, text="second", reads=(), copies_rows=True)
    third = Definition(number=2, text="third", reads=())
    later = dataclasses.replace(TASK, definition=third, earlier=(*TASK.revisions, filling))
    assert read_item(item_text(later)) == later
    assert [later.at_revision(n).definition.copies_rows for n in range(3)] == [False, True, False]
    assert later.revisions[1] == filling


def test_forgotten_definitions() -> None:
    """The oldest one that is known stands for those before it."""
    kept = dataclasses.replace(TASK, definition=SECOND, earlier=())
    assert read_item(item_text(kept)) == kept
    assert {r.object_id for r in kept.reads} == {"a", "c"}
    assert kept.at_revision(0).definition.text == "second"
    third = dataclasses.replace(SECOND, number=2, text="third")
    last = dataclasses.replace(kept, definition=third, earlier=kept.revisions)
    assert last.at_revision(0).definition.text == "second"


def _item(name: str, kind: ObjectKind, *reads: str, outputs: tuple[str, ...] = ()) -> Item:
    return an_item(kind, name, reads=tuple(_reading(r) for r in reads), outputs=outputs)


SEVERAL = Catalog.of(
    [
        _item("f", ObjectKind.TABLE),
        _item("x", ObjectKind.CONTINUAL_TASK, "f", outputs=("a", "b")),
        _item("a", ObjectKind.TASK_OUTPUT, "x"),
        _item("b", ObjectKind.TASK_OUTPUT, "x"),
        _item("v", ObjectKind.VIEW, "b"),
        _item("m", ObjectKind.MATERIALIZED_VIEW, "f"),
    ]
)


def test_a_task_with_outputs() -> None:
    """The outputs are stored as objects."""
    task, output = SEVERAL.items["x"], SEVERAL.items["a"]
    assert read_item(item_text(task)) == task
    assert read_item(item_text(output)) == output
    assert [i.id for i in outputs_of(SEVERAL, task)] == ["a", "b"]
    assert outputs_of(SEVERAL, TASK) == []
    assert output.owner == "x"
    assert [(i.is_output, isinstance(i, Maintained)) for i in (task, output, TASK)] == [
        (False, True),
        (True, False),
        (True, True),
    ]
    assert [i.id for i in closure(SEVERAL, ["v", "a"])] == ["f", "x", "b", "v", "a"]


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("v", "v"),
        ("x", "x a b v"),
        ("b", "b v x a"),
        ("f", "f m x a b v"),
    ],
)
def test_what_goes_together(name: str, names: str) -> None:
    """What reads it, and of a task with several outputs all of it."""
    assert [i.id for i in going_with(SEVERAL, [name])] == names.split()


def test_what_a_drop_took_is_had_back_as_it_was() -> None:
    """Through the store and back; the names are free meanwhile, and the hint names UNDROP."""
    before = Catalog.of([TASK], ["shop"])
    drop = DropEntry(id="d", at_ms=7, items=(TASK,), schema="shop")
    left = before.with_dropped(DropEntry.of_entry("d", drop.to_json()))
    assert (left.find(TASK.name), dict(left.schemas)) == (None, {"default": "default"})
    with pytest.raises(CatalogError, match="UNDROP CONTINUAL TASK t"):
        left.get(TASK.name)
    assert left.last_drop(TASK.name) == (drop, TASK)
    assert left.restored(drop) == before
    assert left.purged(["d"]).last_drop(TASK.name) is None


def test_readers_that_can_be_had_back() -> None:
    """Directly or through others, whichever of them were dropped; none that were removed."""
    left = SEVERAL
    for number, object_id in enumerate("vx"):
        gone = tuple(going_with(left, [object_id]))
        left = left.with_dropped(DropEntry(id=str(number), at_ms=number, items=gone))
    there, all_of_them = (all_readers(left, "f", dropped=both) for both in (False, True))
    assert [i.id for i in there] == ["m"]
    assert [i.id for i in all_of_them] == ["m", "x", "a", "b", "v"]
    assert [i.id for i in all_readers(left.purged(["1"]), "f", dropped=True)] == ["m"]
    assert all_readers(SEVERAL, "f", dropped=True) == all_readers(SEVERAL, "f")


def test_an_entry_of_a_drop_that_cannot_be_read() -> None:
    """It is kept, and nothing is maintained while it is not known what it keeps."""
    damaged = DropEntry.of_entry("d", "[]")
    with pytest.raises(CatalogError, match="TypeError"):
        check_outlined(Catalog.of([TASK], drops=[damaged]))


def _with_quarantine(name: str, replaces: str | None = None) -> list[Item]:
    task = dataclasses.replace(
        TASK, id=name, name=Name("default", name), quarantine=f"{name}_q", replaces=replaces
    )
    return [task, an_item(ObjectKind.TASK_OUTPUT, f"{name}_q", reads=(_reading(name),))]


@pytest.mark.parametrize(
    ("name", "reads", "copies_rows", "quarantine"),
    [
        ("x", "r_q", True, "r_q"),  # the swap
        ("r", "x_q", True, "x_q"),  # how a replacement begins
        ("x", "r_q", False, None),
        ("x", "other_q", True, None),  # what a flow takes in
        ("x", "other", True, None),
    ],
)
def test_which_quarantine_is_copied(
    name: str, reads: str, copies_rows: bool, quarantine: str | None
) -> None:
    """That of the replacement, or of the replaced task, by a definition that copies rows."""
    made = [*_with_quarantine("x"), *_with_quarantine("r", "x"), *_with_quarantine("other")]
    catalog = Catalog.of(made)
    task = changed(catalog.items[name], reads=(_reading(reads),), copies_rows=copies_rows)
    found = quarantine_copied(catalog, task)
    assert (None if found is None else found.id) == quarantine


def test_rows_of_a_replacement_are_set_aside_under_the_names_of_the_task() -> None:
    """Each output under the name of the task's output at its place."""
    catalog = Catalog.of([*_with_quarantine("x"), *_with_quarantine("r", "x")])
    assert written_under(catalog, catalog.items["r"]) == {"r": catalog.items["x"]}
    assert written_under(catalog, catalog.items["x"]) == {"x": catalog.items["x"]}


def test_a_long_chain_is_ordered() -> None:
    """However many objects read each other in a row, and also where there are many ways down."""
    chain = []
    for number in range(5_000):
        below = [f"i{n}" for n in (number - 1, number - 2) if n >= 0]
        item = changed(TASK, id=f"i{number}", reads=tuple(map(_reading, below)))
        chain.append(item)
    catalog = Catalog.of(chain)
    assert closure(catalog, ["i4999"]) == chain
    with pytest.raises(CatalogError, match="i0"):
        closure(Catalog.of(chain[1:]), ["i4999"])


def test_a_record_has_the_fields_of_its_kind() -> None:
    """At most twelve, so that a kind can be held in one's head."""
    for record in RECORDS.values():
        assert len(dataclasses.fields(record)) <= 12, record
