"""Folders of SQL, planned and applied in this process over the warehouse of ``without_spark``.

Spark compares the plans of two queries; here other words are another query.
"""

from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from ctsql import pipelines
from ctsql.api import Connection
from ctsql.catalog.catalog import Catalog
from ctsql.catalog.spans import Source
from ctsql.planner.folder import read_folder
from ctsql.planner.lowering import lost_columns
from ctsql.runtime.pipelines import binding
from ctsql.runtime.pipelines.overlay import PlannedNames
from ctsql.runtime.pipelines.plan import FolderPlan
from ctsql.runtime.views import refresh
from tests.scenarios.without_spark.columns import columns_of_sql
from tests.scenarios.without_spark.connection import DuckConnection
from tests.scenarios.without_spark.engine import fill_state, follow_changes
from tests.scenarios.without_spark.tables import Warehouses

TABLE = "CREATE TABLE t (a INT, b INT);"
OTHER = "CREATE TABLE ref (x INT);"
TASK = "CREATE CONTINUAL TASK k (a INT) ON INPUT t AS (INSERT INTO k SELECT a FROM t);"


def _analyst(names: PlannedNames, catalog: Catalog) -> Any:
    return names.engine.queries.analyst(lambda i: names.columns_now(catalog.items[i]))


@pytest.fixture
def warehouse() -> Iterator[Connection]:
    """A connection on a warehouse in memory."""
    with (
        columns_of_sql(),
        mock.patch.dict(lost_columns._known_keys, clear=True),
        mock.patch.multiple(refresh, follow_changes=follow_changes, fill_state=fill_state),
        mock.patch.object(PlannedNames, "analyst", _analyst),
        mock.patch.object(binding, "same_rows", return_value=False),
    ):
        yield DuckConnection(Warehouses())


def _plan(warehouse: Connection, text: str, *, prune: bool = False) -> FolderPlan:
    return pipelines.plan(warehouse, read_folder([Source(text, "all.sql")]), prune=prune)


def _apply(warehouse: Connection, text: str, *, prune: bool = False) -> None:
    """Apply a folder; then there is nothing to do."""
    pipelines.apply(warehouse, read_folder([Source(text, "all.sql")]), prune=prune)
    again = _plan(warehouse, text, prune=prune)
    assert (again.pending, again.refused_changes) == ((), ())


def _refused(plan: FolderPlan) -> dict[str, str]:
    """The conditions of what is refused, by name."""
    return {c.name: c.refusal.condition for c in plan.refused_changes if c.refusal is not None}


def test_a_task_that_is_there_reads_a_new_object(warehouse: Connection) -> None:
    """Its body may name what the folder makes with it, also through a new view."""
    _apply(warehouse, TABLE + TASK)
    known = "CREATE VIEW known AS SELECT x FROM ref;"
    body = "INSERT INTO k SELECT a FROM t WHERE a NOT IN (SELECT x FROM known WHERE x IS NOT NULL)"
    _apply(
        warehouse, f"{TABLE}{OTHER}{known} CREATE CONTINUAL TASK k (a INT) ON INPUT t AS ({body});"
    )
    warehouse.execute("INSERT INTO ref VALUES (2)")
    warehouse.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
    assert warehouse.execute("SELECT a FROM k").fetchall() == [(1,)]


def test_a_circle_through_an_object_outside_is_refused(warehouse: Connection) -> None:
    """The task would read a view that reads it only by the folder."""
    view = "CREATE VIEW v AS SELECT a FROM {};"
    _apply(warehouse, TABLE + TASK + view.format("t"))
    warehouse.execute("CREATE VIEW outside AS SELECT a FROM k")
    body = "INSERT INTO k SELECT a FROM t WHERE a IN (SELECT a FROM v)"
    task = f"CREATE CONTINUAL TASK k (a INT) ON INPUT t AS ({body});"
    plan = _plan(warehouse, TABLE + task + view.format("outside"))
    assert _refused(plan) == {"k": "RECURSIVE_DEFINITION"}
