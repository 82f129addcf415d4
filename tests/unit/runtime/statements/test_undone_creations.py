"""What a creation that fails leaves of folders."""

from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.items import ObjectKind, Storage
from ctsql.runtime.statements.definitions.output_tables import undo_on_failure
from tests.helpers.items import an_item, changed


def test_folders_that_were_there_stay() -> None:
    """An attached table is another's; a registered object holds its rows."""
    made = an_item(ObjectKind.TABLE, "made", location="file:/made")
    attached = changed(made, id="attached", storage=Storage(location="file:/theirs", managed=False))
    registered = changed(made, id="registered", storage=Storage(location="file:/held"))
    deleted: list[str] = []
    gateway = SimpleNamespace(forget=lambda _: None, delete_tree=deleted.append)
    engine: Any = SimpleNamespace(
        catalog=Catalog.of([registered]), refresh_catalog=lambda: None, gateway=gateway
    )
    with pytest.raises(KeyboardInterrupt), undo_on_failure(engine, [made, attached, registered]):
        raise KeyboardInterrupt
    assert deleted == ["file:/made"]
