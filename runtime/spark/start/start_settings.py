"""Spark's settings at a start that are the same for all of a process's sessions."""

import os
from pathlib import Path
from tempfile import gettempdir

from ctsql.runtime.spark.internals.class_names import CHECKPOINT_FILES
from ctsql.runtime.spark.start.plain_start import LOCAL

DRIVER_MEMORY = "2g"
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""By which a session has Delta Lake."""
_STATIC = {
    **DELTA,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # On a local disk Hadoop's default file context starts a process for every rename.
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES,
    "spark.sql.catalogImplementation": "in-memory",
    # A refresh runs some hundred generated classes; Spark keeps the newest hundred, and compiling
    # them anew every time took half of a small refresh.
    "spark.sql.codegen.cache.maxEntries": "5000",
    # One class loader for all sessions: with one each, every session compiles the same code anew.
    "spark.sql.artifact.isolation.enabled": "false",
    # What Spark broadcasts, hashes or sorts takes a page at least. The default is 64 MB on few
    # cores: a dozen joins of a few rows took all the memory there is for what is kept.
    "spark.buffer.pageSize": "4m",
    # Otherwise each function of a Column sends the place of its Python call: a third of all calls.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}


def start_settings(master: str | None) -> dict[str, str]:
    """The settings but those of the JVM. Args: master: Spark's; None for the default."""
    return {
        "spark.app.name": "ctsql",
        # What is given here goes before spark-defaults.conf, so there must be a way past it.
        "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY", DRIVER_MEMORY),
        "spark.master": master or LOCAL,
        # Nothing is stored there, but Spark makes the folder.
        "spark.sql.warehouse.dir": Path(gettempdir(), "ctsql-spark-warehouse").as_uri(),
        "spark.sql.shuffle.partitions": str(min(os.cpu_count() or 2, 8)),
        **_STATIC,
    }
