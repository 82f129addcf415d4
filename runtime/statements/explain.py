"""EXPLAIN: the plan of a statement or a stored object, and how views are refreshed."""

from collections.abc import Sequence
from typing import Any

from ctsql.catalog.errors import CtsqlError, Declined, not_supported
from ctsql.catalog.items import RECORDS, Item, MaterializedView, Task
from ctsql.catalog.spans import Source
from ctsql.catalog.times import CLOSED, to_iso
from ctsql.planner.binding.binder import qualify
from ctsql.planner.binding.task import bind_task
from ctsql.planner.ivm import ChangePlan
from ctsql.planner.ivm.explain import explain
from ctsql.planner.nodes import Node, ViewWrite
from ctsql.planner.syntax import ast as st, parse
from ctsql.runtime.log.actions import Commit, rows_changed
from ctsql.runtime.log.write_handle import Entry
from ctsql.runtime.statements.definitions.first_rows import source_of
from ctsql.runtime.statements.definitions.flows import compile_texts
from ctsql.runtime.statements.definitions.task_replacement import TaskReplacement
from ctsql.runtime.statements.objects.name_resolution import Namespace
from ctsql.runtime.views import expiry_table
from ctsql.runtime.views.change_plans import PreparedQuery, prepared_for
from ctsql.runtime.views.refresh_policy import (
    EXPIRIES_BY,
    RECOMPUTE_REASONS,
    Costs,
    Policy,
    Sizes,
    Strategy,
    recompute_why,
)
from ctsql.runtime.views.side_table import STATE, Pointer
from ctsql.runtime.views.state_table import STATE_DID
from ctsql.runtime.views.strategies import STRATEGIES
from ctsql.runtime.warehouse.warehouse import Warehouse

_NOT_FOLLOWED = "Incremental: no, because"
_POLICIES = {
    Policy.AUTO: "the cheaper way, by measured costs",
    Policy.INCREMENTAL: "from the tables' changes wherever possible",
    Policy.STRICT: "from the tables' changes; refused without a change plan",
    Policy.FULL: "always recompute and compare",
}


def refresh_plan(warehouse: Warehouse, plan: ViewWrite) -> list[str]:
    """The refresh plan of a view: the policy, and the rule of each operator."""
    policy = Policy(plan.policy)
    query = prepared_for(warehouse, plan)
    lines = ["", f"Refresh policy {policy.value}: {_POLICIES[policy]}"]
    refusal, how = query.refusal(), query.plan_or_reason
    if isinstance(how, ChangePlan) and refusal is not None:
        return [*lines, f"{_NOT_FOLLOWED} {query.sentence_of(refusal)}"]
    if isinstance(how, ChangePlan):
        texts = (way.headline(how, query.sentence_of) for way in STRATEGIES)
        headlines = [text for text in texts if text is not None]
        lines += explain(how, query.sentence_of, headlines[0]).splitlines()
        if how.windows:
            lines.append(_expiry_search(warehouse, query))
    counts = {}
    for name, table in query.tables.items():
        delta_table = warehouse.relations.table(warehouse.relations.item(table.object_id))
        version = delta_table.version()
        rows = counts[name] = delta_table.rows_count(version)
        rows_text = "rows not counted" if rows is None else f"{rows:,} rows"
        lines.append(f"{name} holds {rows_text} in {len(delta_table.files(version))} file(s)")
    if isinstance(how, Declined):
        followed = f"{_NOT_FOLLOWED} {query.sentence_of(how)}"
    else:
        followed = _followed(warehouse, plan, query, list(counts.values()))
    lines.insert(2, followed)
    return lines


def _followed(
    warehouse: Warehouse, plan: ViewWrite, query: PreparedQuery, counts: Sequence[int | None]
) -> str:
    """Whether the next refresh follows a small change of tables with so many rows."""
    item = next((i for i in warehouse.catalog if i.id == plan.object_id), None)
    last = None if item is None else _last_refresh(warehouse, item)
    costs = Costs() if last is None else Costs.of(last[1].metadata.get("costs"))
    sizes = Sizes(tuple(counts), tuple(0 for _ in counts), query.readings)
    why = recompute_why(Policy(plan.policy), sizes, costs)
    if why is None:
        return "Incremental: yes"
    head = _NOT_FOLLOWED if why == "POLICY_FULL" else "Incremental: not now, because"
    return f"{head} {why}: {RECOMPUTE_REASONS[why]}"


def _expiry_search(warehouse: Warehouse, query: PreparedQuery) -> str:
    """Where rows that enter or leave as time passes are searched."""
    counts = []
    for name in query.plan.windows:
        item = warehouse.relations.item(query.read_tables[name].object_id)
        delta_table = warehouse.relations.table(item)
        counts.append(delta_table.rows_count(delta_table.version()))
    where = "expiry tables of the view"
    if not any(map(expiry_table.is_worth, counts)):
        where = f"all rows, while these are fewer than {expiry_table.ROWS_MIN:,}"
    return f"as time passes: rows of {', '.join(query.plan.windows)} are searched in {where}"


