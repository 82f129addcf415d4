"""Named readers: their registration in the catalog, and their positions in a table of their own.

A position is the upper of an application id of the reader's own in the table ``subscriptions`` of
the warehouse's system folder: one metadata-only commit moves it, and only from where its owner
left it. So of two processes that read under one name, the first to acknowledge goes on and the
other is told so.

On a crash: the position is that of the last acknowledgement; what was told after it is told
again. A lost answer of a commit is resolved by the log, as for every output.
"""

import hashlib
import uuid
from collections.abc import Iterable

from ctsql.catalog.errors import error
from ctsql.catalog.items import Catalog, Item, ObjectKind, was_dropped
from ctsql.catalog.names import did_you_mean, fold
from ctsql.catalog.schemas import signature
from ctsql.catalog.spans import Span
from ctsql.catalog.subscriptions import Subscription
from ctsql.runtime.delta.table import SYSTEM_TABLE, Gateway
from ctsql.runtime.engine import Engine
from ctsql.runtime.log.write_handle import Output, UpperMismatch
from ctsql.runtime.spark.errors import translate_spark_errors
from ctsql.runtime.subscriptions.position import Position
from ctsql.runtime.subscriptions.retention import RetentionNeed, needed_versions

TABLE = "subscriptions"


class StoredCursor:
    """The stored position of one named reader, as one process holds it."""

    def __init__(self, output: Output, subscription: Subscription) -> None:
        self.output = output
        self.subscription = subscription
        self._upper = output.fetch_recent_upper()

    @property
    def position(self) -> Position:
        """Where this process found or put it last."""
        return start_of(self.subscription).resumed(self._upper)

    def move(self, position: Position) -> None:
        """Acknowledge everything below a position; nothing happens when it was already.

        Raises:
            SUBSCRIPTION_MOVED: another process has acknowledged under this name.
            COMMIT_UNKNOWN: whether it is in could not be found out.
        """
        if position.snapshot or position.next <= self.position.next:
            return
        said = {"reader": self.subscription.name}
        outcome = self.output.compare_and_append(
            [], expected=self._upper, new=position.next, metadata=said
        )
        if isinstance(outcome, UpperMismatch):
            raise error(
                "SUBSCRIPTION_MOVED",
                name=self.subscription.name,
                detail=f"This reader was at T = {self._upper}, the other is at "
                f"T = {outcome.current}.",
            )
        self._upper = position.next


def start_of(subscription: Subscription) -> Position:
    """Where a reader began."""
    return Position(subscription.start, subscription.snapshot)


