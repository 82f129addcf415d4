"""EXPLAIN of how a view is refreshed, and of what its last refresh did."""

from collections.abc import Sequence
from typing import Any

from ctsql.catalog.declined import Declined
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item
from ctsql.catalog.times import CLOSED, to_iso
from ctsql.planner.ivm import ChangePlan
from ctsql.planner.ivm.explain import explain
from ctsql.planner.nodes import ViewWrite
from ctsql.runtime.log.actions import rows_changed
from ctsql.runtime.log.write_handle import Entry, Output
from ctsql.runtime.views import turn_table
from ctsql.runtime.views.change_plans import PreparedQuery, prepared_for
from ctsql.runtime.views.refresh_policy import (
    RECOMPUTE_REASONS,
    RECOMPUTED_ROWS_MAX,
    TURNS_BY,
    WORTH_MS,
    Policy,
    Strategy,
    are_small,
)
from ctsql.runtime.views.side_table import STATE, Pointer
from ctsql.runtime.views.state_table import STATE_DID
from ctsql.runtime.views.strategies import STRATEGIES
from ctsql.runtime.warehouse.warehouse import Warehouse

_NOT_FOLLOWED = "Followed: no, because"
_POLICIES = {
    Policy.AUTO: "by what costs less, as far as it is known",
    Policy.INCREMENTAL: "by changes wherever that is possible",
    Policy.STRICT: "by changes wherever that is possible; refused without a change plan",
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
    if query.leaving is not None:
        comparisons = query.leaving.comparisons
        lines.append(f"as time passes: rows of the view leave that no longer have {comparisons}")
    elif isinstance(how, ChangePlan) and how.windows:
        lines.append(_turn_search(warehouse, query))
    counts = {}
    for name, table in query.tables.items():
        delta_table = warehouse.relations.table(warehouse.relations.item(table.object_id))
        version = delta_table.version()
        rows = counts[name] = delta_table.rows_count(version)
        rows_text = "rows not counted" if rows is None else f"{rows:,} rows"
        lines.append(f"{name} holds {rows_text} in {len(delta_table.files(version))} file(s)")
    followed = _followed(policy, list(counts.values()))
    if isinstance(how, Declined):
        followed = f"{_NOT_FOLLOWED} {query.sentence_of(how)}"
    lines.insert(2, followed)
    return lines


def _followed(policy: Policy, counts: Sequence[int | None]) -> str:
    """Whether a view with a change plan follows the changes of tables with so many rows."""
    if policy is Policy.FULL:
        return f"{_NOT_FOLLOWED} POLICY_FULL: {RECOMPUTE_REASONS['POLICY_FULL']}"
    if policy is Policy.AUTO and are_small(counts):
        return (
            f"Followed: not yet, because SMALL_TABLES: {RECOMPUTE_REASONS['SMALL_TABLES']}, below "
            f"{RECOMPUTED_ROWS_MAX:,} rows in all and {WORTH_MS // 1000} s"
        )
    return "Followed: yes"


def _turn_search(warehouse: Warehouse, query: PreparedQuery) -> str:
    """Where the rows that come or go as time passes are looked for."""
    counts = []
    for name in query.plan.windows:
        item = warehouse.relations.item(query.read_tables[name].object_id)
        delta_table = warehouse.relations.table(item)
        counts.append(delta_table.rows_count(delta_table.version()))
    where = "turn tables beside the view"
    if not any(map(turn_table.is_worth, counts)):
        where = f"all rows, while these are fewer than {turn_table.ROWS_MIN:,}"
    return f"as time passes: rows of {', '.join(query.plan.windows)} are looked for in {where}"


def last_refresh(warehouse: Warehouse, item: Item) -> list[str]:
    """The last refresh of a view, by the metadata of its commit."""
    output = warehouse.relations.output(item)
    upper = output.fetch_recent_upper()
    if not upper:
        return [f"{item.name} was not refreshed yet"]
    table = warehouse.relations.table(item)
    last = _last_refresh(output)
    if last is None or not table.has(last.version):
        return [f"the log of {item.name} no longer holds its last refresh"]
    commit = table.commit_at(last.version)
    metadata: dict[str, Any] = commit.metadata
    time = last.upper - 1
    if "strategy" not in metadata:
        what = "the query failed" if metadata.get("failed") else "by a process that did not say how"
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
    lines += _state_of(metadata)
    lines += [
        f"  rows of {name} that turn: {how}" for name, how in metadata.get(TURNS_BY, {}).items()
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


def _last_refresh(output: Output) -> Entry | None:
    """The newest commit that is one: not that which says that there will be none any more."""
    try:
        entries = output.entries(since=min(output.upper, CLOSED - 1))
    except CtsqlError as problem:
        if problem.condition != "HISTORY_LOST":
            raise
        return None
    return next((e for e in reversed(entries) if e.upper != CLOSED), None)


def _state_of(metadata: dict[str, Any]) -> list[str]:
    """The outcome for the view's state table, if it has one or was refused one."""
    pointer = Pointer.of(metadata.get(STATE))
    if pointer is None:
        return []
    if pointer.refusal is not None:
        reason = RECOMPUTE_REASONS.get(pointer.refusal, "")
        return [f"  no state table because {pointer.refusal}: {reason}"]
    return [f"  state table at version {pointer.version}: {metadata.get(STATE_DID, 'as it was')}"]
