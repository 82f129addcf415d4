"""Items: what a task's definitions were, and the way to the store and back."""

import dataclasses

from ctsql.catalog.items import Item, ObjectKind, Reading, Revision
from ctsql.catalog.names import Name
from ctsql.catalog.schemas import Column


def _reading(name: str) -> Reading:
    return Reading(name=Name("default", name), object_id=name, columns=("k",))


FIRST = Revision(number=0, definition="first", reads=(_reading("a"), _reading("b")))
SECOND = Revision(number=1, definition="second", reads=(_reading("a"), _reading("c")))
TASK = Item(
    id="t",
    kind=ObjectKind.CONTINUAL_TASK,
    name=Name("default", "t"),
    columns=(Column("k", "int"),),
    definition="first",
    reads=FIRST.reads,
    location="file:/t",
)


def test_a_task_without_changes_is_stored_as_before() -> None:
    """A warehouse written by an older version reads the same, and the other way round."""
    assert "revision" not in TASK.to_json()
    assert Item.from_json(TASK.to_json()) == TASK
    assert TASK.revisions == (FIRST,)
    assert TASK.at_revision(0) == TASK


def test_definitions_by_number() -> None:
    """It reads what all of them read; each is had back as it was."""
    changed = TASK.with_revisions(SECOND, TASK.revisions)
    assert Item.from_json(changed.to_json()) == changed
    assert {r.object_id for r in changed.reads} == {"a", "b", "c"}
    assert changed.revisions == (FIRST, SECOND)
    assert changed.at_revision(0) == TASK
    then = changed.at_revision(1)
    assert (then.definition, then.reads, then.revision) == ("second", SECOND.reads, 1)
    assert changed.at_revision(7) == then


def test_forgotten_definitions() -> None:
    """The oldest one that is known stands for those before it."""
    kept = TASK.with_revisions(SECOND, ())
    assert Item.from_json(kept.to_json()) == kept
    assert {r.object_id for r in kept.reads} == {"a", "c"}
    assert kept.at_revision(0).definition == "second"
    third = dataclasses.replace(SECOND, number=2, definition="third")
    assert kept.with_revisions(third, kept.revisions).at_revision(0).definition == "second"
