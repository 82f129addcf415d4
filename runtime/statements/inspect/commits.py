"""The commits of a stored object, each with its T and its metadata.

A table's T is that of the timeline, an output's the one before the upper in its commit. Commits
without a T are left out: compactions, and new commits of tables. Nothing is written.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ctsql.catalog.items import Item
from ctsql.catalog.names import Name
from ctsql.catalog.times import CLOSED
from ctsql.runtime.engine import Engine


@dataclass(frozen=True, slots=True)
class ObjectCommit:
    """A commit."""

    t: int  # the time from which readers see it
    version: int  # of the Delta table
    # ctsql's metadata, of a view's refresh for example; its keys may change
    said: Mapping[str, Any] = field(default_factory=dict)


def commits(engine: Engine, name: Name) -> list[ObjectCommit]:
    """The commits in the log, oldest first.

    Raises:
        UNKNOWN_RELATION: the object does not exist.
        WRONG_OBJECT_KIND: it has no table: a plain view, or a task with several outputs.
    """
    with engine.as_stored():
        item = engine.refresh_catalog().get(name)
        engine.timeline.refresh()
        if item.location is None:
            hint = "Ask for what it reads, or for what it writes."
            raise item.wrong_kind("object with a table of its own", hint)
        table = engine.warehouse.relations.table(item)
        return [
            ObjectCommit(t, version, table.commit_at(version).metadata)
            for t, version in _times(engine, item)
            if table.has(version)
        ]


def _times(engine: Engine, item: Item) -> list[tuple[int, int]]:
    if not item.is_output:
        bound = engine.timeline.bindings_between(item.id, -1, engine.timeline.now)
        return [(b.time, b.version) for b in bound]
    output = engine.warehouse.relations.output(item)
    return [(e.upper - 1, e.version) for e in output.entries(since=0) if e.upper != CLOSED]
