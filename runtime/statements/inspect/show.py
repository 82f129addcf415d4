"""SHOW, DESCRIBE and SHOW CREATE: the catalog as rows."""

import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ctsql.catalog import times
from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import outputs_of, outputs_or_itself
from ctsql.catalog.errors import NotSupported, StatementError, error
from ctsql.catalog.items import Item, MaterializedView, ObjectKind, Table, Task, TaskOutput
from ctsql.catalog.names import Name, fold, quote
from ctsql.catalog.refreshes import refresh_text
from ctsql.catalog.schemas import Column, commented
from ctsql.catalog.spans import Span
from ctsql.catalog.system_tables import (
    SYSTEM_SCHEMA,
    SYSTEM_TABLES,
    SystemTable,
    find_system_table,
    is_system,
)
from ctsql.catalog.times import CLOSED
from ctsql.planner.binding.binder import qualify
from ctsql.planner.binding.checks import check_holds_rows, creatable_names
from ctsql.planner.binding.definitions import definition_span
from ctsql.planner.literals import literal
from ctsql.planner.nodes import Constraint, ViewWrite
from ctsql.planner.syntax import ast as st, parse, parse_as, splice
from ctsql.planner.syntax.ast import OnViolation
from ctsql.planner.syntax.tokens.name_scopes import QualifiedNames
from ctsql.planner.syntax.tokens.tokenizer import tokenise
from ctsql.runtime.delta.log.local_log import NeedsSpark
from ctsql.runtime.log import clock
from ctsql.runtime.log.table_metadata import TableMetadata
from ctsql.runtime.log_reader import LocalLogReader, LogReader
from ctsql.runtime.monitoring.status import OutputStatus, status_of
from ctsql.runtime.statements.dml.stored_rules import (
    stored_constraints,
    stored_default,
)
from ctsql.runtime.subscriptions.cursors import Readers
from ctsql.runtime.tasks.progress import complete_through
from ctsql.runtime.tasks.tallies import tallies_of
from ctsql.runtime.warehouse.table_checks import are_there

NamedRows = tuple[list[str], list[tuple[object, ...]]]

_KINDS = {
    "tables": (ObjectKind.TABLE,),
    "views": (ObjectKind.VIEW,),
    "materialized views": (ObjectKind.MATERIALIZED_VIEW,),
    "continual tasks": (ObjectKind.CONTINUAL_TASK,),
    "task outputs": (ObjectKind.TASK_OUTPUT,),
    "objects": tuple(k for k in ObjectKind if k is not ObjectKind.SCHEMA),
}


def show_objects(engine: LogReader, statement: st.Show, search_schema: str) -> NamedRows:
    """SHOW TABLES, SHOW COLUMNS and the like."""
    catalog = engine.refresh_catalog()
    if statement.what == "schemas":
        schemas = {SYSTEM_SCHEMA: SYSTEM_SCHEMA, **catalog.schemas}
        schema_names = sorted(n for n in schemas.values() if is_like(n, statement.like))
        return ["schema"], [(n,) for n in schema_names]
    if statement.target is not None:
        ref = statement.target
        system = _system_table(catalog, ref, search_schema)
        if system is not None:
            names = (c for c in system.columns if is_like(c.name, statement.like))
            return ["column", "type"], [(c.name, c.type) for c in names]
        item = catalog.get(qualify(ref, search_schema), span=ref.span)
        check_holds_rows(catalog, item, ref.span)
        columns = engine.relations.columns_now(item)
        like = statement.like
        return ["column", "type"], [(c.name, c.type) for c in columns if is_like(c.name, like)]
    schema = fold(statement.schema) if statement.schema else None
    if schema is not None and schema not in catalog.schemas and schema != SYSTEM_SCHEMA:
        raise error("UNKNOWN_SCHEMA", span=statement.schema_span, name=statement.schema)
    if statement.what == "dropped":
        return _show_dropped(catalog, statement, schema)
    kinds = _KINDS[statement.what]
    items = [
        i
        for i in sorted(catalog, key=lambda i: i.name.key)
        if i.kind in kinds
        and schema in (None, fold(i.name.schema))
        and is_like(i.name.name, statement.like)
    ]
    if statement.what in ("continual tasks", "materialized views"):
        with engine.as_stored():
            return _outputs(engine, items, has_input=statement.what == "continual tasks")
    if statement.what == "task outputs":
        tasks = [catalog.items[i.owner].name.qualified() for i in items]
        return (
            ["schema", "name", "task", "comment"],
            [(i.name.schema, i.name.name, t, i.comment) for i, t in zip(items, tasks, strict=True)],
        )
    rows: list[tuple[object, ...]] = [
        (i.name.schema, i.name.name, i.kind.value, i.comment) for i in items
    ]
    if schema == SYSTEM_SCHEMA and ObjectKind.TABLE in kinds:
        item_names = {fold(i.name.name) for i in catalog if is_system(i.name.schema)}
        rows += [
            (SYSTEM_SCHEMA, t.name, "system table", t.about)
            for t in SYSTEM_TABLES.values()
            if t.name not in item_names and is_like(t.name, statement.like)
        ]
    return ["schema", "name", "kind", "comment"], rows


