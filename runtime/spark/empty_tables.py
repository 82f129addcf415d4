"""Tables without rows, about which Spark's analyser and optimizer are asked.

They are made in the JVM by four calls; PySpark's ``createDataFrame`` makes sixty.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ctsql.catalog.names import backtick
from ctsql.catalog.schemas import Column


def empty(
    session: SparkSession, columns: Sequence[Column], *, with_not_null: bool = False
) -> DataFrame:
    """A table of which Spark does not know that it is empty.

    Args:
        with_not_null: whether Spark is told which columns are NOT NULL; else all may be NULL.
    """
    types, texts = _classes(session._jvm)
    listed = ", ".join(_field(c, with_not_null) for c in columns)
    fields = types.StructType.fromDDL(listed) if columns else types.StructType()
    schema = texts.replaceCharVarcharWithStringInSchema(fields)
    rows = session.sparkContext._jsc.emptyRDD()
    return DataFrame(session._jsparkSession.createDataFrame(rows, schema), session)


def _field(column: Column, with_not_null: bool) -> str:
    is_required = with_not_null and not column.nullable
    return f"{backtick(column.name)} {column.type}{' NOT NULL' if is_required else ''}"


@lru_cache(maxsize=2)
def _classes(jvm: Any) -> tuple[Any, Any]:
    sql = jvm.org.apache.spark.sql
    return sql.types, sql.catalyst.util.CharVarcharUtils
