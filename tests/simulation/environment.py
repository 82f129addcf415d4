"""What happens to the store from outside while the processes run.

Foreign writers change the sources; tables are compacted, their properties set, logs cleaned up;
somebody writes into a view; commits that were thought lost arrive; the clock moves, also back.
Each is one step that nobody interrupts: the store makes a commit atomic.
"""

import json
import random
from collections.abc import Callable

from tests.simulation.definitions import BAD, SOURCES
from tests.simulation.memory_store import File, Folder, Row, SentCommit, Store, metadata_action
from tests.simulation.model import CATALOG, TIMELINE

FOREIGN = "foreign"


class Environment:
    """Draws what happens next."""

    def __init__(self, store: Store, rng: random.Random, mark: Callable[[str], None]) -> None:
        self.store = store
        self.rng = rng
        self.mark = mark
        self.bad = rng.choice((0.0, 0.03, 0.1))
        self.outputs: list[str] = []
        self.unread_views: list[str] = []
        self.passed_version: Callable[[str], int] = lambda _: 0
        self.on_clean: Callable[[str, int], None] = lambda *_: None
        self.clean_count = 0
        self.foreign_rows = rng.random() < 0.3

    def act(self) -> None:
        rng = self.rng
        what = rng.choices(
            (self.insert, self.change, self.compact, self.touch, self.clock, self.arrive),
            (6, 3, 3, 2, 2, 4),
        )[0]
        what()
        if self.foreign_rows and self.unread_views and rng.random() < 0.4:
            self.disturb(rng.choice(self.unread_views))
        if rng.random() < 0.05:
            self.clean()

    def insert(self) -> None:
        """Rows come into a source."""
        folder = self._source()
        self.commit(folder, [self.added(folder, self._rows())])

    def change(self) -> None:
        """Rows of a source go, or are updated, by vector or by rewriting the file."""
        folder = self._source()
        actions = self._without_some(folder)
        if actions and self.rng.random() < 0.5:
            actions.append(self.added(folder, self._rows()))
        if actions:
            self.commit(folder, actions)

    def _without_some(self, folder: Folder) -> list[str]:
        """The actions that delete some rows of one file; none where there is no file."""
        rng = self.rng
        files = list(folder.live[-1].values())
        if not files:
            return []
        file = rng.choice(files)
        held = list(folder.rows(file))
        gone = rng.sample(held, rng.randint(1, len(held)))
        actions = [file.line("remove", data_change=True)]
        if len(gone) == len(held):
            return actions
        if rng.random() < 0.8:
            old = folder.vectors[file.vector][file.path] if file.vector else frozenset()
            numbers = old | {i for i, _ in gone}
            name = folder.write_vector({file.path: numbers}, FOREIGN)
            grown = File(file.path, file.records, name, len(numbers))
            return [*actions, grown.line("add", data_change=True)]
        return [*actions, self.added(folder, [row for i, row in held if (i, row) not in gone])]

    def compact(self) -> None:
        """All files of a table become one; no row changes."""
        where = self.outputs if self.rng.random() < 0.7 else SOURCES
        folder = self.store.folders[self.rng.choice(where)]
        files = list(folder.live[-1].values())
        if len(files) < 2:
            return
        rows = [row for f in files for _, row in folder.rows(f)]
        merged = folder.write_file(rows, FOREIGN)
        actions = [f.line("remove", data_change=False) for f in files]
        self.commit(folder, [*actions, merged.line("add", data_change=False)])

    def touch(self) -> None:
        """A commit without rows: a property is set, or nothing at all."""
        everywhere = [*SOURCES, *self.outputs, TIMELINE, CATALOG]
        folder = self.store.folders[self.rng.choice(everywhere)]
        metadata = json.dumps(metadata_action({}, folder.schemas[-1]))
        self.commit(folder, [metadata] if self.rng.random() < 0.5 else [])

    def clock(self) -> None:
        """Time passes; sometimes the clock is set back."""
        self.store.clock_ms += self.rng.choice((1, 1, 5, 50, 400, -20))

    def arrive(self) -> None:
        """A commit that its process thinks lost arrives, if its version is still free."""
        waiting = [(f, late) for f in self.store.folders.values() for late in f.late]
        if waiting:
            folder, (version, sent) = self.rng.choice(waiting)
            folder.late.remove((version, sent))
            if version == len(folder.sent_commits):
                folder.append(sent)
                self.mark("a commit arrived after its process was told that it failed")
            else:
                self.mark("a commit arrived too late")

    def disturb(self, view: str) -> None:
        """Somebody writes into a view's table, or deletes from it."""
        folder = self.store.folders[view]
        actions = self._without_some(folder) if self.rng.random() < 0.5 else []
        self.commit(folder, actions or [self.added(folder, self._rows())])

    def clean(self) -> None:
        """Delta's log cleanup, of what every process has passed and nobody needs any more."""
        location = self.rng.choice([TIMELINE, *self.unread_views])
        folder = self.store.folders[location]
        before = min(self.passed_version(location), folder.newest)
        if any(v < before for v in folder.log):
            folder.clean_log(before)
            self.on_clean(location, before)
            self.clean_count += 1
            self.mark("old commits were cleaned up")

    def _source(self) -> Folder:
        return self.store.folders[self.rng.choice(SOURCES)]

    def _rows(self) -> list[Row]:
        rng = self.rng
        return [
            (rng.randrange(4), BAD if rng.random() < self.bad else rng.randrange(12))
            for _ in range(rng.randint(1, 3))
        ]

    def added(self, folder: Folder, rows: list[Row]) -> str:
        return folder.write_file(rows, FOREIGN).line("add", data_change=True)

    def commit(self, folder: Folder, actions: list[str]) -> None:
        folder.append(SentCommit(FOREIGN, folder.newest, actions))
