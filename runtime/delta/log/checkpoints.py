"""Checkpoints of a log: their files by name, and their contents.

A checkpoint has a table's state at its version in one Parquet file, or in several. One of version 2
is a file of JSON or Parquet that names *sidecars* with the live files.

Source: the Delta protocol, "Checkpoints", "Checkpoint Schema", "V2 Spec", "Sidecar Files".
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote

from ctsql.runtime.delta.stores.log_stores import LogStore
from ctsql.runtime.log.actions import DataFile
from ctsql.runtime.log.table_metadata import TableMetadata

_NAME = re.compile(
    r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet"
    r"|(\d{20})\.checkpoint\.[0-9a-f-]{36}\.(?:json|parquet)"
)
_STATE = ("txn", "metaData", "protocol", "domainMetadata")
_MAPS = ("partitionValues", "tags", "configuration")
_PARSED = "stats_parsed"  # a file's statistics with types; some writers omit those in JSON
_REPEATED = {_PARSED, "partitionValues_parsed"}  # fields of ``add`` that repeat others with types


def complete_checkpoints(names: Iterable[str]) -> dict[int, tuple[str, ...]]:
    """The files of each complete checkpoint, by version.

    Writers that cut a checkpoint into other numbers of parts may have left some of each.

    >>> parts = [f"{7:020}.checkpoint.{i:010}.{2:010}.parquet" for i in (1, 2)]
    >>> sorted(complete_checkpoints([*parts, f"{8:020}.checkpoint.{1:010}.{3:010}.parquet"]))
    [7]
    """
    parts: dict[tuple[int, int], list[str]] = {}
    complete: dict[int, tuple[str, ...]] = {}
    for name in names:
        if ".checkpoint." not in name or (match := _NAME.fullmatch(name)) is None:
            continue
        version, count = int(match[1] or match[4]), int(match[3] or 1)
        found = parts.setdefault((version, count), [])
        found.append(name)
        if count == 1:
            complete[version] = (name,)
        elif len(found) == count:
            complete.setdefault(version, tuple(sorted(found)))
    return complete


def read_state(store: LogStore, names: Sequence[str]) -> dict[str, Any]:
    """A checkpoint's table, protocol, transactions and domains.

    Raises OSError, ValueError or KeyError for a damaged file.
    """
    tables, protocols = list[Any](), list[Any]()
    transactions, domains = dict[str, int](), dict[str, str]()
    for name in names:
        for kind, action in _actions(store, name, _STATE):
            if kind == "txn":
                transactions[action["appId"]] = int(action["version"])
            elif kind == "domainMetadata" and not action.get("removed"):
                domains[action["domain"]] = action["configuration"]
            elif kind == "metaData":
                tables.append(TableMetadata(action))
            elif kind == "protocol":
                protocols.append(action)
    if not tables or not protocols:
        raise ValueError("it has no metadata or no protocol")
    return {
        "table": tables[-1],
        "protocol": protocols[-1],
        "transactions": transactions,
        "domains": domains,
    }


def read_files(store: LogStore, names: Sequence[str]) -> dict[str, DataFile]:
    """The live files of a checkpoint by path as the log writes it; raises as :func:`read_state`."""
    files: dict[str, DataFile] = {}
    for name in names:
        for kind, action in _actions(store, name, ("add", "sidecar")):
            if kind == "add":
                files[action["path"]] = DataFile.of(action)
            elif kind == "sidecar":
                sidecar = unquote(action["path"]).rpartition("/")[2]
                files |= read_files(store, [f"_sidecars/{sidecar}"])
    return files


def _actions(
    store: LogStore, name: str, kinds: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The actions of some kinds in a file, as in a commit."""
    if name.endswith(".json"):
        for line in store.read(name).split("\n"):
            for kind, action in json.loads(line or "{}").items():
                if kind in kinds and action is not None:
                    yield kind, action
        return
    import pyarrow as pa

    try:
        yield from _parquet_actions(store, name, kinds)
    except pa.ArrowException as problem:
        raise ValueError(str(problem)) from problem


def _parquet_actions(
    store: LogStore, name: str, kinds: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with (
        store.open(name) as source,
        pq.ParquetFile(source, page_checksum_verification=True) as file,
    ):
        schema = file.schema_arrow
        for kind in (kind for kind in kinds if kind in schema.names):
            fields = {field.name for field in schema.field(kind).type}
            needless = _REPEATED if "stats" in fields else _REPEATED - {_PARSED}
            names = [f"{kind}.{field}" for field in sorted(fields - needless)]
            column = file.read(columns=names).column(kind)
            for action in column.filter(pc.is_valid(column)).to_pylist():
                yield kind, _plain(action)


def _plain(action: dict[str, Any]) -> dict[str, Any]:
    """An action's fields as in a commit: no NULLs, and maps as objects."""
    fields = {name: value for name, value in action.items() if value is not None}
    for name in _MAPS:
        if isinstance(fields.get(name), list):  # a domain's configuration is a text
            fields[name] = dict(fields[name])
    for name in ("deletionVector", "format"):
        if name in fields:
            fields[name] = _plain(fields[name])
    if _PARSED in fields:
        fields["stats"] = json.dumps(_as_json(fields.pop(_PARSED)))
    return fields


def _as_json(statistics: dict[str, Any]) -> dict[str, Any]:
    """Statistics as in a commit, without bounds whose type JSON lacks."""
    fields: dict[str, Any] = {}
    for name, value in statistics.items():
        if isinstance(value, dict):
            fields[name] = _as_json(value)
        elif isinstance(value, bool | int | str) or (
            isinstance(value, float) and math.isfinite(value)
        ):
            fields[name] = value
    return fields
