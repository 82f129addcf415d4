"""What differs between two versions of a table, read by Spark from the files that differ.

Delta's change feed reads, for each commit, the files that it adds, removes, or deletes rows of.
Where no feed is stored, these are whole files again and again: a table of one large file in which
thirty commits deleted some rows is read thirty times. Between the first and the last version it
differs by one deletion vector.
"""

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, functions as F

from ctsql.runtime.delta.deletion_vectors import Vectors
from ctsql.runtime.delta.keyed_scan import FILES_MAX
from ctsql.runtime.delta.table import CHANGE_TYPE, DeltaTable
from ctsql.runtime.log.actions import Commit, DataFile, select_changed

Files = Mapping[str, DataFile]
"""The files of a version, by path."""


def changed_between(table: DeltaTable, before: int, after: int) -> DataFrame:
    """What the commits before + 1 .. after change, with ``_change_type``; to be consolidated.

    ``before`` is -1 for an empty table. A row may be both inserted and deleted.
    """
    commits = [table.commit_at(version) for version in range(before + 1, after + 1)]
    is_alike = table.is_stored(after) and table.versions.read_alike(max(before, 0), after)
    has_feed = any(commit.change_paths for commit in commits)
    if has_feed or not is_alike or not has_few_files(table, after):
        return table.change_rows(before + 1, after)
    old, new = table.files(before) if before >= 0 else {}, table.files(after)
    if not reads_less(commits, old, new):
        return table.change_rows(before + 1, after)
    new_files = _files_to_read(table.vectors, new, old)
    old_files = _files_to_read(table.vectors, old, new)
    if new_files is None or old_files is None:
        return table.change_rows(before + 1, after)
    inserts = table.frame_of(new_files, after).withColumn(CHANGE_TYPE, F.lit("insert"))
    deletes = table.frame_of(old_files, after).withColumn(CHANGE_TYPE, F.lit("delete"))
    return inserts.unionAll(deletes)


def has_few_files(table: DeltaTable, version: int) -> bool:
    """Whether this process lists the files of a version; not where nobody knows how many."""
    count = table.files_count(version)
    return count is not None and count <= FILES_MAX


def reads_less(commits: Iterable[Commit], old: Files, new: Files) -> bool:
    """Whether the files that differ are less to read than those of each commit. Pure.

    They are not where files were compacted in between: the rows in them did not change.
    """
    per_commit = 0
    for commit in commits:
        sizes = {a.path: a.size for a in commit.adds if a.data_change}
        paths = [r.path for r in commit.removes if r.data_change and r.path not in sizes]
        files = (old.get(path) or new.get(path) for path in paths)
        per_commit += sum(sizes.values()) + sum(file.size for file in files if file is not None)
    differ = {**select_changed(old, new), **select_changed(new, old)}
    return sum(file.size for file in differ.values()) <= per_commit


def _files_to_read(vectors: Vectors, files: Files, others: Files) -> list[DataFile] | None:
    """The files with rows that others lack; of a file in both only these rows, where they count.

    None where these are too many, too far apart, to be told.
    """
    files_to_read = []
    for path, file in select_changed(files, others).items():
        other = others.get(path)
        # Whoever wrote the file again may not have counted: both sides are to be read alike.
        counts = () if other is None else (file.records_count, other.records_count)
        count = next((n for n in counts if n is not None), None)
        if other is None or count is None:
            files_to_read.append(file)
        elif rows := vectors.deleted_rows(other) - vectors.deleted_rows(file):
            part = vectors.show_only(file, rows, count)
            if part is None:
                return None
            files_to_read.append(part)
    return files_to_read
