"""Adds columns at the end of an output.

    catalog:  the new definition, with its columns; no process runs it, no reader sees the columns
    table:    one commit without rows and without an upper adds them; existing rows have NULL
    timeline: the definition is in force from a T on, and its columns are the output's

[columns-before-rows] rows are staged only if the table begins with the columns of the definition in
    force at their T; otherwise it gets them first. So several processes may change a task at once.
[columns-only-added] columns of definitions in force are only added. The table's other columns were
    never written, so another process may remove them or change their type.
[older-without-new] an older definition, which still runs at earlier Ts, writes rows without the new
    columns.
"""

import json
from functools import lru_cache
from typing import Any

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item
from ctsql.catalog.names import fold
from ctsql.catalog.schemas import Schema, find, lacking
from ctsql.planner.lowering.spark_types import fields_of
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.write_handle import Committed, UpperMoved, disturbance_error
from ctsql.runtime.warehouse.relations import columns_in, columns_of
from ctsql.runtime.warehouse.warehouse import Warehouse

TRIES_MAX = 20
SCHEMAS_CACHED_MAX = 256


@lru_cache(maxsize=SCHEMAS_CACHED_MAX)
def begins_with(schema: str, columns: Schema) -> bool:
    """Whether a table, whose schema is as the log writes it, begins with these columns."""
    table_fields, fields = _fields(schema), _fields(fields_of(list(columns)).json())
    return len(table_fields) >= len(fields) and all(map(_is_same, table_fields, fields))


def schema_with(schema: str, columns: Schema) -> str:
    """These columns as the log writes them; existing ones are unchanged."""
    by_name = {fold(f["name"]): f for f in _fields(schema)}
    new_fields = _fields(fields_of(list(columns)).json())
    fields = [
        by_name[name] if (name := fold(f["name"])) in by_name and _is_same(by_name[name], f) else f
        for f in new_fields
    ]
    return json.dumps({"type": "struct", "fields": fields})


def check_takes(warehouse: Warehouse, item: Item, columns: Schema) -> None:
    """Raise Delta's error if the table of an output cannot have such columns; changes nothing."""
    table = warehouse.relations.table(item)
    table.begin().set_columns(schema_with(table.schema_text(), columns))


def check_columns_there(warehouse: Warehouse, item: Item) -> None:
    """Raise the error of :func:`find_missing_column`, if any."""
    problem = find_missing_column(warehouse, item)
    if problem is not None:
        raise problem


def find_missing_column(warehouse: Warehouse, item: Item) -> CtsqlError | None:
    """STORED_DATA_INVALID if another writer dropped or retyped a column of an output's table.

    Only columns that the output writes count. None if all are there.
    """
    schema = warehouse.relations.table(item).schema_text()
    # Equal texts are equal types; other texts are compared by Spark's parser.
    if _has_all(schema, item.columns) or begins_with(schema, item.columns):
        return None
    stored_columns = warehouse.relations.stored_columns(item)
    columns = columns_of(fields_of(list(item.columns)))  # spelled as those are
    column = next(iter(lacking(columns, stored_columns)), None)
    if column is None:
        return None
    now = find(stored_columns, column.name)
    detail = f"Another writer has dropped its column {column.name}."
    if now is not None:
        detail = f"Another writer has changed its column {column.name} to {now.type.upper()}; "
        detail += f"it must be {column.type.upper()}."
    what = f'the table of {item.kind.value} "{item.name}"'
    hint = f"Drop it and create it again: DROP {item.kind.keyword} {item.name}"
    return error("STORED_DATA_INVALID", what=what, detail=detail, hint=hint)


def ensure_columns(warehouse: Warehouse, item: Item, columns: Schema) -> None:
    """Add the columns to an output's table, unless it begins with them.

    Raises:
        READ_ONLY_MODE: columns are missing, and nothing can be written.
    """
    output, table = warehouse.relations.output(item), warehouse.relations.table(item)
    for _ in range(TRIES_MAX):
        if begins_with(table.schema_text(), columns):
            return
        if warehouse.gateway.read_only:
            raise error("READ_ONLY_MODE", what=f'adding columns to "{item.name}"')
        batch = output.open(output.fetch_recent_upper())
        if isinstance(batch, UpperMoved):
            continue
        assert batch.txn is not None  # it was opened above
        old_schema = table.metadata_at(batch.version_read).schema_text
        batch.txn.set_columns(schema_with(old_schema, columns))
        names = [c.name for c in columns]
        if isinstance(
            output.compare_and_append(
                [batch], expected=batch.lower, new=None, metadata={"columns": names}
            ),
            Committed,
        ):
            faults.point("columns_added")
            return
    raise disturbance_error(f"{TRIES_MAX} tries to add columns to {item.name}")


@lru_cache(maxsize=SCHEMAS_CACHED_MAX)
def _has_all(schema: str, columns: Schema) -> bool:
    """Whether a table, whose schema is as the log writes it, has these columns, as spelled."""
    return not lacking(columns, columns_in(schema))


def _fields(schema: str) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = json.loads(schema)["fields"]
    return fields


def _is_same(stored_column: dict[str, Any], column: dict[str, Any]) -> bool:
    return (
        fold(stored_column["name"]) == fold(column["name"])
        and stored_column["type"] == column["type"]
    )
