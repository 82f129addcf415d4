"""Positions of subscriptions, and named readers with stored positions.

A named reader is registered in the catalog. Its position is the upper of its application id in the
table ``subscriptions`` of the warehouse's system folder. A metadata-only commit moves it, and only
from the value that this process has read. So of two processes that read under one name, the first
to acknowledge continues and the other gets an error.

After a crash the position is that of the last acknowledgement; later deliveries are repeated. The
log resolves a lost answer of a commit.
"""

import hashlib
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from ctsql.catalog.catalog import Catalog, StoredSubscription
from ctsql.catalog.dependencies import fingerprint_of
from ctsql.catalog.errors import CtsqlError, error, unknown_relation
from ctsql.catalog.items import Item, MaterializedView, ObjectKind, was_dropped
from ctsql.catalog.names import did_you_mean, fold
from ctsql.catalog.schemas import Schema, signature
from ctsql.catalog.spans import Span
from ctsql.runtime.log.write_handle import Output, UpperMoved
from ctsql.runtime.log_reader import LogReader
from ctsql.runtime.warehouse.stores.location import SYSTEM_TABLE
from ctsql.runtime.warehouse.times.replaced_tables import UNREADABLE


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class RetentionNeed:
    """A consumer needs an object's table from a version on."""

    version: int  # the oldest version needed
    since: int  # its T
    consumer: str  # a reader or an output, as text: ``subscription 'nightly'``
    object_id: str  # of the table's object


@dataclass(frozen=True, slots=True)
class Position:
    """Everything below ``next`` (exclusive upper) was delivered."""

    next: int
    # whether the whole contents are delivered at ``next``, instead of the changes
    snapshot: bool = False

    @property
    def needed_from(self) -> int:
        """The T as of which the followed object must stay readable.

        >>> Position(7).needed_from, Position(7, snapshot=True).needed_from
        (6, 7)
        """
        return self.next if self.snapshot else self.next - 1

    def advance_past(self, time: int) -> "Position":
        """The position after everything up to a time (inclusive) was delivered.

        >>> Position(7, snapshot=True).advance_past(7), Position(7).advance_past(3)
        (Position(next=8, snapshot=False), Position(next=7, snapshot=False))
        """
        return self if time < self.next else Position(time + 1)

    def resume(self, upper: int) -> "Position":
        """The position of a reader that began here, by its stored upper (0: none yet).

        >>> Position(7, snapshot=True).resume(0), Position(7, snapshot=True).resume(9)
        (Position(next=7, snapshot=True), Position(next=9, snapshot=False))
        """
        return self if upper <= self.next else Position(upper)

    def due(self, times: Iterable[int], until: int) -> list[int]:
        """The times to deliver, in order, among those at which something may have changed.

        >>> Position(5).due([9, 4, 6, 5], until=6), Position(5, snapshot=True).due([6], until=9)
        ([5, 6], [5, 6])
        """
        due_times = {t for t in times if self.next <= t <= until}
        if self.snapshot and self.next <= until:
            due_times.add(self.next)
        return sorted(due_times)


TABLE = "subscriptions"


class StoredCursor:
    """The stored position of one named reader, in one process."""

    def __init__(self, output: Output, subscription: StoredSubscription) -> None:
        self.output = output
        self.subscription = subscription
        self._upper = output.fetch_recent_upper()

    @property
    def position(self) -> Position:
        """The position that this process read or wrote last."""
        subscription = self.subscription
        return Position(subscription.start, subscription.snapshot).resume(self._upper)

    def move(self, position: Position) -> None:
        """Acknowledge everything below a position, unless that was done already.

        Raises:
            SUBSCRIPTION_MOVED: another process has acknowledged under this name.
            COMMIT_UNKNOWN: the commit failed and the log cannot be read to find out.
        """
        if position.snapshot or position.next <= self.position.next:
            return
        metadata = {"reader": self.subscription.name}
        outcome = self.output.compare_and_append(
            [], expected=self._upper, new=position.next, metadata=metadata
        )
        if isinstance(outcome, UpperMoved):
            detail = f"This reader was at T = {self._upper}, the other is at T = {outcome.current}."
            raise error("SUBSCRIPTION_MOVED", name=self.subscription.name, detail=detail)
        self._upper = position.next


