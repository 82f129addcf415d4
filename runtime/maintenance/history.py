"""Whether history that is to be read again is still there, by the logs and the folders alone.

Needed of a table are its rows as of a T and every change after it: the same as a consumer that is
complete through that T needs (:mod:`ctsql.runtime.maintenance.retention`).
"""

from collections.abc import Iterable

from ctsql.catalog import times
from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item
from ctsql.runtime.delta import files as adapter
from ctsql.runtime.engine import Engine
from ctsql.runtime.log.actions import is_elsewhere
from ctsql.runtime.maintenance import retention
from ctsql.runtime.maintenance.vacuum import relative_names
from ctsql.runtime.warehouse.table_checks import check_tables


def check_history(engine: Engine, items: Iterable[Item], since: int) -> None:
    """Look whether tables still have their rows as of a T and all their changes after it.

    Args:
        items: objects with a table each.

    Raises:
        HISTORY_LOST: a version or a file of one is gone.
    """
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
        raise _lost(item, since, f"Of what it held from version {floor} on {files} is gone.")


def _lost(item: Item, since: int, detail: str) -> CtsqlError:
    detail = f"{detail} It is to be read from T = {since} ({times.to_iso(since)}) on."
    hint = "Take a later T. Nothing was changed. MAINTAIN keeps old versions for RETAIN."
    return error("HISTORY_LOST", relation=str(item.name), detail=detail, hint=hint)