class Readers:
    """The named readers of a warehouse."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        system, _, _ = engine.catalog_store.table.location.rpartition("/")
        self.location = f"{system}/{TABLE}"

    def find(self, name: str) -> Subscription | None:
        """The reader of a name, as of the catalog last looked at.

        Raises:
            STORED_DATA_INVALID: its entry in the catalog cannot be read.
        """
        found = self.engine.catalog.subscriptions.get(fold(name))
        return None if found is None else found.check()

    def place(self, subscription: Subscription) -> StoredCursor:
        """A reader's stored position."""
        table = self.engine.gateway.table(self.location)
        return StoredCursor(Output(table, subscription.app, shared=True), subscription)

    def register(self, name: str, item: Item, start: Position) -> Subscription:
        """Make a new reader; of two processes that do at once, both get the first one's.

        Raises:
            OBJECT_EXISTS: the name is in use for another object.
        """
        _create_table(self.engine.gateway, self.location)
        made = Subscription(
            id=uuid.uuid4().hex,
            name=name,
            object_id=item.id,
            start=start.next,
            snapshot=start.snapshot,
            definition=definition_of(self.engine, item),
        )

        def with_reader(current: Catalog) -> Catalog:
            if item.id not in current.items:
                raise was_dropped(item.name, "while the subscription began")
            known = current.subscriptions.get(fold(name))
            return current if known is not None else current.with_subscription(made)

        self.engine.catalog_store.change(with_reader)
        self.engine.refresh_catalog()
        found = self.engine.catalog.subscriptions[fold(name)].check()
        self.check(found, item, None)
        return found

    def check(self, subscription: Subscription, item: Item, span: Span | None) -> None:
        """A reader must follow this object, and a view must be the one it began with.

        Raises:
            OBJECT_EXISTS: it follows another one. SUBSCRIPTION_OUTDATED: the view was replaced,
                a materialized one with other columns.
        """
        if subscription.object_id != item.id:
            other = self.engine.catalog.items[subscription.object_id]
            raise error(
                "OBJECT_EXISTS",
                span=span,
                kind="subscription",
                name=subscription.name,
                hint=f"It follows {other.name}. Choose another name, or type: "
                f"DROP SUBSCRIPTION '{subscription.name}'",
            )
        if subscription.definition != definition_of(self.engine, item):
            raise outdated_error(
                item, f"DROP SUBSCRIPTION '{subscription.name}', then subscribe to it again"
            )

    def drop(self, name: str, span: Span, *, if_exists: bool) -> str:
        """Forget a reader; gives the status line.

        Raises:
            UNKNOWN_RELATION: there is none of this name.
        """

        def without(current: Catalog) -> Catalog:
            if fold(name) not in current.subscriptions:
                if if_exists:
                    return current
                known = [s.name for s in current.subscriptions.values()]
                raise error(
                    "UNKNOWN_RELATION",
                    span=span,
                    kind="subscription",
                    name=name,
                    hint=did_you_mean(name, known, otherwise="SHOW SUBSCRIPTIONS lists them."),
                )
            return current.without_subscription(name)

        before = self.engine.catalog_store.load()
        self.engine.catalog_store.change(without)
        self.engine.refresh_catalog()
        existed = fold(name) in before.subscriptions
        return "DROP SUBSCRIPTION" if existed else "DROP SUBSCRIPTION (did not exist)"

    def listed(self) -> list[tuple[Subscription, Item, Position]]:
        """Every reader that can be read, what it follows and how far it is, in order of name."""
        catalog = self.engine.refresh_catalog()
        readable = (s for s in catalog.subscriptions.values() if not s.problem)
        found = sorted(readable, key=lambda s: fold(s.name))
        return [(s, catalog.items[s.object_id], self.place(s).position) for s in found]

    def retention_needs(self) -> list[RetentionNeed]:
        """Which versions of which objects the readers need; see :func:`needed_versions`."""
        warehouse = self.engine.warehouse
        needs = (
            (f"subscription '{s.name}'", read_for(self.engine.catalog, item), position.needed)
            for s, item, position in self.listed()
        )
        return needed_versions(
            needs,
            lambda object_id, at: warehouse.versions.version_at(
                warehouse.relations.item(object_id), at
            ),
        )


def read_for(catalog: Catalog, item: Item) -> list[str]:
    """The stored objects from which the changes of an object are told.

    A table or task by itself; a view also by what it is computed from where it was not written.
    """
    found: dict[str, None] = {}
    waiting: Iterable[Item] = [item]
    while waiting:
        below: list[Item] = []
        for one in waiting:
            if one.location is not None and not one.problem:
                found[one.id] = None
            if one.kind in (ObjectKind.VIEW, ObjectKind.MATERIALIZED_VIEW) or one.problem:
                below += [catalog.items[r.object_id] for r in one.reads]
        waiting = below
    return list(found)


def definition_of(engine: Engine, item: Item) -> str:
    """What a reader notes of an object, of which it can be told only while that is the same.

    The definition of a plain view, the columns of a materialized one; of others nothing.
    """
    match item.kind:
        case ObjectKind.VIEW:
            return engine.catalog.fingerprint(item)
        case ObjectKind.MATERIALIZED_VIEW:
            told = repr(signature(item.columns))
            return hashlib.sha256(told.encode()).hexdigest()[:16]
        case _:
            return ""


def outdated_error(item: Item, what: str) -> Exception:
    """SUBSCRIPTION_OUTDATED; the caller raises it."""
    return error("SUBSCRIPTION_OUTDATED", name=str(item.name), hint=f"Type: {what}.")


def _create_table(gateway: Gateway, location: str) -> None:
    """Make the table of positions; nothing happens if it is there."""
    if gateway.exists(location):
        return
    with translate_spark_errors():
        gateway.create_table(location, "unused STRING", SYSTEM_TABLE)
