"""Binding definitions of the catalog again."""

from ctsql.catalog.errors import error
from ctsql.catalog.items import Catalog, Item
from ctsql.planner.binding.binder import Binder, Bound
from ctsql.planner.binding.names import definition_span
from ctsql.planner.binding.task import bind_task
from ctsql.planner.syntax import parse
from ctsql.planner.syntax.statements import (
    CreateContinualTask,
    CreateMaterializedView,
    CreateView,
)


def bind_stored(item: Item, catalog: Catalog) -> Bound:
    """Bind the definition of an object of the catalog again."""
    binder = Binder(catalog, item.search_schema, None, reads=item.reads)
    statement = parse(definition_span(item))
    match statement:
        case CreateContinualTask():
            return bind_task(binder, statement, item, catalog.outputs_of(item))
        case CreateMaterializedView():
            return binder.bind_materialized_view(statement, item)
        case CreateView():
            query = binder.query(statement.query)
            return Bound(query, item.columns, item.reads)
        case _:
            raise error(
                "STORED_DATA_INVALID",
                what=f'the definition of {item.kind.value} "{item.name}"',
                detail="It is not the statement that makes such an object.",
                hint="Drop the object and create it again.",
            )