def _system_table(catalog: Catalog, ref: st.RelationRef, search_schema: str) -> SystemTable | None:
    """The system table of a reference; an object of that name takes precedence."""
    name = qualify(ref, search_schema)
    return find_system_table(name) if catalog.find(name) is None else None


def _outputs(engine: LogReader, items: list[Item], *, has_input: bool) -> NamedRows:
    columns = ["schema", "name", *(["input"] if has_input else []), "upper", "complete_through"]
    columns += ["state", "lag_ms", "lag_versions", "last_error", "comment"]
    engine.timeline.refresh()
    rows: list[tuple[object, ...]] = []
    for item in items:
        status = status_of(engine, item)
        is_readable = status.problem is None
        input_items = engine.relations.followed(item) if has_input and is_readable else []
        inputs = ", ".join(str(i.name) for i in input_items)
        through = complete_through(engine.warehouse, [item]) if is_readable else None
        rows.append(
            (
                item.name.schema,
                item.name.name,
                *([inputs] if has_input else []),
                status.upper if is_readable and status.upper != CLOSED else None,
                through,
                status.state.value,
                status.lag.milliseconds,
                status.lag.versions,
                _error_text(status),
                item.comment,
            )
        )
    return columns, rows


def _error_text(status: OutputStatus) -> str | None:
    if status.last_error is None:
        return None
    _, time, message = status.last_error
    return message if time is None else f"T = {time} ({times.to_iso(time)}): {message}"


def is_like(name: str, pattern: str | None) -> bool:
    """Spark's SHOW patterns: * for any text, | for or; and SQL's % and _."""
    if pattern is None:
        return True
    alternatives = pattern.replace("%", "*").replace("_", "?").split("|")
    return any(fnmatch.fnmatchcase(fold(name), fold(p.strip())) for p in alternatives)


def describe(engine: LogReader, statement: st.Describe, search_schema: str) -> NamedRows:
    """DESCRIBE [EXTENDED] name."""
    ref = statement.target
    columns = ["column", "type", "nullable", "comment"]
    system = _system_table(engine.refresh_catalog(), ref, search_schema)
    if system is not None:
        return columns, [_described(c) for c in system.columns]
    item = engine.catalog.get(qualify(ref, search_schema), span=ref.span)
    outputs = outputs_of(engine.catalog, item)
    rows = [
        _described(c, f"{o.name}." if outputs else "")
        for o in outputs or [item]
        for c in _columns(engine, o)
    ]
    if statement.extended:
        details: list[tuple[str, object]] = [
            ("kind", item.kind.value),
            ("name", item.name.qualified()),
            ("location", item.location),
            ("comment", item.comment),
            (
                "written by" if isinstance(item, TaskOutput) else "reads",
                ", ".join(engine.catalog.items[r.object_id].name.qualified() for r in item.reads),
            ),
            (
                "writes" if outputs else "read by",
                ", ".join(r.name.qualified() for r in outputs or engine.catalog.readers(item.id)),
            ),
        ]
        if item.is_output or outputs:
            details.append(("created at T", _time_text(item.created_at)))
            upper = engine.versions.stored_upper(item)
            details.append(("upper", "closed" if upper == times.CLOSED else _time_text(upper)))
            details += _refreshes(engine, item)
        details += _constraints(engine, item)
        rows.append(("", "", "", None))
        rows += [(f"# {k}", str(v), "", None) for k, v in details if v not in (None, "")]
    return columns, rows


def _described(column: Column, of: str = "") -> tuple[object, ...]:
    nullability = "" if column.nullable else "NOT NULL"
    return f"{of}{column.name}", column.type, nullability, column.comment


def _time_text(time: int) -> str:
    return f"{time} ({times.to_iso(time)})"


