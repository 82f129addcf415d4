"""Loads new files of a folder into a table: each row once, even if the checkpoint is lost.

    python -m examples.ingest_files -w warehouse in checkpoint

Structured Streaming finds the files, ``con.writer`` commits their rows. Each row has the path of
its file, and the task ``loaded_files`` stores these paths, also of rows that are deleted later. A
batch skips files whose paths are stored. The checkpoint only saves time: without it the stream
begins with all files again, and stored ones are skipped.

Two processes may load the same folder. The upper of the writer counts its commits and is read
before ``loaded_files`` is; if another process commits in between, ``compare_and_append`` raises
UpperMismatch and writes nothing. The query ends then; start it again.

A file is known by its path: write it elsewhere and move it into the folder whole.
"""

import argparse
from collections.abc import Sequence

from pyspark.sql import DataFrame, functions as F
from pyspark.sql.streaming import StreamingQuery

from ctsql import Connection, connect

COLUMNS = "item INT, pieces INT"
SET_UP = f"""
CREATE TABLE IF NOT EXISTS deliveries ({COLUMNS}, file STRING);
CREATE CONTINUAL TASK IF NOT EXISTS loaded_files (file STRING) ON INPUT deliveries AS (
    INSERT INTO loaded_files SELECT DISTINCT file FROM deliveries WHERE file IS NOT NULL
        AND file NOT IN (SELECT file FROM loaded_files WHERE file IS NOT NULL)
);
"""


def follow(con: Connection, folder: str, checkpoint: str, *, once: bool = False) -> StreamingQuery:
    """Start to load the CSV files of a folder; with ``once`` only the existing ones."""
    con.execute(SET_UP)
    writer = con.writer("deliveries", job="ingest_files")

    def load(rows: DataFrame, _batch: int) -> None:
        upper = writer.fetch_recent_upper()
        loaded = con.execute("SELECT file FROM loaded_files").to_spark()
        new = rows.join(loaded, "file", "left_anti")
        writer.compare_and_append(new, expected_upper=upper, new_upper=upper + 1)

    files = con.spark.readStream.format("csv").schema(COLUMNS)
    files = files.options(
        header=True,
        enforceSchema=False,  # else the names in a file's header are not looked at
        mode="FAILFAST",
        maxFileAge="36500d",  # else files much older than the newest are ignored
    )
    rows = files.load(folder).withColumn("file", F.col("_metadata.file_path"))
    stream = rows.writeStream.foreachBatch(load).option("checkpointLocation", checkpoint)
    return (stream.trigger(availableNow=True) if once else stream).start()


def main(arguments: Sequence[str] | None = None) -> None:
    """Load until stopped; with ``--once`` only the existing files."""
    parser = argparse.ArgumentParser(description="Load new CSV files of a folder into a table.")
    parser.add_argument("-w", "--warehouse", required=True)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("folder")
    parser.add_argument("checkpoint")
    given = parser.parse_args(arguments)
    with connect(given.warehouse) as con:
        follow(con, given.folder, given.checkpoint, once=given.once).awaitTermination()


if __name__ == "__main__":
    main()
