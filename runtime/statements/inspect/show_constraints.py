"""SHOW CONSTRAINTS: the rules for rows, and how many rows broke them."""

from collections.abc import Iterator, Mapping

from ctsql.catalog import times
from ctsql.catalog.dependencies import outputs_of
from ctsql.catalog.items import Item, MaterializedView, Table, Task
from ctsql.planner.binding.binder import qualify
from ctsql.planner.nodes import Constraint
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.ast import OnViolation
from ctsql.runtime.delta.log.local_log import NeedsSpark
from ctsql.runtime.log_reader import LocalLogReader, LogReader
from ctsql.runtime.statements.dml.stored_rules import stored_constraints
from ctsql.runtime.statements.inspect.show import Rows
from ctsql.runtime.tasks.tallies import Tally, tallies_of
from ctsql.runtime.warehouse.table_checks import are_there

_COLUMNS = [
    "schema", "name", "constraint_name", "rule", "on_violation", "rows", "last_rows", "last_at",
]  # fmt: skip


def show_constraints(engine: LogReader, statement: st.Show, search_schema: str) -> Rows:
    """Each constraint with the rows that broke it, in total and at the newest such T."""
    catalog = engine.refresh_catalog()
    items = sorted(catalog, key=lambda i: i.name.key)
    if statement.target is not None:
        ref = statement.target
        items = [catalog.get(qualify(ref, search_schema), span=ref.span)]
    with engine.as_stored():
        engine.timeline.refresh()
        return _COLUMNS, [row for item in items for row in _of(engine, item)]


def _of(engine: LogReader, item: Item) -> Iterator[tuple[object, ...]]:
    """The lines of an object; of a task with several outputs those of each."""
    if item.problem:
        return
    if isinstance(item, Task):
        yield from _of_task(engine, item)
    if isinstance(item, MaterializedView):
        yield from _of_view(engine, item)
    if isinstance(item, Table) and are_there(engine.relations, [item]):
        yield from _of_table(engine, item)


def _of_table(engine: LogReader, item: Item) -> Iterator[tuple[object, ...]]:
    """The CHECKs of a table; Delta refuses commits that break one."""
    for one in stored_constraints(engine.relations.table(item).configuration()):
        fail = OnViolation.FAIL.value.lower()
        yield (item.name.schema, item.name.name, one.name, one.rule, fail, 0, 0, None)


def _of_view(engine: LogReader, view: Item) -> Iterator[tuple[object, ...]]:
    """The numbers of stored rows that break a view's constraints now."""
    constraints = engine.relations.bound(view).view.constraints
    if not constraints:
        return
    if isinstance(engine, LocalLogReader):
        raise NeedsSpark("the rows of a view that break its constraints")
    from ctsql.runtime.views.broken_rows import count_broken  # imports Spark

    counts_and_time = count_broken(engine.warehouse, view)
    for constraint in constraints:
        rows = 0 if counts_and_time is None else counts_and_time[0][constraint.name]
        at = None if counts_and_time is None or not rows else times.to_iso(counts_and_time[1])
        yield (*_description(view, constraint), rows, rows, at)


def _of_task(engine: LogReader, task: Item) -> Iterator[tuple[object, ...]]:
    plan = engine.relations.bound(task).task
    for output in outputs_of(engine.catalog, task) or [task]:
        constraints = plan.transaction.constraints_of(output.id)
        if not constraints:
            continue
        tallies = tallies_of(engine.relations.table(output).domains()[1])
        for constraint in constraints:
            yield (*_description(output, constraint), *_tally_of(tallies, constraint))


def _description(item: Item, constraint: Constraint) -> tuple[str, ...]:
    return (
        item.name.schema,
        item.name.name,
        constraint.name,
        constraint.rule,
        constraint.action.value.lower(),
    )


def _tally_of(tallies: Mapping[str, Tally], constraint: Constraint) -> tuple[int, int, str | None]:
    """The rows that broke a constraint in total and at the newest T, and that T."""
    tally = tallies.get(constraint.name)
    if tally is None or tally.rule != constraint.rule:
        return 0, 0, None
    return tally.rows, tally.last_rows, times.to_iso(tally.last_t)
