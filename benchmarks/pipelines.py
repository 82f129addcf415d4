"""The rival of views: Spark Declarative Pipelines, which refresh the same views on the same Spark.

They need a Spark Connect server. It runs inside the driver's JVM, so both share its cores, its
caches and its compiled code; only the requests go over a port of this machine. One refresh is one
run of a pipeline with one materialized view: create the graph, register the view, wait for the end
of the run. It does not include the start of a JVM, a session or a command. The runs write Delta
tables of another database.

Needs the packages of the dependency group ``bench`` (Spark Connect's).
"""

import os
import socket
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

DATABASE = "declared"


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def with_connect_server() -> int:
    """Configure the next JVM to serve Spark Connect; returns the port."""
    port = free_port()
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        "--conf spark.plugins=org.apache.spark.sql.connect.SparkConnectPlugin"
        " --conf spark.connect.grpc.binding.address=127.0.0.1"
        f" --conf spark.connect.grpc.binding.port={port} pyspark-shell"
    )
    return port


class Pipelines:
    """Runs pipelines on a Connect server inside this driver's JVM."""

    def __init__(self, spark: SparkSession, port: int, folder: Path, sources: dict[str, str]):
        from pyspark.sql.connect.session import SparkSession as Remote

        self.storage = (folder / "pipeline-storage").as_uri()
        views = (folder / DATABASE).as_uri()
        spark.sql(f"CREATE DATABASE {DATABASE} LOCATION '{views}'")
        for name, location in sources.items():
            spark.sql(f"CREATE TABLE {DATABASE}.{name} USING delta LOCATION '{location}'")
        self.remote: Any = Remote.builder.remote(f"sc://127.0.0.1:{port}").create()
        # If the view's text named it, the second run would alter it, which Delta refuses.
        self.remote.conf.set("spark.sql.sources.default", "delta")
        settings: Any = spark.conf.getAll
        self.settings = {
            key: value
            for key, value in settings.items()
            if key.startswith(("spark.sql.", "spark.databricks.")) and spark.conf.isModifiable(key)
        }

    def refresh(self, name: str, query: str, columns: list[str]) -> float:
        """Run the pipeline for one view; returns the seconds."""
        from pyspark.pipelines.spark_connect_graph_element_registry import (
            SparkConnectGraphElementRegistry,
        )
        from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run

        start = time.perf_counter()
        graph = create_dataflow_graph(self.remote, "spark_catalog", DATABASE, self.settings)
        SparkConnectGraphElementRegistry(self.remote, graph).register_sql(
            f"CREATE MATERIALIZED VIEW {name}"
            f" AS SELECT * FROM ({query}) AS q ({', '.join(columns)})",
            Path(f"{name}.sql"),
        )
        for _ in start_run(self.remote, graph, [], False, [], False, self.storage):
            pass  # the events; a run that fails raises
        return time.perf_counter() - start
