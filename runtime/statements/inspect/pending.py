"""SHOW PENDING: the pending changes of each output, computed but not written.

These changes would advance it to the newest T: for a view desired - stored, for a task its body's
changes at each due T. Source commits without a T get one in memory. An output has an error instead
of rows if it cannot be computed, reads such an output, or is a view whose table has the columns of
an older definition.
"""

from ctsql.catalog.dependencies import closure
from ctsql.catalog.errors import CtsqlError, DataError
from ctsql.catalog.items import Item, Maintained
from ctsql.catalog.times import CLOSED
from ctsql.runtime.delta.overlay import MemoryTable
from ctsql.runtime.engine import Engine
from ctsql.runtime.warehouse.replaced_views import awaits_columns, not_written
from ctsql.runtime.warehouse.times.replaced_tables import UNREADABLE

_COLUMNS = [
    "kind", "schema", "name", "upper", "t", "commits", "rows_to_insert", "rows_to_delete", "error",
]  # fmt: skip


def show_pending(engine: Engine) -> tuple[list[str], list[tuple[object, ...]]]:
    """The names of the columns, and a row for each output, in order of name."""
    engine = engine.read_only_twin()
    now = engine.mint()
    problems: dict[str, CtsqlError] = {}
    outputs: list[Item] = []
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
            outputs.append(item)
    outputs.sort(key=lambda i: i.name.key)
    return _COLUMNS, [_row(engine, item, now, problems.get(item.id)) for item in outputs]


def _row(engine: Engine, item: Item, now: int, problem: CtsqlError | None) -> tuple[object, ...]:
    """The values of one output; with a ``problem`` the changes are those before it."""
    table = engine.relations.table(item)
    assert isinstance(table, MemoryTable)  # the engine is read-only
    upper = max(table.update().transaction(item.app) or 0, item.created_at)
    writes = [s for s in table.steps if s.commit.changes_data]
    return (
        item.kind.value,
        item.name.schema,
        item.name.name,
        None if upper == CLOSED else upper,  # after the last refresh of a view
        now,
        len(writes),
        sum(p.rows_count for s in writes for p in s.new_parts),
        sum(len(numbers) for s in writes for numbers in s.new_victims.values()),
        None if problem is None else problem.message,
    )
