"""The view sink's parts on real Delta, and views' tables that somebody else wrote."""

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from ctsql.api import Connection, connect as open_connection
from ctsql.catalog.items import Item
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.engine import Engine
from ctsql.runtime.log.write_handle import Committed, Output, UpperMoved
from ctsql.runtime.spark.internals.sessions import active
from ctsql.runtime.views.mint import Description
from ctsql.runtime.views.sink import ViewSink
from tests.conftest import TEST_MASTER, VECTORS
from tests.helpers.opened import engine_of
from tests.helpers.table_folder import data_files, folder, log, orphans, transaction

APPENDS = json.loads((VECTORS / "mv_sink.json").read_text())["append"]


@dataclass
class View:
    """A view ``m`` that copies ``t``, and a table ``other`` that it does not read."""

    con: Connection

    def __post_init__(self) -> None:
        self.con.execute("CREATE TABLE t (k INT); CREATE TABLE other (k INT)")
        self.con.execute("INSERT INTO t VALUES (1), (1), (2)")
        self.con.execute("CREATE MATERIALIZED VIEW m AS SELECT k FROM t")
        self.folder = folder(self.con, "m")
        self.litter: set[str] = set()

    @property
    def engine(self) -> Engine:
        """The connection's."""
        return engine_of(self.con)

    @property
    def item(self) -> Item:
        """The view."""
        return next(i for i in self.engine.catalog if i.name.name == "m")

    @property
    def table(self) -> DeltaTable:
        """The view's table."""
        return self.engine.relations.table(self.item)

    def sink(self) -> ViewSink:
        """A sink on it."""
        return ViewSink(self.engine.warehouse, self.item)

    def foreign(self, statement: str) -> None:
        """Somebody else writes the view's table.

        Spark's DELETE leaves a vector that no commit names where it takes all of a file's rows.
        """
        before = orphans(self.folder)
        self.con.spark.sql(statement.replace("$m", f"delta.`{self.folder}`"))
        self.litter |= orphans(self.folder) - before

    def stored(self) -> Counter[int]:
        """What any Delta reader sees."""
        return Counter(r["k"] for r in self.table.frame(self.table.version()).collect())

    def right(self) -> Counter[int]:
        """What it should hold."""
        return Counter(k for (k,) in self.con.execute("SELECT k FROM t").fetchall())

    def tick(self, statement: str = "INSERT INTO other VALUES (0)") -> int:
        """Something else moves; gives the new T."""
        self.con.execute(statement)
        return self.engine.mint()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    """One view for the tests here."""
    con = open_connection(str(tmp_path_factory.mktemp("views") / "warehouse"), master=TEST_MASTER)
    yield View(con)
    con.close()


@pytest.fixture
def view(shared: View) -> Iterator[View]:
    """The view, brought up to date."""
    with active(shared.engine.session):  # as the connection does for its statements
        shared.engine.advance([shared.item], shared.tick())
        yield shared
    assert orphans(shared.folder) <= shared.litter


@contextmanager
def _scans(view: View, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Counts the files of the view's table that are scanned, scan by scan."""
    found: list[int] = []
    original = DeltaTable.frame_of

    def counted(table: DeltaTable, files: Any, *more: Any) -> Any:
        listed = list(files)
        if table is view.table and listed:
            found.append(len(listed))
        return original(table, listed, *more)

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "frame_of", counted)
        yield found


def _jobs(view: View) -> int:
    context = view.con.spark.sparkContext._jsc.sc()
    return int(context.dagScheduler().numTotalJobs())


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO $m VALUES (7), (NULL)",
        "DELETE FROM $m WHERE k = 1",
        "INSERT INTO $m SELECT * FROM $m",
        "INSERT OVERWRITE $m VALUES (2), (3)",
    ],
    ids=["foreign rows", "missing rows", "doubled rows", "another content"],
)
def test_the_next_append_corrects(view: View, statement: str) -> None:
    """Whatever somebody did to the table; also when what the view reads did not change."""
    right = view.right()
    view.foreign(statement)
    assert view.stored() != right
    view.con.execute("SET isolation = 'serializable'")
    assert Counter(k for (k,) in view.con.execute("SELECT * FROM m").fetchall()) == right
    assert view.stored() != right, "nothing was brought up to date: our readers do not see it"
    view.con.execute("RESET isolation")
    view.engine.advance([view.item], view.tick())
    assert view.stored() == right


