"""Writes rows into files, by Spark's writers.

A target with a file's name, such as ``out.csv``, becomes one file: Spark writes a folder with one
part next to it, and the part is moved. Any other target is the folder that Spark writes.
"""

import re
import uuid
from contextlib import ExitStack

from pyspark.sql import DataFrame, Observation, functions as F

from ctsql.catalog.errors import CtsqlError, error
from ctsql.planner.syntax.ast import FileRef
from ctsql.planner.syntax.tokens.file_refs import ending_of
from ctsql.runtime.delta.stores.file_stores import pattern_of
from ctsql.runtime.delta.table import Gateway

_TIMES = {  # Spark's own defaults cut microseconds
    "timestampformat": f"yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][{3 * 'X'}]",  # +01:00, or Z
    "timestampntzformat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
}
_DEFAULTS = {
    "csv": {
        "header": "true",
        "escape": '"',
        "ignoreleadingwhitespace": "false",
        "ignoretrailingwhitespace": "false",
        **_TIMES,
    },
    "json": _TIMES,
}
"""Chosen so that reading the file with the defaults returns the written values."""
_CODECS = {"gz": "gzip", "bz2": "bzip2", "zst": "zstd"}
_CODEC = re.compile(r"\.(gz|bz2|zst|lz4|snappy|deflate)$", re.IGNORECASE)
_MARK = "_SUCCESS"  # Spark's marker of a completely written folder


def write_file(gateway: Gateway, rows: DataFrame, file: FileRef, *, overwrite: bool) -> int:
    """Write rows into a new file or folder; returns their number.

    ``overwrite`` replaces a file, or a folder that Spark wrote. Raises FILE_EXISTS for anything
    else.
    """
    target = gateway.qualify(file.path)
    is_file = bool(ending_of(file.path)) and not file.path.endswith("/")
    _check_free(gateway, target, file, is_file=is_file, overwrite=overwrite)
    observation = Observation()
    rows = rows.observe(observation, F.count(F.lit(1)).alias("n"))
    writer = rows.coalesce(1).write if is_file else rows.write
    options = _DEFAULTS.get(file.format, {}) | dict(file.options)
    codec = _CODEC.search(file.path)
    if is_file and codec is not None:
        name = codec.group(1).lower()
        options.setdefault("compression", _CODECS.get(name, name))
    writer = writer.format(file.format).options(**options)
    target = target.rstrip("/")
    temporary = f"{target.rpartition('/')[0]}/_ctsql-{uuid.uuid4().hex}"
    try:
        writer.save(temporary)
        if is_file:
            (part,) = gateway.glob(f"{pattern_of(temporary)}/part-*")
            gateway.move_file(part, target)
        else:
            _put_folder(gateway, temporary, target)
    finally:
        gateway.delete_tree(temporary)
    return int(observation.get["n"])


def _put_folder(gateway: Gateway, new: str, target: str) -> None:
    """Replace a folder by another; the old one is deleted last."""
    replaced = f"{new}-replaced"
    with ExitStack() as undo:
        if gateway.path_exists(target):
            gateway.move_file(target, replaced)
            undo.callback(gateway.move_file, replaced, target)
        gateway.move_file(new, target)
        undo.pop_all()
    gateway.delete_tree(replaced)


def _check_free(
    gateway: Gateway, target: str, file: FileRef, *, is_file: bool, overwrite: bool
) -> None:
    """Raise FILE_EXISTS unless the target is free or may be replaced."""
    names = gateway.entries(target)
    if names == [] and not gateway.path_exists(target):
        return
    if not overwrite:
        raise _exists(file, "", "Give another name, or type (OVERWRITE true).")
    if is_file and names is not None:
        raise _exists(file, "It is a folder.", "Give another name.")
    if not is_file and (names is None or (names and _MARK not in names)):
        detail = "It is a file." if names is None else "Spark did not write what is in the folder."
        raise _exists(file, detail, "Give another name.")


def _exists(file: FileRef, detail: str, hint: str) -> CtsqlError:
    return error("FILE_EXISTS", span=file.span, path=file.path, detail=detail, hint=hint)
