"""Names and columns of a warehouse as they would be: objects are bound that do not exist yet."""

import itertools
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.items import Item
from ctsql.catalog.names import fold
from ctsql.catalog.schemas import Column
from ctsql.planner.lowering.context import temporary_view
from ctsql.planner.lowering.queries import run_text
from ctsql.planner.nodes import ChangesInput, Node, Query, Relation, ViewReference
from ctsql.planner.rules import transform
from ctsql.runtime.engine import Engine
from ctsql.runtime.spark.analyzer import ColumnsOf, EmptySources, SparkAnalyst
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.internals.plans import empty
from ctsql.runtime.statements.objects.name_resolution import Namespace
from ctsql.runtime.warehouse.relations import Relations
from ctsql.runtime.warehouse.warehouse import Warehouse

_numbers = itertools.count()


@dataclass
class Overlay:
    """A catalog on top of the stored one."""

    engine: Engine
    stored_catalog: Catalog  # what is there
    catalog: Catalog  # with the definitions that are bound so far
    # the columns that stored tables would have, by id.
    altered_columns: dict[str, tuple[Column, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.views = KnownViews(self.engine.session)

    def add(self, items: Sequence[Item]) -> None:
        """Put new or changed objects on top."""
        self.catalog = self.catalog.with_items(items)

    def columns_now(self, item: Item) -> tuple[Column, ...]:
        """An object's columns; those of a stored table as its log has, or would have, them."""
        if item.id in self.altered_columns:
            return self.altered_columns[item.id]
        if item.id in self.stored_catalog.items:
            return self.engine.relations.columns_now(item)
        return item.columns

    def names(self, schema: str) -> "PlannedNames":
        """The names, with a schema for unqualified ones."""
        return PlannedNames(self, schema)

    def warehouse(self) -> Warehouse:
        """The warehouse as planners of views see it; nothing can be read from it."""
        warehouse = self.engine.warehouse
        return replace(warehouse, relations=_PlannedRelations(self, warehouse.relations))


class PlannedNames(Namespace):
    """Resolves names in an overlay."""

    def __init__(self, overlay: Overlay, search_schema: str) -> None:
        super().__init__(overlay.engine, search_schema)
        self._overlay = overlay

    def catalog(self) -> Catalog:
        """The catalog with what is bound so far."""
        return self._overlay.catalog

    def in_schema(self, schema: str) -> "PlannedNames":
        """The same with another schema of unqualified names."""
        return PlannedNames(self._overlay, schema)

    def columns_now(self, item: Item) -> tuple[Column, ...]:
        """The columns that an object has, or would have."""
        return self._overlay.columns_now(item)

    def analyst(self, catalog: Catalog) -> SparkAnalyst:
        """Spark's analyser; an empty table is made once for the same columns."""
        session = self.engine.session

        def columns_of(object_id: str) -> Sequence[Column]:
            return self.columns_now(catalog.items[object_id])

        return _PlanningAnalyst(session, columns_of, self._overlay.views)


class _PlanningAnalyst(SparkAnalyst):
    """Analyses equal queries of a definition once, over views that are registered once.

    Names and types of a query's columns depend only on the columns of its relations, so one view
    represents all relations with the same columns, tables or changes.
    """

    def __init__(self, session: SparkSession, columns_of: ColumnsOf, views: "KnownViews") -> None:
        super().__init__(session, columns_of, _KnownSources(session, columns_of, views))
        self._context = replace(self._context, name_frame=views.named_view)
        self._columns_of, self._views = columns_of, views
        self._frames: dict[object, DataFrame] = {}

    def _analyse(self, query: Query) -> DataFrame:
        own = self._sources.own
        key = (query.sql, query.relations, tuple(own.items()))
        frame = self._frames.get(key)
        if frame is None:
            query = transform(query)
            with translate_spark_errors():
                names = [self._view(node) for node in query.relations]
                refs = dict(zip(query.sql.relations, names, strict=True))
                frame = self._frames[key] = run_text(query.sql, refs, self._context)
        return frame

    def _view(self, node: Node) -> str:
        """The name of a view with the columns of a relation that a query reads."""
        if isinstance(node, ViewReference):
            plan = self._views.names.get(node)
            if plan is None:
                rows = self._analyse(node.query).toDF(*node.columns)
                plan = self._views.names[node] = self._views.register(rows)
            return plan
        assert isinstance(node, Relation)  # a definition reads nothing else
        there = self._sources.own.get(node.object_id) or self._columns_of(node.object_id)
        by_name = {fold(c.name): c for c in there}
        columns = tuple(by_name[fold(n)] for n in node.columns if fold(n) in by_name)
        if isinstance(node, ChangesInput):
            columns = (*columns, Column(node.columns[-1], "bigint", False))
        return self._views.of(columns)


class _KnownSources(EmptySources):
    """Empty tables that are made once for the same columns."""

    def __init__(self, session: SparkSession, columns_of: ColumnsOf, views: "KnownViews") -> None:
        super().__init__(session, columns_of)
        self._views = views

    def like(self, columns: Sequence[Column]) -> DataFrame:
        """The empty table with these columns."""
        return self._views.rows_of(tuple(columns))


class KnownViews:
    """Temporary views of empty tables, by their columns, and of plain views, by their plans."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._by_columns: dict[tuple[Column, ...], DataFrame] = {}
        self._by_rows: dict[DataFrame, str] = {}  # of these very tables
        self.names: dict[Node, str] = {}
        self._names: list[str] = []

    def of(self, columns: tuple[Column, ...]) -> str:
        """The view with these columns."""
        return self._by_rows[self.rows_of(columns)]

    def rows_of(self, columns: tuple[Column, ...]) -> DataFrame:
        """The empty table with these columns; it has a view."""
        frame = self._by_columns.get(columns)
        if frame is None:
            frame = self._by_columns[columns] = empty(self._session, columns)
            self._by_rows[frame] = self.register(frame)
        return frame

    def named_view(self, rows: DataFrame) -> AbstractContextManager[str]:
        """The view of an empty table; of other rows one that ends with the context."""
        name = self._by_rows.get(rows)
        return temporary_view(rows) if name is None else nullcontext(name)

    def register(self, rows: DataFrame) -> str:
        """Give rows a name until :meth:`drop`."""
        name = f"__ct_plan{next(_numbers)}"
        rows.createOrReplaceTempView(name)
        self._names.append(name)
        return name

    def drop(self) -> None:
        """Take all the names away."""
        for name in self._names:
            self._session.catalog.dropTempView(name)


class _PlannedRelations(Relations):
    """The registry, under the names and columns of an overlay."""

    def __init__(self, overlay: Overlay, relations: Relations) -> None:
        super().__init__(relations.gateway, relations.timeline)
        self._overlay = overlay
        self.catalog = overlay.catalog

    def columns_now(self, item: Item) -> tuple[Column, ...]:
        """An object's columns, or those that it would have."""
        return self._overlay.columns_now(item)
