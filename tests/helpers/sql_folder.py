"""Folders of SQL, given as texts."""

from ctsql.api import Connection
from ctsql.catalog.spans import Source
from ctsql.pipelines import apply, plan
from ctsql.planner.folder import Folder, read_folder
from ctsql.runtime.pipelines.plan import Change, Plan


def folder_of(*texts: str) -> Folder:
    """A folder with these files."""
    return read_folder([Source(text, f"{n}.sql") for n, text in enumerate(texts, start=1)])


def planned(con: Connection, *texts: str, prune: bool = False) -> Plan:
    """The plan of a folder."""
    return plan(con, folder_of(*texts), prune=prune)


def applied(con: Connection, *texts: str, prune: bool = False) -> Plan:
    """Apply a folder."""
    return apply(con, folder_of(*texts), prune=prune)


def change_of(made: Plan, name: str) -> Change:
    """What a plan says of one object."""
    (found,) = [c for c in made.changes if c.name == name]
    return found


def statuses(made: Plan) -> dict[str, str]:
    """What becomes of each object, and of which parts."""
    return {
        c.name: c.status.value + (f" {' '.join(c.parts)}" if c.parts else "") for c in made.changes
    }
