"""Commits of transactions over several tables: all of their changes at one T, or none.

    staged batches --record--> intent on the timeline --> a commit in each table --> bound at one T
                                        |                            |
                                        +--- any process ------------+--> undone, if a table
                                                                          cannot take its part

An intent holds each table's batch as text, the version that the transaction read and the upper its
commit expects. A recorded intent decides the transaction: any process that finds it commits the
missing parts, and the timeline binds the parts only when all are there.

[one-intent-per-table] no two intents on the timeline are about the same table, so the commits of
    two transactions never cross.
[participant-once] a table's part is committed at most once: it moves the application id's upper.
[first-committer-wins] a part is committed only if no other commit changed the table's rows or
    columns since the version that the transaction read. ctsql's statements hold the table's lock
    and check for intents, so only another engine, or a store without locks, can come between. Then
    the transaction is undone: committed parts are taken back, tables without one are fenced, and
    the timeline binds neither.
[undone-on-timeline] undoing is decided on the timeline too, so two processes never do both.

:mod:`ctsql.runtime.log.fault_points` lists the state after a crash at each step.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ctsql.catalog.errors import CtsqlError, broken, error
from ctsql.catalog.items import Item
from ctsql.runtime.delta.stores.locks import commit_lock
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.delta.transaction import OptimisticTransaction
from ctsql.runtime.log import clock, fault_points as faults
from ctsql.runtime.log.actions import DataFile
from ctsql.runtime.log.batches import BatchText, own_files
from ctsql.runtime.log.protocol import Conflict, RowsGone
from ctsql.runtime.log.write_handle import Committed, Output, UpperMoved
from ctsql.runtime.warehouse.times.replaced_tables import LOST
from ctsql.runtime.warehouse.times.timeline import INTENTS, STUCK, Timeline, check_not_stuck
from ctsql.runtime.warehouse.times.timestamp_assignment import TRANSACTION, UNDOES, candidates_of

APP = "ctsql:transactions"
UNDO_TRIES_MAX = 20
RESOLVE_TRIES_MAX = 5
INTENT_TRIES_MAX = 20
OPEN, UNDOING = "open", "undoing"
Tables = Mapping[str, tuple[str, DeltaTable]]


class WriteConflict(Exception):
    """Another writer changed a table after the version that the transaction read."""

    def __init__(self, source: str, version: int) -> None:
        super().__init__(source, version)
        self.source = source
        self.version = version


def prepare(
    timeline: Timeline, group: str, changes: Mapping[str, BatchText], tables: Tables
) -> Any:
    """Record and return the intent of a transaction; raises WriteConflict if another was first.

    ``changes``: the staged batch of each table, with the version that the transaction read.
    """
    intent: dict[str, Any] = {}

    def record(intents: dict[str, Any]) -> dict[str, Any]:
        busy = {source for intent in intents.values() for source in intent["tables"]}
        for source, change in changes.items():
            if source in busy:
                raise WriteConflict(source, change.version)
            check_unchanged(source, tables[source][1], change.version)
        uppers = {
            source: Output(tables[source][1], APP, since=c.version).fetch_recent_upper()
            for source, c in changes.items()
        }
        upper = max(clock.now_ms(), *uppers.values()) + 1
        entries = {
            source: {
                "expected": uppers[source],
                "version": change.version,
                "batch": change.at(uppers[source], upper).to_json(),
            }
            for source, change in changes.items()
        }
        intent.update(state=OPEN, upper=upper, tables=entries)
        return {**intents, group: intent}

    _change_intents(timeline, record)
    faults.point("intent_recorded")
    return intent


def _change_intents(
    timeline: Timeline, change: Callable[[dict[str, Any]], dict[str, Any] | None]
) -> None:
    """Record changed intents at a new T; does nothing if ``change`` returns None."""

    def text() -> str | None:
        intents = change(dict(timeline.intents))
        return None if intents is None else json.dumps(intents)

    timeline.record(INTENTS, text)


def _output(source: str, table: DeltaTable, version: int) -> Output:
    """A write handle that commits only if nothing changed the table after a version."""

    def begin() -> OptimisticTransaction:
        txn = table.begin()
        txn.depend_on_all()
        check_unchanged(source, table, version)
        return txn

    return Output(table, APP, since=version, begin=begin)


def check_unchanged(source: str, table: DeltaTable, version: int) -> None:
    """Raise :class:`WriteConflict` when a commit after a version changes rows or metadata.

    A transaction that was taken back changed nothing.
    """
    commits = [table.commit_at(v) for v in range(version + 1, table.version() + 1)]
    versions = [c.version for c in candidates_of(source, "", commits)]
    versions += [c.version for c in commits if c.changes_schema]
    if versions:
        raise WriteConflict(source, min(versions))


def resolve(
    timeline: Timeline, group: str, tables: Tables, recorded: Any = None
) -> "WriteConflict | None":
    """Commit the missing parts of a transaction, or undo it and return the conflict.

    Any process may call it, repeatedly.

    Args:
        recorded: the intent, if the caller recorded it. Another process may have finished it since;
            the tables show with which outcome.
    """
    intent = timeline.intents.get(group, recorded)
    if intent is None:
        return None  # another process did
    if timeline.reload is not None and not intent["tables"].keys() <= tables.keys():
        tables = timeline.reload()  # a table was created after the catalog was read
    conflict: WriteConflict | None = None
    if intent["state"] == OPEN:
        conflict = _roll_forward(group, intent, tables)
        if conflict is None:
            return None
        _change_intents(timeline, lambda now: _undoing(now, group))
        before, intent = intent, timeline.intents.get(group)
        if intent is None:
            # Another process ended it. Most likely it was undone, so the conflict is returned. If
            # the table of the conflict was dropped meanwhile, the other parts may be committed.
            newest = tables if timeline.reload is None else timeline.reload()
            parts = list(_participants(group, before, newest))
            return None if parts and all(part.is_in() for part in parts) else conflict
    for participant in _participants(group, intent, tables):
        participant.undo()
    _change_intents(timeline, lambda now: _without(now, group))
    if conflict is None:
        first = next(iter(intent["tables"]))
        conflict = WriteConflict(first, int(intent["tables"][first]["version"]) + 1)
    return conflict


@contextmanager
def alone(timeline: Timeline, item: Item, complete: Callable[[], object]) -> Iterator[str]:
    """Hold a table's lock while no decided transaction changes it; yields its folder.

    ``complete`` finishes the transaction of a process that was killed; no lock is held then.
    """
    assert item.location is not None  # a table has a folder
    for _ in range(INTENT_TRIES_MAX):
        with commit_lock(item.location):
            timeline.refresh()
            if not any(item.id in intent["tables"] for intent in timeline.intents.values()):
                yield item.location
                return
        complete()
        check_not_stuck(timeline, item.id)
    detail = f"{item.name}: {INTENT_TRIES_MAX} looks found one."
    raise broken("a decided transaction comes to an end", detail)


def mint_resolved(timeline: Timeline, tables: Callable[[], Tables], *, tick_ms: int) -> int:
    """Bind new commits and finish the transactions of killed processes; returns the newest T.

    If one cannot be finished, readers and writers of its tables get an error; others continue.
    """
    newest = timeline.mint(tables(), tick_ms=tick_ms)
    problems: dict[str, dict[str, object]] = {}
    for _ in range(RESOLVE_TRIES_MAX):
        groups = timeline.intents.keys() - problems.keys()
        if not groups:
            break
        for group in sorted(groups):
            try:
                resolve(timeline, group, tables())
            except CtsqlError as problem:
                if problem.condition not in LOST:
                    raise
                problems[group] = _facts_of(problem, timeline.intents.get(group), tables())
        newest = timeline.mint(tables(), tick_ms=tick_ms)
    if problems:
        _change_intents(timeline, lambda now: _telling(now, problems))
    return newest


def _facts_of(problem: CtsqlError, intent: Any, tables: Tables) -> dict[str, object]:
    """The fields of TRANSACTION_STUCK for a transaction that a problem keeps from ending."""
    if problem.condition == "TRANSACTION_STUCK":
        return {**problem.given}
    sources = () if intent is None else intent["tables"]
    locations = ", ".join(tables[source][1].location for source in sources if source in tables)
    detail = f"{problem.condition}: {problem.message}. {problem.detail or ''}".strip()
    return {"table": locations, "detail": detail, "hint": problem.hint or ""}


def _telling(intents: dict[str, Any], problems: Mapping[str, Any]) -> dict[str, Any] | None:
    """The intents with these problems recorded; None if they already are.

    Two processes may word one problem differently. Only the hints are compared, so they do not
    overwrite each other's texts forever.
    """
    new = {g for g in problems if g in intents and not _is_marked(intents[g], problems[g])}
    marked = {g: {**intents[g], STUCK: problems[g]} for g in new}
    return {**intents, **marked} if marked else None


def _is_marked(intent: Mapping[str, Any], problem: Mapping[str, Any]) -> bool:
    return STUCK in intent and intent[STUCK]["hint"] == problem["hint"]


def _participants(group: str, intent: Any, tables: Tables) -> "Iterator[_Participant]":
    """The tables of a transaction, without dropped ones that nothing reads."""
    for source, entry in intent["tables"].items():
        if source in tables:
            yield _Participant(group, intent["upper"], source, tables[source][1], **entry)


def _roll_forward(group: str, intent: Any, tables: Tables) -> WriteConflict | None:
    for participant in _participants(group, intent, tables):
        try:
            participant.commit()
        except WriteConflict as conflict:
            return conflict
        faults.point("transaction_table_committed")
    return None


def _undoing(intents: dict[str, Any], group: str) -> dict[str, Any] | None:
    if group not in intents or intents[group]["state"] == UNDOING:
        return None
    return {**intents, group: {**intents[group], "state": UNDOING}}


def _without(intents: dict[str, Any], group: str) -> dict[str, Any] | None:
    return {g: i for g, i in intents.items() if g != group} if group in intents else None


@dataclass(frozen=True, slots=True)
class _Participant:
    """A transaction's part in one table."""

    group: str
    upper: int
    source: str
    table: DeltaTable
    expected: int
    version: int
    batch: str

    @property
    def is_replaced(self) -> bool:
        """Whether the table was replaced by one of another id, in the same log."""
        return BatchText.from_json(self.batch).table_id != self.table.table_id

    def is_in(self) -> bool:
        """Whether the part is committed, and not taken back."""
        return self.version_in(TRANSACTION) is not None and self.version_in(UNDOES) is None

    def version_in(self, key: str) -> int | None:
        """The version that holds the part (or takes it back); None when none does."""
        for v in range(self.version + 1, self.table.version() + 1):
            if self.table.commit_at(v).metadata.get(key) == self.group:
                return v
        return None

    def commit(self) -> None:
        """Commit the part, unless it is in; raises WriteConflict if another commit was first."""
        if self.version_in(TRANSACTION) is not None:
            return
        if self.is_replaced:
            raise WriteConflict(self.source, self.table.version())
        output = _output(self.source, self.table, self.version)
        batch = output.batch_of(self.batch)
        conflict: WriteConflict | None = None
        try:
            outcome = output.compare_and_append(
                [batch],
                expected=self.expected,
                new=self.upper,
                metadata={TRANSACTION: self.group},
            )
            if isinstance(outcome, Committed):
                return
        except WriteConflict as first:
            conflict = first
        except CtsqlError as problem:
            if problem.condition != "BATCH_INVALID":
                raise
            # Its files are gone: another process undid it, or was killed while undoing it.
        if self.version_in(TRANSACTION) is None:  # else another process has committed this part
            raise conflict or WriteConflict(self.source, self.table.version())

    def undo(self) -> None:
        """Take the part back if it is committed; else prevent its commit."""
        for _ in range(UNDO_TRIES_MAX):
            if self.version_in(UNDOES) is not None:
                return
            version = self.version_in(TRANSACTION)
            try:
                if version is not None:
                    self._take_back(version)
                    return
                if self._keep_out():
                    return
            except Conflict:
                continue
        detail = f"{UNDO_TRIES_MAX} tries to undo the transaction {self.group} were disturbed."
        raise self._stuck(detail, "Try again when fewer writers use it.")

    def _keep_out(self) -> bool:
        """Move the upper so the part cannot be committed; False if it was committed meanwhile."""
        output = Output(self.table, APP, since=self.version)
        outcome = output.compare_and_append(
            [], expected=self.expected, new=self.upper, metadata={UNDOES: self.group}
        )
        if isinstance(outcome, UpperMoved) and self.version_in(TRANSACTION) is not None:
            return False
        # The upper has moved, by this or by another commit.
        self.table.discard(own_files(BatchText.from_json(self.batch).parts))
        return True

    def _take_back(self, version: int) -> None:
        """Commit the reverse of a version: remove its files, restore the files it removed.

        A table that was replaced since, or restored to an earlier version, has none of them.

        Raises:
            Conflict: another commit was first; it may be another process that takes it back.
            TRANSACTION_STUCK: other writers have rewritten the files to remove.
        """
        txn = self.table.begin()
        txn.depend_on_all()
        # Commits before this transaction began are visible here; later ones conflict.
        if self.version_in(UNDOES) is not None:
            return
        try:
            if not self.is_replaced:
                txn.revert(version)
        except RowsGone as problem:
            if not self._was_restored(version):
                raise self._rewritten(version, problem) from problem
        txn.commit(label=APP, epoch=self.upper, metadata=json.dumps({UNDOES: self.group}))

    def _was_restored(self, version: int) -> bool:
        """Whether a RESTORE after a version returned the table to its state before it."""
        before = _vectors(self.table.files(version - 1))
        later = range(version + 1, self.table.version() + 1)
        restores = (v for v in later if self.table.commit_at(v).operation == "RESTORE")
        return any(_vectors(self.table.files(v)) == before for v in restores)

    def _rewritten(self, version: int, problem: RowsGone) -> CtsqlError:
        detail = (
            f"Its version {version} holds rows of the transaction {self.group}, "
            f"which is to be undone, and another writer rewrote them: {problem}."
        )
        hint = (
            f"Set the table back in Spark: RESTORE TABLE ... TO VERSION AS OF {version}. "
            "Rows that were committed after it have to be written again. The next statement of a "
            "connection that may write then ends the transaction."
        )
        return self._stuck(detail, hint)

    def _stuck(self, detail: str, hint: str) -> CtsqlError:
        return error("TRANSACTION_STUCK", table=self.table.location, detail=detail, hint=hint)


def _vectors(files: Mapping[str, DataFile]) -> dict[str, str]:
    """The deletion vectors of files, by path."""
    return {path: file.vector_id for path, file in files.items()}
