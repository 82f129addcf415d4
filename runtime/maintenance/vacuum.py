"""Plans the removal of unneeded files, log files, and folders that no object owns.

    floors (needs of consumers) + log + folder --> Plan --> files deleted

A plan is made from the log and a listing and changes nothing; DRY RUN shows it. Needs only move
forward, so a plan stays valid however long its execution takes.

[named-files-stay] no file that a version at or above the floor names is deleted.
(tests/spark/maintenance/test_maintain.py)
[only-unowned-folders] a folder is deleted only if its name is one that CREATE gives, it is where
    CREATE puts it, no object of the catalog read *afterwards* is there or below, and nothing in it
    is young.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.delta import files as adapter
from ctsql.runtime.delta.files import TableFolder
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.delta.transaction import relative_path
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import clock
from ctsql.runtime.log.actions import Commit, StoredFile
from ctsql.runtime.maintenance import retention
from ctsql.runtime.maintenance.consumers import Needs, needs, noting_damaged, system_floor
from ctsql.runtime.views.side_table import tables_beside

_MADE_BY_CREATE = re.compile(r"\w+-[0-9a-f]{8}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesToDelete:
    """The files of a table's folder and, oldest first, of its log that may be deleted."""

    floor: int
    files: tuple[StoredFile, ...]
    log: tuple[str, ...]

    @property
    def freed_bytes(self) -> int:
        """The bytes of the files, without log files."""
        return sum(f.size for f in self.files)


def plan(
    table: DeltaTable, *, floor: int, log_floor: int | None, unnamed_before_ms: int
) -> FilesToDelete:
    """Plan what of a table may be deleted.

    Args:
        floor: the oldest version whose rows are needed. log_floor: the oldest version whose
            commit is needed; None leaves the log alone. unnamed_before_ms: files that no commit
            names may be deleted if they are older than this instant.
    """
    # Before reading the log, which then names all of them.
    stored_files = adapter.stored_files(table)
    newest = table.version()
    first = adapter.first_logged(table)
    floor = max(floor, first)
    live = table.files(newest).values()
    after = (table.commit_at(v) for v in range(floor + 1, newest + 1))  # one at a time in memory
    needed_paths = relative_names(table.location, retention.needed_files(live, after))
    named_paths = relative_names(
        table.location, retention.named_in(_below(table, floor, first, unnamed_before_ms))
    )
    files = retention.removable(
        stored_files, needed_paths, named_paths, unnamed_before_ms=unnamed_before_ms
    )
    log: list[str] = []
    if log_floor is not None:
        log = retention.removable_log(adapter.log_names(table), min(log_floor, floor))
    return FilesToDelete(floor=floor, files=tuple(files), log=tuple(log))


def relative_names(location: str, paths: Iterable[str]) -> set[str]:
    """The decoded paths relative to the table's folder; a log may contain absolute ones."""
    return {relative_path(path, location) for path in paths}


def _below(table: DeltaTable, floor: int, first: int, before_ms: int) -> Iterable[Commit]:
    """The commits at or below the floor that may have named a file younger than an instant."""
    for version in range(floor, first - 1, -1):
        commit = table.commit_at(version)
        yield commit
        if commit.time_ms < before_ms:
            return


def log_floors(
    engine: Engine, needs: Mapping[str, Needs], before_ms: int, problems: dict[str, CtsqlError]
) -> dict[str, int]:
    """The oldest version whose commit is needed, for each log that ctsql may trim, by location.

    Args:
        needs: the needs by object id. before_ms: commits since this instant are kept, and those
            younger than a day. problems: gets what is wrong with the tables whose logs cannot be
            read, by id; these logs stay.
    """
    before_ms = min(before_ms, clock.now_ms() - retention.LOG_AGE_MS)
    floors: dict[str, int] = {}
    for item in (i for i in engine.catalog if i.id in needs):
        with noting_damaged(problems, item.id):
            if item.location is not None and item.managed:
                aged = system_floor(engine.relations.table(item), before_ms=before_ms)
                floors[item.location] = min(aged, needs[item.id].log_floor)
            for beside in tables_beside(engine.warehouse, item):
                with noting_damaged({}, item.id):  # who compacts it is told
                    aged = system_floor(beside.table, before_ms=before_ms)
                    floors[beside.table.location] = min(aged, beside.log_floor)
    timeline, catalog = engine.timeline.table, engine.catalog_store.table
    aged = system_floor(timeline, before_ms=before_ms)
    floors[timeline.location] = min(aged, engine.timeline.archived_to)
    floors[catalog.location] = system_floor(catalog, before_ms=before_ms)
    return floors


def trim_logs(engine: Engine, before_ms: int) -> int:
    """Trim all logs of unneeded commits from before an instant; returns the number of files.

    Raises, once the others are trimmed, what is wrong with a log that cannot be read.
    """
    problems: dict[str, CtsqlError] = {}
    needs_by_id = needs(engine, keep_from=before_ms, problems=problems)
    floors = log_floors(engine, needs_by_id, before_ms, problems)
    count = 0
    for location, floor in floors.items():
        table = engine.gateway.table(location)
        if floor <= adapter.first_logged(table):
            continue  # all of it is needed: its names, of which there may be many, are not listed
        count += adapter.delete_log_files(
            table, retention.removable_log(adapter.log_names(table), floor)
        )
    for problem in problems.values():
        raise problem
    return count


def is_unowned(location: str, catalog: Catalog) -> bool:
    """Whether CREATE names folders so, and no object is there or below; nor one to UNDROP."""
    place = location.rstrip("/")
    if not _MADE_BY_CREATE.fullmatch(place.rsplit("/", 1)[-1]):
        return False
    return not any(
        item.location is not None and (item.location.rstrip("/") + "/").startswith(place + "/")
        for item in (*catalog, *(i for _, i in catalog.all_dropped()))
    )


def is_left_over(folder: TableFolder, catalog: Catalog, *, before_ms: int) -> bool:
    """Whether a killed CREATE or DROP left this folder [only-unowned-folders]."""
    return folder.modified_ms < before_ms and is_unowned(folder.location, catalog)
