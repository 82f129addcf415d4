"""The commits that are a table's change at a T, those that hold its rows as of T. Pure.

Most commits of an output belong to one T. If a task computed several waiting runs together, their
Ts share a commit. It only adds files, each with the rows of one T, given by a tag in its ``add``
action. The change at such a T is its files; the contents as of it are the earlier contents and the
files up to it.

[version-changes-in-order] the changes of a table are in the order of T, and each file that a commit
    adds belongs to one.

Source: the Delta protocol, "Add File": ``tags`` hold a writer's own metadata of a file.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ctsql.catalog.errors import broken
from ctsql.planner.bodies.reads import due_times, watched_inputs
from ctsql.planner.nodes import ChangesInput, DeletesInput, InputNode, InsertsInput, TaskWrite
from ctsql.planner.updates import RowUpdate
from ctsql.runtime.log.actions import TIME_TAG, Commit, DataFile, RowChange, classify, sum_known
from ctsql.runtime.log.batches import StagedFile
from ctsql.runtime.log.protocol import LogTable
from ctsql.runtime.log.uppers import Entry

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.=-]+")
_PARTITION = re.compile(r"(?:.*/)?part-(\d+)-")


@dataclass(frozen=True, slots=True)
class VersionChange:
    """The commits before + 1 .. version, which are the change of a table at ``time``."""

    time: int
    before: int
    version: int
    # whether several Ts share ``version``, and only its files of ``time`` count
    is_shared: bool = False
    # the changes that this one combines; empty for a single one
    parts: tuple["VersionChange", ...] = ()

    @property
    def versions(self) -> range:
        """The versions whose commits are the change."""
        return range(self.before + 1, self.version + 1)

    @property
    def times(self) -> range | None:
        """The Ts whose files of the last version are the change; None for all files."""
        return range(self.time, self.time + 1) if self.is_shared else None


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """Where an output's contents as of a T are stored: in a version, None before the first."""

    version: int | None
    shared_version: int | None = None  # a later version; its files up to the T are read too


def due_changes(plan: TaskWrite) -> dict[str, frozenset[RowChange]]:
    """The kinds of changes that make a run due, by input."""
    kinds_by_input: dict[str, frozenset[RowChange]] = {}
    for node in watched_inputs(plan.times):
        kinds = kinds_by_input.get(node.object_id, frozenset[RowChange]())
        kinds_by_input[node.object_id] = kinds | shown_changes(node)
    return kinds_by_input


def shown_changes(node: InputNode) -> frozenset[RowChange]:
    """The kinds of table changes that an input node may have rows of."""
    own = {
        InsertsInput: {RowChange.APPEND},
        DeletesInput: {RowChange.DELETE},
        ChangesInput: {RowChange.APPEND, RowChange.DELETE},
    }
    return frozenset(own[type(node)] | {RowChange.MIXED, RowChange.FAILED})


def due_version_changes(
    plan: TaskWrite, waiting: Mapping[str, Sequence[tuple[int, VersionChange, RowChange]]]
) -> Iterator[tuple[int, str, VersionChange]]:
    """The waiting changes that make a task due: T, input, change; each waits with T and kind."""

    def changes(node: InputNode) -> Iterator[RowUpdate[VersionChange]]:
        shown_kinds = shown_changes(node)
        return (
            (m, time, 1) for time, m, change in waiting[node.object_id] if change in shown_kinds
        )

    times = {time for time, _ in due_times(plan.times, changes)}
    for object_id, kinds in due_changes(plan).items():
        for time, version_change, change in waiting[object_id]:
            if time in times and change in kinds:
                yield time, object_id, version_change


def input_columns(plan: TaskWrite, object_id: str) -> tuple[str, ...]:
    """The columns that a task reads of an input's changes."""
    nodes = (n for n in plan.inputs if isinstance(n, InsertsInput))  # every input has one
    return next(n.columns for n in nodes if n.object_id == object_id)


def version_changes(entries: Sequence[Entry], *, after: int, until: int) -> list[VersionChange]:
    """The changes of an output with after < T <= until, oldest first.

    Its entries begin with the last one that is complete through ``after``.
    """
    moves: list[VersionChange] = []
    previous = 0
    for entry in entries:
        times = entry.times or (entry.upper - 1,)
        if times[0] > until:
            break
        for time in times:
            before = previous if time == times[0] else entry.version - 1
            if after < time <= until:
                moves.append(VersionChange(time, before, entry.version, bool(entry.times)))
        previous = entry.version
    return moves


def merge(parts: Sequence[VersionChange]) -> VersionChange:
    """Combine successive changes of one table."""
    if len(parts) == 1:
        return parts[0]
    apart = tuple(parts) if any(p.is_shared for p in parts) else ()
    return VersionChange(parts[-1].time, parts[0].before, parts[-1].version, parts=apart)


