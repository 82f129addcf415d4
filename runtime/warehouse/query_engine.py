"""The interface that computes rows for tasks and views, and stages differences.

Sinks and refreshes decide and commit; SQL and work on many rows is done here. The engine is Spark
(:class:`ctsql.runtime.spark_engine.SparkEngine`) except in the tests' simulation.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame

from ctsql.catalog.errors import Declined
from ctsql.catalog.items import Item
from ctsql.catalog.schemas import Column
from ctsql.planner.binding.analyst import Analyst
from ctsql.planner.bodies.delete_by_key import KeyLookup
from ctsql.planner.ivm import Input, PrintedQuery, Text
from ctsql.planner.lowering.context import Sources
from ctsql.planner.nodes import TaskWrite, Transaction, ViewWrite
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.log.staging import Staging
from ctsql.runtime.log.table_changes import VersionChange
from ctsql.runtime.rows.row_set import AnyRows, LocalRows, RowSet
from ctsql.runtime.spark.analyzer import ColumnsOf
from ctsql.runtime.spark.job_metrics import Meter
from ctsql.runtime.spark.temp_views import TemporaryNames


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A stored object as a view reads it."""

    object_id: str
    columns: tuple[Column, ...]  # those it had when the view was created, if they still exist
    names: tuple[str, ...]  # of all


@dataclass(frozen=True, slots=True)
class OutputProposal:
    """A body's proposal for one output: rows to insert, and located stored rows to delete."""

    inserts: AnyRows
    victims: AnyRows


class TaskSources(Sources, Protocol):
    """The rows that one run of a task reads."""

    def inserted(self, object_id: str) -> LocalRows | Declined:
        """The rows inserted at T, if they are few and nothing else changed."""

    def found_by_key(self, lookup: KeyLookup) -> LocalRows | Declined | None:
        """The output's rows with a key of a change, located; None if there are none."""


class StoredRelations(Sources, Protocol):
    """The rows of objects as of T."""

    def local_rows(self, object_id: str, at: int) -> LocalRows | Declined:
        """All rows of an object whose table has few rows; nothing is computed."""


class QueryEngine(Protocol):
    """Computes rows; its callers decide and commit."""

    def analyst(self, columns_of: ColumnsOf) -> Analyst:
        """The analyst of definitions' names and types, over objects with the given columns."""

    def collect_bounded(self, rows: DataFrame) -> DataFrame | Declined:
        """The rows, computed now and held by the driver; declined if they are not few."""

    def consolidate_change_feed(self, change_rows: DataFrame, columns: list[str]) -> DataFrame:
        """Each row of a change feed once, with ``DIFF``; rows that cancel are left out."""

    def stage(
        self,
        staging: Staging,
        desired: AnyRows,
        stored_rows: AnyRows,
        columns: list[str],
        *,
        small: bool,
    ) -> bool:
        """Stage desired - stored, as :func:`ctsql.runtime.delta.diff_writer.stage`."""

    def meter(self) -> Meter:
        """Start to count jobs, rows and bytes."""

    def propose(
        self, body: Transaction, sources: TaskSources, at: int, columns: Mapping[str, list[str]]
    ) -> Mapping[str, OutputProposal]:
        """A body's proposal at T for each output; ``columns`` by output id."""

    def stage_batched_runs(
        self,
        plan: TaskWrite,
        table: DeltaTable,
        version_changes: Sequence[tuple[int, VersionChange]],
        staging: Staging,
    ) -> list[int] | Declined:
        """The same for several Ts; see :func:`ctsql.runtime.tasks.body.stage_batched_runs`."""

    def view_rows(
        self, view: ViewWrite, sources: StoredRelations, at: int, *, small: bool = False
    ) -> RowSet:
        """The rows that a view should hold as of T; ``small``: it likely reads few rows."""

    def schema_text(self, item: Item) -> str:
        """The columns of an output's table, as the log writes them."""

    def types_given(
        self, view: ViewWrite, text: Text, tables: Mapping[str, StoredTable]
    ) -> tuple[str, ...] | None:
        """The types of a view's query; None if the text is another query."""

    def types_of(self, texts: Iterable[Text], tables: Mapping[str, StoredTable]) -> set[str]:
        """The types of the columns of texts over tables."""

    def run(
        self, query: PrintedQuery, inputs: Mapping[Input, RowSet], names: TemporaryNames
    ) -> RowSet:
        """The rows of a query of a change plan over its inputs; maybe not computed yet.

        Rows keep their name as long as ``names`` exists.
        """
