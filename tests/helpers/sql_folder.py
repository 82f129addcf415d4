"""Folders of SQL, given as texts; applied here, or by processes that are killed or race."""

import signal
from collections.abc import Sequence
from pathlib import Path

from ctsql.api import Connection
from ctsql.catalog.spans import Source
from ctsql.pipelines import apply, plan
from ctsql.planner.folder import Folder, read_folder
from ctsql.runtime.pipelines.plan import FolderPlan, PlannedChange
from ctsql.runtime.statements.inspect.dump import dump
from tests.helpers.opened import engine_of
from tests.helpers.processes import SECONDS_MAX, start_program

APPLY = """
import sys
from pathlib import Path
from ctsql.api import connect
from ctsql.catalog.errors import CtsqlError
from ctsql.pipelines import apply, read
con = connect(sys.argv[1], master="local[1]")
try:
    apply(con, read(Path(sys.argv[2])), prune=True)
except CtsqlError as problem:
    print(problem.condition)
    sys.exit(7)
"""


def folder_of(*texts: str) -> Folder:
    """A folder with these files."""
    return read_folder([Source(text, f"{n}.sql") for n, text in enumerate(texts, start=1)])


def planned(con: Connection, *texts: str, prune: bool = False) -> FolderPlan:
    """The plan of a folder."""
    return plan(con, folder_of(*texts), prune=prune)


def applied(con: Connection, *texts: str, prune: bool = False) -> FolderPlan:
    """Apply a folder."""
    return apply(con, folder_of(*texts), prune=prune)


def change_of(made: FolderPlan, name: str) -> PlannedChange:
    """What a plan says of one object."""
    (found,) = [c for c in made.changes if c.name == name]
    return found


def statuses(made: FolderPlan) -> dict[str, str]:
    """What becomes of each object, and of which parts."""
    return {
        c.name: c.status.value + (f" {' '.join(c.parts)}" if c.parts else "") for c in made.changes
    }


def moments_of(con: Connection) -> tuple[int, int]:
    """The newest version of the catalog, and the newest T."""
    engine = engine_of(con)
    return engine.catalog_store.table.version(), engine.timeline.refresh()


def dumped(con: Connection) -> list[str]:
    """The statements that make all that is in the warehouse."""
    return [text for _, text in dump(engine_of(con))]


def apply_killed(warehouse: Path, place: Path, text: str, fault: str) -> None:
    """Apply a folder in a process of its own, which must die at a fault point."""
    (_, status, problems) = _apply_by_processes(warehouse, place, [text], fault)[0]
    assert status == -signal.SIGKILL, problems


def apply_at_once(warehouse: Path, place: Path, texts: Sequence[str]) -> list[tuple[int, str]]:
    """Apply folders, each in a process of its own; gives exit codes and names of conditions.

    One after the other is no race: then the second one drops what is not in its folder.
    """
    ended = _apply_by_processes(warehouse, place, texts)
    assert all(code in (0, 7) for _, code, _ in ended), ended
    return [(code, told) for told, code, _ in ended]


def _apply_by_processes(
    warehouse: Path, place: Path, texts: Sequence[str], fault: str = ""
) -> list[tuple[str, int, str]]:
    running = []
    for number, text in enumerate(texts, start=1):
        folder = place / f"sql{number}"
        folder.mkdir()
        (folder / "all.sql").write_text(text)
        running.append(start_program(APPLY, str(warehouse), str(folder), fault=fault))
    ended = [(p, *p.communicate(timeout=SECONDS_MAX)) for p in running]
    return [(said.strip(), process.returncode, problems) for process, said, problems in ended]
