"""``%load_ext ctsql``: cells of SQL."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.core.completer import CompletionContext
from IPython.core.interactiveshell import InteractiveShell
from nbclient import NotebookClient

from ctsql.catalog.errors import CtsqlError
from ctsql.notebook import CHANGES_SHOWN_MAX, LiveCell, Notebook, Options, load, read_options
from ctsql.results.result import Result, Row
from tests.frontdoors.fake_connection import LIVE, FakeBatch, FakeConnection

WAIT = """
import threading, time
cell, = [t for t in threading.enumerate() if t.name == "ctsql-live-cell"]
while "2 changes" not in repr(cell):
    time.sleep(0.1)
"""


@pytest.fixture
def notebook(capsys: pytest.CaptureFixture[str]) -> Iterator[Notebook]:
    """A notebook over a connection without Spark."""
    shell = InteractiveShell.instance()
    made = load(shell)
    made._connection = connection = FakeConnection("w")  # type: ignore[assignment]
    connection.started = True
    shell.user_ns["notebook"] = made
    capsys.readouterr()
    yield made
    InteractiveShell.clear_instance()


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("", Options()),
        ("-w shop", Options(warehouse="shop")),
        ("-c con -o r", Options(connection="con", output="r")),
        ("SELECT -1", Options(sql="SELECT -1")),
        ("-o r SELECT - w", Options(output="r", sql="SELECT - w")),
        ("-webhook", Options(sql="-webhook")),
    ],
)
def test_options_stand_before_the_sql(line: str, options: Options) -> None:
    """What begins with another word is SQL."""
    assert read_options(line) == options


def test_an_option_needs_its_value() -> None:
    """Otherwise the SQL would be its value."""
    with pytest.raises(CtsqlError, match="-o needs a value"):
        read_options("-w shop -o")


def test_a_cell_returns_its_last_result(
    notebook: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    """Statuses are printed; -o gives the result a name."""
    result = notebook.run("", "INSERT x; SELECT 1")
    assert isinstance(result, Result)
    assert "<td>1</td>" in (result._repr_html_() or "")
    assert capsys.readouterr().out == "INSERT 0 3\n"
    assert notebook.run("-o r SELECT 1") is None
    assert notebook.shell.user_ns["r"].fetchall() == [(1,)]
    assert notebook.run("INSERT x") is None


def test_an_error_is_shown_as_the_shell_shows_it(notebook: Notebook) -> None:
    """Without a traceback of Python; nothing after it runs."""
    with pytest.raises(CtsqlError) as caught:
        notebook.run("", "SELECT 1;\nBAD; SELECT 1")
    lines = caught.value._render_traceback_()  # type: ignore[attr-defined]
    assert lines[0] == '<cell>:2:1: error: table "bad" does not exist [UNKNOWN_RELATION]'
    with pytest.raises(CtsqlError, match="SQL stands below"):
        notebook.run("SELECT 1", "SELECT 2")
    with pytest.raises(CtsqlError, match="nothing is no connection"):
        notebook.run("-c nothing")


def test_completion_in_cells_of_sql_only(notebook: Notebook) -> None:
    """Objects after FROM; nothing in a cell of Python."""

    def offered(text: str) -> tuple[list[str], str | None]:
        lines = text.split("\n")
        context = CompletionContext(
            token="",
            full_text=text,
            cursor_position=len(lines[-1]),
            cursor_line=len(lines) - 1,
            limit=None,
        )
        found = notebook.completions(context)
        return [c.text for c in found["completions"]], found.get("matched_fragment")

    assert "orders" in offered("%%ctsql\nSELECT *\nFROM ord")[0]
    assert offered("%%ctsql\nSELECT *\nFROM ord")[1] == "ord"
    assert "orders" in offered("x = 1\n%ctsql SELECT * FROM ord")[0]
    assert offered("from ord")[0] == []
    assert offered("%%ctsql")[0] == []


class ManyChanges:
    """More changes than are shown, one a batch."""

    def batches(self) -> Iterator[FakeBatch]:
        for t in range(CHANGES_SHOWN_MAX + 20):
            row: Row = (t, 1, "a")
            yield FakeBatch([row])

    def stop(self) -> None:
        raise AssertionError("it ends by itself")


class FakeDisplay:
    def __init__(self) -> None:
        self.pages: list[str] = []

    def update(self, shown: Any) -> None:
        self.pages.append(shown._repr_html_())


def test_a_live_cell_keeps_the_newest_changes() -> None:
    """And no more, however long it follows."""
    result = Result.of_live(*LIVE, ManyChanges())
    display = FakeDisplay()
    cell = LiveCell(result, display)
    cell.start()
    cell.join()
    assert display.pages[0].count("<td>") == 3
    assert display.pages[-1].count("<td>") == 3 * CHANGES_SHOWN_MAX
    assert "ended: 120 changes, the newest 100 are shown" in display.pages[-1]
    assert "<td>19</td>" not in display.pages[-1]


def test_a_subscription_does_not_hold_its_cell_up(notebook: Notebook) -> None:
    """It is followed by a thread, until ``%ctsql stop``."""
    begun = time.monotonic()
    assert notebook.run("", "SUBSCRIBE") is None
    assert time.monotonic() - begun < 10
    (cell,) = notebook.cells
    notebook.run("stop")
    assert not cell.is_alive()


@pytest.mark.spark
def test_a_notebook_runs(tmp_path: Path) -> None:
    """A real kernel: results as tables, a subscription that shows what a later cell inserts."""
    cells = [
        "%load_ext ctsql",
        "%ctsql -w warehouse",
        "%%ctsql\nCREATE TABLE t (k INT, v STRING);\nINSERT INTO t VALUES (1, '<b>')",
        "%ctsql SELECT * FROM t",
        "%ctsql SUBSCRIBE TO t",
        "%ctsql INSERT INTO t VALUES (2, 'later')",
        WAIT,
        "%ctsql stop",
        "%ctsql -o r SELECT count(*) AS n FROM t",
        "r.scalar()",
        "%%ctsql\nSELECT 1;\nSELECT bad",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])  # type: ignore[no-untyped-call]
    client = NotebookClient(
        notebook,
        timeout=300,
        allow_errors=True,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()
    outputs = [cell.outputs for cell in notebook.cells]
    printed = "".join(o.text for o in outputs[2] if o.output_type == "stream")
    assert printed.startswith("CREATE TABLE\nINSERT 0 1\n")
    assert "<td>&lt;b&gt;</td>" in outputs[3][0].data["text/html"]
    assert "<td>later</td>" in outputs[4][0].data["text/html"]
    assert outputs[9][0].data["text/plain"] == "2"
    problem = outputs[10][-1]
    assert problem.ename == "StatementError"
    assert problem.traceback[0] == '<cell>:2:8: error: column "bad" does not exist [UNKNOWN_COLUMN]'
