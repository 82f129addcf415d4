"""Views beside the queries that they must equal, and what their commits say of how they did it."""

from collections import Counter
from typing import Any

from ctsql.api import Connection


def said(con: Connection, view: str) -> dict[str, Any]:
    """What the last commit of a view says of itself."""
    return dict(con.commits(view)[-1].said)


def rows(con: Connection, query: str) -> Counter[tuple[str, ...]]:
    """The rows of a query; NaN equals NaN, -0.0 is not 0.0, doubles to nine digits."""
    found = con.execute(query).fetchall()
    return Counter(tuple(_told(value) for value in row) for row in found)


def _told(value: object) -> str:
    return f"{value:.9g}" if isinstance(value, float) else repr(value)