def _show_dropped(catalog: Catalog, statement: st.Show, schema: str | None) -> NamedRows:
    """SHOW DROPPED: what UNDROP can restore, the newest first."""
    rows: list[tuple[object, ...]] = [
        (i.name.schema, i.name.name, i.kind.value, times.to_iso(drop.at_ms))
        for drop in catalog.drops.values()
        for i in sorted(drop.check().items, key=lambda i: i.name.key)
        if schema in (None, fold(i.name.schema)) and is_like(i.name.name, statement.like)
    ]
    return ["schema", "name", "kind", "dropped"], rows


def _columns(engine: LogReader, item: Item) -> tuple[Column, ...]:
    """An object's current columns, with the catalog's comments."""
    return commented(item.columns, engine.relations.columns_now(item))


def _constraints(engine: LogReader, item: Item) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = []
    if isinstance(item, Table):
        configuration = engine.relations.table(item).configuration()
        rows += ((f"constraint {c.name}", c.rule) for c in stored_constraints(configuration))
    elif isinstance(item, Task):
        rows += _bound_constraints(engine.relations.bound(item).task.transaction.constraints)
    elif isinstance(item, MaterializedView):
        rows += _bound_constraints(engine.relations.bound(item).view.constraints)
    else:
        return []
    if item.quarantine is not None:
        rows.append(("quarantine", engine.catalog.items[item.quarantine].name.qualified()))
    return rows


def _bound_constraints(constraints: Sequence[Constraint]) -> Iterator[tuple[str, object]]:
    for one in constraints:
        name = f"constraint {one.name}{f' of {one.of}' if one.of else ''}"
        yield name, f"{one.rule} ON VIOLATION {one.action.value}"


def _refreshes(engine: LogReader, item: Item) -> list[tuple[str, object]]:
    plan = engine.relations.bound(item).plan
    if not isinstance(plan, ViewWrite):
        return []
    rows: list[tuple[str, object]] = [("refresh", refresh_text(plan.refresh))]
    if plan.refresh is not None:
        engine.timeline.refresh()
        schedule = engine.schedules.schedule(item)
        assert schedule is not None  # REFRESH prints the same
        time = schedule.round_up(max(engine.timeline.now, clock.now_ms()) + 1)
        rows.append(("next refresh", "none" if time == CLOSED else times.to_iso(time)))
    return rows


def show_subscriptions(engine: LogReader) -> NamedRows:
    """SHOW SUBSCRIPTIONS: each named reader with its object and position."""
    columns = ["reader", "schema", "name", "position", "lag_ms"]
    rows: list[tuple[object, ...]] = []
    engine.timeline.refresh()
    for subscription, item, position in Readers(engine).list_all():
        lag = max(engine.timeline.now + 1 - position.next, 0)
        name = item.name
        rows.append((subscription.name, name.schema, name.name, position.next, lag))
    return columns, rows


def show_create(engine: LogReader, statement: st.Show, search_schema: str) -> NamedRows:
    """SHOW CREATE name: the definition as typed, with current names; a table as it is now."""
    ref = statement.target
    assert ref is not None  # SHOW CREATE names one
    item = engine.refresh_catalog().get(qualify(ref, search_schema), span=ref.span)
    if statement.kind is not None and item.kind is not statement.kind:
        hint = f"Type: SHOW CREATE {item.kind.keyword} {item.name}"
        raise item.wrong_kind(statement.kind.value, hint, ref.span)
    engine.timeline.refresh()  # for the definition of a task that is in force
    item = engine.relations.current(engine.refresh_catalog().items[item.id])
    text = ";\n".join([current_definition(engine, item), *renames(engine, item)])
    return ["name", "create_statement"], [(str(item.name), text)]


