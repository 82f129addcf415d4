"""Finds the outputs that a tick need not advance because nothing has changed for them.

An object that a tick has advanced is *at rest* until

    a source below it is bound to another version, or its table is missing
    its own log, or that of an output below it, has another version: a foreign commit, a failure
    definitions change, or the state of tasks: altered, suspended, resumed

If a task is suspended, or time alone may cause a change, nothing is at rest. Advancing an output
that has nothing to do takes milliseconds, and a service may have hundreds of outputs.

[rests-as-looked-at] an object is at rest at the version that its log had before it was advanced; if
    it was written since, also by this tick, it is checked once more.
[moved-below] readers of an object that is not at rest are not at rest either, however far another
    process has advanced that object.
"""

from collections.abc import Sequence

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item, Maintained, Table
from ctsql.runtime.engine import Engine
from ctsql.runtime.warehouse.table_checks import check_tables

_NO_LOG = 0  # the version of an object without a followed log: a plain view, a second output


class AtRest:
    """The objects of one service that are at rest."""

    def __init__(self) -> None:
        self._basis: tuple[object, ...] = (None, None, None)
        self._marks: dict[str, int] = {}  # by id the version; of a source the one that is bound
        self._versions: dict[str, int | None] = {}  # the versions of outputs, as last read

    def is_outdated(self, engine: Engine) -> bool:
        """Whether definitions, or the state of tasks, have changed since the last check."""
        return any(a is not b for a, b in zip(self._basis, _basis_of(engine), strict=True))

    def look(self, engine: Engine) -> list[Item]:
        """Read the versions of all outputs; returns those not at rest.

        Called before any is advanced.
        """
        if self.is_outdated(engine):
            self._basis, self._marks = _basis_of(engine), {}
        run = [i for i in engine.catalog if isinstance(i, Maintained)]
        self._versions = {i.id: _newest(engine, i) for i in run}
        return [i for i in run if not self._is_as_seen(i)]

    def _is_as_seen(self, item: Item) -> bool:
        version = self._versions.get(item.id)
        return version is not None and self._marks.get(item.id) == version

    def leave_alone(self, engine: Engine, items: Sequence[Item], now: int) -> set[str]:
        """The ids of objects that need not be advanced to a T that the engine has just assigned.

        All others are not at rest from here on, also if the tick ends early. ``items``: all
        objects, each after those that it reads.
        """
        suspended = any(task in engine.catalog.items for task in engine.timeline.suspended())
        if self.is_outdated(engine) or engine.timeline.now != now or suspended:
            self._marks = {}
            return set()
        ids: set[str] = set()
        marks: dict[str, int] = {}
        for item in items:
            version = (
                self._versions.get(item.id)
                if isinstance(item, Maintained)
                else _bound(engine, item)
            )
            if version is None:
                continue
            below = {r.object_id for r in item.reads} - {item.id}
            is_known = self._marks.get(item.id) == version and below <= ids
            if is_known and not engine.schedules.is_timed(item):
                ids.add(item.id)
            if item.id in ids or not isinstance(item, Maintained):
                marks[item.id] = version
        self._marks = marks
        return ids

    def note(self, item: Item, now: int) -> None:
        """Record that an object was advanced to a T."""
        version = self._versions.get(item.id)
        if version is not None and item.created_at <= now:
            self._marks[item.id] = version


def _basis_of(engine: Engine) -> tuple[object, ...]:
    return engine.warehouse, engine.catalog, engine.timeline.tasks


def _newest(engine: Engine, item: Item) -> int | None:
    """The newest version of an output; None if unreadable, which its advance reports."""
    try:
        return engine.relations.table(item).version()
    except CtsqlError:
        return None


def _bound(engine: Engine, item: Item) -> int | None:
    """The bound version of a source; None for none, or if its table is missing."""
    if not isinstance(item, Table):
        return None if item.problem else _NO_LOG
    try:
        check_tables(engine.relations, [item])
    except CtsqlError:
        return None
    return engine.timeline.bound(item.id)
