"""What an apply proposes on top of a catalog that other processes change as well."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.catalog import Catalog, StoredSubscription
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.names import Name
from ctsql.runtime.pipelines import applying
from ctsql.runtime.pipelines.applying import Application
from ctsql.runtime.pipelines.plan import FolderPlan
from ctsql.runtime.pipelines.planning import PlannedFolder, warehouse_digest
from tests.helpers.items import an_item, changed

TABLE = an_item(
    id="t1", kind=ObjectKind.TABLE, name=Name("default", "t"), columns=(), location="file:/t"
)


def _application(catalog: Catalog) -> Application:
    """One that drops all tables."""
    plan = FolderPlan(changes=(), warehouse=warehouse_digest(catalog), folder="")
    planned = PlannedFolder(
        plan=plan, objects=(), followers=(), items_to_drop=tuple(catalog), schemas=()
    )
    engine: Any = None
    return Application(engine, planned)


def test_what_a_subscription_follows_by_now_is_not_dropped() -> None:
    """The digest of the definitions says nothing of subscriptions, which may come at any time."""
    known = Catalog.of([TABLE])
    application = _application(known)
    cutover = application.cutover([], [], [], known)
    assert cutover.drop is not None
    assert [i.id for i in cutover.drop.items] == ["t1"]
    reader = StoredSubscription(id="s1", name="copy", object_id="t1", start=0, snapshot=True)
    with pytest.raises(CtsqlError) as caught:
        application.cutover([], [], [], known.with_subscription(reader))
    assert caught.value.condition == "DEPENDENT_OBJECTS"
    assert "It is read by subscription 'copy'." in str(caught.value)
    other = changed(TABLE, id="t2", name=Name("default", "u"), location="file:/u")
    with pytest.raises(CtsqlError) as caught:
        application.cutover([], [], [], known.with_items([other]))
    assert caught.value.condition == "DEFINITIONS_CHANGED"


def test_followers_are_brought_up_before_a_view_below_them_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also those that the folder does not define; one that is gone by now stops the apply."""
    known = Catalog.of([TABLE])
    view = an_item(ObjectKind.MATERIALIZED_VIEW, "m", location="file:/t")
    application = _application(known)
    application.planned_folder = replace(application.planned_folder, followers=(view,))
    ended: list[Item] = []
    monkeypatch.setattr(applying, "end_if_followed", lambda _, item: ended.append(item))
    application.engine = SimpleNamespace(catalog=known.with_items([view]))  # type: ignore[assignment]
    assert application.prepared([], []) == []
    assert ended == [view]
    application.engine = SimpleNamespace(catalog=known)  # type: ignore[assignment]
    with pytest.raises(CtsqlError, match="DEFINITIONS_CHANGED"):
        application.prepared([], [])
