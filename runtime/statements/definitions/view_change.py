"""Another definition of a materialized view, and of its quarantine with it.

CREATE OR REPLACE, ALTER MATERIALIZED VIEW, APPLY REPLACEMENT and a folder differ in where the
definition comes from, and in what they check. What they prepare is one :class:`ViewChange`.

The view's table stays. Columns that come at its end are added while this is prepared. With other
columns than these all rows are written again; if nobody reads the view then, it counts as created
at the cutover. Other refresh times are counted from there, and the same ones go on.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.cutovers import Cutover, together
from ctsql.catalog.dependencies import quarantine_of, subscribers
from ctsql.catalog.items import Definition, Item, MaterializedView, in_use
from ctsql.catalog.names import quarantine_name
from ctsql.catalog.spans import Source, Span
from ctsql.planner.binding.binder import BoundDefinition
from ctsql.planner.syntax import ast as st, parse
from ctsql.runtime.engine import Engine
from ctsql.runtime.statements.definitions.cutover import (
    PreparedChange,
    as_prepared,
    beginning,
)
from ctsql.runtime.statements.definitions.dropped import dropped
from ctsql.runtime.statements.definitions.output_tables import make_table
from ctsql.runtime.statements.definitions.view_texts import quarantine_text
from ctsql.runtime.statements.objects.name_resolution import Namespace, check_free
from ctsql.runtime.statements.objects.refresh_view import check_not_finished, write_new
from ctsql.runtime.warehouse.replaced_views import (
    History,
    check_history,
    counts_anew,
    cutover_of_views,
    give_columns,
    refresh_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewChange:
    """A view that gets another definition, as it was prepared.

    Attributes:
        views: the view, and the quarantine that it has before and after: each as it was, as it will
            be, and the action for its rows.
        quarantine: the one that it gets, whose table was made; None where it has or gets none.
        is_paced: whether refresh times count from the cutover.
    """

    engine: Engine
    views: tuple[tuple[MaterializedView, MaterializedView, History], ...]
    quarantine: MaterializedView | None
    is_paced: bool
    span: Span

    def on_top(self, current: Catalog) -> Cutover:
        """What changes on top of a catalog.

        Raises:
            ALTERED_MEANWHILE, UNKNOWN_RELATION: another process has changed or dropped the view.
            VIEW_FINISHED: it is refreshed no more. DEPENDENT_OBJECTS: somebody reads its
                quarantine, which goes. OBJECT_EXISTS: the name of a new quarantine is taken.
        """
        there = [(as_prepared(current, before), after, h) for before, after, h in self.views]
        view, _, history = there[0]
        check_not_finished(self.engine, view)
        check_history(self.engine.warehouse, current, view, history)
        changed = cutover_of_views(
            ((now, _redefined(now, after), h) for now, after, h in there),
            [now.id for now, _, _ in there] if self.is_paced else [],
        )
        away = quarantine_of(current, view)
        if away is None:
            return together([changed, beginning(current, self.quarantine, self.span)])
        if len(there) == 1:  # it has none by its new definition
            check_quarantine_unread(current, away, self.span)
            return together([changed, Cutover(drop=dropped(current, [away]))])
        return changed

    def part(self, make: Callable[[Catalog], Cutover] | None = None) -> PreparedChange:
        """The part of a cutover that this is, completed by writing what differs.

        Args:
            make: checks more than :meth:`on_top`, which it calls; None for that.
        """
        new = () if self.quarantine is None else (self.quarantine,)
        ids = [after.id for _, after, _ in self.views] + [item.id for item in new]
        return PreparedChange(
            make=make or self.on_top, new=new, complete=lambda: write_new(self.engine, ids)
        )


def prepare_view(
    engine: Engine,
    view: MaterializedView,
    later: MaterializedView,
    quarantine: MaterializedView | None,
    span: Span,
) -> ViewChange:
    """Prepare that a view, which was advanced to now, gets another definition.

    Args:
        later: it with that definition, its columns and its comment.
        quarantine: the one that it has then; None for none.

    Raises:
        ALTERED_MEANWHILE: a newer definition has written. Or the error of columns that no table can
            have, before any change.
    """
    before = quarantine_of(engine.catalog, view)
    pairs = [(view, later)]
    if before is not None and quarantine is not None:
        pairs.append((before, quarantine))
    views, made = [], None
    for there, new in pairs:
        is_read = bool(engine.catalog.readers(there.id))
        history = give_columns(engine.warehouse, there, new.columns, is_read=is_read)
        views.append((there, new, history))
    histories = [history for _, _, history in views]
    if quarantine is not None and before is None:
        made = make_table(engine, replace(quarantine, created_at=engine.timeline.now))
        histories.append(History.CUT)  # it has none
    is_paced = counts_anew(refresh_of(view), refresh_of(later), histories)
    return ViewChange(
        engine=engine, views=tuple(views), quarantine=made, is_paced=is_paced, span=span
    )


def _redefined(now: MaterializedView, later: MaterializedView) -> MaterializedView:
    """A view by the newest catalog under another definition, which gets its number later."""
    return replace(
        now,
        definition=replace(later.definition, number=now.revision),
        columns=later.columns,
        comment=later.comment,
        built_beside=later.built_beside,
        quarantine=later.quarantine,
    )


def quarantine_by(
    names: Namespace, view: MaterializedView, statement: st.CreateMaterializedView
) -> tuple[MaterializedView, BoundDefinition] | None:
    """The quarantine that a view has by a statement, and what it means; None for none.

    It is a view as well, of the rows that the other one leaves out, so it follows its tables as
    that one does; the one that is there keeps its id and its name.

    Raises OBJECT_EXISTS, DUPLICATE_COLUMN.
    """
    catalog = names.engine.catalog
    there = quarantine_of(catalog, view)
    name = there.name if there else quarantine_name(view.name)
    text = quarantine_text(statement, [c.name for c in view.columns], name.qualified())
    if text is None:
        return None
    if there is None:
        check_free(catalog, name, statement.target.span, quiet=False)
    source = Source(text, f"quarantine of {view.name}").whole()
    parsed = parse(source)
    assert isinstance(parsed, st.CreateMaterializedView)  # as it was written
    own = there or names.new(MaterializedView, name, source, None)
    bound = names.binder().bind_materialized_view(parsed, own)
    typed = Definition(text=text, search_schema=names.search_schema, number=own.revision)
    return replace(own, definition=typed).bound(bound.columns, bound.reads), bound


def with_quarantine(
    names: Namespace, view: MaterializedView, statement: st.CreateMaterializedView
) -> list[MaterializedView]:
    """A new view, and the quarantine that it has by its statement, if any."""
    away_and_bound = quarantine_by(names, view, statement)
    if away_and_bound is None:
        return [view]
    away, _ = away_and_bound
    return [replace(view, quarantine=away.id), away]


def check_quarantine_unread(current: Catalog, there: Item, span: Span) -> None:
    """Raise DEPENDENT_OBJECTS where something reads the quarantine of a view, which is to go."""
    readers = [str(i.name) for i in current.readers(there.id)]
    readers += [f"subscription '{s.name}'" for s in subscribers(current, there.id)]
    if readers:
        raise in_use(there, f"It is read by {', '.join(readers)}.", span, kind="quarantine")
