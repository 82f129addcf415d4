"""The definition that a view gets from its replacement, where what that reads was renamed."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.items import ObjectKind, Reading
from ctsql.catalog.names import Name
from ctsql.catalog.schemas import Column
from ctsql.planner.binding.task import bind_stored
from ctsql.planner.nodes import NormalReference, descend
from ctsql.runtime.statements.definitions.view_replacement import Replacement
from ctsql.runtime.statements.objects.name_resolution import Namespace
from tests.helpers.items import an_item, changed

COLUMNS = (Column("k", "int"),)
BEFORE, NOW, LATER = (Name("default", name) for name in "abc")
TABLE = an_item(
    id="table",
    kind=ObjectKind.TABLE,
    name=NOW,
    columns=COLUMNS,
    definition="CREATE TABLE a (k INT)",
)
READS = (Reading(name=BEFORE, object_id="table", columns=("k",)),)
VIEW = an_item(
    id="view",
    kind=ObjectKind.MATERIALIZED_VIEW,
    name=Name("default", "v"),
    columns=COLUMNS,
    definition="CREATE MATERIALIZED VIEW v AS SELECT k FROM a",
    reads=READS,
)
BESIDE = changed(
    VIEW,
    id="beside",
    name=Name("default", "r"),
    definition="CREATE REPLACEMENT MATERIALIZED VIEW r FOR v AS SELECT k FROM a WHERE k > 0",
    replaces="view",
)


def test_a_table_that_was_renamed_is_read_whatever_it_is_called_later() -> None:
    """The names of the definition are those of now, and so are those by which it is bound."""
    catalog = Catalog.of([TABLE, VIEW, BESIDE])
    engine: Any = SimpleNamespace(catalog=catalog)
    definition, reads = Replacement(Namespace(engine, "default"))._definition(VIEW, BESIDE)
    assert "FROM b" in definition
    assert [(r.name, r.object_id) for r in reads] == [(NOW, "table")]
    given = changed(VIEW, definition=definition, reads=reads)
    another = replace(TABLE, id="another", name=NOW)
    renamed = Catalog.of([replace(TABLE, name=LATER), another, given])
    plan = bind_stored(given, renamed).view.desired
    found = [n.object_id for n in descend(plan) if isinstance(n, NormalReference)]
    assert found == ["table"]