def find_storage(entries: Sequence[Entry], at: int) -> StoredVersion:
    """Where an output's contents as of T are, by the entry complete through T and the next one."""
    complete = entries[0] if entries and entries[0].upper <= at + 1 else None
    following = entries[1:] if complete else entries
    times = following[0].times if following else ()
    return StoredVersion(
        complete.version if complete else None,
        following[0].version if times and times[0] <= at else None,
    )


def tag(file: StagedFile, time: int) -> StagedFile:
    """Tag a staged file with the T of its rows."""
    action = json.loads(file.action)
    add = action["add"]
    add["tags"] = {**(add.get("tags") or {}), TIME_TAG: str(time)}
    return replace(file, action=json.dumps(action))


def parse_partition(file: StagedFile) -> int:
    """The number of the Spark partition that a file was written from, by its name."""
    match = _PARTITION.match(file.path)
    if match is None:
        raise broken("a written file's name has its partition", file.path)
    return int(match[1])


def added_files(
    commit_at: Callable[[int], Commit], versions: Sequence[int], times: range | None
) -> Iterator[DataFile]:
    """The files with rows that commits add; of the last version only those of ``times``."""
    for version in versions:
        for add in commit_at(version).adds:
            is_of = times is None or version != versions[-1] or add.time in times
            if add.data_change and is_of:
                yield add


def files_of(table: LogTable, version_change: VersionChange) -> Iterator[DataFile]:
    """The files with rows that a change of kind APPEND adds."""
    for part in version_change.parts or (version_change,):
        yield from added_files(table.commit_at, part.versions, part.times)


def numbered_files(
    table: LogTable, version_changes: Sequence[VersionChange]
) -> dict[str, int] | None:
    """The names of files that changes add, each with the index of its change.

    None if a name has unusual characters, or two changes share it.
    """
    numbers: dict[str, int] = {}
    for number, version_change in enumerate(version_changes):
        for add in files_of(table, version_change):
            name = add.path.rsplit("/", 1)[-1]
            if not _PLAIN_NAME.fullmatch(name) or numbers.setdefault(name, number) != number:
                return None
    return numbers


def change_of(table: LogTable, version_change: VersionChange) -> RowChange:
    """Classify a change by the log alone."""
    if version_change.parts:
        return _combine({change_of(table, part) for part in version_change.parts})
    return _combine({_change(table.commit_at(v), version_change) for v in version_change.versions})


def _combine(kinds: set[RowChange]) -> RowChange:
    some = kinds - {RowChange.NONE}
    if len(some) > 1:
        return RowChange.MIXED
    return some.pop() if some else RowChange.NONE


def _change(commit: Commit, version_change: VersionChange) -> RowChange:
    if version_change.times is None or commit.version != version_change.version:
        return classify(commit)
    files = [a for a in commit.adds if a.time == version_change.time and a.rows_count != 0]
    return RowChange.APPEND if files else RowChange.NONE


def rows_inserted(table: LogTable, version_change: VersionChange) -> int | None:
    """The number of rows a change of kind APPEND inserts; None without statistics."""
    return sum_known(file.rows_count for file in files_of(table, version_change))


@dataclass(frozen=True, slots=True)
class FileOrigin:
    """The commit that added a file first."""

    version: int
    time: int | None = None  # the T of its rows, if several Ts share the commit; else None
    # removed files whose rows it may hold: compaction copies rows, and so does an UPDATE or DELETE
    # without deletion vectors
    copied_from: tuple[str, ...] = ()


def file_origins(
    table: LogTable, paths: Collection[str], version: int
) -> dict[str, FileOrigin | None]:
    """The origin of files that are live at a version, by path; None if the log lacks it."""
    origins: dict[str, FileOrigin | None] = dict.fromkeys(paths)
    waiting = set(paths)
    while waiting and version >= 0 and table.has(version):
        commit = table.commit_at(version)
        old_paths = replaced_files(commit)
        again = {r.path for r in commit.removes}
        for add in commit.adds:
            if add.path in waiting and add.path not in again:
                origins[add.path] = FileOrigin(version, add.time, old_paths)
                waiting.discard(add.path)
        version -= 1
    return origins


def replaced_files(commit: Commit) -> tuple[str, ...]:
    """The files that a commit removes as a whole while it adds others."""
    new_paths = {a.path for a in commit.adds}
    old_paths = tuple(r.path for r in commit.removes if r.path not in new_paths)
    fresh = new_paths - {r.path for r in commit.removes}
    return old_paths if fresh else ()
