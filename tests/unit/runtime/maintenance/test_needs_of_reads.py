"""A query that has begun reads the files of its version, also when others have replaced them."""

from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.items import ObjectKind
from ctsql.runtime.maintenance import consumers
from ctsql.runtime.warehouse.versions import Versions
from tests.helpers.items import an_item

TABLE = an_item(ObjectKind.TABLE, "t", location="file:/t")
TIMES = (10, 20, 30, 90, 95)
"""Of the commits: rows at the first two, then one compaction and two others."""


class _Table:
    """A quiet table, that was compacted long after its last rows."""

    def has(self, version: int) -> bool:
        return version < len(TIMES)

    def commit_at(self, version: int) -> Any:
        return SimpleNamespace(time_ms=TIMES[version], changes_data=version < 2)

    def reshapes(self, version: int) -> bool:
        return False


@pytest.mark.parametrize(("replaced_from", "version"), [(None, 4), (91, 3), (60, 2), (25, 1)])
def test_what_was_just_replaced_is_needed(
    replaced_from: int | None, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table has not changed since T = 20, and 60 is read AS OF."""
    nothing: Any = None
    engine: Any = SimpleNamespace(
        refresh_catalog=lambda: Catalog.of([TABLE]),
        timeline=SimpleNamespace(refresh=lambda: None, now=100),
        relations=SimpleNamespace(table=lambda _: _Table()),
        versions=Versions(nothing, nothing),
    )
    monkeypatch.setattr(consumers, "missing_table", lambda *_: None)
    monkeypatch.setattr(consumers, "_version_at", lambda *_: 1)
    monkeypatch.setattr(consumers, "Readers", lambda _: SimpleNamespace(retention_needs=list))
    needs = consumers.needs(engine, keep_from=60, replaced_from=replaced_from)
    assert [n.version for n in needs["t"].rows] == [version]
