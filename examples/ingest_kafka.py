"""Loads messages of a Kafka topic into a table: each once, even if the checkpoint is lost.

    python -m examples.ingest_kafka -w warehouse localhost:9092 orders checkpoint

Structured Streaming reads the topic, ``con.writer`` commits the rows. Each row has the partition
and the offset of its message, and the task ``loaded_offsets`` stores the newest offset of each
partition. A batch skips messages up to that offset. The checkpoint only saves time: without it the
stream begins with the first message again, and stored ones are skipped.

Two processes may load the same topic. The upper of the writer counts its commits and is read
before ``loaded_offsets`` is; if another process commits in between, ``compare_and_append`` raises
UpperMismatch and writes nothing. The query ends then; start it again.

A topic that was deleted and created again begins with offset 0: load it into another table. Spark
needs its connector: spark.jars.packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0.
"""

import argparse
from collections.abc import Sequence

from pyspark.sql import DataFrame, functions as F
from pyspark.sql.streaming import StreamingQuery

from ctsql.api import Connection, connect

COLUMNS = "id INT, price DECIMAL(8, 2)"
SET_UP = f"""
CREATE TABLE IF NOT EXISTS orders ({COLUMNS}, kafka_partition INT, kafka_offset BIGINT);
CREATE CONTINUAL TASK IF NOT EXISTS loaded_offsets (loaded_partition INT, loaded_offset BIGINT)
ON INPUT orders AS (
    MERGE INTO loaded_offsets AS l
    USING (SELECT kafka_partition, max(kafka_offset) AS newest FROM orders
        WHERE kafka_offset IS NOT NULL GROUP BY kafka_partition) AS n
    ON l.loaded_partition = n.kafka_partition
    WHEN MATCHED AND n.newest > l.loaded_offset THEN UPDATE SET loaded_offset = n.newest
    WHEN NOT MATCHED THEN INSERT (loaded_partition, loaded_offset) VALUES (kafka_partition, newest)
);
"""


def follow(
    con: Connection, brokers: str, topic: str, checkpoint: str, *, once: bool = False
) -> StreamingQuery:
    """Start to load the messages of a topic; with ``once`` only the existing ones."""
    con.execute(SET_UP)
    writer = con.writer("orders", job="ingest_kafka")

    def load(rows: DataFrame, _batch: int) -> None:
        upper = writer.fetch_recent_upper()
        loaded = con.execute("SELECT * FROM loaded_offsets").to_spark()
        is_in = (F.col("kafka_partition") == F.col("loaded_partition")) & (
            F.col("kafka_offset") <= F.col("loaded_offset")
        )
        new = rows.join(F.broadcast(loaded), is_in, "left_anti")
        writer.compare_and_append(new, expected_upper=upper, new_upper=upper + 1)

    messages = con.spark.readStream.format("kafka").option("kafka.bootstrap.servers", brokers)
    messages = messages.option("subscribe", topic).option("startingOffsets", "earliest")
    messages = messages.option("kafka.isolation.level", "read_committed")
    value = F.from_json(F.col("value").cast("string"), COLUMNS, {"mode": "FAILFAST"})
    rows = messages.load().select(
        value.alias("value"),
        F.col("partition").alias("kafka_partition"),
        F.col("offset").alias("kafka_offset"),
    )
    rows = rows.select("value.*", "kafka_partition", "kafka_offset")
    stream = rows.writeStream.foreachBatch(load).option("checkpointLocation", checkpoint)
    return (stream.trigger(availableNow=True) if once else stream).start()


def main(arguments: Sequence[str] | None = None) -> None:
    """Load until stopped; with ``--once`` only the existing messages."""
    parser = argparse.ArgumentParser(description="Load messages of a Kafka topic into a table.")
    parser.add_argument("-w", "--warehouse", required=True)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("brokers")
    parser.add_argument("topic")
    parser.add_argument("checkpoint")
    given = parser.parse_args(arguments)
    with connect(given.warehouse) as con:
        query = follow(con, given.brokers, given.topic, given.checkpoint, once=given.once)
        query.awaitTermination()


if __name__ == "__main__":
    main()
