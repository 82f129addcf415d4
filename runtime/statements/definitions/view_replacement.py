"""CREATE REPLACEMENT MATERIALIZED VIEW, and ALTER MATERIALIZED VIEW ... APPLY REPLACEMENT.

A replacement is a separate materialized view, built and kept up to date next to the view. Applying
it gives the view its definition from one T on and removes it, in one step. The view's table gets
the difference to the replacement's rows, so followers of the view see only that difference.

    r is advanced to now --> decided at T: v has r's query, r is gone --> v gets what differs
                                    |
                                    +-- the next reader of v does this, if the process dies here
"""

from dataclasses import replace

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import (
    check_no_cycle,
    owner_of_quarantine,
    parts_of,
    replacement_of,
)
from ctsql.catalog.errors import CtsqlError, error, not_supported
from ctsql.catalog.items import (
    Item,
    MaterializedView,
    ObjectKind,
    Record,
    Task,
    TaskOutput,
    was_dropped,
)
from ctsql.catalog.schemas import same_columns, shown_columns
from ctsql.catalog.spans import Span
from ctsql.planner.syntax import ast as st, parse_as
from ctsql.planner.syntax.statements.options import STORAGE_OPTIONS
from ctsql.runtime.statements.definitions.create import Creation
from ctsql.runtime.statements.definitions.cutover import as_prepared, cut_over
from ctsql.runtime.statements.definitions.view_change import (
    view_text,
)
from ctsql.runtime.statements.inspect.show import view_definition
from ctsql.runtime.statements.objects.name_resolution import Namespace, OnNames
from ctsql.runtime.statements.objects.refresh_view import check_not_finished
from ctsql.runtime.tasks.progress import check_not_suspended

_KIND = ObjectKind.MATERIALIZED_VIEW
_READS_IT = "The query of its replacement reads it, directly or through other views."


class Replacement(OnNames):
    """Builds and applies replacements; each method returns the status line."""

    def create(self, statement: st.CreateMaterializedView) -> str:
        """CREATE REPLACEMENT MATERIALIZED VIEW name FOR view: built at once.

        Raises:
            REPLACEMENT_COLUMNS_DIFFER, REPLACEMENT_EXISTS, REPLACEMENT_OF_ANOTHER.
                RECURSIVE_DEFINITION: the query reads the view.
        """
        assert statement.replaces is not None  # else it is no replacement
        view = self.names.of_kind(statement.replaces, MaterializedView)
        name = self.names.free(statement.target, _KIND, quiet=statement.if_not_exists)
        if name is None:
            return "CREATE REPLACEMENT MATERIALIZED VIEW (exists already)"
        check_replaceable(self.engine.catalog, view, statement.replaces.span)
        check_not_finished(self.engine, view)
        for option in statement.options:
            if option.name in STORAGE_OPTIONS:
                what = f"{option.name} of a replacement"
                why = "The view keeps its own table and its storage options."
                hint = "Leave it out."
                raise not_supported(option.span, what, why=why, hint=hint)
        creation = Creation(self.names)
        item, away, bound = creation.materialized_view(statement, name, None)
        item = replace(item, replaces=view.id)
        self._check_fits(item, view, statement.query.span)
        parts = [away] if away else []
        with creation.built(item, bound, parts, has_vectors=True) as items:
            creation.register(*items, check=check_alone)
        return "CREATE REPLACEMENT MATERIALIZED VIEW"

    def _check_fits(self, item: Item, view: Item, span: Span | None) -> None:
        """Raise if a view cannot get the definition of a replacement, or is finished."""
        check_same_columns(item, view, span)
        check_no_cycle(self.engine.catalog, view, item.reads, span, _READS_IT)
        check_not_finished(self.engine, view)

    def apply(self, statement: st.ApplyReplacement) -> str:
        """ALTER MATERIALIZED VIEW name APPLY REPLACEMENT replacement.

        Raises:
            REPLACEMENT_OF_ANOTHER: not a replacement of this view. DEPENDENT_OBJECTS: an object
                follows the replacement. VIEW_FAILED: its query cannot be computed; nothing changes.
        """
        engine, span = self.engine, statement.replacement.span
        view, replacement = to_apply(self.names, statement, MaterializedView)
        self._check_fits(replacement, view, span)
        going = [replacement, *parts_of(engine.catalog, replacement)]
        views = [view, *parts_of(engine.catalog, view), *going]
        engine.advance(views, engine.mint_for(views))
        names = self.names.in_schema(replacement.search_schema)
        change = Creation(names).redefined(view, self._definition(view, replacement))
        built = {view.id: replacement.id, view.quarantine: replacement.quarantine}

        def with_rows_there(item: Item) -> Item:
            origin = built[item.id]
            if origin is None or not isinstance(item, MaterializedView):
                return item
            return replace(item, staged_in=(origin, item.revision))

        changes = [(before, with_rows_there(after)) for before, after in change.changes]

        def check(current: Catalog) -> None:
            reads = as_prepared(current, replacement).reads
            check_no_cycle(current, view, reads, span, _READS_IT)

        drop = (*going, *change.drop)
        change = replace(change, changes=tuple(changes), drop=drop, check=check, span=span)
        cut_over(engine, change)
        return "ALTER MATERIALIZED VIEW"

    def _definition(self, view: Item, replacement: Item) -> st.CreateMaterializedView:
        """The statement that creates the view with its replacement's query, where it is stored."""
        definition = view_definition(self.engine, replacement)
        before = view_definition(self.engine, view)
        kept_options = [o for o in before.options if o.name in STORAGE_OPTIONS]
        options, name = [*definition.options, *kept_options], view.name.qualified()
        text = view_text(definition, options, name=name)
        return parse_as(st.CreateMaterializedView, text, f"definition of {view.name}")


