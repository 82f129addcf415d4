"""A new definition of a materialized view and of its quarantine.

CREATE OR REPLACE, ALTER MATERIALIZED VIEW, APPLY REPLACEMENT and a folder all make a
:class:`ctsql.runtime.statements.definitions.cutover.Redefinition` of the view and its quarantine.

The view keeps its table and its history. With other columns all rows are written again. Changed
refresh times count from the cutover; unchanged ones continue.
"""

from collections.abc import Sequence
from dataclasses import replace

from ctsql.catalog.dependencies import quarantine_of
from ctsql.catalog.errors import not_supported
from ctsql.catalog.items import Definition, Item, MaterializedView
from ctsql.catalog.names import quarantine_name, quote
from ctsql.catalog.refreshes import RefreshPart, Stretch
from ctsql.catalog.schemas import Schema, quote_text, same_columns
from ctsql.planner.binding.binder import refresh_parts
from ctsql.planner.binding.constraints import QUARANTINE_REASON, quarantine_query
from ctsql.planner.syntax import ast as st, parse_as
from ctsql.planner.syntax.statements.constraints import constraint_text
from ctsql.planner.syntax.statements.options import STORAGE_OPTIONS
from ctsql.runtime.log.table_metadata import is_on
from ctsql.runtime.statements.objects.name_resolution import Namespace, check_free
from ctsql.runtime.warehouse.replaced_views import table_schema
from ctsql.runtime.warehouse.warehouse import Warehouse

_FEED = "delta.enableChangeDataFeed"  # the table property that asks for a change data feed


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


def check_takes_columns(warehouse: Warehouse, view: Item, columns: Schema) -> None:
    """Raise the error of columns that a view's table cannot get."""
    if same_columns(view.columns, columns):
        return
    table = warehouse.relations.table(view)
    metadata = table.metadata
    if metadata.maps_columns and is_on(metadata.configuration, _FEED):
        what = f'other columns for materialized view "{view.name}"'
        why = (
            "Another writer has turned on column mapping for its table. Delta refuses a commit "
            "that changes columns and adds rows while the table has a change data feed."
        )
        hint = "Create a view under another name and read that one."
        raise not_supported(None, what, why=why, hint=hint)
    table.begin().set_columns(table_schema(replace(view, columns=columns)))


def refresh_of(view: Item) -> tuple[RefreshPart, ...] | None:
    """The refresh times of a view's definition; None if it is refreshed on commit."""
    text, name = view.definition.text, f"definition of {view.name}"
    return refresh_parts(parse_as(st.CreateMaterializedView, text, name))


def redefined_view(
    now: MaterializedView, after: MaterializedView, *, is_paced: bool
) -> MaterializedView:
    """A redefined view, on top of the newest catalog.

    Args:
        is_paced: whether its refresh times count from the cutover.
    """
    stretches = now.following.stretches
    if is_paced:
        stretches = (*stretches, Stretch(now.created_at, refresh_of(now)))
    later = replace(
        now,
        definition=replace(after.definition, number=now.revision),
        columns=after.columns,
        comment=after.comment,
        staged_in=after.staged_in,
        quarantine=after.quarantine,
        following=replace(now.following, stretches=stretches),
    )
    if later == now:
        return now  # no process needs to write it
    return replace(later, definition=replace(later.definition, number=now.revision + 1))


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
    options = [o for o in view.options if o.name not in STORAGE_OPTIONS]
    parts = [f"CREATE MATERIALIZED VIEW {name} ({column_list})", *_with(options), "AS", query]
    return " ".join(parts)


def _with(options: Sequence[st.Option]) -> list[str]:
    texts = [option.span.text for option in options]
    return [f"WITH ({', '.join(texts)})"] if texts else []
