"""What must hold of every commit, every deletion and every read, by definitions in plain Python.

The model sees the store's own truth: each commit as it comes in, each file as it goes. What an
object holds at T it computes itself, from the sources' histories and the bindings.

- Uppers only go up.
- Ts strictly increase, and each commit of a source that changes data is bound exactly once, in the
  order of the sources' times.
- An output's commit at T holds what the object is at T; no T at which it changed is left out or
  written twice.
- Nothing is written where a body fails, unless a T is skipped; a recorded failure is a real one.
- No file goes that a commit names.
- Of a task with several outputs the one that leads is written at T when all others hold T, and no
  other is written beyond the next T at which any of them changes.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ctsql.runtime.log.actions import Commit
from ctsql.runtime.log.uppers import SHARED_BY
from ctsql.runtime.log.write_handle import FAILURE
from ctsql.runtime.warehouse.times.timeline import APP
from tests.simulation.definitions import (
    DEFINED,
    SEVERAL,
    SOURCES,
    Fails,
    Part,
    Several,
    Task,
    View,
    is_task,
    reads_of,
    task_of,
)
from tests.simulation.memory_store import Bag, File, Folder, Row, SentCommit, Store

TIMELINE, CATALOG = "timeline", "catalog"


_WAYS = {
    "incremental": "a view followed what changed",
    "no change": "a view had nothing to follow",
    "recompute and diff": "a view that follows was recomputed",
}


class NoContents(Exception):
    """An object has no contents at a time: a body or query fails at ``time``.

    A task stays at that T; of a view it is only so for that T. ``why`` names the views below.
    """

    def __init__(self, name: str, time: int, why: tuple[str, ...]) -> None:
        super().__init__(f"{name} fails at T = {time}: {' < '.join(why) or 'by itself'}")
        self.name, self.time, self.why = name, time, why

    @property
    def is_of_view(self) -> bool:
        """Is it what a view holds, and no task that stands still?"""
        return isinstance(DEFINED[self.name], View)


class Violation(AssertionError):
    """Something that must hold does not."""


def require(holds: bool, what: str, *facts: object) -> None:
    """Raise Violation with the facts unless it holds."""
    if not holds:
        raise Violation(" | ".join([what, *map(str, facts)]))


@dataclass
class Model:
    """The expectations of one run.

    Attributes:
        created_at: the time of creation by object. bindings: (T, version) by source. times: every T
            of a binding. skipped_times: the Ts that were passed by, by object.
        disturbed_versions: the version of the newest foreign rows in a view that its commits need
            not have seen.
        foreign: the version of the newest foreign rows, taken out since or not.
    """

    store: Store
    created_at: dict[str, int] = field(default_factory=dict)
    bindings: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    times: list[int] = field(default_factory=list)
    now: int = -1
    uppers: dict[str, int] = field(default_factory=dict)
    skipped_times: dict[str, set[int]] = field(default_factory=dict)
    disturbed_versions: dict[str, int] = field(default_factory=dict)
    foreign: dict[str, int] = field(default_factory=dict)
    marks: set[str] = field(default_factory=set)
    _contents: dict[tuple[str, int], Bag] = field(default_factory=dict)
    _last: dict[str, tuple[int, str]] = field(default_factory=dict)

    # ---- what objects are at T

    def version_at(self, source: str, at: int) -> int:
        """The version of a source at T; -1 before the first binding."""
        return next((v for t, v in reversed(self.bindings.get(source, [])) if t <= at), -1)

    def contents(self, name: str, at: int) -> Bag:
        """What an object is at T; raises NoContents where that cannot be computed."""
        if name in SOURCES:
            return self.store.folders[name].contents(self.version_at(name, at))
        at = max((t for t in self.times if t <= at), default=-1)  # between two Ts nothing moves
        at = max(at, self.created_at[name])
        found = self._contents.get((name, at))
        if found is None:
            defined = DEFINED[name]
            if isinstance(defined, View):
                found = self._queried(defined, at)
            else:
                found = self._folded(name, at)
            self._contents[name, at] = found
        return Counter(found)

    def state(self, name: str, at: int) -> Bag | tuple[str, ...]:
        """What an object is at T; of a view that cannot be computed why not: errors are contents.

        Raises NoContents where a task stands still.
        """
        try:
            return self.contents(name, at)
        except NoContents as blocked:
            if not blocked.is_of_view:
                raise
            return blocked.why

    def stored(self, name: str, at: int) -> Bag:
        """The rows that are stored as of T; an error leaves those from before it."""
        for time in (at, *(t for t in reversed(self.times) if t < at)):
            if name in self.created_at and time < self.created_at[name]:
                break
            held = self.state(name, time)
            if isinstance(held, Counter):
                return held
        held = self.state(name, self.created_at[name])
        return held if isinstance(held, Counter) else Counter()

    def _queried(self, view: View, at: int) -> Bag:
        try:
            return view.query(*[self.contents(r, at) for r in view.reads])
        except Fails:
            raise NoContents(view.name, at, (view.name,)) from None
        except NoContents as blocked:
            if not blocked.is_of_view:
                raise
            raise NoContents(view.name, at, (view.name, *blocked.why)) from None

    def _folded(self, name: str, at: int) -> Bag:
        defined, created = DEFINED[name], self.created_at[name]
        task = defined.task if isinstance(defined, Part) else defined
        assert isinstance(task, Task | Several)
        outputs = task.outputs if isinstance(task, Several) else (task.name,)
        held = [Counter[Row]() for _ in outputs]
        last: Bag | tuple[str, ...] = Counter()
        if at > created:
            before = max([t for t in self.times if created < t < at], default=created)
            held = [self.contents(o, before) for o in outputs]
            last = self.state(task.reads, before)
        own = held[outputs.index(name)]
        read = self.state(task.reads, at)
        if at in self.skipped_times.get(task.name, ()) or read == last:
            return own
        if not isinstance(read, Counter):
            raise NoContents(task.name, at, read)
        new = read - self.stored(task.reads, before) if at > created else read
        if not new:
            return own
        try:
            made = task.body(held, new) if isinstance(task, Several) else [task.body(own, new)]
        except Fails:
            raise NoContents(task.name, at, (task.name,)) from None
        deletes, inserts = made[outputs.index(name)]
        return own - deletes + inserts

    # ---- what comes in and goes

    def on_commit(self, folder: Folder, commit: Commit, attempt: SentCommit) -> None:
        for added in commit.adds:
            file = File.of(added.line)
            whole = file.path in folder.files and (not file.vector or file.vector in folder.vectors)
            require(whole, "a commit names a file that is gone", folder.location, file)
        for app, upper in commit.transactions:
            known = self.uppers.get(app, 0)
            require(upper > known, "an upper goes back", app, known, upper)
            if app == APP:
                self._bound(commit, upper)
            elif folder.location in self.created_at:
                self._written(folder, commit, attempt, known, upper)
            self.uppers[app] = upper
        if folder.location in self.created_at:
            self._failure(folder.location, commit)
            if not commit.transactions and commit.changes_data:
                self.disturbed_versions[folder.location] = commit.version
                self.foreign[folder.location] = commit.version

    def on_delete(self, folder: Folder, path: str) -> None:
        require(path not in folder.named_files, "a file that a commit names", folder.location, path)

    def _bound(self, commit: Commit, upper: int) -> None:
        found = [(t, s, v) for t, s, v in commit.metadata["bindings"] if s in SOURCES]
        last, previous = self.now, (-1, "", -1)
        for t, source, version in found:
            folder = self.store.folders[source]
            key = (folder.commits[version].time_ms, source, version)
            require(key > previous, "not in the order of the sources' times", key, previous)
            require(t == max(key[0], last + 1), "another T than is due", t, last, key)
            held = self.bindings.setdefault(source, [])
            if held:
                between = [v for v in _moves(folder) if held[-1][1] < v <= version]
                require(between == [version], "not the next change", source, version, between)
            held.append((t, version))
            self.times.append(t)
            last, previous = t, key
        require(upper - 1 >= last and upper - 1 > self.now, "T does not move", upper, last)
        self.now = upper - 1

    def _written(
        self, folder: Folder, commit: Commit, attempt: SentCommit, lower: int, upper: int
    ) -> None:
        name, at = folder.location, upper - 1
        require(at <= self.now, "a T that is not bound", name, at, self.now)
        if at < self.created_at[name]:  # a view's upper is brought to where it begins
            is_empty = not folder.live[-1] or name in self.disturbed_versions
            require(is_empty, "rows before there was anything", name, at)
            return
        if "skipped" in commit.metadata:
            require(commit.metadata["skipped"] == [at], "skips another T", name, at)
            require(self.fails(name, at), "skips a T that does not fail", name, at)
            self.skipped_times.setdefault(task_of(name), set()).add(at)
            self.marks.add("a failed T was skipped")
        if "failed" in commit.metadata:
            require(self.fails(name, at), "an error that is none", name, at)
            is_due = self.is_followed(name) and not commit.changes_data
            require(is_due, "an error with rows, or of a view that is not followed", name, at)
            self._nothing_left_out(name, lower, at)
            self.marks.add("an error became what a view holds")
            return
        try:
            wanted = self.contents(name, at)
        except NoContents as blocked:
            raise Violation(f"{name} is written at {at}, and {blocked}") from blocked
        if SHARED_BY in commit.metadata:
            self._shared(folder, commit, lower)
        else:
            self._nothing_left_out(name, lower, at)
        self._all_or_none(name, at, attempt)
        self._last[name] = (upper, attempt.by)
        foreign = self.disturbed_versions.get(name)
        # A batch may have been staged against an older version than the one it is committed on.
        version_read = commit.metadata["version_read"]
        require(version_read <= attempt.version_read, "a version that was not read", commit)
        if foreign is not None and foreign > version_read:
            self.marks.add("foreign rows came between a view's read and its commit")
            return
        held = folder.contents(commit.version)
        require(held == wanted, "other contents than at T", name, at, held - wanted, wanted - held)
        if self.disturbed_versions.pop(name, None) is not None:
            self.marks.add("foreign rows were taken out of a view")
        done = commit.metadata.get("strategy")
        if done is not None and DEFINED[name].policy == "incremental":
            self.marks.add(_WAYS[done])

    def _shared(self, folder: Folder, commit: Commit, lower: int) -> None:
        """A commit of several Ts: the files up to each are what the output is then."""
        name = folder.location
        told = commit.metadata[SHARED_BY]
        require(told == sorted({a.time for a in commit.adds}), "Ts without files", name, told)
        before = folder.contents(commit.version - 1)
        for at in [t for t in self.times if lower <= t <= self.now]:
            added = [File.of(a.line) for a in commit.adds if a.time is not None and a.time <= at]
            held = before + Counter(row for f in added for _, row in folder.rows(f))
            if at < commit.metadata["upper"]:
                require(held == self.contents(name, at), "not at each T", name, at, told)
        self.marks.add("several Ts shared a commit")

    def _nothing_left_out(self, name: str, lower: int, at: int) -> None:
        """An output that is written at every T did not change between its last write and T."""
        if not is_task(name) and not self.is_followed(name):
            return
        if lower > self.created_at[name]:
            before = self.state(name, lower - 1)
        elif at == self.created_at[name]:
            return
        else:
            before = Counter()
        reached = self.state(name, at - 1)
        require(reached == before, "a T was left out", name, lower, at, before, reached)

    def _all_or_none(self, name: str, at: int, attempt: SentCommit) -> None:
        """What holds where an output of several is written at T."""
        part = DEFINED[name]
        if not isinstance(part, Part):
            return
        lead, *others = part.task.outputs
        if name == lead:
            for other in others:
                upper, by = self._last.get(other, (0, ""))
                if upper == at + 1 and by != attempt.by:
                    self.marks.add("what one process began another one finished")
                held = self._held_at(other, at)
                wanted = self.contents(other, at)
                require(held == wanted, "not all hold T", name, other, at, held, wanted)
            return
        reached = self.uppers.get(f"ctsql:{lead}", 0)
        require(reached <= at, "written at a T that was passed", name, at, reached)
        if at == self.created_at[name]:
            return
        for one in part.task.outputs:
            begun = reached > self.created_at[one]
            before = self.contents(one, reached - 1) if begun else Counter()
            now = self.contents(one, at - 1)
            require(now == before, "further ahead than one T", name, one, reached, at)

    def is_halfway(self, by: str) -> bool:
        """Has a process written an output of a task, and not yet the one that leads?"""
        for task in SEVERAL:
            lead, *others = task.outputs
            reached, _ = self._last.get(lead, (0, ""))
            last = [self._last.get(o, (0, "")) for o in others]
            if any(upper > reached and writer == by for upper, writer in last):
                return True
        return False

    def _held_at(self, name: str, at: int) -> Bag:
        """What an output's log says that it holds as of T."""
        folder = self.store.folders[name]
        app = f"ctsql:{name}"
        uppers = ((c.transaction(app), c.version) for c in folder.commits)
        version = max((v for u, v in uppers if u is not None and u <= at + 1), default=-1)
        return folder.contents(version)

    def fails(self, name: str, at: int) -> bool:
        """Does a task or a view fail at T?"""
        defined = DEFINED[name]
        try:
            self.contents(defined.outputs[0] if isinstance(defined, Several) else name, at)
        except NoContents as blocked:
            at_this_time = blocked.time == at or isinstance(defined, View)
            return blocked.name == task_of(name) and at_this_time
        return False

    def _failure(self, name: str, commit: Commit) -> None:
        said = dict(commit.domains).get(FAILURE)
        if said is not None:
            time = json.loads(said)["t"]
            require(self.fails(name, time), "a failure that is none", name, time)
            self.marks.add("a failure was recorded")
        elif FAILURE in dict(commit.domains):
            self.marks.add("a failure was taken away")

    def is_followed(self, name: str) -> bool:
        """Does a task among the objects read it, directly or through others?"""
        return any(
            is_task(o) or self.is_followed(o) for o in self.created_at if name in reads_of(o)
        )

    # ---- what is asked

    def check_past(self, name: str, at: int, rows: Bag) -> None:
        """A read of the past gave these rows as of T."""
        if name in self.foreign:
            return
        wanted = self.contents(name, at)
        require(rows == wanted, "a read of the past is wrong", name, at)
        self.marks.add("the past was read")

    def check_read(
        self, name: str, at: int, rows: Bag, since: dict[str, int], foreign: int | None
    ) -> None:
        """A strict read gave these rows as of T; ``since`` is what was committed before it.

        ``foreign`` is the version of the newest foreign rows before it: they are taken out.
        """
        for source, version in since.items():
            bound = self.version_at(source, at)
            require(bound >= version, "a read misses a commit", name, at, source, version, bound)
        if self.foreign.get(name) != foreign:
            return  # foreign rows came while it was read
        wanted = self.contents(name, at)
        require(rows == wanted, "a read is wrong", name, at, rows - wanted, wanted - rows)

    def newest_moves(self) -> dict[str, int]:
        """Each source's newest version that changes data and must be bound by what comes next."""
        return {s: max(_moves(self.store.folders[s]), default=0) for s in SOURCES}

    def check_complete(self, name: str) -> None:
        """At the end: what is stored is what the object is now."""
        folder = self.store.folders[name]
        try:
            wanted = self.contents(name, self.now)
        except NoContents as blocked:
            self.marks.add("an object stands at a failed T")
            is_origin = blocked.is_of_view and blocked.why == (name,)
            if not is_origin or not self.is_followed(name):
                return  # a view waits until all that it reads can be read
            wanted = self.stored(name, self.now)
        require(name not in self.disturbed_versions, "foreign rows were never noticed", name)
        held = folder.contents(folder.newest)
        require(held == wanted, "not caught up", name, self.now, held - wanted, wanted - held)


def _moves(folder: Folder) -> Iterator[int]:
    return (c.version for c in folder.commits if c.changes_data)
