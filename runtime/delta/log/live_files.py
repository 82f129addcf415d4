"""The live files of a table's versions; the lists of the newest versions are cached."""

from collections.abc import Callable, Iterable

from ctsql.runtime.delta.log.log_files import LogFiles, log_cache
from ctsql.runtime.log.actions import DataFile, roll_files

VERSIONS_CACHED_MAX = 8
"""Lists of live files of a table that are kept, if the bound of the process allows it."""
ROLLED_MAX = 2_000
"""The most commits that are read to make a list of live files from an earlier one."""


class LiveFiles:
    """The live files of one table.

    Attributes:
        forget: drops what is cached of files, by path, that are live no more.
    """

    def __init__(self, log: LogFiles) -> None:
        self._log = log
        self._listed_versions: list[int] = []  # their lists may be in the cache
        self.forget: Callable[[Iterable[str]], None] = lambda _: None

    def at(self, version: int) -> dict[str, DataFile]:
        """Those of a version, by path as the log writes it; raises HISTORY_LOST."""
        below, files = self._near(version)
        if below == version:
            return files
        if below is None:
            files = self._log.files_at(version)
        else:
            commits = [self._log.commit_at(v) for v in range(below + 1, version + 1)]
            files = roll_files(dict(files), commits)
            self.forget({r.path for c in commits for r in c.removes} - files.keys())
        memory = sum(file.memory for file in files.values())
        log_cache().keep(self._name(version), files, memory)
        others = [v for v in self._listed_versions if v != version]
        self._listed_versions = [*others[1 - VERSIONS_CACHED_MAX :], version]
        return files

    def has(self, version: int) -> bool:
        """Whether they are listed by reading few commits at most."""
        return self._near(version)[0] is not None

    def _name(self, version: int) -> tuple[object, str, int]:
        return self._log.cache_key, "files", version

    def _near(self, version: int) -> tuple[int | None, dict[str, DataFile]]:
        """A version at or few commits before one whose files are cached, and these; else None."""
        for below in sorted(self._listed_versions, reverse=True):
            if version - ROLLED_MAX < below <= version:
                files = log_cache().find(self._name(below))
                if isinstance(files, dict):
                    return below, files
        return None, {}
