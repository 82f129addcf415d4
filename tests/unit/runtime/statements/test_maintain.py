"""What MAINTAIN does before it deletes anything."""

from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.runtime.statements.maintain import Maintenance


class Catalog(Exception):
    """It is looked at: what is to be maintained is looked for now."""


def _calls(*, intents: dict[str, object], dry_run: bool) -> list[str]:
    """What is asked of the engine, in order."""
    called: list[str] = []

    def refresh_catalog() -> None:
        raise Catalog

    engine = SimpleNamespace(
        timeline=SimpleNamespace(refresh=lambda: called.append("refresh"), intents=intents),
        mint=lambda: called.append("mint"),
        refresh_catalog=refresh_catalog,
    )
    names: Any = SimpleNamespace(engine=engine)
    statement: Any = SimpleNamespace(dry_run=dry_run, retain_ms=None, target=None, everything=False)
    with pytest.raises(Catalog):
        Maintenance(names).maintain(statement)
    return called


def test_a_decided_transaction_is_completed_first() -> None:
    """Its files are named by no log until then, and they may be old."""
    assert _calls(intents={"one": {}}, dry_run=False) == ["refresh", "mint"]
    assert _calls(intents={}, dry_run=False) == ["refresh"]
    assert _calls(intents={"one": {}}, dry_run=True) == []
