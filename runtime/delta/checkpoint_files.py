"""The live files of a version, read by this process from a checkpoint and the commits behind it.

Delta reads a checkpoint by a Spark job, the first of which takes a cold JVM seconds, whatever is
asked of the table then.

Source: the Delta protocol, "Checkpoints", "Last Checkpoint File", "Checkpoint Schema".
"""

import json
import os
from typing import Any

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.delta.log_files import LogFiles
from ctsql.runtime.log.actions import roll_files
from ctsql.runtime.log.data_files import DataFile

COMMITS_MAX = 400
"""The most commits to read behind a checkpoint."""
_PARSED = {"stats_parsed", "partitionValues_parsed"}
"""Fields of ``add`` that say what others say as text."""


def checkpointed_files(log: LogFiles, version: int) -> dict[str, DataFile] | None:
    """The live files at a version by path, as the log writes it.

    Returns:
        None where Delta has to read them: the table is on no disk of this machine, there is no
        checkpoint of one file in front of the version, or it has no statistics as text.
    """
    folder = log.table_folder
    newest = None if folder is None else _last_checkpoint(log)
    if newest is None or not 0 <= version - newest <= COMMITS_MAX:
        return None
    files = _files_of(os.path.join(str(folder), "_delta_log", f"{newest:020d}.checkpoint.parquet"))
    if files is None:
        return None
    try:
        return roll_files(files, (log.commit_at(v) for v in range(newest + 1, version + 1)))
    except CtsqlError as problem:
        if problem.condition != "HISTORY_LOST":
            raise
        return None  # it was cleaned up in front of a checkpoint that Delta finds


def _last_checkpoint(log: LogFiles) -> int | None:
    """The version of the newest checkpoint, if it is one file with all actions."""
    try:
        hint = json.loads(log.read_if_there("_last_checkpoint") or "{}")
    except (CtsqlError, ValueError) as problem:
        if isinstance(problem, CtsqlError) and problem.condition != "STORED_DATA_INVALID":
            raise
        # It only saves a list, so a damaged one is ignored, as Delta does. So is one beside which
        # a writer without checksums has left those of the one before.
        return None
    if not isinstance(hint, dict) or "parts" in hint or "v2Checkpoint" in hint:
        return None
    version = hint.get("version")
    return version if isinstance(version, int) else None


def _files_of(path: str) -> dict[str, DataFile] | None:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as checkpoint:
            schema = checkpoint.schema_arrow
            if "add" not in schema.names or "sidecar" in schema.names:
                return None
            fields = {field.name for field in schema.field("add").type} - _PARSED
            if "stats" not in fields:
                return None
            adds = checkpoint.read(columns=[f"add.{name}" for name in sorted(fields)]).column("add")
    except (OSError, pa.ArrowException):
        return None  # Delta says what is wrong with it, or takes an older one
    actions = (_action(add) for add in adds.filter(pc.is_valid(adds)).to_pylist())
    return {a["path"]: DataFile.of(a) for a in actions}


def _action(add: dict[str, Any]) -> dict[str, Any]:
    """The fields of an action as a commit has them: no NULLs, and maps as objects."""
    there = _without_nulls(add)
    for name in ("partitionValues", "tags"):
        if name in there:
            there[name] = dict(there[name])
    if "deletionVector" in there:
        there["deletionVector"] = _without_nulls(there["deletionVector"])
    return there


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
