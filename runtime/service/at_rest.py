"""Which outputs a tick may leave alone, as nothing has come for them since they were advanced.

A tick of a warehouse with many objects concerns few of them. An object that a tick has advanced
is *at rest*, and left alone until

    a source below it is bound to another version, or its table is not there any more
    its own log, or that of an output below it, has another version: a foreign commit, a failure
    definitions change, or what is bound of tasks: altered, suspended, resumed

Where a task is suspended, and where time alone may bring something to do, nothing is at rest.

[rests-as-looked-at] an object is at rest at the version that its log had before it was advanced;
    where somebody has written it meanwhile, or this tick has, it is looked at once more.
[moved-below] what reads an object that is not at rest is not at rest either, however far a rival
    has brought that object.
"""

from collections.abc import Sequence

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item, Maintained, Table
from ctsql.runtime.engine import Engine
from ctsql.runtime.warehouse.table_checks import check_tables

_NO_LOG = 0
"""The version of what has no log that is followed: a plain view, an output beside the first."""


class AtRest:
    """The objects of one service that are at rest."""

    def __init__(self) -> None:
        self._basis: tuple[object, ...] = (None, None, None)
        self._marks: dict[str, int] = {}  # by id the version; of a source the one that is bound
        self._versions: dict[str, int | None] = {}  # the versions of outputs, as last looked at

    def is_outdated(self, engine: Engine) -> bool:
        """Whether definitions, or what is bound of tasks, have changed since the last look."""
        return any(a is not b for a, b in zip(self._basis, _basis_of(engine), strict=True))

    def look(self, engine: Engine) -> list[Item]:
        """Look at the logs of all outputs; gives those that these say are not at rest.

        That is done before any object is advanced.
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
        """The ids of what needs not be advanced to a T that the engine has just bound.

        Whatever is not among them is not at rest from here on, also where the tick ends early.

        Args:
            items: all objects, each after what it reads.
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
        """Note that an object was advanced to a T."""
        version = self._versions.get(item.id)
        if version is not None and item.created_at <= now:
            self._marks[item.id] = version


def _basis_of(engine: Engine) -> tuple[object, ...]:
    return engine.warehouse, engine.catalog, engine.timeline.tasks


def _newest(engine: Engine, item: Item) -> int | None:
    """The newest version of an output; None where that fails: who advances it is told why."""
    try:
        return engine.relations.table(item).version()
    except CtsqlError:
        return None


def _bound(engine: Engine, item: Item) -> int | None:
    """The version of a source that is bound; None for none, and where its table is not there."""
    if not isinstance(item, Table):
        return None if item.problem else _NO_LOG
    try:
        check_tables(engine.relations, [item])
    except CtsqlError:
        return None
    return engine.timeline.bound(item.id)
