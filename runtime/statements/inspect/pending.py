"""SHOW PENDING: the pending changes of each output, computed but not written.

These changes would advance it to the newest T: for a view desired - stored, for a task its body's
changes at each due T. Source commits without a T get one in memory. An output has an error instead
of rows if it cannot be computed, reads such an output, or is a view whose table has the columns of
an older definition.
"""

from dataclasses import dataclass

from ctsql.catalog.dependencies import closure
from ctsql.catalog.errors import CtsqlError, DataError
from ctsql.catalog.items import Item, Maintained
from ctsql.catalog.times import CLOSED
from ctsql.runtime.delta.overlay import MemoryTable
from ctsql.runtime.engine import Engine
from ctsql.runtime.warehouse.replaced_views import awaits_columns, not_written
from ctsql.runtime.warehouse.times.replaced_tables import UNREADABLE

COLUMNS = (
    ("kind", "string"),
    ("schema", "string"),
    ("name", "string"),
    ("upper", "bigint"),
    ("t", "bigint"),
    ("commits", "bigint"),
    ("rows_to_insert", "bigint"),
    ("rows_to_delete", "bigint"),
    ("error", "string"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """The pending changes of one output."""

    item: Item
    # the stored one, exclusive; the time of creation if nothing is written yet, CLOSED for a view
    # after its last refresh
    upper: int
    time: int  # the T to advance to
    commits: int  # their number
    rows_inserted: int
    rows_deleted: int
    problem: CtsqlError | None = None  # the error that prevents it; the rows are those before it

    def row(self) -> tuple[object, ...]:
        """The values of :data:`COLUMNS`."""
        name = self.item.name
        return (
            self.item.kind.value,
            name.schema,
            name.name,
            None if self.upper == CLOSED else self.upper,
            self.time,
            self.commits,
            self.rows_inserted,
            self.rows_deleted,
            None if self.problem is None else self.problem.message,
        )


def show_pending(engine: Engine) -> tuple[list[str], list[tuple[object, ...]]]:
    """SHOW PENDING, as names of columns and rows."""
    changes = pending(engine.read_only_twin())
    return [name for name, _ in COLUMNS], [p.row() for p in changes]


def pending(engine: Engine) -> list[Pending]:
    """The pending changes of every output, in order of name, by :meth:`Engine.read_only_twin`."""
    now = engine.mint()
    problems: dict[str, CtsqlError] = {}
    changes: list[Pending] = []
    for item in closure(engine.catalog, engine.catalog.items):
        below = [r.object_id for r in item.reads if r.object_id in problems]
        if below:
            problems[item.id] = problems[below[0]]
        elif isinstance(item, Maintained):
            try:
                engine.advance_one(item, now)
            except CtsqlError as problem:
                if not isinstance(problem, DataError) and problem.condition not in UNREADABLE:
                    raise
                problems[item.id] = problem
            if awaits_columns(engine.warehouse, item):
                problems[item.id] = not_written(item)
        if item.is_output:
            changes.append(_pending(engine, item, now, problems.get(item.id)))
    return sorted(changes, key=lambda p: p.item.name.key)


def _pending(engine: Engine, item: Item, now: int, problem: CtsqlError | None) -> Pending:
    table = engine.relations.table(item)
    assert isinstance(table, MemoryTable)  # the engine is read-only
    writes = [s for s in table.steps if s.commit.changes_data]
    return Pending(
        item=item,
        upper=max(
            table.stored_table.transaction_version(item.app, table.update()) or 0, item.created_at
        ),
        time=now,
        commits=len(writes),
        rows_inserted=sum(p.rows_count for s in writes for p in s.new_parts),
        rows_deleted=sum(len(numbers) for s in writes for numbers in s.new_victims.values()),
        problem=problem,
    )
