"""The catalog's store: a Delta table without rows in the warehouse.

Every object is one domain metadata action (``ctsql.object.<id>``), as is every schema, named reader
and DROP: Delta's checkpoints keep them, its checksum file returns them without a Spark job, and
one commit can change several. The upper of the write handle counts the changes: of two processes
that create an object at once one wins, and the other reads the catalog again.

Definitions that come into force together (:class:`~ctsql.catalog.cutovers.Cutover`):

    catalog: the cutover   timeline: bound to a T, or closed   catalog: its changes, cutover removed

[counts-once-bound] a cutover counts from the T to which the timeline has bound it. A process that
    has read that T applies its changes while loading; the next catalog change writes them.
[closed-before-change] a process that changes the catalog while a cutover is unbound closes it on
    the timeline first. The timeline accepts one of the two, so a cutover never comes into force on
    another catalog than its own.
[look-again] a process that has read the timeline for a cutover reads the catalog again: another
    cutover may have been made and bound meanwhile, and only a later catalog has its definitions.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from ctsql.catalog.catalog import Catalog, DropEntry, StoredSubscription
from ctsql.catalog.cutovers import Cutover, StoredCatalog, cutover_of
from ctsql.catalog.errors import broken, error
from ctsql.catalog.items import Item, item_of_entry, item_text
from ctsql.catalog.names import DEFAULT_SCHEMA
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.write_handle import Committed, Output, OutputBatch
from ctsql.runtime.warehouse.stores.location import SYSTEM_TABLE

if TYPE_CHECKING:
    from ctsql.runtime.delta.table import Gateway

APP = "ctsql:catalog"
OBJECT = "ctsql.object."
SCHEMA = "ctsql.schema."
SUBSCRIPTION = "ctsql.results.subscription."
DROPPED = "ctsql.dropped."
CUTOVER = "ctsql.cutover."
FORMAT_PROPERTY = "ctsql.format"
FORMAT = 3  # of the whole warehouse; one of another format is refused, and never converted
CHANGE_TRIES_MAX = 100


class Decisions(Protocol):
    """The timeline's decisions about cutovers."""

    def decided(self, cutover: str) -> int | None:
        """The T from which a cutover is in force; None if it is unbound or closed."""

    def close(self, cutover: str) -> int | None:
        """Close a cutover that is not in force; returns the T from which it is, if it is."""


