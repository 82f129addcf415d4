"""Definitions that copy: what they mean once they are stored."""

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.items import Definition, Item, ObjectKind, item_text, read_item
from ctsql.catalog.names import Name
from ctsql.catalog.schemas import Column
from ctsql.planner.binding.task import bind_stored
from ctsql.planner.explain import explain
from ctsql.planner.nodes import TaskWrite
from ctsql.runtime.statements.definitions.first_rows import copy_of, with_first_rows
from tests.helpers.items import an_item, changed

COLUMNS = (Column("k", "int", False), Column("odd name", "struct<a:int>"))


def _item(name: str, kind: ObjectKind = ObjectKind.CONTINUAL_TASK) -> Item:
    return an_item(kind, name, name=Name("some schema", name), columns=COLUMNS)


FEED, TASK, OTHER = _item("feed", ObjectKind.TABLE), _item("x"), _item("r")


def _bound(revision: Definition) -> TaskWrite:
    item = changed(TASK, definition=revision.text, reads=revision.reads)
    return bind_stored(item, Catalog.of([FEED, item, OTHER])).task


def test_a_copy_reads_the_other_object_whole() -> None:
    """As a reference, also where it is the input; with all columns by name, and no snapshot."""
    for source in (OTHER, FEED):
        made = copy_of(TASK, [TASK], [source], FEED)
        assert made.copies_rows
        plan = explain(_bound(made))
        assert f"NormalReference {source.name.qualified()}: contents as of T" in plan
        assert "snapshot" not in plan
        assert "Delete" not in plan
        assert "SELECT k, `odd name` FROM contents" in plan


def test_a_swap_clears_first() -> None:
    """All that the task holds goes, then the rows of the other come: equal ones cancel."""
    first, second = _bound(copy_of(TASK, [TASK], [OTHER], FEED, clears=True)).transaction.statements
    assert type(first).__name__.startswith("Delete")
    assert type(second).__name__.startswith("Insert")


def test_first_rows_come_before_the_own_definition() -> None:
    """The newest definition is the task's own; both are kept, and what both read."""
    own = changed(TASK, definition="CREATE ...", reads=copy_of(TASK, [TASK], [FEED], FEED).reads)
    made = with_first_rows(own, copy_of(TASK, [TASK], [OTHER], FEED))
    assert (made.revision, made.definition.text) == (1, "CREATE ...")
    assert [r.copies_rows for r in made.revisions] == [True, False]
    assert {r.object_id for r in made.reads} == {"feed", "r"}
    assert {r.object_id for r in made.revisions[-1].reads} == {"feed"}
    assert read_item(item_text(made)) == made
