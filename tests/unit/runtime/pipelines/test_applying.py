"""What an apply proposes on top of a catalog that other processes change as well."""

from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.catalog import Catalog, StoredSubscription
from ctsql.catalog.cutovers import Cutover
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import ObjectKind
from ctsql.catalog.names import Name
from ctsql.runtime.pipelines.applying import redefinitions
from ctsql.runtime.pipelines.plan import FolderPlan, warehouse_digest
from ctsql.runtime.pipelines.planning import PlannedFolder
from ctsql.runtime.statements.definitions.cutover import bring_into_force
from tests.helpers.items import an_item, changed

TABLE = an_item(ObjectKind.TABLE, "t1", name=Name("default", "t"), location="file:/t")


class _Stored(Exception):
    """The cutover has come as far as the store."""


def _stored(known: Catalog, current: Catalog) -> Cutover:
    """The cutover of a plan that drops all of a catalog, on top of a newer one."""
    plan = FolderPlan(changes=(), warehouse=warehouse_digest(known), folder="")
    planned = PlannedFolder(
        plan=plan,
        stored_catalog=known,
        objects=(),
        followers=(),
        items_to_drop=tuple(known),
        schemas=(),
    )

    def add_cutover(make: Any) -> Any:
        raise _Stored(make(current))

    engine: Any = SimpleNamespace(
        refresh_catalog=lambda: known,
        catalog=current,
        catalog_store=SimpleNamespace(add_cutover=add_cutover),
    )
    with pytest.raises(_Stored) as found:
        bring_into_force(engine, *redefinitions(planned))
    cutover: Cutover = found.value.args[0]
    return cutover


def test_what_a_subscription_follows_by_now_is_not_dropped() -> None:
    """The digest of the definitions says nothing of subscriptions, which may come at any time."""
    known = Catalog.of([TABLE])
    cutover = _stored(known, known)
    assert cutover.drop is not None
    assert [i.id for i in cutover.drop.items] == ["t1"]
    reader = StoredSubscription(id="s1", name="copy", object_id="t1", start=0, snapshot=True)
    with pytest.raises(CtsqlError, match="DEPENDENT_OBJECTS") as caught:
        _stored(known, known.with_subscription(reader))
    assert "It is read by subscription 'copy'." in str(caught.value)
    other = changed(TABLE, id="t2", name=Name("default", "u"), location="file:/u")
    with pytest.raises(CtsqlError, match="DEFINITIONS_CHANGED") as caught:
        _stored(known, known.with_items([other]))
