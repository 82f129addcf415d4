"""Binding definitions of the catalog again."""

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import outputs_of
from ctsql.catalog.items import Item
from ctsql.planner.binding.binder import Binder, BoundDefinition
from ctsql.planner.binding.definitions import definition_of, is_no_definition, reading_definition
from ctsql.planner.binding.task import bind_task
from ctsql.planner.syntax.ast import CreateContinualTask, CreateMaterializedView, CreateView


def bind_stored(item: Item, catalog: Catalog) -> BoundDefinition:
    """Bind the definition of an object of the catalog; STORED_DATA_INVALID if it cannot be read."""
    for output in outputs_of(catalog, item):
        output.check()
    binder = Binder(catalog, item.search_schema, None, reads=item.reads)
    with reading_definition(item):
        match definition_of(item):
            case CreateContinualTask() as statement:
                return bind_task(binder, statement, item, outputs_of(catalog, item))
            case CreateMaterializedView() as statement:
                return binder.bind_materialized_view(statement, item)
            case CreateView() as statement:
                query = binder.query(statement.query)
                return BoundDefinition(query, item.columns, item.reads)
            case _:
                raise is_no_definition(item)
