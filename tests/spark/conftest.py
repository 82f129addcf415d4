"""Fixtures of tests on real Delta."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctsql.api import Connection, connect
from ctsql.runtime.delta.transaction import whole_file
from ctsql.runtime.log import clock
from tests.conftest import TEST_MASTER
from tests.helpers.clock_ahead import Clock
from tests.helpers.letter_table import Letters
from tests.helpers.table_folder import orphans


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that the test moves forward."""
    made = Clock()
    monkeypatch.setattr(clock, "now_ms", made.now_ms)
    return made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Connection, Letters]]:
    """One connection and one table for all tests here."""
    folder = tmp_path_factory.mktemp("handle")
    con = connect(str(folder / "warehouse"), master=TEST_MASTER)
    yield con, Letters(con, folder / "letters")
    con.close()


@pytest.fixture
def table(shared: tuple[Connection, Letters]) -> Iterator[Letters]:
    """The shared table, empty, with an application id of the test's own."""
    _, made = shared
    made.app = f"test:{uuid.uuid4()}"
    emptied = made.handle()
    version = emptied.table.version()
    txn = emptied.table.begin()
    txn.delete(whole_file(f) for f in made.gateway.table(str(made.folder)).files(version).values())
    txn.commit(label="test", epoch=0, metadata="{}")
    yield made
    assert not orphans(made.folder), "no test may leave a file that no commit knows"


@pytest.fixture
def own_table(shared: tuple[Connection, Letters], tmp_path: Path) -> Iterator[Letters]:
    """An empty table that the test may write behind the handle's back."""
    made = Letters(shared[0], tmp_path / "letters")
    yield made
    assert not orphans(made.folder), "no test may leave a file that no commit knows"