def last_refresh(names: Namespace, statement: st.Explain) -> list[str]:
    """The last refresh of a stored view, by the metadata of its commit."""
    assert statement.target is not None  # EXPLAIN ANALYZE has no other form
    only = "EXPLAIN ANALYZE shows how a materialized view was refreshed. Leave ANALYZE out."
    item = names.of_kind(statement.target, MaterializedView, only=only)
    warehouse = names.engine.warehouse
    if not warehouse.relations.output(item).fetch_recent_upper():
        return [f"{item.name} was not refreshed yet"]
    last = _last_refresh(warehouse, item)
    if last is None:
        return [f"the log of {item.name} no longer holds its last refresh"]
    entry, commit = last
    metadata: dict[str, Any] = commit.metadata
    time = entry.upper - 1
    if "strategy" not in metadata:
        what = (
            "the query failed"
            if metadata.get("failed")
            else "by a process that recorded no strategy"
        )
        return [f"T {time} ({to_iso(time)}): {what}"]
    lines = [f"T {time} ({to_iso(time)}): {metadata['strategy']}"]
    why = metadata.get("why")
    if why is not None:
        lines.append(
            f"  because {why}: {RECOMPUTE_REASONS.get(why, 'its query has no change plan')}"
        )
    if metadata.get("detail"):
        lines.append(f"  {metadata['detail']}")
    if metadata["strategy"] != Strategy.RECOMPUTE.value:
        lines.append(
            f"  changed: {', '.join(metadata.get('changed', ())) or 'nothing that it reads'}"
        )
    estimates = metadata.get("estimates", {})  # by which the way was chosen
    if "changed_rows" in estimates:
        lines.append(f"  changed rows, by the logs: {estimates['changed_rows']:,}")
    if "recompute_ms" in estimates:
        lines.append(f"  recomputing was expected to take {estimates['recompute_ms']:,} ms")
    lines += _state_of(metadata)
    lines += [
        f"  rows of {name} that expire: {how}"
        for name, how in metadata.get(EXPIRIES_BY, {}).items()
    ]
    work = metadata.get("work")
    if work is not None:
        lines += [
            f"  {work['ms']:,} ms, {work['jobs']:,} Spark job(s)",
            f"  these jobs read {work['rows_read']:,} rows, {work['bytes_read']:,} bytes; what the "
            "driver read itself is not counted",
        ]
    inserted_count, deleted_count = (n or 0 for n in rows_changed(commit))
    removed_paths = {r.path for r in commit.removes}
    files = sum(1 for a in commit.adds if a.data_change and a.path not in removed_paths)
    lines.append(
        f"  inserted {inserted_count:,} and deleted {deleted_count:,} rows, in {files} new file(s)"
    )
    return lines


def _last_refresh(warehouse: Warehouse, item: Item) -> tuple[Entry, Commit] | None:
    """The newest refresh, without the commit that closes the view."""
    output, table = warehouse.relations.output(item), warehouse.relations.table(item)
    if not output.fetch_recent_upper():
        return None
    try:
        entries = output.entries(since=min(output.upper, CLOSED - 1))
    except CtsqlError as problem:
        if problem.condition != "HISTORY_LOST":
            raise
        return None
    last = next((e for e in reversed(entries) if e.upper != CLOSED), None)
    if last is None or not table.has(last.version):
        return None
    return last, table.commit_at(last.version)


def _state_of(metadata: dict[str, Any]) -> list[str]:
    """The outcome for the view's state table, if it has one or was refused one."""
    pointer = Pointer.of(metadata.get(STATE))
    if pointer is None:
        return []
    if pointer.refusal is not None:
        reason = RECOMPUTE_REASONS.get(pointer.refusal, "")
        return [f"  no state table because {pointer.refusal}: {reason}"]
    return [f"  state table at version {pointer.version}: {metadata.get(STATE_DID, 'as it was')}"]


def plan_of(names: Namespace, statement: st.Explain) -> Node:
    """The plan of a statement or a stored object: the executed value."""
    if statement.target is not None and statement.kind is not None:
        names.engine.timeline.refresh()  # for the definition of a task that is in force
        return names.engine.relations.bound(
            names.of_kind(statement.target, RECORDS[statement.kind])
        ).plan
    inner = statement.statement
    if isinstance(inner, st.CreateFlow):
        inner = parse(Source(compile_texts(names, inner).task, "the task of the flow").whole())
    match inner:
        case st.Select():
            return names.binder().bind_select(inner)
        case st.CreateView():
            return names.binder().bind_view(inner).query
        case st.CreateContinualTask():
            name = qualify(inner.target, names.search_schema)
            if inner.replaces is not None:
                return TaskReplacement(names).bound(inner, name).plan
            item = names.new(Task, name, inner.span, None)
            return bind_task(names.binder(), inner, item, names.new_outputs(inner)).plan
        case st.CreateMaterializedView():
            name = qualify(inner.target, names.search_schema)
            view = names.new(MaterializedView, name, inner.span, None)
            return names.binder().bind_materialized_view(inner, view).plan
    what = "EXPLAIN of this statement"
    why = "Only queries, views, materialized views and continual tasks have a plan."
    hint = "Type: EXPLAIN SELECT ..., or EXPLAIN CONTINUAL TASK name"
    raise not_supported(statement.span, what, why=why, hint=hint)


def explain_beginning(names: Namespace, statement: st.Explain) -> list[str]:
    """How a new task begins, if not with a snapshot of its inputs."""
    definition = statement.statement
    if not isinstance(definition, st.CreateContinualTask):
        return []
    if definition.backfill is not None:
        source_of(names, definition.backfill)
        return [f"Begins with the rows of {definition.backfill.span.text}"]
    if definition.replaces is None or definition.begin is None:
        return []
    task, t = definition.replaces.span.text, definition.begin.span.text
    return [f"Begins with what {task} held before {t}, then runs every T since"]