def test_a_strict_read_corrects(view: View) -> None:
    """At once, at a T of its own: nothing else has to move."""
    view.foreign("INSERT INTO $m VALUES (7)")
    assert Counter(k for (k,) in view.con.execute("SELECT * FROM m").fetchall()) == view.right()
    assert view.stored() == view.right()


def test_nothing_is_compared_without_a_reason(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Spark job and no file scanned: in the steady state, after a correction, after OPTIMIZE."""

    def advance() -> tuple[int, int]:
        now = view.tick()
        before = _jobs(view)
        with _scans(view, monkeypatch) as scans:
            view.engine.advance([view.item], now)
        return _jobs(view) - before, sum(scans)

    right, commits = view.right(), len(log(view.folder))
    assert advance() == (0, 0)
    assert len(log(view.folder)) == commits
    view.foreign("INSERT INTO $m VALUES (9)")
    jobs, scanned = advance()
    assert jobs > 0
    assert scanned == len(view.table.files(view.table.version() - 1)) > 1
    assert view.stored() == right
    commits = len(log(view.folder))
    assert [advance(), advance()] == [(0, 0), (0, 0)]
    assert len(log(view.folder)) == commits
    view.foreign("INSERT INTO $m VALUES (9)")
    view.foreign("DELETE FROM $m WHERE k = 9")
    assert advance()[1] > 0, "it has to be looked at, though nothing is wrong"
    assert advance() == (0, 0)
    view.engine.advance([view.item], view.tick("INSERT INTO t VALUES (4)"))
    view.foreign("OPTIMIZE $m")
    assert any("remove" in action for action in log(view.folder)[-1]), "it rewrote files"
    assert advance() == (0, 0)
    view.engine.relations._outputs.clear()
    assert advance() == (0, 0), "nor by a process that knows nothing yet"


def test_rows_that_came_while_it_was_compared(view: View) -> None:
    """A foreign commit between the version compared and our commit is noticed by the next."""
    now = view.tick("INSERT INTO t VALUES (5)")
    sink, right = view.sink(), view.right()
    written = sink.write(Description(view.engine.relations.output(view.item).upper, now + 1))
    view.foreign("INSERT INTO $m VALUES (9)")
    assert isinstance(sink.append(written), Committed)
    assert view.stored() == right + Counter([9])
    view.engine.advance([view.item], view.tick())
    assert view.stored() == right


@pytest.mark.parametrize("case", APPENDS, ids=lambda c: f"upper {c['upper']}")
def test_vector_of_appends(view: View, case: dict[str, Any]) -> None:
    """A description meets an upper that is its lower, behind it, or past it."""
    sink, start = view.sink(), view.item.created_at - 3
    lower, upper = (start + t for t in case["description"])
    assert view.engine.timeline.now > upper
    view.foreign("DELETE FROM $m")
    # An application id of its own, so that the upper may stand anywhere.
    output = sink.output = Output(view.table, f"test:{uuid.uuid4()}")
    output.compare_and_append((), expected=0, new=start + case["upper"])
    files, commits = data_files(view.folder), len(log(view.folder))
    written = sink.write(Description(lower, upper))
    assert data_files(view.folder) > files
    outcome = sink.append(written)
    fresh = log(view.folder)[commits:]
    if case["result"].startswith("dropped"):
        assert outcome == UpperMoved(start + case["upper"], lower)
        assert data_files(view.folder) == files
        assert not fresh
        return
    assert isinstance(outcome, Committed)
    behind = case["result"].startswith("advance")
    assert [transaction(c) for c in fresh] == ([lower, upper] if behind else [upper])
    assert not any("add" in a or "remove" in a for c in fresh[:-1] for a in c)
    assert view.stored() == Counter([1, 1, 2])
