"""Statements that a warehouse's logs answer: SHOW, DESCRIBE, SHOW CREATE, and the status.

No row is read and nothing is computed, so where the logs are on a local disk they need no Spark.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

from ctsql.catalog.errors import Error
from ctsql.catalog.spans import Source
from ctsql.planner.syntax import ast as st, parse, split
from ctsql.results.result import Result
from ctsql.runtime.log_reader import LogReader
from ctsql.runtime.monitoring import status as statuses
from ctsql.runtime.statements.inspect import show
from ctsql.runtime.statements.inspect.show_constraints import show_constraints

Logged = st.ShowObjects | st.ShowCreate | st.Describe | st.ShowSubscriptions | st.ShowConstraints


def rows(table: show.Rows) -> Result:
    """A result of texts."""
    columns, texts = table
    return Result.of_rows(columns, ["string"] * len(columns), texts, "SHOW")


def text_rows(table: show.Rows, end: str) -> Result:
    """A result whose last column is a text to be read, each with an end."""
    listing = rows(table)
    listing.text_end = end
    return listing


LOGGED: Mapping[type[st.Statement], Callable[[LogReader, Any, str], Result]] = {
    st.ShowObjects: lambda reader, s, schema: rows(show.show_objects(reader, s, schema)),
    st.ShowCreate: lambda reader, s, schema: text_rows(show.show_create(reader, s, schema), ";"),
    st.Describe: lambda reader, s, schema: rows(show.describe(reader, s, schema)),
    st.ShowSubscriptions: lambda reader, _, __: rows(show.show_subscriptions(reader)),
    st.ShowConstraints: lambda reader, s, schema: rows(show_constraints(reader, s, schema)),
}
"""What logs answer, by the class of the statement; the schema is that of unqualified names."""


def reads_logs(statement: st.Statement) -> TypeGuard[Logged]:
    """Whether logs answer a statement; functions are Spark's."""
    functions = isinstance(statement, st.ShowObjects) and statement.what == "functions"
    return type(statement) in LOGGED and not functions


def is_logged(text: str) -> bool:
    """Whether logs answer all statements of a text.

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
    return LOGGED[type(statement)](reader, statement, schema)


def status(reader: LogReader) -> Result:
    """The status of every task and view."""
    status_rows = (s.row() for s in statuses.status(reader))
    return Result.of_table(statuses.COLUMNS, status_rows, "STATUS")
