"""``ctsql plan`` and ``apply`` for Python: deploys a folder of SQL files to a warehouse."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctsql.console.folder import sql_files
from ctsql.planner.folder import Folder, read_folder

if TYPE_CHECKING:
    from ctsql.connection.open_warehouse import OpenWarehouse
    from ctsql.runtime.pipelines.plan import FolderPlan


def read(folder: Path, variables: Mapping[str, str] | None = None) -> Folder:
    """The definitions of a folder; raises as :func:`ctsql.planner.folder.read_folder` does."""
    return read_folder(sql_files(folder, variables))


def plan(warehouse: "OpenWarehouse", folder: Folder, *, prune: bool = False) -> "FolderPlan":
    """What a folder would change; writes nothing. Raises WAREHOUSE_NOT_FOUND."""
    from ctsql.runtime.pipelines.planning import plan_folder

    with warehouse._running("plan") as engine:
        return plan_folder(engine, folder, prune=prune).plan


def apply(
    warehouse: "OpenWarehouse",
    folder: Folder,
    *,
    prune: bool = False,
    saved_plan: "Mapping[str, Any] | None" = None,
) -> "FolderPlan":
    """Make the definitions of a warehouse those of a folder; returns what was done."""
    from ctsql.runtime.pipelines.applying import apply_folder

    with warehouse._running("apply") as engine:
        return apply_folder(engine, folder, prune=prune, saved_plan=saved_plan)
