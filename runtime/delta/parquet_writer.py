"""Writes few rows into a file of a Delta table on a local disk, without Spark.

A Spark job that writes ten rows takes a tenth of a second. What is written here is what Delta
would write into a table that asks for no more than its columns: a Parquet file and the ``add``
action that describes it. Any table that asks for more (see :func:`is_plain`) is left to Delta.

Source: the Delta protocol, "Data Files", "Add File and Remove File", "Per-file Statistics".
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from ctsql.runtime.log import clock
from ctsql.runtime.log.batches import StagedFile
from ctsql.runtime.rows.types import has_written_bounds, is_flat

TEXT_MAX = 32
"""Longer texts are not told as a column's least or greatest value."""
_STATISTICS_MAX = 32  # columns that Delta keeps statistics of, unless it is told otherwise
_SPARK = "org.apache.spark.version"
_PLAIN_OPTIONS = (
    "delta.checkpoint", "delta.deletedFileRetentionDuration", "delta.enableChangeDataFeed",
    "delta.enableDeletionVectors", "delta.enableInCommitTimestamps", "delta.feature.",
    "delta.inCommitTimestampEnablement", "delta.logRetentionDuration", "delta.minReaderVersion",
    "delta.minWriterVersion", "delta.autoOptimize", "delta.appendOnly",
    "delta.isolationLevel", "delta.enableExpiredLogCleanup",
)  # fmt: skip
"""Beginnings of the properties of a table that say nothing of how its files are to be written."""


def is_plain(metadata: Mapping[str, Any], schema: T.StructType) -> bool:
    """Is a table's file just rows of these columns? By its ``metaData`` action.

    Not where it has partitions, constraints, computed columns, other names for its columns, or a
    property that is not known here.
    """
    if metadata.get("partitionColumns"):
        return False
    options = [k for k in metadata.get("configuration", {}) if k.startswith("delta.")]
    if not all(k.startswith(_PLAIN_OPTIONS) for k in options):
        return False
    stored = T.StructType.fromJson(json.loads(metadata["schemaString"]))
    if [(f.name, f.dataType) for f in stored] != [(f.name, f.dataType) for f in schema]:
        return False
    return all(f.nullable and not set(f.metadata) - {"comment"} for f in stored)


def write(rows: pa.Table, schema: T.StructType, folder: Path, spark: str) -> StagedFile | None:
    """Write rows into a new file of a table's folder; None for columns that Spark has to write.

    Args:
        spark: the version of Spark whose calendar the dates and instants are of.
    """
    if not is_flat(schema):
        return None
    name = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
    told = to_arrow_schema(schema, timezone="UTC").with_metadata({_SPARK: spark})
    path = folder / name
    pq.write_table(
        rows.cast(told), path, compression="snappy", store_schema=False, use_dictionary=False
    )
    add = {
        "path": name,
        "partitionValues": {},
        "size": path.stat().st_size,
        "modificationTime": clock.now_ms(),
        "dataChange": True,
        "stats": json.dumps(statistics(rows, schema)),
    }
    return StagedFile(name, json.dumps({"add": add}))


def statistics(rows: pa.Table, schema: T.StructType) -> dict[str, Any]:
    """What Delta is told of a file's values: bounds of whole numbers, dates and short texts."""
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
    """The least and the greatest value; nothing where there is none, or where one is long.

    Nor where Python has no such value: a date of another year than 1 to 9999, a text not in UTF-8.
    """
    ends = pc.min_max(values.cast(pa.binary()) if pa.types.is_string(values.type) else values)
    try:
        found = [ends["min"].as_py(), ends["max"].as_py()]
        found = [v.decode() if isinstance(v, bytes) else v for v in found]
    except (OverflowError, UnicodeDecodeError):
        return ()
    if None in found or any(isinstance(v, str) and len(v) > TEXT_MAX for v in found):
        return ()
    return [v if isinstance(v, int | str) else v.isoformat() for v in found]
