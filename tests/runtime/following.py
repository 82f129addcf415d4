"""Views beside the queries that they must equal, and what their commits say of how they did it."""

from collections import Counter
from typing import Any

from ctsql.api import Connection


def said(con: Connection, view: str) -> dict[str, Any]:
    """What the last commit of a view says of itself."""
    assert con._engine is not None
    warehouse = con._engine.warehouse
    item = next(i for i in warehouse.catalog if i.name.name == view)
    table = warehouse.relations.table(item)
    (*_, newest) = warehouse.relations.output(item).entries(
        since=warehouse.relations.output(item).fetch_recent_upper()
    )
    return table.commit_at(newest.version).metadata


def rows(con: Connection, query: str) -> Counter[tuple[str, ...]]:
    """The rows of a query; NaN equals NaN, -0.0 is not 0.0, doubles to nine digits."""
    found = con.execute(query).fetchall()
    return Counter(tuple(_told(value) for value in row) for row in found)


def _told(value: object) -> str:
    return f"{value:.9g}" if isinstance(value, float) else repr(value)
