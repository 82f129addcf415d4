"""A new definition of a materialized view and of its quarantine.

CREATE OR REPLACE, ALTER MATERIALIZED VIEW, APPLY REPLACEMENT and a folder all make a
:class:`ctsql.runtime.statements.definitions.cutover.Redefinition` of the view and its quarantine.

The view keeps its table. Preparing adds columns at its end. With other columns all rows are written
again, and a view without readers counts as created at the cutover. Changed refresh times count from
the cutover; unchanged ones continue.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import quarantine_of
from ctsql.catalog.errors import not_supported
from ctsql.catalog.items import (
    Definition,
    Item,
    MaterializedView,
    altered_meanwhile,
)
from ctsql.catalog.names import quarantine_name, quote
from ctsql.catalog.refreshes import RefreshPart, Stretch
from ctsql.catalog.schemas import Schema, keeps_columns, quote_text, same_columns
from ctsql.planner.binding.binder import refresh_parts
from ctsql.planner.binding.constraints import QUARANTINE_REASON, quarantine_query
from ctsql.planner.syntax import ast as st, parse_as
from ctsql.planner.syntax.statements.constraints import constraint_text
from ctsql.planner.syntax.statements.options import NOT_NULL, STORAGE_OPTIONS
from ctsql.runtime.log.table_metadata import is_on
from ctsql.runtime.statements.objects.name_resolution import Namespace, check_free
from ctsql.runtime.warehouse.output_columns import ensure_columns
from ctsql.runtime.warehouse.replaced_views import awaits_columns, is_outdated, table_schema
from ctsql.runtime.warehouse.warehouse import Warehouse

_FEED = "delta.enableChangeDataFeed"  # the table property that asks for a change data feed


class History(Enum):
    """The action for the rows that a view had before it was replaced.

    KEPT: the table has all columns, and its history continues. CONTINUED: all rows are written with
    other columns; older rows are read by the columns that both versions have. CUT: older rows are
    not read. WAITS: an earlier replacement has decided, and is not written yet.
    """

    KEPT = "kept"
    CONTINUED = "continued"
    CUT = "cut"
    WAITS = "waits"


def with_quarantine(
    names: Namespace, view: MaterializedView, statement: st.CreateMaterializedView
) -> tuple[MaterializedView, MaterializedView | None]:
    """The view of a new statement, and its quarantine, if it has one.

    A quarantine is a view of the rows that the view leaves out; an existing one keeps id and name.
    Raises OBJECT_EXISTS, DUPLICATE_COLUMN.
    """
    catalog = names.engine.catalog
    there = quarantine_of(catalog, view)
    name = there.name if there else quarantine_name(view.name)
    text = quarantine_text(statement, [c.name for c in view.columns], name.qualified())
    if text is None:
        return replace(view, quarantine=None), None
    if there is None:
        check_free(catalog, name, statement.target.span, quiet=False)
    parsed = parse_as(st.CreateMaterializedView, text, f"quarantine of {view.name}")
    own = there or names.new(MaterializedView, name, parsed.span, None)
    bound = names.binder().bind_materialized_view(parsed, own)
    number = 0 if there is None else there.revision + 1
    typed = Definition(text=text, search_schema=names.search_schema, number=number)
    away = replace(own, definition=typed).bound(bound.columns, bound.reads)
    return replace(view, quarantine=away.id), away


def give_columns(warehouse: Warehouse, old: Item, columns: Schema, *, is_read: bool) -> History:
    """Add columns at the end of a view's table, unless it will be written under other columns.

    Stored rows have NULL in them and keep their history. A table without rows of the loaded
    definition has no history.

    Args:
        is_read: whether an object reads the view.

    Raises:
        ALTERED_MEANWHILE: a newer definition has written. Errors of columns that no table can have
            are raised before any change.
    """
    if awaits_columns(warehouse, old):
        return History.WAITS if is_read else History.CUT
    if keeps_columns(old.columns, columns):
        if not same_columns(warehouse.relations.stored_columns(old), columns):
            nullable = tuple(replace(c, nullable=True) for c in columns)
            check = partial(_check_newest, warehouse, old)
            ensure_columns(warehouse, old, nullable, exactly=True, check=check)
        return History.KEPT
    _check_takes_others(warehouse, old)
    schema = table_schema(replace(old, columns=columns))
    warehouse.relations.table(old).begin().set_columns(schema)
    return History.CONTINUED if is_read else History.CUT


def refresh_of(view: Item) -> tuple[RefreshPart, ...] | None:
    """The refresh times of a view's definition; None if it is refreshed on commit."""
    text, name = view.definition.text, f"definition of {view.name}"
    return refresh_parts(parse_as(st.CreateMaterializedView, text, name))


