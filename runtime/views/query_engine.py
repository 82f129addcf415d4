"""Evaluates the queries of a change plan."""

from collections.abc import Mapping
from typing import Protocol

from pyspark.sql import SparkSession

from ctsql.planner.ivm import Input, Naming, Query
from ctsql.planner.lowering import without_padding
from ctsql.runtime.rows.row_set import RowSet, SparkRows
from ctsql.runtime.spark.temp_views import TemporaryNames


class QueryEngine(Protocol):
    """Gives the rows of queries."""

    def run(self, query: Query, inputs: Mapping[Input, RowSet]) -> RowSet:
        """The rows of a query, from those of all that it reads; they need not be computed yet."""


class SparkEngine:
    """Spark: each input is a temporary view, and the query is a text over these."""

    def __init__(self, session: SparkSession, names: TemporaryNames) -> None:
        """Rows have one name for as long as ``names`` are kept."""
        self._session = session
        self._names = names

    def run(self, query: Query, inputs: Mapping[Input, RowSet]) -> RowSet:
        """The rows of a query, which are not computed yet."""
        names = {use: self._name(rows) for use, rows in inputs.items()}
        return SparkRows(self._session.sql(query.sql(Naming.of(names))))

    def _name(self, rows: RowSet) -> str:
        known = self._names.known(rows)
        return known if known is not None else self._names.of(rows, without_padding(rows.frame))
