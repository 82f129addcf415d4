"""``ctsql doctor``: looks at everything that ctsql needs on this machine, one line each.

The self-test runs typical statements in a temporary warehouse. A release of Spark or Delta that
lacks a private method which they use fails there, by ``SPARK_VERSION``.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from ctsql.catalog.errors import CtsqlError
from ctsql.console.warm_up import run_typical_statements
from ctsql.runtime.delta.stores.locks import folder_lock, local_path
from ctsql.runtime.spark.start.class_archive import archive_of
from ctsql.runtime.spark.start.environment import (
    check_java,
    delta_coordinate,
    delta_jars,
    ivy_jars_folder,
)
from ctsql.runtime.spark.start.jvm_options import class_path
from ctsql.runtime.spark.start.plain_start import spark_home
from ctsql.runtime.spark.versions import NEWEST, OLDEST, as_text, untested


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one thing; ``remedy`` says what to do, and is empty if nothing is wrong."""

    name: str
    text: str
    remedy: str = ""


def examine(warehouse: str, master: str | None) -> Iterator[Finding]:
    """Look at one thing after the other; the last one starts Spark.

    Args:
        warehouse: where its folder is or would be; nothing is left there.
    """
    yield Finding("Python", f"{sys.version.split()[0]}, {sys.executable}")
    java = _found("Java", _java)
    yield java
    yield _spark()
    yield Finding("Delta", version("delta-spark"))
    yield _found("JARs", _jars)
    yield _found("warehouse", lambda: _store(warehouse))
    if not java.remedy:
        yield _found("archive", _archive)
        remedy = "Set TMPDIR to a folder that you can write"
        yield _found("self-test", lambda: _self_test(master), remedy)


def _found(
    name: str,
    look: Callable[[], str],
    remedy: str = "Give ctsql a folder that it can write: ctsql -w FOLDER doctor",
) -> Finding:
    """What was found; ``remedy`` is that of a failure of the operating system."""
    try:
        return Finding(name, look())
    except CtsqlError as problem:
        details = "; ".join(filter(None, (problem.message, problem.detail)))
        return Finding(name, f"{details} [{problem.condition}]", problem.hint or "Report it.")
    except OSError as problem:
        place = "" if problem.filename is None else f"{problem.filename}: "
        return Finding(name, f"{place}{problem.strerror}", remedy)


def _java() -> str:
    java = check_java()
    return f"{java.version}, {java.program}"


def _spark() -> Finding:
    installed = version("pyspark")
    warning = untested(installed)
    remedy = f"Type: pip install 'pyspark>={as_text(OLDEST)},<={as_text(NEWEST)}'"
    return Finding("Spark", warning or installed, remedy if warning else "")


def _jars() -> str:
    if jars := delta_jars():
        return f"{len(jars)} of Delta in {ivy_jars_folder()}"
    return f"the first start of Spark fetches {delta_coordinate()}"


def _archive() -> str:
    archive = archive_of(check_java(), class_path(spark_home()))
    if archive is None:
        return "no archive of classes; ctsql warm-up makes one, and starts of Spark faster"
    return str(archive)


def _store(location: str) -> str:
    """Write, list, rename and lock in the folder, or in the nearest one that there is above it."""
    path = local_path(location)
    if path is None:
        return f"{location} is not on a local disk; the self-test does not look at it"
    folder = next(p for p in (path.absolute(), *path.absolute().parents) if p.exists())
    with tempfile.TemporaryDirectory(prefix=".ctsql-doctor-", dir=folder) as name:
        scratch = Path(name)
        with folder_lock(str(scratch)):
            (scratch / "a").write_text("written")
            os.replace(scratch / "a", scratch / "b")
            names = os.listdir(scratch)
    if "b" not in names or "a" in names:
        raise OSError(0, "a renamed file is not listed under its new name", str(folder))
    return f"{path}: files are written, renamed, listed and locked"


def _self_test(master: str | None) -> str:
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ctsql-doctor-") as folder:
        count = run_typical_statements(folder, master=master)
    return f"{count} statements ran in {time.monotonic() - start:.0f} s, start of Spark included"
