"""Which commit wrote the rows of a table's files, as far as the log alone tells. Pure.

A file that a commit only adds holds rows that this commit wrote. A commit that also takes whole
files out may have copied rows from them: compaction does, and an UPDATE or DELETE without deletion
vectors. A file that is added again with another deletion vector stays what it was.

Source: the Delta protocol, "Add File and Remove File".
"""

from collections.abc import Collection
from dataclasses import dataclass

from ctsql.runtime.log.actions import Commit
from ctsql.runtime.log.protocol import LogTable


@dataclass(frozen=True, slots=True)
class FileOrigin:
    """The commit that added a file first.

    Attributes:
        time: the T of its rows, where several Ts share the commit; else None.
        copied_from: the files whose rows the commit may have copied into it; empty for none.
    """

    version: int
    time: int | None = None
    copied_from: tuple[str, ...] = ()


def file_origins(
    table: LogTable, paths: Collection[str], version: int
) -> dict[str, FileOrigin | None]:
    """The origin of files that are live at a version, by path; None where the log lacks it."""
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
    """The files that a commit takes out as a whole while it adds others."""
    new_paths = {a.path for a in commit.adds}
    old_paths = tuple(r.path for r in commit.removes if r.path not in new_paths)
    fresh = new_paths - {r.path for r in commit.removes}
    return old_paths if fresh else ()
