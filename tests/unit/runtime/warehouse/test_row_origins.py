"""Whether the files that rows were copied from are still there."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.runtime.log.table_changes import FileOrigin
from ctsql.runtime.warehouse.row_origins import COPIES_MAX, _Search

IN_LOG, IN_FOLDER = "p=a%20b/f", "p=a b/f"


@pytest.mark.parametrize(("there", "is_lost"), [({IN_FOLDER}, False), (set(), True)])
def test_a_file_of_a_partition_is_looked_for_by_its_name(there: set[str], is_lost: bool) -> None:
    """Not by the path as the log spells it, which no folder has."""

    def missing(paths: Iterable[str]) -> list[str]:
        return [path for path in paths if path not in there]

    table = SimpleNamespace(
        location="file:/w/t",
        files=lambda _: {IN_LOG: None},
        versions=SimpleNamespace(read_alike=lambda *_: True),
    )
    search: Any = _Search.__new__(_Search)
    search._table = table
    stored = SimpleNamespace(missing=missing)
    search._warehouse = SimpleNamespace(gateway=SimpleNamespace(table=lambda _: stored))
    origins = {"g": FileOrigin(3, None, (IN_LOG,))}
    why = search._why_lost(3, ["g"], origins, COPIES_MAX)
    assert (why is not None) is is_lost
