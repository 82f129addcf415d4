"""Spark's schemas as Arrow's, by PySpark's own conversion."""

from typing import Any

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from ctsql.runtime.spark.versions import at_least

_TIMEZONE: dict[str, Any] = {"timezone": "UTC"} if at_least(4, 2) else {}
"""Before 4.2 the conversion takes no time zone, and instants are in UTC."""


def arrow_schema(schema: T.StructType, *, unique_fields: bool = False) -> pa.Schema:
    """The Arrow schema of a schema, instants in UTC.

    Args:
        unique_fields: raise PySpark's error if two fields of a struct have one name.
    """
    return to_arrow_schema(
        schema, error_on_duplicated_field_names_in_struct=unique_fields, **_TIMEZONE
    )