def check_replaceable(catalog: Catalog, item: Item, span: Span | None) -> None:
    """Raise REPLACEMENT_EXISTS, or NOT_SUPPORTED for a part of another object."""
    there = replacement_of(catalog, item.id)
    if there is not None:
        raise exists_already(item, there, span)
    why = "It is a replacement itself." if item.replaces is not None else ""
    owner = owner_of_quarantine(catalog, item)
    if owner is not None:
        why = f'It is the quarantine of "{owner.name}", and is replaced with it.'
    if item.flow:
        why = "It is a part of a flow, which is replaced by CREATE OR REPLACE FLOW."
    if why:
        raise not_supported(span, f'a replacement for "{item.name}"', why=why)


def to_apply(
    names: Namespace, statement: st.ApplyReplacement, record: type[Record]
) -> tuple[Record, Record]:
    """An object and its replacement, as ALTER ... APPLY REPLACEMENT names them.

    Raises REPLACEMENT_OF_ANOTHER, and TASK_SUSPENDED if one of them is suspended.
    """
    item = names.of_kind(statement.target, record)
    replacement = names.of_kind(statement.replacement, record)
    if replacement.replaces != item.id:
        raise _of_another(names.engine.catalog, replacement, item, statement.replacement.span)
    check_not_suspended(names.engine.warehouse, replacement)
    check_not_suspended(names.engine.warehouse, item)
    return item, replacement


def check_alone(current: Catalog, item: Item) -> None:
    """Raise if another process has made a replacement, or dropped the view, meanwhile.

    ``item``: the replacement, or an auxiliary object of it.
    """
    if item.replaces is None:
        return
    of = current.items.get(item.replaces)
    if of is None:
        raise was_dropped(item.name, "while its replacement was being created", item.kind.value)
    there = replacement_of(current, of.id)
    if there is not None and there.id != item.id:
        raise exists_already(of, there, None)


def check_same_columns(item: Item, of: Item, span: Span | None) -> None:
    """Raise REPLACEMENT_COLUMNS_DIFFER if a replacement has other columns than its original."""
    is_declared = isinstance(of, Task | TaskOutput)  # nullability follows from a view's query
    if not same_columns(item.columns, of.columns, nullable=is_declared):
        raise error(
            "REPLACEMENT_COLUMNS_DIFFER",
            span=span,
            name=str(item.name),
            kind=of.kind.value,
            of=str(of.name),
            before=shown_columns(of.columns),
            after=shown_columns(item.columns),
        )


def exists_already(of: Item, there: Item, span: Span | None) -> CtsqlError:
    """REPLACEMENT_EXISTS; the caller raises it."""
    return error(
        "REPLACEMENT_EXISTS",
        span=span,
        kind=of.kind.value,
        of=str(of.name),
        name=str(there.name),
        keyword=there.kind.keyword,
    )


def _of_another(catalog: Catalog, replacement: Item, of: Item, span: Span) -> CtsqlError:
    """REPLACEMENT_OF_ANOTHER; the caller raises it."""
    keyword = of.kind.keyword
    detail, hint = f"It is an ordinary {replacement.kind.value}.", ""
    if replacement.replaces is not None:
        name = catalog.items[replacement.replaces].name
        detail = f'It is the replacement for "{name}".'
        hint = f"Type: ALTER {keyword} {name} APPLY REPLACEMENT {replacement.name}"
    there = replacement_of(catalog, of.id)
    if not hint and there is not None:
        hint = f"Type: ALTER {keyword} {of.name} APPLY REPLACEMENT {there.name}"
    return error(
        "REPLACEMENT_OF_ANOTHER",
        span=span,
        name=str(replacement.name),
        kind=of.kind.value,
        of=str(of.name),
        detail=detail,
        hint=hint,
    )
