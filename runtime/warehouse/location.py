"""Where a warehouse may be made: where nothing is yet, never among somebody else's files.

A folder that holds other things is more often a wrong path than a wish. What begins with a dot
(``.gitkeep``, say) and what file systems put there themselves does not count.

A warehouse that is being made by another process has its system folder already, and is one.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ctsql.catalog.errors import error

if TYPE_CHECKING:
    from ctsql.runtime.delta.table import Gateway

SYSTEM_FOLDER = "_ctsql"
SYSTEM_TABLE = {
    "delta.enableInCommitTimestamps": "true",
    "delta.feature.domainMetadata": "supported",
    "delta.checkpointInterval": "100",
}
"""Properties of the tables in which a warehouse keeps what it knows."""
_IGNORED = ("lost+found",)
_SHOWN_MAX = 3


def check_may_begin(gateway: "Gateway", location: str, warehouse: str) -> None:
    """Refuse to make a warehouse where a file, a Delta table, or a folder with other files is.

    Raises WAREHOUSE_NOT_FOUND.

    Args:
        location: the full URI. warehouse: the same as the user gave it.
    """
    reason = why_not(gateway.entries(location), warehouse)
    if reason is not None:
        detail, hint = reason
        raise error("WAREHOUSE_NOT_FOUND", location=warehouse, detail=detail, hint=hint)


def why_not(names: Sequence[str] | None, warehouse: str) -> tuple[str, str] | None:
    """Why no warehouse can be made among these names (None for a file); None when it can.

    >>> why_not([".gitkeep"], "w") is None, why_not(["_ctsql"], "w") is None
    (True, True)
    >>> why_not(["b.txt", "a.txt"], "w")[0]
    'The folder holds other files: a.txt, b.txt.'
    """
    if names is None:
        return "It is a file.", "Give a folder that is empty or does not exist yet."
    if SYSTEM_FOLDER in names:
        return None
    if "_delta_log" in names:
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
