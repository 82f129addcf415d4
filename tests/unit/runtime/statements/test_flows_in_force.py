"""The flows that a streaming table has are those of the definition in force."""

from types import SimpleNamespace
from typing import Any

from ctsql.catalog.items import Catalog, Flow, Item, ObjectKind, Revision
from ctsql.catalog.names import Name
from ctsql.runtime.statements.name_resolution import Namespace
from ctsql.runtime.statements.streaming_tables import StreamingTables

F, G = Flow(name="f", text="AS a"), Flow(name="g", text="AS b")
TABLE = Item(
    id="x",
    kind=ObjectKind.CONTINUAL_TASK,
    name=Name("default", "x"),
    columns=(),
    definition="first",
    location="file:/x",
    flows=(F, G),
)
DROPS_G = Revision(number=1, definition="second", reads=(), flows=(F,))


def _statements(catalog: Catalog, number: int) -> StreamingTables:
    """Where the definition of a number is in force."""
    relations = SimpleNamespace(current=lambda item: item.at_revision(number))
    engine: Any = SimpleNamespace(catalog=catalog, relations=relations)
    return StreamingTables(Namespace(engine, "default"))


def test_a_drop_that_was_killed_leaves_the_flow() -> None:
    """The catalog has the definition without it, which is in force only once a T is bound."""
    item = TABLE.with_revisions(DROPS_G, TABLE.revisions)
    catalog = Catalog.of([item])
    assert _statements(catalog, 0)._existing(Name("default", "G")) == (G, item)
    assert _statements(catalog, 1)._existing(Name("default", "G")) == (None, None)
    assert _statements(catalog, 1)._existing(Name("default", "f")) == (F, item)
    assert _statements(catalog, 0)._existing(Name("other", "g")) == (None, None)
