"""What a table's folder on a local disk holds, read without ctsql."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ctsql.api import Connection
from ctsql.results.result import Result


def folder(con: Connection, name: str) -> Path:
    """The folder of a stored object."""
    rows = con.execute(f"DESCRIBE EXTENDED {name}").fetchall()
    (location,) = [str(value) for key, value, *_ in rows if key == "# location"]
    return Path(location.removeprefix("file:"))


def log(table: Path) -> list[list[dict[str, Any]]]:
    """The actions of every commit, oldest first."""
    return [
        [json.loads(line) for line in commit.read_text().splitlines() if line]
        for commit in sorted((table / "_delta_log").glob("*.json"))
    ]


def versions(table: Path) -> range:
    """The versions of a table."""
    return range(len(log(table)))


def transaction(commit: list[dict[str, Any]]) -> int | None:
    """The upper that a commit of an output carries."""
    return next((a["txn"]["version"] for a in commit if "txn" in a), None)


def check_written_once(table: Path, at: str = "") -> list[int]:
    """Each T is in a table's log once, and they are in order; gives the uppers."""
    uppers = [u for commit in log(table) if (u := transaction(commit)) is not None]
    assert uppers == sorted(set(uppers)), f"{table.name} {at}: each T once, in order"
    return uppers


def rows_at(con: Connection, table: Path, version: int) -> list[tuple[Any, ...]]:
    """What any Delta reader sees at a version."""
    read = con.spark.read.format("delta").option("versionAsOf", version)
    return Result.of_dataframe(read.load(str(table))).fetchall()


def data_files(table: Path) -> set[str]:
    """Data files and deletion vectors on disk, by path below the table; none of tables below it."""
    found = [*table.rglob("*.parquet"), *table.rglob("*.bin")]
    others = set(_tables_below(table))
    return {
        str(p.relative_to(table))
        for p in found
        if "_delta_log" not in p.parts and others.isdisjoint(p.parents)
    }


def _tables_below(table: Path) -> list[Path]:
    """The auxiliary tables of a view, which are in its folder."""
    return [log.parent for log in table.rglob("_delta_log") if log.parent != table]


def named_files(table: Path) -> set[str]:
    """Data files that some commit adds, removes or gives as a change file."""
    return {
        unquote(action["path"])
        for commit in log(table)
        for change in commit
        for kind, action in change.items()
        if kind in ("add", "remove", "cdc")
    }


def orphans(table: Path) -> set[str]:
    """Parquet files that no commit names, and vector files that are more than the commits use.

    Of a view's auxiliary tables as well.
    """
    unnamed = {f for f in data_files(table) if f.endswith(".parquet")} - named_files(table)
    vectors = {f for f in data_files(table) if f.endswith(".bin")}
    used = {v for v in vectors if any(_uuid_of(v) == u for u in _vector_uuids(table))}
    below = {str(t.relative_to(table) / f) for t in _tables_below(table) for f in orphans(t)}
    return unnamed | (vectors - used) | below


def _uuid_of(vector_file: str) -> str:
    return Path(vector_file).stem.removeprefix("deletion_vector_")


def _vector_uuids(table: Path) -> Iterator[str]:
    import base64
    import uuid

    for commit in log(table):
        for change in commit:
            for kind in ("add", "remove"):
                vector = change.get(kind, {}).get("deletionVector")
                if vector and vector["storageType"] == "u":
                    # The last 20 characters are the UUID in Z85; what is before is a folder.
                    encoded = vector["pathOrInlineDv"][-20:]
                    yield str(uuid.UUID(bytes=base64.a85decode(_ascii85(encoded))))


def _ascii85(z85: str) -> bytes:
    alphabet = (
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    )
    return bytes(33 + alphabet.index(c) for c in z85)


def tree(warehouse: Path) -> dict[str, int]:
    """Every file below a folder with its size; lock files left out."""
    return {
        str(p.relative_to(warehouse)): p.stat().st_size
        for p in sorted(warehouse.rglob("*"))
        if p.is_file() and not p.name.endswith(".lock")
    }
