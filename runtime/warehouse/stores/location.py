"""Where a warehouse may be created, and which places of a store only ctsql may write.

A warehouse is created in an empty folder only: a folder with other files is more often a wrong
path. Names that begin with a dot (``.gitkeep``), and files of the file system, do not count. A
folder with ``_ctsql`` is a warehouse, even if another process is still creating it.

[own-folders] no statement, option or command writes a file or attaches a table in the warehouse's
    folder, in a folder called ``_ctsql``, or in a ``_delta_log``: :func:`check_outside` refuses it.
"""

import os
import posixpath
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ctsql.catalog.errors import error, not_supported
from ctsql.catalog.names import OWN_FOLDERS
from ctsql.catalog.spans import Span
from ctsql.runtime.delta.stores.locks import local_path

if TYPE_CHECKING:
    from ctsql.runtime.delta.table import Gateway

SYSTEM_FOLDER, LOG_FOLDER = OWN_FOLDERS
SYSTEM_TABLE = {
    "delta.enableInCommitTimestamps": "true",
    "delta.feature.domainMetadata": "supported",
    "delta.checkpointInterval": "100",
}
"""Properties of the catalog's and the timeline's tables."""
_IGNORED = ("lost+found",)
_SHOWN_MAX = 3
_SAME_STORE = {"s3a": "s3", "s3n": "s3", "abfss": "abfs"}
"""Schemes that name the same files as another scheme."""


def check_may_begin(gateway: "Gateway", location: str, warehouse: str) -> None:
    """Raise WAREHOUSE_NOT_FOUND for a file, a Delta table, or a folder with other files.

    Args:
        location: the full URI. warehouse: the same as the user gave it.
    """
    reason = why_not(gateway.entries(location), warehouse)
    if reason is not None:
        detail, hint = reason
        raise error("WAREHOUSE_NOT_FOUND", location=warehouse, detail=detail, hint=hint)


def why_not(names: Sequence[str] | None, warehouse: str) -> tuple[str, str] | None:
    """Why no warehouse can be created in a folder with these names (None: a file); None if it can.

    >>> why_not([".gitkeep"], "w") is None, why_not(["_ctsql"], "w") is None
    (True, True)
    >>> why_not(["b.txt", "a.txt"], "w")[0]
    'The folder holds other files: a.txt, b.txt.'
    """
    if names is None:
        return "It is a file.", "Give a folder that is empty or does not exist yet."
    if SYSTEM_FOLDER in names:
        return None
    if LOG_FOLDER in names:
        return (
            "It is a Delta table.",
            f"Give another folder as the warehouse; there, type: CREATE TABLE t LOCATION "
            f"'{warehouse}'",
        )
    others = sorted(n for n in names if not n.startswith(".") and n not in _IGNORED)
    if not others:
        return None
    listing = ", ".join(others[:_SHOWN_MAX]) + (" and more" if len(others) > _SHOWN_MAX else "")
    return (
        f"The folder holds other files: {listing}.",
        "Give a folder that is empty or does not exist yet, or the warehouse's own folder.",
    )


def check_outside(
    place: str,
    warehouse: str,
    what: str,
    span: Span | None = None,
    *,
    is_folder: bool = False,
    is_new: bool = True,
) -> None:
    """Refuse a place where ctsql or Delta keeps its files.

    Args:
        place: the place to write or attach: a full URI, or a path on a local disk.
        warehouse: its folder, in the same form. what: the clause or option, for the message.
        is_folder: whether ctsql will own the whole folder.
        is_new: whether something is created there; in another table's folder VACUUM deletes it.

    Raises:
        NOT_SUPPORTED: it is in the warehouse, or in a folder of ``OWN_FOLDERS``; or new and in a
            Delta table, whose VACUUM would delete it; or a folder around the warehouse.
    """
    own_folder = next((p for p in reversed(_parts(place)) if p.lower() in OWN_FOLDERS), None)
    if is_within(place, warehouse):
        why = f"{place} is in the warehouse {warehouse}, where only statements create tables."
    elif own_folder is not None:
        why = f"{place} is in the folder {own_folder}, which ctsql or Delta uses."
    elif is_folder and is_within(warehouse, place):
        why = f"{place} contains the warehouse {warehouse}."
    elif is_new and (table := _table_around(place)) is not None:
        why = f"{place} is in the Delta table {table}."
    else:
        return
    what = f"{what} in a folder of ctsql or Delta"
    raise not_supported(span, what, why=why, hint="Give another path.")


def is_within(place: str, folder: str) -> bool:
    """Whether a place is a folder or inside it; links and the store's letter case are resolved.

    >>> is_within("s3a://lake/w/../w/t", "s3://lake/w"), is_within("s3a://lake/w2", "s3a://lake/w")
    (True, False)

    Args:
        place, folder: full URIs, or paths on a local disk; they need not exist.
    """
    here, there = local_path(place), local_path(folder)
    if here is None or there is None:
        mine, its = _normal(place), _normal(folder)
        return here is there and (mine == its or mine.startswith(f"{its}/"))
    real, folder_real = Path(os.path.realpath(here)), Path(os.path.realpath(there))
    return any(_is_same(one, folder_real) for one in (real, *real.parents))


def _table_around(place: str) -> Path | None:
    """The Delta table on a local disk in whose folder a place lies."""
    path = local_path(place)
    around = () if path is None else Path(os.path.realpath(path)).parents
    return next((p for p in around if (p / LOG_FOLDER).is_dir()), None)


def _is_same(one: Path, other: Path) -> bool:
    """Whether two paths without links are one folder; letters of any case may be, on some disks."""
    if one == other:
        return True
    try:
        return one.samefile(other)
    except OSError:  # one does not exist, or is not accessible
        return False


def _parts(place: str) -> Sequence[str]:
    """The folders of a place and its own name, without links."""
    path = local_path(place)
    return _normal(place).split("/") if path is None else Path(os.path.realpath(path)).parts


def _normal(location: str) -> str:
    """A location on another store than a local disk, in one spelling."""
    scheme, _, rest = location.partition(":")
    scheme = scheme.lower()
    return f"{_SAME_STORE.get(scheme, scheme)}:{posixpath.normpath(rest)}"
