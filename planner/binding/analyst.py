"""The interface to Spark's analyzer, binding's only dependency on Spark."""

from collections.abc import Sequence
from typing import Protocol

from ctsql.catalog.schemas import Column
from ctsql.planner.nodes import Delete, Merge, Query, Update


class Analyst(Protocol):
    """Asks Spark's analyzer; its errors are conditions with spans into the user's text."""

    def columns(self, query: Query) -> tuple[Column, ...]:
        """Names and types of a query's result."""

    def is_deterministic(self, query: Query) -> bool:
        """Whether a query returns the same result for the same data, according to Spark."""

    def check_predicate(self, node: Delete, columns: Sequence[Column]) -> None:
        """The predicate of a DELETE over a table with these columns must be a condition."""

    def assigned_types(
        self, node: Update | Merge, columns: Sequence[Column]
    ) -> list[tuple[str, ...]]:
        """The types of the values a statement assigns to ``columns``, a list for each clause."""

    def value_types(self, values: Sequence[Query]) -> tuple[str, ...]:
        """The types of values that read no relation."""

    def set_own(self, object_id: str, columns: Sequence[Column]) -> None:
        """Set the columns of an output that is being defined, for a body that reads it."""

    def assignable(self, value_type: str, column_type: str) -> bool:
        """Whether values of a type may be stored in a column of another (ANSI store assignment)."""
