"""SUBSCRIBE: resolves the followed object and the start position."""

from dataclasses import replace

from ctsql.catalog import times
from ctsql.catalog.errors import error, out_of_range
from ctsql.catalog.items import Item, View
from ctsql.catalog.names import Name
from ctsql.planner.binding.binder import qualify
from ctsql.planner.binding.checks import check_holds_rows, refuse_clock, refuse_nondeterministic
from ctsql.planner.nodes import Node
from ctsql.planner.syntax.ast import CreateView, RelationRef, Subscribe
from ctsql.runtime.engine import Engine
from ctsql.runtime.statements.objects.name_resolution import Namespace
from ctsql.runtime.statements.objects.refresh_view import expect_follower
from ctsql.runtime.subscriptions.changes import Changes
from ctsql.runtime.subscriptions.cursors import Position, Readers
from ctsql.runtime.subscriptions.feed import Feed, items_to_advance, use_stored
from ctsql.runtime.tasks.progress import complete_through


def open_feed(names: Namespace, statement: Subscribe, *, strict: bool) -> Feed:
    """Open the feed of a statement; registers a new named reader.

    Raises:
        UNKNOWN_RELATION, AS_OF_OUT_OF_RANGE: the object does not exist, or not at that time.
        READ_ONLY_MODE: a named reader on a read-only connection.
        NONDETERMINISTIC_FUNCTION: a plain view that is not deterministic.
        OBJECT_EXISTS, SUBSCRIPTION_OUTDATED: the reader belongs to another object or view.
    """
    engine = names.engine
    if engine.read_only and statement.reader is not None:
        raise error("READ_ONLY_MODE", span=statement.reader_span, what="SUBSCRIBE with a name")
    passive = engine.read_only or not strict
    with use_stored(engine, passive=passive):
        return _open_feed(names, statement, passive=passive)


def _open_feed(names: Namespace, statement: Subscribe, *, passive: bool) -> Feed:
    engine = names.engine
    item, plan = _followed_object(names, statement)
    if plan is not None:
        analyst = names.binder().analyst
        assert analyst is not None  # a namespace's binder has one
        refuse_nondeterministic(plan, "subscription", analyst.is_deterministic)
        refuse_clock(plan)
    readers = Readers(engine)
    subscription = None if statement.reader is None else readers.find(statement.reader)
    if subscription is not None:
        readers.check(subscription, item, statement.reader_span)
    elif statement.reader is not None:
        expect_follower(engine, [item])
    now = _now(engine, item, passive=passive)
    position = _start(engine, item, statement, now) if subscription is None else None
    if statement.reader is not None and position is not None:
        subscription = readers.register(statement.reader, item, position)
    place = None if subscription is None else readers.place(subscription)
    end = now + 1 if statement.up_to_now else None
    if statement.up_to is not None:
        end = times.parse_time(statement.up_to.value, span=statement.up_to.span, option="UP TO")
    if place is not None:
        position = place.position
    assert position is not None  # of the statement, or of the reader
    return Feed(engine, item, position=position, end=end, place=place, passive=passive)


def _followed_object(names: Namespace, statement: Subscribe) -> tuple[Item, Node | None]:
    """The object, and the plan of a plain view; a query is a view of this process alone."""
    if statement.query is None:
        ref = statement.target
        assert ref is not None  # or there is a query
        catalog = names.engine.refresh_catalog()
        item = catalog.get(qualify(ref, names.search_schema), span=ref.span)
        check_holds_rows(catalog, item, ref.span)
        is_view = isinstance(item, View)
        return item, names.engine.relations.bound(item).plan if is_view else None
    text = statement.query.span
    target = RelationRef(parts=("query",), span=text)
    view = CreateView(span=text, target=target, query=statement.query)
    bound = names.binder().bind_view(view)
    name = Name(names.search_schema, "query")
    item = names.new(View, name, text, None)
    definition = replace(item.definition, text=f"CREATE VIEW query AS {text.text}")
    item = replace(item, definition=definition).bound(bound.columns, bound.reads)
    return item, bound.plan


def _now(engine: Engine, item: Item, *, passive: bool) -> int:
    items = items_to_advance(engine, item)
    if not passive:
        return engine.mint_for(items)
    engine.timeline.refresh()
    return complete_through(engine.warehouse, items)


def _start(engine: Engine, item: Item, statement: Subscribe, now: int) -> Position:
    begin, as_of = statement.begin, statement.as_of
    if begin is not None:
        return Position(times.parse_time(begin.value, span=begin.span, option="FROM"))
    first = Changes(engine.warehouse, item).begins()
    if as_of is None:
        return Position(now, snapshot=True) if first <= now else Position(now + 1)
    at = times.parse_time(as_of.value, span=as_of.span)
    if first <= at <= now:
        return Position(at, snapshot=True)
    detail = f"Its history begins at T = {first}." if at < first else f"The newest T is {now}."
    hint = "FROM takes any time: the changes at or after it are sent."
    raise out_of_range(item.name, at, detail, hint, as_of.span)
