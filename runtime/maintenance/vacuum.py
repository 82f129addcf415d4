"""Plans the removal of unneeded files, log files, and folders that no object owns.

    floors (needs of consumers) + log + folder --> Plan --> files deleted

A plan is made from the log and a listing and changes nothing; DRY RUN shows it. Needs only move
forward, so a plan stays valid.

[named-files-stay] no file that a version at or above the floor names is deleted.
[only-unowned-folders] a folder is deleted only if it has a name and a place that CREATE gives, and
    nothing in it is young. No object of the catalog, read *afterwards*, may be there or below.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ctsql.catalog import times
from ctsql.catalog.catalog import Catalog
from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item
from ctsql.runtime.delta import files as adapter
from ctsql.runtime.delta.files import TableFolder
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.delta.transaction import relative_path
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import clock
from ctsql.runtime.log.actions import Commit, StoredFile, is_elsewhere
from ctsql.runtime.maintenance import retention
from ctsql.runtime.maintenance.consumers import Needs, needs, noting_damaged, system_floor
from ctsql.runtime.views.side_table import side_tables_of
from ctsql.runtime.warehouse.table_checks import check_tables

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
    """Plan the deletion of files of a table.

    Args:
        floor: the oldest version whose rows are needed.
        log_floor: the oldest version whose commit is needed; None keeps the log.
        unnamed_before_ms: files that no commit names may be deleted if older than this instant.
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
        needs: by object id. before_ms: commits since this instant, or younger than a day, are kept.
        problems: gets the errors of unreadable logs, by id; these are not trimmed.
    """
    before_ms = min(before_ms, clock.now_ms() - retention.LOG_AGE_MS)
    floors: dict[str, int] = {}
    for item in (i for i in engine.catalog if i.id in needs):
        with noting_damaged(problems, item.id):
            if item.location is not None and item.managed:
                aged = system_floor(engine.relations.table(item), before_ms=before_ms)
                floors[item.location] = min(aged, needs[item.id].log_floor)
            for side_table in side_tables_of(engine.warehouse, item):
                with noting_damaged({}, item.id):  # its compaction reports it
                    aged = system_floor(side_table.table, before_ms=before_ms)
                    floors[side_table.table.location] = min(aged, side_table.log_floor)
    timeline, catalog = engine.timeline.table, engine.catalog_store.table
    aged = system_floor(timeline, before_ms=before_ms)
    floors[timeline.location] = min(aged, engine.timeline.archived_to)
    floors[catalog.location] = system_floor(catalog, before_ms=before_ms)
    return floors


def trim_logs(engine: Engine, before_ms: int) -> int:
    """Trim all logs of unneeded commits before an instant; returns the number of files.

    Then raises the error of an unreadable log, if any.
    """
    problems: dict[str, CtsqlError] = {}
    needs_by_id = needs(engine, keep_from=before_ms, problems=problems)
    floors = log_floors(engine, needs_by_id, before_ms, problems)
    count = 0
    for location, floor in floors.items():
        table = engine.gateway.table(location)
        if floor <= adapter.first_logged(table):
            continue  # all of it is needed: the names need not be listed
        count += adapter.delete_log_files(
            table, retention.removable_log(adapter.log_names(table), floor)
        )
    for problem in problems.values():
        raise problem
    return count


def is_unowned(location: str, catalog: Catalog) -> bool:
    """Whether CREATE names folders so, and no object, or one to UNDROP, is there or below."""
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


def check_history(engine: Engine, items: Iterable[Item], since: int) -> None:
    """Raise HISTORY_LOST unless tables have their rows as of a T and all later changes."""
    for item in items:
        check_tables(engine.relations, [item])
        _check_table(engine, item, since)


def _check_table(engine: Engine, item: Item, since: int) -> None:
    table = engine.relations.table(item)
    first = engine.versions.version_at(item, since)
    oldest = adapter.first_logged(table)
    if first is None:  # it was made later, so all of it is needed
        first_time = engine.timeline.first_time(item.id)
        first = 0 if first_time is None else engine.versions.version_at(item, first_time) or 0
    if first < oldest:
        raise _lost(
            item, since, f"Its log begins with version {oldest} now, and {first} is needed."
        )
    stored_paths = {file.path for file in adapter.stored_files(table)}
    floor, newest = engine.versions.settled(table, first), table.version()
    after = (table.commit_at(version) for version in range(floor + 1, newest + 1))
    needed_files = retention.needed_files(table.files(newest).values(), after)
    needed_paths = relative_names(table.location, needed_files)
    missing = sorted(p for p in needed_paths - stored_paths if not is_elsewhere(p))
    if missing:
        files = (
            f"{missing[0]} and {len(missing) - 1} more files" if len(missing) > 1 else missing[0]
        )
        raise _lost(item, since, f"From its version {floor} on, {files} is gone.")


def _lost(item: Item, since: int, detail: str) -> CtsqlError:
    detail = f"{detail} It is needed from T = {since} ({times.to_iso(since)}) on."
    hint = "Use a later T. Nothing was changed. MAINTAIN keeps old versions for RETAIN."
    return error("HISTORY_LOST", relation=str(item.name), detail=detail, hint=hint)
