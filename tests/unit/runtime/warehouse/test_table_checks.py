"""Whether the table of an object is there, and the one that it stands for."""

from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.errors import error
from ctsql.catalog.items import ObjectKind
from ctsql.runtime.warehouse.table_checks import is_replaced
from tests.helpers.items import an_item

TABLE = an_item(ObjectKind.TABLE, "t", location="file:/t")


@pytest.mark.parametrize(
    ("condition", "given", "replaced"),
    [
        ("STORED_DATA_INVALID", {"what": "a file"}, False),
        ("NOT_A_DELTA_TABLE", {"location": "file:/t"}, False),
        ("TABLE_REPLACED", {"kind": "table", "name": "t", "location": "file:/t"}, True),
    ],
)
def test_a_damaged_table_can_be_deleted(
    condition: str, given: dict[str, str], replaced: bool
) -> None:
    """Its object is out of the catalog by then, so nobody may be stopped by its log."""

    def check_same(**_: object) -> None:
        raise error(condition, detail="", hint="", **given)

    relations: Any = SimpleNamespace(table=lambda _: SimpleNamespace(check_same=check_same))
    assert is_replaced(relations, TABLE) is replaced
