"""The context of lowering: the source of rows, and the time.

The planner never calls the runtime: it asks for DataFrames through the :class:`Sources` protocol.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from ctsql.catalog.errors import Declined
from ctsql.catalog.spans import Span
from ctsql.planner.bodies.delete_by_key import KeyLookup
from ctsql.planner.syntax import RewrittenText

_numbers = itertools.count(1)
EMPTY = -1  # the time before all times: every object is empty as of it


class Sources(Protocol):
    """The rows of objects at a time."""

    def translate_errors(
        self, spark_text: RewrittenText, span: Span, relation_name: Callable[[str], str]
    ) -> AbstractContextManager[None]:
        """Translate what Spark raises inside to errors of ctsql, at places in the user's text."""

    def optimized_text(self, rows: DataFrame) -> str:
        """Spark's optimized plan of a query, with all columns."""

    def contents(self, object_id: str, at: int) -> DataFrame:
        """The whole contents as of T."""

    def inserts(self, object_id: str, at: int) -> DataFrame:
        """Exactly the rows inserted at T; on a first run with snapshot, the whole contents."""

    def deletes(self, object_id: str, at: int) -> DataFrame:
        """Exactly the rows deleted at T; none on a first run with snapshot."""

    def changes(self, object_id: str, at: int) -> DataFrame:
        """The rows changed at T, each once, with the column ``DIFF``."""

    def stored_rows(self, object_id: str) -> DataFrame | None:
        """Return an output's rows with the columns that locate each; None when it is empty."""

    def stored_with_keys(self, lookup: KeyLookup) -> DataFrame | Declined | None:
        """An output's rows with the (non-NULL) keys of a lookup, located; None for none.

        Declined where a scan by Spark is better.
        """


@contextmanager
def temporary_view(frame: DataFrame) -> Iterator[str]:
    """A name for a DataFrame in SQL text, for as long as the text is analysed."""
    name = f"__ct_r{next(_numbers)}"
    frame.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        frame.sparkSession.catalog.dropTempView(name)


@dataclass(frozen=True, slots=True)
class Context:
    """One evaluation of a plan."""

    session: SparkSession  # evaluates the user's SQL
    sources: Sources  # the rows
    at: int  # T
    # the time that now() means, or the column that holds it; None for the real clock.
    clock_at: int | str | None = None
