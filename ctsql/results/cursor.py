"""PEP 249's cursor, for code written for any DB-API driver."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from ctsql.catalog.errors import InterfaceError
from ctsql.planner.literals import Parameters
from ctsql.results.result import CursorDescription, Result, Row


class Executing(Protocol):
    """The connection that runs a cursor's statements: a :class:`ctsql.Connection`."""

    def execute(self, sql: str, parameters: Parameters | None = None) -> Result:
        """Run one or several statements; returns the last one's result."""
        ...

    def executemany(self, sql: str, seq_of_parameters: Iterable[Parameters]) -> Result:
        """Run a statement once for each set of parameters, in one commit."""
        ...


class Cursor:
    """Runs statements on a connection and returns the rows of the last one."""

    def __init__(self, connection: Executing) -> None:
        self.connection = connection
        self.arraysize = 1
        self._result: Result | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<Cursor of {self.connection!r}{' (closed)' if self._closed else ''}>"

    def __enter__(self) -> "Cursor":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def execute(self, operation: str, parameters: Parameters | None = None) -> "Cursor":
        """Run one or several statements; the rows of the last can be fetched."""
        if self._closed:
            raise InterfaceError("the cursor is closed")
        self._result = self.connection.execute(operation, parameters)
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> "Cursor":
        """Run a statement for each set of parameters; :meth:`ctsql.Connection.executemany`."""
        if self._closed:
            raise InterfaceError("the cursor is closed")
        self._result = self.connection.executemany(operation, seq_of_parameters)
        return self

    @property
    def result(self) -> Result:
        """The last result; InterfaceError before the first statement."""
        if self._result is None:
            raise InterfaceError("no statement has been run on this cursor")
        return self._result

    @property
    def description(self) -> CursorDescription | None:
        """Name and type of each column; None if the last statement returned no rows."""
        return None if self._result is None else self._result.description

    @property
    def rowcount(self) -> int:
        """Rows changed or returned; -1 while unknown."""
        return -1 if self._result is None else self._result.rowcount

    def fetchone(self) -> Row | None:
        """The next row, or None after the last."""
        return self.result.fetchone()

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next ``size`` rows (by default ``arraysize``)."""
        return self.result.fetchmany(self.arraysize if size is None else size)

    def fetchall(self) -> list[Row]:
        """All rows not fetched yet."""
        return self.result.fetchall()

    def __iter__(self) -> Iterator[Row]:
        return iter(self.result)

    def close(self) -> None:
        """Close the cursor."""
        self._closed, self._result = True, None

    def setinputsizes(self, sizes: Any) -> None:
        """PEP 249: may do nothing."""

    def setoutputsize(self, size: Any, column: Any = None) -> None:
        """PEP 249: may do nothing."""
