"""The rows of system tables: what each table asks its part of this room for."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from ctsql.runtime.log_reader import LogReader
from ctsql.runtime.monitoring.failures import FailureRow, failures
from ctsql.runtime.monitoring.objects import (
    DependencyRow,
    LagRow,
    ObjectRow,
    dependencies,
    lags,
    objects,
)
from ctsql.runtime.monitoring.refreshes import Refresh, refreshes
from ctsql.runtime.monitoring.storage import StorageRow, storage
from ctsql.runtime.monitoring.wanted import ALL, Wanted

ROWS_OF: dict[str, tuple[type, Callable[[LogReader, Wanted], Iterator[Any]]]] = {
    "dependencies": (DependencyRow, dependencies),
    "failures": (FailureRow, failures),
    "lag": (LagRow, lags),
    "objects": (ObjectRow, objects),
    "refreshes": (Refresh, refreshes),
    "storage": (StorageRow, storage),
}
"""By the table's name: the class of its rows, and what gives them."""


def system_rows(reader: LogReader, name: str, wanted: Wanted = ALL) -> list[Any]:
    """The rows of a system table, as values of its class; nothing is written or computed.

    Args:
        name: without the schema. wanted: rows outside it may be among them.
    """
    with reader.as_stored():
        reader.refresh_catalog()
        reader.timeline.refresh()
        return list(ROWS_OF[name][1](reader, wanted))


def as_tuples(name: str, rows: list[Any]) -> list[tuple[Any, ...]]:
    """Rows of a system table as tuples in the order of its columns."""
    names = [f.name for f in fields(ROWS_OF[name][0])]
    return [tuple(_plain(getattr(row, n)) for n in names) for row in rows]


def _plain(value: object) -> object:
    """A value as Arrow takes it: a map is a list of pairs."""
    if isinstance(value, Mapping):
        return [(key, _plain(one)) for key, one in value.items()]
    return list(value) if isinstance(value, tuple) else value
