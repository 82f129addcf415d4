"""``ctsql doctor``: checks everything that ctsql needs on this machine, one line each."""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

from ctsql.api import connect
from ctsql.catalog.errors import CtsqlError
from ctsql.connection.self_test import self_test
from ctsql.runtime.delta.log.local_log import NeedsSpark
from ctsql.runtime.delta.stores.locks import folder_lock, local_path
from ctsql.runtime.log_reader import LocalLogReader
from ctsql.runtime.spark.start.environment import (
    check_java,
    check_spark_home,
    delta_coordinate,
    delta_jars,
    ivy_jars_folder,
    spark_home,
)
from ctsql.runtime.spark.start.jvm_options import archive_of, class_path
from ctsql.runtime.spark.versions import DELTA, NEWEST, OLDEST, as_text, untested


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; ``remedy`` is what to do, and empty if nothing is wrong."""

    name: str
    text: str
    remedy: str = ""


def examine(warehouse: str, master: str | None) -> Iterator[Finding]:
    """Run the checks one after the other; the self-test starts Spark, which remote stores need.

    ``warehouse`` is a folder that need not exist; nothing is left there.
    """
    yield Finding("Python", f"{sys.version.split()[0]}, {sys.executable}")
    java = finding("Java", _java)
    yield java
    spark = finding("Spark", check_spark_home)
    yield spark if spark.remedy else _spark(spark.text)
    yield Finding("Delta", version("delta-spark"))
    yield finding("JARs", _jars)
    folder = local_path(warehouse)
    if folder is not None:
        yield finding("warehouse", lambda: _store(folder))
    if not java.remedy and not spark.remedy:
        yield finding("archive", _archive)
        remedy = "Set TMPDIR to a folder that you can write"
        yield finding("self-test", lambda: run_self_test(master), remedy)
        if folder is None:
            yield finding("warehouse", lambda: remote_store(warehouse, master))


def finding(
    name: str,
    look: Callable[[], str],
    remedy: str = "Give ctsql a folder that it can write: ctsql -w FOLDER doctor",
) -> Finding:
    """The result of a check; ``remedy`` is for errors of the operating system."""
    try:
        return Finding(name, look())
    except CtsqlError as problem:
        details = ". ".join(filter(None, (problem.message, problem.detail)))
        return Finding(name, f"{details} [{problem.condition}]", problem.hint or "Report it.")
    except OSError as problem:
        place = "" if problem.filename is None else f"{problem.filename}: "
        return Finding(name, f"{place}{problem.strerror}", remedy)


def _java() -> str:
    java = check_java()
    return f"{java.version}, {java.program}"


def _spark(installed: str) -> Finding:
    warning = untested(installed, version("delta-spark"))
    spark = f"'pyspark>={as_text(OLDEST)},<={as_text(NEWEST)}'"
    remedy = f"Type: pip install {spark} 'delta-spark=={as_text(DELTA)}.*'"
    return Finding("Spark", warning or installed, remedy if warning else "")


def _jars() -> str:
    if jars := delta_jars():
        return f"{len(jars)} of Delta in {ivy_jars_folder()}"
    return f"the first start of Spark fetches {delta_coordinate()}"


def _archive() -> str:
    archive = archive_of(check_java(), class_path(spark_home()))
    if archive is None:
        return "no archive of classes; ctsql warm-up creates one, for faster starts of Spark"
    return str(archive)


def _store(path: Path) -> str:
    """Write, list, rename and lock in the folder, or in the nearest existing folder above it."""
    # A link to nothing exists too, and no folder can be created in its place.
    folder = next(p for p in (path.absolute(), *path.absolute().parents) if os.path.lexists(p))
    with tempfile.TemporaryDirectory(prefix=".ctsql-doctor-", dir=folder) as name:
        scratch = Path(name)
        with folder_lock(str(scratch)):
            (scratch / "a").write_text("written")
            os.replace(scratch / "a", scratch / "b")
            names = os.listdir(scratch)
    if "b" not in names or "a" in names:
        raise OSError(0, "a renamed file is not listed under its new name", str(folder))
    with suppress(NeedsSpark):  # a new warehouse may be created there
        LocalLogReader(str(path))
    return f"{path}: files are written, renamed, listed and locked"


def remote_store(location: str, master: str | None) -> str:
    """The same checks for a remote store, as far as it has these operations."""
    from ctsql.runtime.delta.table import Gateway
    from ctsql.runtime.spark.failures.errors import translate_spark_errors
    from ctsql.runtime.spark.internals.java import java, java_context
    from ctsql.runtime.spark.start.session import process_session
    from ctsql.runtime.warehouse.stores.location import check_may_begin

    session = process_session(master)
    check_may_begin(Gateway(session), location, location)
    with translate_spark_errors():
        folder = java(session).org.apache.hadoop.fs.Path(f"{location}/.ctsql-doctor-{uuid4().hex}")
        store = folder.getFileSystem(java_context(session).hadoopConfiguration())
        try:
            store.create(folder.suffix("/a")).close()
            is_renamed = store.rename(folder.suffix("/a"), folder.suffix("/b"))
            names = [str(status.getPath().getName()) for status in store.listStatus(folder)]
        finally:
            store.delete(folder, True)
    if names != ["b"] or not is_renamed:
        raise OSError(0, "a renamed file is not listed under its new name", location)
    return f"{location}: files are written, renamed, listed and deleted"


def run_self_test(master: str | None) -> str:
    """Run statements in a new warehouse; returns their number, the time and missing methods."""
    from ctsql.runtime.spark.missing import found

    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ctsql-doctor-") as folder:
        count = self_test(folder, partial(connect, master=master))
    text = f"{count} statements ran in {time.monotonic() - start:.0f} s, start of Spark included"
    return "; ".join([text, *(f"slower, because Spark lacks {each}" for each in found.values())])
