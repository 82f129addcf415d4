"""The rows of system tables, by the function for each table."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ctsql.catalog.items import Item
from ctsql.runtime.log_reader import LogReader
from ctsql.runtime.monitoring.failures import failures
from ctsql.runtime.monitoring.objects import dependencies, lags, objects, storage
from ctsql.runtime.monitoring.refreshes import refreshes

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import types as T

ROWS_OF: dict[str, Callable[[LogReader, Iterable[Item]], Iterator[Any]]] = {
    "dependencies": dependencies,
    "failures": failures,
    "lag": lags,
    "objects": objects,
    "refreshes": refreshes,
    "storage": storage,
}
"""By the table's name: the function that makes its rows."""


def system_rows(reader: LogReader, name: str) -> list[Any]:
    """The rows of a system table, by its name without the schema, as values of its class."""
    with reader.as_stored():
        reader.refresh_catalog()
        reader.timeline.refresh()
        return list(ROWS_OF[name](reader, reader.catalog))


def as_arrow(rows: list[Any], schema: "T.StructType") -> "pa.Table":
    """Rows of a system table as Arrow, by Spark's schema of the table."""
    import pyarrow as pa

    from ctsql.runtime.rows.types import arrow_schema

    wide = arrow_schema(schema)
    arrays = []
    for field in wide:
        values = [getattr(row, field.name) for row in rows]
        if not pa.types.is_primitive(field.type) and not pa.types.is_string(field.type):
            values = [_plain(value) for value in values]
        arrays.append(pa.array(values, field.type))
    return pa.table(arrays, schema=wide)


def _plain(value: object) -> object:
    """A value for Arrow: a map is a list of pairs."""
    if isinstance(value, Mapping):
        return [(key, _plain(one)) for key, one in value.items()]
    return list(value) if isinstance(value, tuple) else value
