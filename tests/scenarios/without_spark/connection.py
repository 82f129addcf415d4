"""Connections on a warehouse in memory: the product's own, but for the start and DML on tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ctsql.api import Connection
from ctsql.catalog.catalog import Catalog
from ctsql.catalog.errors import InterfaceError
from ctsql.catalog.spans import Span
from ctsql.connection.dispatch import run
from ctsql.connection.settings import Settings
from ctsql.planner.literals import Parameters
from ctsql.planner.lowering import queries
from ctsql.planner.syntax import ast as st, parse
from ctsql.results.result import Result
from ctsql.runtime.engine import Engine
from ctsql.runtime.pipelines.overlay import PlannedNames
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.statements.dml.dml import run_on_table, target_table
from ctsql.runtime.views import refresh
from ctsql.runtime.warehouse.times.multi_table_commit import alone
from tests.scenarios.without_spark.columns import columns_of_sql
from tests.scenarios.without_spark.engine import DuckEngine, fill_state, follow_changes
from tests.scenarios.without_spark.kinds import NotModelled
from tests.scenarios.without_spark.tables import Gateway
from tests.simulation.memory_store import Store

LOCATION = "memory:/warehouse"


@contextmanager
def spark_left_out() -> Iterator[None]:
    """Inside, what asks Spark beside the engine's interface asks DuckDB.

    What Spark has said of texts in this process is not known, nor the other way round.
    """

    def analyst(names: PlannedNames, catalog: Catalog) -> Any:
        return names.engine.queries.analyst(lambda i: names.columns_now(catalog.items[i]))

    with (
        columns_of_sql(),
        mock.patch.dict(queries._known_keys, clear=True),
        mock.patch.multiple(refresh, follow_changes=follow_changes, fill_state=fill_state),
        mock.patch.object(PlannedNames, "analyst", analyst),
    ):
        yield


class DuckWarehouse(Engine):
    """The engine on a warehouse in memory."""

    def __init__(self, store: Store) -> None:
        gateway: Any = Gateway(store)
        queries: Any = DuckEngine(gateway.session)
        self._memory = gateway
        super().__init__(gateway.session, LOCATION, queries=queries)

    def _open(self) -> None:
        self.gateway = self._memory
        external: Any = SimpleNamespace(kind=lambda _: None)  # nothing but objects is read
        self.external = external
        self._open_at(LOCATION)


class DuckConnection(Connection):
    """A connection that starts no Spark."""

    def __init__(self, store: Store) -> None:
        super().__init__(LOCATION)
        self._store = store

    def _opened(self) -> Engine:
        if self._closed:
            raise InterfaceError("the connection is closed")
        if self._engine is None:
            with translate_spark_errors():
                self._engine = DuckWarehouse(self._store)
            self._settings = Settings()
        return self._engine

    @contextmanager
    def _running(self, label: str) -> Iterator[Engine]:
        with translate_spark_errors():
            yield self._opened()

    def run_statement(
        self,
        span: Span,
        parameters: Parameters | None = None,
    ) -> Result:
        with self._running(span.text) as engine:
            return self._run(engine, parse(span))

    def _run(self, engine: Engine, statement: st.Statement) -> Result:
        match statement:
            case st.Dml():
                return self._write(engine, statement)
            case st.Transact():
                raise NotModelled("a transaction")
            case _:
                return run(self, engine, statement, ())

    def _write(self, engine: Engine, statement: st.Dml) -> Result:
        """Let the session run a statement on a table, as a foreign writer would."""
        item, target = target_table(engine, statement.target, self.search_schema), statement.target
        has_alias = statement.verb == "INSERT" or target.aliased
        columns = None if has_alias else [c.name for c in item.columns]
        with alone(engine.timeline, item, engine.mint) as location:
            run_on_table(
                engine,
                statement.text,
                target,
                location,
                self.search_schema,
                columns=columns,
                run=engine.session.sql,
            )
        return Result.of_status(statement.verb)
