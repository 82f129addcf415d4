"""Empty tables have the columns that are asked for, with what Spark knows of their types."""

import pytest

from ctsql.api import Connection
from ctsql.catalog.schemas import Column
from ctsql.runtime.spark.internals.plans import empty

pytestmark = pytest.mark.spark

TYPES = [
    "int", "char(5)", "varchar(3)", "struct<a:char(4),b:varchar(3)>", "array<varchar(2)>",
    "decimal(10,2)", "timestamp_ntz", "interval year to month", "variant",
    "string collate UNICODE_CI",
]  # fmt: skip


def test_columns(con: Connection) -> None:
    """As declared, under any name; each may be NULL."""
    columns = [Column(f"c `{i}", kind, i > 0, None) for i, kind in enumerate(TYPES)]
    schema = empty(con.spark, columns).schema
    assert schema.names == [c.name for c in columns]
    assert [f.metadata.get("__CHAR_VARCHAR_TYPE_STRING") for f in schema] == [
        kind if "char(" in kind else None for kind in TYPES
    ]
    assert all(f.nullable for f in schema)


def test_no_columns(con: Connection) -> None:
    """A table may have none yet."""
    assert empty(con.spark, ()).schema.names == []
