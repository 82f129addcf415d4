"""Statements over tables in memory where a call to the store fails, as with too many open files."""

import itertools
from contextlib import nullcontext, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.errors import CtsqlError, error
from ctsql.runtime.delta.clones import Appends
from ctsql.runtime.statements.dml import transaction
from ctsql.runtime.statements.dml.transaction import OpenTransaction
from tests.simulation.memory_log import Rows
from tests.simulation.test_intents import NEW, Link, Process, made, seen

pytestmark = pytest.mark.thorough


def _fails() -> None:
    raise error("STORAGE_ERROR", message="too many open files", detail="", hint="")


def engine_of(process: Process) -> Any:
    """What a transaction needs of an engine, without constraints."""
    return SimpleNamespace(
        timeline=process.timeline,
        mint=process.mint,
        refresh_catalog=lambda: SimpleNamespace(items=process.sources),
        catalog=SimpleNamespace(items={}),
        relations=SimpleNamespace(sources=lambda: process.sources),
        advance=lambda *_: None,
    )


@pytest.mark.parametrize("names", ["a", "ab"])
def test_files_of_what_is_in_stay(names: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error behind the commit, or behind the decision, is none that says it is not in."""
    monkeypatch.setattr(transaction, "commit_lock", lambda _: nullcontext())
    ends = set()
    for at in itertools.count(1):
        store = made(gone=False)
        process = Process(store, Link("first", at=at, happens=_fails))
        alone: Any = SimpleNamespace(id="a") if names == "a" else None
        own = OpenTransaction(engine_of(process), 0, alone)
        has_failed = True
        with suppress(CtsqlError):
            with own:
                for name in names:
                    table: Any = process.tables[name]
                    appends = own._copies[name] = Appends(table, table.version())
                    appends.files += table.begin().stage(Rows([NEW]))
            has_failed = False
        a, b = list(seen(store))[-1]
        is_in = a[NEW] == 1
        assert b[NEW] == (is_in and names == "ab")
        assert is_in or (has_failed and not any(f.unnamed() for f in store.folders.values()))
        ends.add((is_in, has_failed))
        if process.gateway.link.steps < at:
            break
    assert ends == {(False, True), (True, True), (True, False)}