def counts_anew(
    before: tuple[RefreshPart, ...] | None,
    after: tuple[RefreshPart, ...] | None,
    histories: Collection[History],
) -> bool:
    """Whether refresh times count from the T at which a view is replaced; unchanged ones do not.

    ``histories``: of the view and of its quarantine, which have the same refresh times.
    """
    return before != after or (after is not None and History.CUT in histories)


def redefined_view(
    now: MaterializedView, after: MaterializedView, history: History, *, is_paced: bool
) -> MaterializedView:
    """A redefined view, on top of the newest catalog.

    Args:
        history: the action for its rows. is_paced: whether its refresh times count from the
            cutover.
    """
    continues = now.following.continues or history is History.CONTINUED
    stretches = now.following.stretches
    if is_paced:
        stretches = (*stretches, Stretch(now.created_at, refresh_of(now)))
    if history is History.CUT:
        continues, stretches = False, ()
    later = replace(
        now,
        definition=replace(after.definition, number=now.revision),
        columns=after.columns,
        comment=after.comment,
        staged_in=after.staged_in,
        quarantine=after.quarantine,
        following=replace(now.following, continues=continues, stretches=stretches),
    )
    if later == now and not is_paced and history is not History.CUT:
        return now  # no process needs to write it
    return replace(later, definition=replace(later.definition, number=now.revision + 1))


def check_history(warehouse: Warehouse, catalog: Catalog, item: Item, history: History) -> None:
    """Raise ALTERED_MEANWHILE if the decision about a view's history no longer holds."""
    readers = catalog.readers(item.id) if history is History.CUT else []
    if readers:
        raise altered_meanwhile(item, f"Another process created {readers[0].name}, which reads it.")
    if history is History.WAITS and not awaits_columns(warehouse, item):
        raise altered_meanwhile(item)


def _check_takes_others(warehouse: Warehouse, view: Item) -> None:
    """Raise NOT_SUPPORTED if Delta would refuse rows with other columns."""
    metadata = warehouse.relations.table(view).metadata
    if metadata.maps_columns and is_on(metadata.configuration, _FEED):
        what = f'other columns for materialized view "{view.name}"'
        why = (
            "Another writer has turned on column mapping for its table. Delta refuses a commit "
            "that drops columns and adds rows while the table has a change data feed."
        )
        hint = "Add columns at the end, or create a view under another name and read that one."
        raise not_supported(None, what, why=why, hint=hint)


def _check_newest(warehouse: Warehouse, item: Item) -> None:
    if is_outdated(warehouse, item):
        raise altered_meanwhile(item)


def view_text(
    view: st.CreateMaterializedView, options: Sequence[st.Option], *, name: str | None = None
) -> str:
    """The statement that creates a view with these options, under its name or a new one."""
    column_texts = [
        quote(c.name) + (f" COMMENT {quote_text(c.comment)}" if c.comment else "")
        for c in view.columns
    ]
    columns = ", ".join([*column_texts, *map(constraint_text, view.constraints)])
    parts = [
        "CREATE OR REPLACE MATERIALIZED VIEW",
        (name or view.target.span.text) + (f" ({columns})" if columns else ""),
    ]
    if view.comment is not None:
        parts.append(f"COMMENT {quote_text(view.comment)}")
    parts += _with(options)
    return " ".join([*parts, "AS", view.query.span.text])


def quarantine_text(
    view: st.CreateMaterializedView, columns: Sequence[str], name: str
) -> str | None:
    """The statement that creates the quarantine of a view; None if it needs none.

    It has the view's refresh times. ``columns``: the view's; ``name``: of the quarantine, as typed.
    """
    query = quarantine_query(view, columns)
    if query is None:
        return None
    column_list = ", ".join(map(quote, [*columns, *QUARANTINE_REASON]))
    options = [o for o in view.options if o.name not in (NOT_NULL, *STORAGE_OPTIONS)]
    parts = [f"CREATE MATERIALIZED VIEW {name} ({column_list})", *_with(options), "AS", query]
    return " ".join(parts)


def _with(options: Sequence[st.Option]) -> list[str]:
    # Several columns of one ASSERT NOT NULL are options with the same text.
    texts = dict.fromkeys(option.span.text for option in options)
    return [f"WITH ({', '.join(texts)})"] if texts else []