def current_definition(engine: LogReader, item: Item) -> str:
    """The definition of an object with the current names of all objects.

    A table's is made from its log; :func:`renames` has the rest of it.
    """
    if isinstance(item, Table) and not item.managed:
        return f"CREATE TABLE {_table_name(item)} LOCATION {literal(item.location)}"
    span = definition_span(item)
    try:
        statement = parse(span)
    except (StatementError, NotSupported):
        return item.definition.text  # written by a newer version of ctsql
    texts: list[st.SqlText] = []
    body: tuple[st.BodyStatement, ...] = ()
    targets: list[st.RelationRef] = []
    meaning: dict[Name, Item] = {}
    named: list[tuple[st.RelationRef | None, str | None]] = []
    edits: list[st.Edit] = []
    items = engine.catalog.items
    match statement:
        case st.CreateView():
            texts, targets = [statement.query], [statement.target]
        case st.CreateMaterializedView():
            texts, targets = [statement.query], [statement.target]
            named = [(statement.replaces, item.replaces)]
        case st.CreateContinualTask():
            outputs = [o.target for o in statement.outputs]
            of = items.get(item.replaces or "", item)  # whose outputs it names
            for ref, output in zip(outputs, outputs_of(engine.catalog, of), strict=True):
                meaning[qualify(ref, item.search_schema)] = output
            body_refs = [p.target for p in statement.body]
            targets = [statement.target, *outputs, *(i.ref for i in statement.inputs), *body_refs]
            body = statement.body
            texts = [text for part in body for text in st.texts_of(part)]
            texts += [i.rows for i in statement.inputs if i.rows is not None]
            backfill = item.backfill if isinstance(item, Task) else None
            named = [(statement.replaces, item.replaces), (statement.backfill, backfill)]
            gone = statement.backfill is not None and backfill not in items
            if gone and statement.beginning_span is not None:
                edits.append(_without(statement.beginning_span))
        case st.CreateTable():
            return _table_definition(engine, item, statement)
        case _:
            return item.definition.text
    own = qualify(targets[0], item.search_schema) if targets else item.name
    meaning[own] = item
    for reading in item.reads:
        meaning[reading.name] = items[reading.object_id]
    for named_ref, object_id in named:  # named, and not read
        if named_ref is not None and object_id in items:
            targets.append(named_ref)
            meaning.setdefault(qualify(named_ref, item.search_schema), items[str(object_id)])
    if targets and item.name == own:
        edits += _in_its_letters(targets[0], item)
    edits += rename_edits(targets, texts, body, item.search_schema, meaning, span)
    return splice(span, edits).text


def _table_definition(engine: LogReader, item: Item, statement: st.CreateTable) -> str:
    """The CREATE TABLE of a table like this one, without rows.

    Columns, defaults and constraints are those in its log; the clauses after them are as typed.
    """
    metadata, entries = engine.relations.table(item).metadata, list[str]()
    for column, name in _columns_and_names(engine, item):
        default = stored_default(metadata, column.name)
        entries.append(
            replace(column, name=name).ddl() + (f" DEFAULT {default}" if default else "")
        )
    entries += (one.text for one in stored_constraints(metadata.configuration))
    head = f"CREATE TABLE {_table_name(item)} ({', '.join(entries)})"
    return f"{head} {_clauses(statement, metadata)}".rstrip()


def renames(engine: LogReader, item: Item) -> list[str]:
    """The ALTER TABLEs after a table's definition, for column names that CREATE TABLE refuses."""
    if not isinstance(item, Table) or not item.managed:
        return []
    return [
        f"ALTER TABLE {_table_name(item)} RENAME COLUMN {quote(name)} TO {quote(column.name)}"
        for column, name in _columns_and_names(engine, item)
        if column.name != name
    ]


def _columns_and_names(engine: LogReader, item: Item) -> Iterable[tuple[Column, str]]:
    """A table's columns, each with a name that CREATE TABLE accepts."""
    columns = _columns(engine, item)
    return zip(columns, creatable_names(columns), strict=True)


def _table_name(item: Item) -> str:
    is_near = fold(item.name.schema) == fold(item.search_schema)
    return quote(item.name.name) if is_near else item.name.qualified()


def _clauses(statement: st.CreateTable, metadata: TableMetadata) -> str:
    """The clauses after the columns, with current column names; without LOCATION and AS."""
    span, query = statement.span, statement.query
    start, stop = (statement.columns_span or statement.target.span).stop, span.stop
    if query is not None:
        before = tokenise(Span(span.source, start, query.span.start))
        has_as = bool(before) and before[-1].upper == "AS"
        stop = before[-1].span.start if has_as else query.span.start
    clauses = Span(span.source, start, stop)
    now = {fold(c.physical): c.name for c in metadata.columns.values()}
    edits = [
        st.Edit(span=token.span, text=quote(now[name]))
        for token in tokenise(clauses)
        if token.is_name and (name := fold(token.text)) in now and fold(now[name]) != name
    ]
    return splice(clauses, edits).text.strip()


def _in_its_letters(target: st.RelationRef, item: Item) -> Iterator[st.Edit]:
    """The edit for the case that RENAME TO gave a name."""
    if target.parts[-1] != item.name.name:
        text = quote(item.name.name) if len(target.parts) == 1 else item.name.qualified()
        yield st.Edit(span=target.name_span, text=text)


def view_definition(engine: LogReader, item: Item) -> st.CreateMaterializedView:
    """The definition of a materialized view with current names."""
    text = current_definition(engine, item)
    return parse_as(st.CreateMaterializedView, text, f"definition of {item.name}")


