"""ctsql in a notebook: `%load_ext ctsql`, then cells of SQL.

    %ctsql -w warehouse          the warehouse of the cells after it
    %ctsql SELECT 1              one line of SQL
    %%ctsql                      a cell of SQL; its last result is the cell's value
    %%ctsql -o orders            the last result in a variable of the notebook
    %ctsql stop                  ends the subscriptions that cells show

Statements run as in the shell, and interrupting the kernel cancels the running one. A SUBSCRIBE
does not block: a thread shows the newest changes in its cell while other cells run.
"""

import sys
import threading
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ctsql.catalog.errors import CtsqlError, InterfaceError, misuse
from ctsql.catalog.spans import Source
from ctsql.connection.completion import complete
from ctsql.console.interruptible import Worker
from ctsql.planner.syntax import split
from ctsql.rendering.errortext import error_text
from ctsql.results.conversions import html_table
from ctsql.results.result import Result, Row

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext
    from IPython.core.interactiveshell import InteractiveShell

    from ctsql.api import Connection

CHANGES_SHOWN_MAX = 100  # the newest changes of a subscription that a cell shows
MAGIC = "ctsql"
_LIVE_ERRORS = (CtsqlError, InterfaceError, OSError)


@dataclass(frozen=True, slots=True)
class Options:
    """What stands before the SQL; ``connection`` and ``output`` name variables of the notebook."""

    warehouse: str | None = None
    connection: str | None = None
    output: str | None = None
    sql: str = ""


def read_options(line: str) -> Options:
    """The options of a line; INVALID_USAGE: an option without its value.

    >>> read_options("-w shop -o r SELECT 1")
    Options(warehouse='shop', connection=None, output='r', sql='SELECT 1')
    """
    names = {"-w": "warehouse", "-c": "connection", "-o": "output"}
    values: dict[str, str] = {}
    rest = line.strip()
    while rest[:2] in names and (len(rest) == 2 or rest[2].isspace()):
        option, value = rest[:2], rest[2:].split(maxsplit=1)
        if not value:
            detail = (
                "-w takes a warehouse, -c a variable with a connection, "
                "-o a variable for the result."
            )
            raise misuse(f"{option} needs a value", detail)
        values[names[option]] = value[0]
        rest = value[1].strip() if len(value) > 1 else ""
    return Options(**values, sql=rest)


class Display(Protocol):
    """What a cell shows and can show again."""

    def update(self, content: object) -> None:
        """Show something else in its place."""


class LiveCell(threading.Thread):
    """A subscription that its cell shows: the newest changes, until it ends or is stopped."""

    def __init__(self, result: Result, display: Display) -> None:
        super().__init__(name="ctsql-live-cell", daemon=True)
        self.result = result
        self.problem: Exception | None = None
        self._display = display
        self._rows: deque[Row] = deque(maxlen=CHANGES_SHOWN_MAX)
        self._count = 0
        self._state = "following"
        assert result.live is not None  # checked by the caller
        self._live = result.live

    def run(self) -> None:
        """Show what is delivered until there is no more."""
        try:
            for batch in self._live.batches():
                for row in batch.rows():
                    self._rows.append(row)
                    self._count += 1
                self._display.update(self)
            self._state = "ended"
        except _LIVE_ERRORS as problem:
            self.problem, self._state = problem, f"failed: {problem}"
        self._display.update(self)

    def stop(self) -> None:
        """End it between two Ts."""
        self._live.stop()

    def __repr__(self) -> str:
        return f"<LiveCell {self._state}, {self._count:,} changes>"

    def _repr_html_(self) -> str:
        from html import escape

        rows = list(self._rows)
        more = f", the newest {len(rows)} are shown" if self._count > len(rows) else ""
        note = f"<p>{escape(self._state)}: {self._count:,} changes{more}</p>"
        return html_table(self.result.columns, self.result.types, rows[::-1], len(rows)) + note


