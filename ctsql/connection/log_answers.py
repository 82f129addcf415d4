"""Statements that read only a warehouse's logs: SHOW, DESCRIBE, SHOW CREATE, and the status.

They read and compute no rows. On a local disk they need no Spark.
"""

from typing import TypeGuard

from ctsql.catalog.errors import Error
from ctsql.catalog.spans import Source
from ctsql.planner.syntax import ast as st, parse, split
from ctsql.results.result import Result
from ctsql.runtime.log_reader import LogReader
from ctsql.runtime.monitoring import status as statuses
from ctsql.runtime.statements.inspect import show
from ctsql.runtime.statements.inspect.show import show_constraints

Logged = st.Show | st.Describe
_NOT_LOGGED = ("functions", "pending", "retention")  # the kinds for which SHOW needs Spark


def rows(table: show.NamedRows) -> Result:
    """A result of texts."""
    columns, texts = table
    return Result.of_rows(columns, ["string"] * len(columns), texts, "SHOW")


def text_rows(table: show.NamedRows, end: str) -> Result:
    """A result whose last column is a text to be read; ``end`` follows each text."""
    listing = rows(table)
    listing.text_end = end
    return listing


def reads_logs(statement: st.Statement) -> TypeGuard[Logged]:
    """Whether a statement reads only logs."""
    is_of_logs = isinstance(statement, st.Show) and statement.what not in _NOT_LOGGED
    return is_of_logs or isinstance(statement, st.Describe)


def is_logged(text: str) -> bool:
    """Whether all statements of a text read only logs.

    >>> is_logged("SHOW TABLES; DESCRIBE t"), is_logged("SHOW TABLES; SELECT 1"), is_logged("SHOW")
    (True, False, False)
    >>> is_logged("SHOW FUNCTIONS")
    False
    """
    try:
        return all(reads_logs(parse(span)) for span in split(Source(text, "")))
    except Error:
        return False


def run_logged(reader: LogReader, statement: Logged, schema: str) -> Result:
    """Run one of these statements; ``schema`` is that of unqualified names."""
    match statement:
        case st.Describe():
            return rows(show.describe(reader, statement, schema))
        case st.Show(what="create"):
            return text_rows(show.show_create(reader, statement, schema), ";")
        case st.Show(what="subscriptions"):
            return rows(show.show_subscriptions(reader))
        case st.Show(what="constraints"):
            return rows(show_constraints(reader, statement, schema))
    return rows(show.show_objects(reader, statement, schema))


def status(reader: LogReader) -> Result:
    """The status of every task and view."""
    status_rows = (s.row() for s in statuses.status(reader))
    return Result.of_table(statuses.COLUMNS, status_rows, "STATUS")