def _without(clause: Span) -> st.Edit:
    """The edit that removes a clause, with the blank before it."""
    source, start = clause.source, clause.start
    blank = source.text[start - 1 : start].isspace()
    return st.Edit(span=Span(source, start - blank, clause.stop), text="")


def rename_edits(
    refs: Iterable[st.RelationRef],
    texts: Sequence[st.SqlText],
    body: Iterable[st.BodyStatement],
    schema: str,
    meaning: Mapping[Name, Item],
    definition: Span,
) -> Iterator[st.Edit]:
    """The edits that rename references; the old name becomes an alias if it qualifies columns.

    Args:
        refs: those outside of ``texts``, the definition's SQL. body: its statements. schema: of
            unqualified names.
    """
    qualifiers: dict[st.RelationRef, str] = {}
    for ref in dict.fromkeys([*refs, *(r for text in texts for r in text.relations)]):
        name = qualify(ref, schema)
        now = meaning.get(name)
        if now is None or now.name == name:
            continue
        same_schema = fold(now.name.schema) == fold(name.schema) and len(ref.parts) == 1
        text = quote(now.name.name) if same_schema else now.name.qualified()
        yield st.Edit(span=ref.name_span, text=text)
        qualifiers[ref] = now.name.qualified()
        if not ref.aliased and _has_columns_of(ref.parts[-1], definition):
            qualifiers[ref] = quote(ref.parts[-1])
            place = ref.alias_place or ref.span.behind
            yield st.Edit(span=place, text=f" AS {qualifiers[ref]}")
    for place, ref in QualifiedNames(texts, schema).qualifiers():
        if ref in qualifiers:
            yield st.Edit(span=place, text=qualifiers[ref])
    for part in body:
        for assignment in st.assignments_of(part):
            if assignment.qualifier[1:] and part.target in qualifiers:
                yield st.Edit(span=assignment.span, text=quote(assignment.column))


def _has_columns_of(name: str, definition: Span) -> bool:
    """Whether a name alone qualifies a column or a star somewhere in a definition."""
    tokens = tokenise(definition)
    return any(
        token.is_name and fold(token.text) == fold(name) and behind.upper == "."
        for before, token, behind in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if before.upper != "."
    )


_COLUMNS = [
    "schema", "name", "constraint_name", "rule", "on_violation", "rows", "last_rows", "last_at",
]  # fmt: skip


def show_constraints(engine: LogReader, statement: st.Show, search_schema: str) -> NamedRows:
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
    """The rows of one object, or of the outputs of a task."""
    if item.problem:
        return
    if isinstance(item, Task):
        plan = engine.relations.bound(item).task
        for output in outputs_or_itself(engine.catalog, item):
            constraints = plan.transaction.constraints_of(output.id)
            tallies = tallies_of(engine.relations.table(output).domains()[1]) if constraints else {}
            for constraint in constraints:
                tally = tallies.get(constraint.name)
                counts: tuple[int, int, int | None] = (0, 0, None)
                if tally is not None and tally.rule == constraint.rule:
                    counts = (tally.rows, tally.last_rows, tally.last_t)
                yield _row(output, constraint, *counts)
    if isinstance(item, MaterializedView):
        yield from _of_view(engine, item)
    if isinstance(item, Table) and are_there(engine.relations, [item]):
        fail = OnViolation.FAIL.value.lower()  # Delta refuses commits that break one
        for one in stored_constraints(engine.relations.table(item).configuration()):
            yield (item.name.schema, item.name.name, one.name, one.rule, fail, 0, 0, None)


def _of_view(engine: LogReader, view: Item) -> Iterator[tuple[object, ...]]:
    """The numbers of stored rows that break a view's constraints now."""
    constraints = engine.relations.bound(view).view.constraints
    if not constraints:
        return
    if isinstance(engine, LocalLogReader):
        raise NeedsSpark("the rows of a view that break its constraints")
    from ctsql.runtime.views.broken_rows import count_broken  # imports Spark

    counts, time = count_broken(engine.warehouse, view) or ({}, None)
    for constraint in constraints:
        rows = counts.get(constraint.name, 0)
        yield _row(view, constraint, rows, rows, time if rows else None)


def _row(
    item: Item, constraint: Constraint, rows: int, last_rows: int, last_t: int | None
) -> tuple[object, ...]:
    name, action = item.name, constraint.action.value.lower()
    last_at = None if last_t is None else times.to_iso(last_t)
    rule = constraint.rule
    return (name.schema, name.name, constraint.name, rule, action, rows, last_rows, last_at)