class Notebook:
    """The magics of one kernel, and the connection that they use."""

    def __init__(self, shell: "InteractiveShell") -> None:
        self.shell = shell
        self._worker = Worker()
        self._connection: Connection | None = None
        self.cells: list[LiveCell] = []

    @property
    def connection(self) -> "Connection":
        """The connection in use; by default to the default warehouse."""
        if self._connection is None:
            from ctsql.api import connect

            self._connection = connect()
        return self._connection

    def run(self, line: str, cell: str | None = None) -> object:
        """``%ctsql`` and ``%%ctsql``; returns the last result, unless it is only a status."""
        try:
            options = read_options(line)
            self._use(options)
            if cell is None and options.sql == "stop":
                self._stop()
                return None
            if cell is not None and options.sql:
                message = "SQL stands below the line of %%ctsql"
                detail = "One line of SQL is: %ctsql SELECT 1"
                raise misuse(message, detail)
            last = self._run_all(Source(options.sql if cell is None else cell, "<cell>"))
        except CtsqlError as problem:
            # Instead of the places in Python, which say nothing of the SQL.
            lines = error_text(problem).plain.splitlines()
            problem._render_traceback_ = lambda: lines  # type: ignore[attr-defined]
            raise
        if options.output is not None:
            self.shell.user_ns[options.output] = last
            return None
        return last

    def _use(self, options: Options) -> None:
        from ctsql.api import Connection, connect

        if options.warehouse is not None:
            self._connection = connect(options.warehouse)
        if options.connection is not None:
            connection = self.shell.user_ns.get(options.connection)
            if not isinstance(connection, Connection):
                message = f"{options.connection} is no connection"
                detail = f'Make one: {options.connection} = ctsql.connect("warehouse")'
                raise misuse(message, detail)
            self._connection = connection

    def _run_all(self, source: Source) -> object:
        """Run statements; shows all results but the last one, which is returned."""
        from IPython.display import display

        output: object = None
        for span in split(source):
            if output is not None:
                display(output)  # type: ignore[no-untyped-call]
            work = partial(self.connection.run_statement, span)
            result = self._worker.run(work, self.connection.cancel)
            output = self._display(result)
        return output

    def _display(self, result: Result) -> object:
        """What a cell shows of a result; a status is printed."""
        from IPython.display import display

        for notice in result.notices:
            sys.stderr.write(f"NOTICE: {notice}\n")
        if result.live is not None:
            handle = display("waiting for changes", display_id=True)  # type: ignore[no-untyped-call]
            assert handle is not None  # since it has an id
            cell = LiveCell(result, handle)
            self.cells = [c for c in self.cells if c.is_alive()]
            self.cells.append(cell)
            cell.start()
            return None
        if not result.has_rows:
            sys.stdout.write(f"{result.status}\n")
            return None
        return result

    def _stop(self) -> None:
        for cell in self.cells:
            cell.stop()
        for cell in self.cells:
            cell.join()
        self.cells.clear()

    def completions(self, context: "CompletionContext") -> dict[str, Any]:
        """What Tab offers in a cell of SQL, or in a line of it."""
        from IPython.core.completer import SimpleCompletion

        before, after = _around(context.full_text, context.cursor_line, context.cursor_position)
        sql = _sql_of(before)
        if sql is None or not self.connection.started:
            return {"completions": []}
        candidates = complete(sql, self.connection.known(), after)
        length = candidates[0].length if candidates else 0
        return {
            "completions": [SimpleCompletion(text=c.text, type=c.kind) for c in candidates],
            "matched_fragment": sql[len(sql) - length :],
            "suppress": True,
        }


def _around(text: str, line: int, column: int) -> tuple[str, str]:
    """A text before and after the cursor, which stands in a line, counted from 0, at a column."""
    lines = text.split("\n")
    before = "\n".join([*lines[:line], lines[line][:column]])
    return before, text[len(before) :]


def _sql_of(before: str) -> str | None:
    r"""The SQL of a cell up to the cursor; None in a cell of Python.

    >>> _sql_of("%%ctsql -o r\nSELECT "), _sql_of("x = 1\n%ctsql SEL"), _sql_of("SELECT ")
    ('SELECT ', 'SEL', None)
    """
    if before.startswith(f"%%{MAGIC}"):
        _, newline, sql = before.partition("\n")
        return sql if newline else None
    line = before.rpartition("\n")[2].lstrip()
    return line.removeprefix(f"%{MAGIC} ") if line.startswith(f"%{MAGIC} ") else None


def load(shell: "InteractiveShell") -> Notebook:
    """What ``%load_ext ctsql`` does."""
    from IPython.core.completer import context_matcher

    notebook = Notebook(shell)

    @context_matcher()  # type: ignore[untyped-decorator]
    def ctsql_completions(context: "CompletionContext") -> dict[str, Any]:
        return notebook.completions(context)

    shell.register_magic_function(notebook.run, "line_cell", MAGIC)  # type: ignore[arg-type]
    if shell.Completer is not None:
        shell.Completer.custom_matchers.append(ctsql_completions)
    return notebook
