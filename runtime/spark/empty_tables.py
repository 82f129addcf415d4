"""Tables without rows, about which Spark's analyser and optimizer are asked.

They are made in the JVM by four calls; PySpark's ``createDataFrame`` makes sixty.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ctsql.catalog.names import backtick
from ctsql.catalog.schemas import Column


def empty(session: SparkSession, columns: Sequence[Column]) -> DataFrame:
    """A table of which Spark does not know that it is empty; all columns may be NULL."""
    types, texts = _classes(session._jvm)
    ddl = ", ".join(f"{backtick(c.name)} {c.type}" for c in columns)
    fields = types.StructType.fromDDL(ddl) if columns else types.StructType()
    schema = texts.replaceCharVarcharWithStringInSchema(fields)
    rows = session.sparkContext._jsc.emptyRDD()
    return DataFrame(session._jsparkSession.createDataFrame(rows, schema), session)


@lru_cache(maxsize=2)
def _classes(jvm: Any) -> tuple[Any, Any]:
    sql = jvm.org.apache.spark.sql
    return sql.types, sql.catalyst.util.CharVarcharUtils
