"""DROP and RENAME of what another process drops between two looks at the catalog."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.names import Name
from ctsql.catalog.spans import Source
from ctsql.planner.syntax import parse
from ctsql.runtime.statements.definitions.alter import Alteration
from ctsql.runtime.statements.objects.name_resolution import Namespace
from tests.helpers.items import an_item


def _table(name: str) -> Item:
    return an_item(
        ObjectKind.TABLE,
        "t1",
        name=Name("default", name),
        definition=f"CREATE TABLE {name} (k INT)",
    )


def _alteration(catalog: Catalog, newest: Catalog, catalogs: list[Catalog]) -> Alteration:
    """Over a catalog that is another one by the time that it is changed."""

    def change(make: Callable[[Catalog], Catalog]) -> Catalog:
        catalogs.append(make(newest))
        return catalogs[-1]

    engine: Any = SimpleNamespace(
        catalog=catalog,
        refresh_catalog=lambda: catalog,
        change_catalog=change,
        catalog_store=SimpleNamespace(change=change),
        gateway=SimpleNamespace(forget=lambda _: None),
    )
    return Alteration(Namespace(engine, "default"))


def _run(text: str, catalog: Catalog, newest: Catalog) -> tuple[str, Catalog]:
    changed: list[Catalog] = []
    alteration = _alteration(catalog, newest, changed)
    statement: Any = parse(Source(text, "<test>").whole())
    run = alteration.rename if text.startswith("ALTER") else alteration.drop
    return run(statement), changed[-1]


THERE, GONE = Catalog.of([_table("t")], ["s"]), Catalog.of([])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DROP TABLE t", "UNKNOWN_RELATION"),
        ("DROP SCHEMA s", "UNKNOWN_SCHEMA"),
        ("ALTER TABLE t RENAME TO u", "UNKNOWN_RELATION"),
        ("DROP TABLE IF EXISTS t", "DROP TABLE (did not exist)"),
        ("DROP SCHEMA IF EXISTS s", "DROP SCHEMA (did not exist)"),
    ],
)
def test_what_another_process_has_dropped(text: str, expected: str) -> None:
    """An error by its condition, or a status with IF EXISTS."""
    try:
        found = _run(text, THERE, GONE)[0]
    except CtsqlError as refused:
        found = refused.condition
    assert found == expected


def test_a_name_gets_other_letters() -> None:
    """Large ones for small ones: the name is the object's own, so it is free."""
    status, made = _run("ALTER TABLE t RENAME TO T", THERE, THERE)
    assert status == "ALTER TABLE"
    assert [i.name.name for i in made] == ["T"]
