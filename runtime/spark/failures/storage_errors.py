"""Errors of stores and the operating system as errors of ctsql; needs no Spark."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from ctsql.catalog.errors import CtsqlError, error

FILE_MISSING = "a file of the table is missing"
NOT_ALLOWED = "a file may not be written or read"
NO_CONNECTOR = "Spark has no connector for such a location"
_CONNECTOR_HINT = "Give Spark the store's connector: spark.jars.packages in spark-defaults.conf."
_MISSING_HINT = """\
If MAINTAIN or VACUUM deleted it, read as of a later T; otherwise restore the file."""

# What a store said; the first that matches is taken. Texts of Linux, Hadoop 3.4 and Delta 4.4.
_STORAGE = (
    ("No space left on device", "the disk is full", "Free some space and run it again."),
    ("Disk quota exceeded", "the disk's quota is used up", "Free some space and run it again."),
    ("File too large", "a file may not grow any more", "Check the limits: ulimit -f"),
    ("Read-only file system", "the disk is read-only", "Check how it is mounted."),
    ("Permission denied", NOT_ALLOWED, "Check the permissions."),
    ("Operation not permitted", NOT_ALLOWED, "Check the permissions."),
    ("AccessControlException", NOT_ALLOWED, "Check the permissions."),
    ("AccessDenied", NOT_ALLOWED, "Check the permissions."),
    ("ot a directory", "a file is where a folder should be", "Check the path."),
    ("Input/output error", "the disk could not be read or written", "Check the disk."),
    (
        "Relative path in absolute URI",
        "a file has a colon in its name",
        "Rename it: Hadoop reads the text before a colon as the name of a store.",
    ),
    ("Too many open files", "too many files are open", "Raise the limit: ulimit -n"),
    ("No FileSystem for scheme", NO_CONNECTOR, _CONNECTOR_HINT),
    ("ClassNotFoundException: Class org.apache.hadoop.fs", NO_CONNECTOR, _CONNECTOR_HINT),
    ("UnknownHostException", "the store's host is unknown", "Check the URI and the network."),
    ("DELTA_CANNOT_CREATE_LOG_PATH", NOT_ALLOWED, "Check the permissions."),
    ("Mkdirs failed", NOT_ALLOWED, "Check the permissions."),
    ("FileNotFoundException", FILE_MISSING, _MISSING_HINT),
    ("FILE_NOT_EXIST", FILE_MISSING, _MISSING_HINT),
    ("PATH_NOT_FOUND", FILE_MISSING, _MISSING_HINT),
)
# Hadoop's of a file beside it, on a local disk, and Parquet's of a page.
_CHECKSUMS = (
    re.compile(r"Checksum error: (\S+)"),
    re.compile(r"reading file (\S+?)\.\s[\s\S]*CRC checksum verification failed"),
)
_NEWER = re.compile(r"\[DELTA_(?:UNSUPPORTED_FEATURES\w*|INVALID_PROTOCOL_VERSION)\]\s*(.*)")


def storage_problem(text: str) -> CtsqlError | None:
    """The error for a message of a store, Hadoop or Delta; None if it is about something else."""
    for checksum in _CHECKSUMS:
        match = checksum.search(text)
        if match:
            return damaged_file(match.group(1), "its contents do not match its checksum")
    newer = _NEWER.search(text)
    if newer:
        what = "a table of a newer Delta Lake"
        hint = "Use a ctsql for that Delta Lake, if there is one: pip install --upgrade ctsql"
        return error("STORED_DATA_INVALID", what=what, detail=newer.group(1)[:400], hint=hint)
    for sign, message, hint in _STORAGE:
        if sign in text:
            line = next(line for line in text.splitlines() if sign in line)
            return error("STORAGE_ERROR", message=message, detail=line.strip()[:400], hint=hint)
    return None


def damaged_file(path: str, how: str) -> CtsqlError:
    """The error for a damaged file of a table; the caller raises it."""
    detail = f"{path}: {how}."
    hint = "Restore the file from a copy and run it again; nothing is written until then."
    return error("STORED_DATA_INVALID", what="a file of a table", detail=detail, hint=hint)


def check_scheme(location: str) -> None:
    """Raise STORAGE_ERROR for a location that Spark cannot write."""
    scheme = location.partition(":")[0].lower()
    if scheme in ("http", "https"):
        message = f"Spark cannot write to {scheme}: locations"
        hint = "Give a folder, or a URI that begins with file:, hdfs:, s3a:, abfss: or gs:."
        raise error("STORAGE_ERROR", message=message, detail=f"{location}", hint=hint)


def lost_commit(location: str, version: int) -> CtsqlError:
    """The error for a commit that was read before and is missing with all later ones."""
    path = f"{location}/_delta_log/{version:020d}.json"
    detail = f"{path}: it was read before and is missing."
    hint = "Restore the file from a copy. If there is none: 'When a disk or a log fails' in "
    hint += "docs/recover.md explains how to continue without its rows."
    return error("STORED_DATA_INVALID", what="a file of a table", detail=detail, hint=hint)


@contextmanager
def translate_os_errors(path: str) -> Iterator[None]:
    """Run Python's file calls; their OSError becomes an error of ctsql."""
    try:
        yield
    except OSError as problem:
        raise os_error(path, problem) from problem


def os_error(path: str, problem: OSError) -> CtsqlError:
    """The error for an OSError about a file."""
    detail = f"{path}: {problem.strerror or problem}"
    storage_error = storage_problem(detail)
    if storage_error is None:
        is_missing = isinstance(problem, FileNotFoundError)
        message = FILE_MISSING if is_missing else NOT_ALLOWED
        storage_error = error("STORAGE_ERROR", message=message, detail=detail)
    return storage_error
