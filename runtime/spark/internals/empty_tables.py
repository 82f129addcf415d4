"""Tables without rows, about which Spark's analyser and optimizer are asked."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession, types as T

from ctsql.catalog.names import backtick
from ctsql.catalog.schemas import Column, plain_type
from ctsql.runtime.spark.internals.java import java, java_session
from ctsql.runtime.spark.missing import or_else


def _created(session: SparkSession, columns: Sequence[Column]) -> DataFrame:
    ddl = ", ".join(f"{backtick(c.name)} {plain_type(c.type)}" for c in columns)
    return session.createDataFrame([], ddl or T.StructType())


@or_else(_created)
def empty(session: SparkSession, columns: Sequence[Column]) -> DataFrame:
    """An empty table that Spark plans like one with rows; all columns may be NULL.

    The public API, ``createDataFrame``, takes sixty calls. A fast path: without it, that one does.
    """
    types, texts = _classes(java(session))
    ddl = ", ".join(f"{backtick(c.name)} {c.type}" for c in columns)
    fields = types.StructType.fromDDL(ddl) if columns else types.StructType()
    schema = texts.replaceCharVarcharWithStringInSchema(fields)
    rows = session.sparkContext._jsc.emptyRDD()
    return DataFrame(java_session(session).createDataFrame(rows, schema), session)


@lru_cache(maxsize=2)
def _classes(jvm: Any) -> tuple[Any, Any]:
    sql = jvm.org.apache.spark.sql
    return sql.types, sql.catalyst.util.CharVarcharUtils
