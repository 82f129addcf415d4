"""``ctsql warm-up``: makes the archive of classes with which Java starts Spark faster.

Spark runs typical statements in a temporary warehouse, and its JVM writes the classes that it has
loaded when it ends (:mod:`ctsql.runtime.spark.start.jvm_options`). Then the same command is timed
without the archive and with it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ctsql.catalog.errors import error, misuse
from ctsql.connection.self_test import self_test
from ctsql.runtime.spark.start.environment import check_java, delta_jars, is_plain, spark_home
from ctsql.runtime.spark.start.jvm_options import (
    archive_folder,
    archive_of,
    class_path,
    keep_archive,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JVM_SECONDS_MAX = 300  # to write the archive
MEGABYTE = 1_000_000
TIMED = "SELECT 1"


def warm_up(note: Callable[[str], None]) -> None:
    """Make the archive of this Java and this Spark, in place of an older one.

    Args:
        note: called with each step and what it saves.

    Raises:
        INVALID_USAGE: Spark is configured by its files or environment variables.
        SPARK_ERROR: Java writes no archive. OSError: the cache folder cannot be written.
    """
    if not is_plain(None):
        message = "an archive of classes needs a Spark without its own configuration"
        raise misuse(message, "Spark's conf folder or a variable as SPARK_CONF_DIR configures it.")
    java, folder = check_java(), archive_folder()
    folder.mkdir(parents=True, exist_ok=True)
    note("Spark runs typical statements in a temporary folder; this takes a minute")
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        scratch = Path(temporary)
        if not delta_jars():
            _seconds_of_command(scratch)  # which fetches them
        jars, draft = class_path(spark_home()), scratch / "draft"
        _train(draft, scratch / "training")
        if (old := archive_of(java, jars)) is not None:
            old.unlink()
        seconds = _seconds_of_command(scratch)
        archive = keep_archive(draft, java, jars)
        note(f"made {archive} ({archive.stat().st_size // MEGABYTE} MB)")
        note(
            f'ctsql -c "{TIMED}" took {seconds:.1f} s without it, and takes '
            f"{_seconds_of_command(scratch):.1f} s with it"
        )
    note("ctsql warm-up --remove deletes it")


def remove(note: Callable[[str], None]) -> None:
    """Delete all archives of this user. Args: note: called with what is done."""
    folder = archive_folder()
    if not folder.exists():
        note(f"there is no archive in {folder}")
        return
    size = sum(path.stat().st_size for path in folder.glob("*.jsa"))
    shutil.rmtree(folder)
    note(f"deleted {folder} ({size // MEGABYTE} MB)")


def would_help(spark: "SparkSession") -> bool:
    """Whether ctsql started this Spark without an archive although one is possible."""
    conf = spark.sparkContext.getConf()
    options = conf.get("spark.driver.extraJavaOptions") or ""
    return is_plain(conf.get("spark.master")) and "SharedArchiveFile" not in options


def _train(draft: Path, warehouse: Path) -> None:
    """Run the statements, and have their JVM write the draft of an archive."""
    from ctsql.api import connect
    from ctsql.runtime.spark.failures.errors import translate_spark_errors
    from ctsql.runtime.spark.internals.java import jvm_process
    from ctsql.runtime.spark.start.session import training_session

    session = training_session(draft)
    with translate_spark_errors():
        java = jvm_process()
    try:
        self_test(str(warehouse), partial(connect, spark=session))
        session.stop()
        assert java.stdin is not None  # PySpark's connection to the JVM
        java.stdin.close()  # the JVM ends, and writes
        status = java.wait(JVM_SECONDS_MAX)
    finally:
        java.kill()
        java.wait()
    if status or not draft.is_file():
        message = "Java wrote no archive of its classes"
        detail = f"The JVM ended with status {status}. A Java without class-data sharing has none."
        raise error("SPARK_ERROR", message=message, detail=detail)


def _seconds_of_command(scratch: Path) -> float:
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    start = time.monotonic()
    subprocess.run(
        [sys.executable, "-P", "-m", "ctsql", "-w", str(scratch / "timed"), "-c", TIMED],
        env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    return time.monotonic() - start