class DeltaCatalog:
    """The catalog of one warehouse, in the Delta table ``table``."""

    decisions: Decisions  # the timeline's; set when it is open, before a cutover can be read

    def __init__(self, gateway: "Gateway", location: str, warehouse: str) -> None:
        self.table = gateway.table(location)
        self._output = Output(self.table, APP)
        self._check_format(warehouse)
        self._contents: StoredCatalog | None = None
        self._version = -1

    @staticmethod
    def create(gateway: "Gateway", location: str) -> None:
        """Create the table, unless another process has."""
        properties = {FORMAT_PROPERTY: str(FORMAT), **SYSTEM_TABLE}
        gateway.create_table(location, "unused STRING", properties)

    def _check_format(self, warehouse: str) -> None:
        text = self.table.configuration().get(FORMAT_PROPERTY, "")
        if not text.isdigit():
            detail = "There is a table at the catalog's place, but ctsql did not create it."
            hint = "Check the path given with --warehouse."
            raise error("WAREHOUSE_NOT_FOUND", location=warehouse, detail=detail, hint=hint)
        if int(text) != FORMAT:
            raise error("WAREHOUSE_FORMAT_DIFFERS", location=warehouse, found=text, known=FORMAT)

    def load(self) -> Catalog:
        """The newest catalog in force; reads the store once if nothing changed.

        It has every definition that the timeline has put in force [look-again].
        """
        while True:
            contents = self._load_stored()
            cutover = contents.cutover
            if cutover is None:
                return contents.catalog
            at = self.decisions.decided(cutover.id)
            if not self.table.has(self._version + 1):
                return contents.in_force(at)

    def _load_stored(self) -> StoredCatalog:
        table = self.table
        # Not only by the next commit: after a long sleep it may have been cut from the log.
        if self._contents is None or table.version() != self._version:
            version, domains = table.domains()
            items = [item_of_entry(k, v) for k, v in _under(OBJECT, domains)]
            schemas = [v for _, v in _under(SCHEMA, domains)]
            readers = [StoredSubscription.of_entry(k, v) for k, v in _under(SUBSCRIPTION, domains)]
            drops = [DropEntry.of_entry(k, v) for k, v in _under(DROPPED, domains)]
            catalog = Catalog.of(items, schemas, readers, drops)
            cutover = cutover_of(_under(CUTOVER, domains))
            self._contents, self._version = StoredCatalog(catalog, cutover), version
        return self._contents

    def change(self, make: Callable[[Catalog], Catalog]) -> Catalog:
        """Change the catalog by ``make``, which is called again if another process is first.

        If ``make`` raises, nothing changes.
        """
        return self._write(lambda now: StoredCatalog(make(now)))

    def add_cutover(self, make: Callable[[Catalog], Cutover]) -> tuple[Cutover, Catalog]:
        """Store the cutover that ``make`` returns for the catalog; returns it and that catalog.

        A cutover without changes is not stored.
        """
        made: list[tuple[Cutover, Catalog]] = []

        def add(now: Catalog) -> StoredCatalog:
            made[:] = [(make(now), now)]
            cutover, _ = made[0]
            return StoredCatalog(now, None if cutover.is_no_change(now) else cutover)

        self._write(add)
        return made[0]

    def _write(self, make: Callable[[Catalog], StoredCatalog]) -> Catalog:
        for _ in range(CHANGE_TRIES_MAX):
            upper = self._output.fetch_recent_upper()
            before = self._load_stored()
            now = before.catalog
            if before.cutover is not None:
                now = before.in_force(self.decisions.close(before.cutover.id))
            after = make(now)
            changes = _differences(before, after)
            if not changes:
                return now
            batch = self._output.open(upper)
            if not isinstance(batch, OutputBatch) or batch.version_read != self._version:
                continue
            batch.domains.update(changes)
            if isinstance(
                self._output.compare_and_append([batch], expected=batch.lower, new=upper + 1),
                Committed,
            ):
                faults.point("catalog_committed")
                return self.load()
        detail = f"{CHANGE_TRIES_MAX} tries were lost."
        raise broken("one process wins each race to change the catalog", detail)


def _under(prefix: str, domains: Mapping[str, str]) -> list[tuple[str, str]]:
    """The domains with a prefix: the rest of the name to the configuration."""
    return [(k.removeprefix(prefix), v) for k, v in domains.items() if k.startswith(prefix)]


def _differences(before: StoredCatalog, after: StoredCatalog) -> dict[str, str | None]:
    """The new configuration of each changed domain; None if it is removed."""
    old, new = _entries(before), _entries(after)
    entries = {domain: e for domain, e in new.items() if not _is_same(old.get(domain), e)}
    texts = {domain: _text(entry) for domain, entry in entries.items()}
    return {**texts, **dict.fromkeys(old.keys() - new.keys())}


def _text(entry: str | Item | Cutover | DropEntry | StoredSubscription) -> str:
    if isinstance(entry, str):
        return entry
    return item_text(entry) if isinstance(entry, Item) else entry.to_json()


def _is_same(before: object, after: object) -> bool:
    """Whether two entries are equal, the case of names included; names compare in any case."""
    if before != after:
        return False
    if not isinstance(before, Item) or not isinstance(after, Item):
        return True
    return (before.name.schema, before.name.name) == (after.name.schema, after.name.name)


def _entries(
    contents: StoredCatalog,
) -> dict[str, Item | StoredSubscription | DropEntry | Cutover | str]:
    """The stored entries, by domain."""
    catalog, cutover = contents.catalog, contents.cutover
    return {
        **{OBJECT + key: item for key, item in catalog.items.items()},
        **{SCHEMA + key: name for key, name in catalog.schemas.items() if key != DEFAULT_SCHEMA},
        **{SUBSCRIPTION + key: reader for key, reader in catalog.subscriptions.items()},
        **{DROPPED + key: drop for key, drop in catalog.drops.items()},
        **({CUTOVER + cutover.id: cutover} if cutover else {}),
    }
