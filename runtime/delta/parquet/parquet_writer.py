"""Writes few rows into a file of a Delta table without Spark.

A Spark job that writes ten rows takes a tenth of a second. For a plain table (:func:`is_plain`)
this writes what Delta would: a Parquet file, and the ``add`` action that describes it.

Source: the Delta protocol, "Data Files", "Add File and Remove File", "Per-file Statistics".
"""

import json
import uuid
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import types as T

from ctsql.catalog.errors import Declined
from ctsql.runtime.delta.stores.file_stores import FileStore
from ctsql.runtime.log import clock
from ctsql.runtime.log.batches import StagedFile
from ctsql.runtime.log.table_metadata import TableMetadata
from ctsql.runtime.rows.types import arrow_schema, has_written_bounds, is_flat

TEXT_MAX = 32  # longer texts are not used as bounds in statistics
_STATISTICS_MAX = 32  # columns with statistics, Delta's default
_SPARK = "org.apache.spark.version"
_PLAIN_OPTIONS = (
    "delta.checkpoint", "delta.deletedFileRetentionDuration", "delta.enableChangeDataFeed",
    "delta.enableDeletionVectors", "delta.enableInCommitTimestamps", "delta.feature.",
    "delta.inCommitTimestampEnablement", "delta.logRetentionDuration", "delta.minReaderVersion",
    "delta.minWriterVersion", "delta.autoOptimize", "delta.appendOnly",
    "delta.isolationLevel", "delta.enableExpiredLogCleanup",
)  # fmt: skip
"""Prefixes of the table properties that do not affect how files are written."""


def is_plain(metadata: TableMetadata, schema: T.StructType) -> bool:
    """Whether the files of a table are just rows of these columns.

    Not with partitions, CHECK constraints, computed columns, column mapping, other properties.
    """
    if metadata.partition_columns:
        return False
    options = [k for k in metadata.configuration if k.startswith("delta.")]
    if not all(k.startswith(_PLAIN_OPTIONS) for k in options):
        return False
    columns = _columns(metadata.schema_text)
    if [(f.name, f.dataType) for f in columns] != [(f.name, f.dataType) for f in schema]:
        return False
    return not any(set(f.metadata) - {"comment"} for f in columns)


def has_forbidden_null(metadata: TableMetadata, rows: pa.Table) -> bool:
    """Whether a NOT NULL column has a NULL in these rows."""
    columns = _columns(metadata.schema_text)
    return any(not f.nullable and rows.column(f.name).null_count for f in columns)


@lru_cache(maxsize=256)
def _columns(schema: str) -> T.StructType:
    """The columns of a schema as the log writes it; each commit reads a table's."""
    return T.StructType.fromJson(json.loads(schema))


def write(
    rows: pa.Table, schema: T.StructType, store: FileStore, folder: str, spark: str
) -> StagedFile | Declined:
    """Write rows into a new file of a folder; declined if Spark has to write the types.

    The version of Spark defines the calendar of dates and instants.
    """
    if not is_flat(schema):
        return Declined("values are nested")
    name = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
    add = {
        "path": name,
        "partitionValues": {},
        "size": _write_file(rows, schema, store, f"{folder}/{name}", spark),
        "modificationTime": clock.now_ms(),
        "dataChange": True,
        "stats": json.dumps(statistics(rows, schema)),
    }
    return StagedFile(name, json.dumps({"add": add}))


def _write_file(
    rows: pa.Table, schema: T.StructType, store: FileStore, path: str, spark: str
) -> int:
    arrow = arrow_schema(schema).with_metadata({_SPARK: spark})
    with store.open_output(path) as file:
        pq.write_table(
            rows.cast(arrow),
            file,
            compression="snappy",
            store_schema=False,
            use_dictionary=False,
            write_statistics=columns_with_statistics(rows),
            write_page_checksum=True,
        )
        return int(file.tell())


def columns_with_statistics(rows: pa.Table) -> list[str]:
    """The columns without NaN, which alone get Parquet's statistics; no nested ones.

    Arrow leaves NaN out of bounds, and Spark, for which NaN is the largest number, would skip a
    file for ``x > 5``.
    """
    return [f.name for f in rows.schema if not _may_have_nan(rows.column(f.name))]


def _may_have_nan(values: pa.ChunkedArray) -> bool:
    if pa.types.is_nested(values.type):
        return True
    is_floating = pa.types.is_floating(values.type)
    return is_floating and bool(pc.any(pc.is_nan(values)).as_py())


def statistics(rows: pa.Table, schema: T.StructType) -> dict[str, Any]:
    """The statistics of a file: bounds of integers, dates and short texts."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for field in schema.fields[:_STATISTICS_MAX]:
        values = rows.column(field.name)
        nulls[field.name] = values.null_count
        bounds = _bounds(values) if has_written_bounds(field.dataType) else ()
        if bounds:
            low[field.name], high[field.name] = bounds
    return {
        "numRecords": rows.num_rows,
        "minValues": low,
        "maxValues": high,
        "nullCount": nulls,
        "tightBounds": True,
    }


def _bounds(values: pa.ChunkedArray) -> Sequence[Any]:
    """The minimum and the maximum; empty without values, or for a long text.

    Also if Python cannot represent them: years outside 1 to 9999, texts not in UTF-8.
    """
    ends = pc.min_max(values)
    try:
        bounds = [ends["min"].as_py(), ends["max"].as_py()]
    except (OverflowError, UnicodeDecodeError):
        return ()
    if None in bounds or any(isinstance(v, str) and len(v) > TEXT_MAX for v in bounds):
        return ()
    return [v if isinstance(v, int | str) else v.isoformat() for v in bounds]