class Readers:
    """The named readers of a warehouse."""

    def __init__(self, engine: LogReader) -> None:
        self.engine = engine
        system, _, _ = engine.catalog_store.table.location.rpartition("/")
        self.location = f"{system}/{TABLE}"

    def find(self, name: str) -> StoredSubscription | None:
        """The cataloged reader with a name; raises STORED_DATA_INVALID if unreadable."""
        reader = self.engine.catalog.subscriptions.get(fold(name))
        return None if reader is None else reader.check()

    def place(self, subscription: StoredSubscription) -> StoredCursor:
        """A reader's stored position."""
        table = self.engine.gateway.table(self.location)
        # The table has the commits of all readers: read its state, not its commits.
        output = Output(table, subscription.app, since=table.version())
        return StoredCursor(output, subscription)

    def moves(self) -> int:
        """A number that changes when a cataloged reader moves."""
        if not self.engine.catalog.subscriptions:
            return -1
        return self.engine.gateway.table(self.location).version()

    def register(self, name: str, item: Item, start: Position) -> StoredSubscription:
        """Register a new reader; returns the first one if another process registers it too.

        Raises OBJECT_EXISTS if the name is in use for another object.
        """
        gateway = self.engine.gateway
        if not gateway.exists(self.location):
            gateway.create_table(self.location, "unused STRING", SYSTEM_TABLE)
        subscription = StoredSubscription(
            id=uuid.uuid4().hex,
            name=name,
            object_id=item.id,
            start=start.next,
            snapshot=start.snapshot,
            definition=definition_of(self.engine, item),
        )

        def add_reader(current: Catalog) -> Catalog:
            if item.id not in current.items:
                raise was_dropped(item.name, "while the subscription began")
            there = current.subscriptions.get(fold(name))
            return current if there is not None else current.with_subscription(subscription)

        self.engine.change_catalog(add_reader)
        reader = self.find(name)
        if reader is None:
            raise was_dropped(name, "while it began", "subscription")
        self.check(reader, item, None)
        return reader

    def check(self, subscription: StoredSubscription, item: Item, span: Span | None) -> None:
        """Check that a reader follows this object, unchanged.

        Raises:
            OBJECT_EXISTS: it follows another one. SUBSCRIPTION_OUTDATED: the view was replaced, a
                materialized one with other columns.
        """
        if subscription.object_id != item.id:
            other = self.engine.catalog.items[subscription.object_id]
            hint = (
                f"It follows {other.name}. Choose another name, or type: "
                f"DROP SUBSCRIPTION '{subscription.name}'"
            )
            raise error(
                "OBJECT_EXISTS", span=span, kind="subscription", name=subscription.name, hint=hint
            )
        if not is_defined_as(self.engine, item, subscription.definition):
            raise outdated_error(
                item, f"DROP SUBSCRIPTION '{subscription.name}', then subscribe to it again"
            )

    def drop(self, name: str, span: Span, *, if_exists: bool) -> str:
        """Drop a reader; returns the status line. Raises UNKNOWN_RELATION."""

        def remove(current: Catalog) -> Catalog:
            if fold(name) not in current.subscriptions:
                if if_exists:
                    return current
                names = [s.name for s in current.subscriptions.values()]
                hint = did_you_mean(name, names, otherwise="SHOW SUBSCRIPTIONS lists them.")
                raise unknown_relation(name, hint, span, kind="subscription")
            return current.without_subscription(name)

        before = self.engine.catalog_store.load()
        self.engine.change_catalog(remove)
        existed = fold(name) in before.subscriptions
        return "DROP SUBSCRIPTION" if existed else "DROP SUBSCRIPTION (did not exist)"

    def list_all(self) -> list[tuple[StoredSubscription, Item, Position]]:
        """The readable readers, their objects and positions, in order of name."""
        catalog = self.engine.refresh_catalog()
        readable = (s for s in catalog.subscriptions.values() if not s.problem)
        readers = sorted(readable, key=lambda s: fold(s.name))
        return [(s, catalog.items[s.object_id], self.place(s).position) for s in readers]

    def retention_needs(self) -> list[RetentionNeed]:
        """The versions that the readers need; all versions of a table that had none yet."""
        return [
            RetentionNeed(
                version=self._version_at(read, position.needed_from) or 0,
                since=position.needed_from,
                consumer=f"subscription '{subscription.name}'",
                object_id=read.id,
            )
            for subscription, item, position in self.list_all()
            for read in read_for(self.engine.catalog, item)
        ]

    def _version_at(self, item: Item, at: int) -> int | None:
        """The version of a table as of T; None if it had none, or is unreadable."""
        try:
            return self.engine.versions.version_at(item, at)
        except CtsqlError as problem:
            if problem.condition not in UNREADABLE:
                raise
            return None


def read_for(catalog: Catalog, item: Item) -> list[Item]:
    """The stored objects with an object's changes; of a view also its inputs, for unwritten Ts."""
    items: dict[str, Item] = {}
    waiting: Iterable[Item] = [item]
    while waiting:
        below: list[Item] = []
        for one in waiting:
            if one.location is not None and not one.problem:
                items[one.id] = one
            if one.kind in (ObjectKind.VIEW, ObjectKind.MATERIALIZED_VIEW) or one.problem:
                below += [catalog.items[r.object_id] for r in one.reads]
        waiting = below
    return list(items.values())


def definition_of(engine: LogReader, item: Item) -> str:
    """The fingerprint of a followed object.

    Of the definition of a plain view, of the columns of a materialized one; empty for others.
    """
    match item.kind:
        case ObjectKind.VIEW:
            return fingerprint_of(engine.catalog, item)
        case ObjectKind.MATERIALIZED_VIEW:
            return _fingerprint(item.columns)
        case _:
            return ""


def is_defined_as(engine: LogReader, item: Item, definition: str) -> bool:
    """Whether an object has a known fingerprint; columns may have been added at its end."""
    if not isinstance(item, MaterializedView):
        return definition_of(engine, item) == definition
    counts = range(1, len(item.columns) + 1)
    return any(_fingerprint(item.columns[:count]) == definition for count in counts)


def _fingerprint(columns: Schema) -> str:
    return hashlib.sha256(repr(signature(columns)).encode()).hexdigest()[:16]


def outdated_error(item: Item, what: str) -> Exception:
    """SUBSCRIPTION_OUTDATED; the caller raises it."""
    return error("SUBSCRIPTION_OUTDATED", name=str(item.name), hint=f"Type: {what}.")
