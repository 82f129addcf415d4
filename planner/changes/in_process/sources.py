"""What a query of this process reads, and what it is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ctsql.planner.changes.in_process.types import OnlySpark, Type
from ctsql.planner.changes.in_process.values import Division
from ctsql.planner.changes.nodes import Col, Step
from ctsql.planner.changes.printing import TableUse

Types = Mapping[Col, Type]


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of DuckDB.

    Attributes:
        types: of its columns, by their names. is_empty: it has no rows.
    """

    name: str
    types: Mapping[str, Type]
    is_empty: bool = False

    def type(self, column: str) -> Type:
        """The type of a column; raises OnlySpark where it is none of those here."""
        found = self.types.get(column)
        if found is None:
            raise OnlySpark(f"column {column}")
        return found


@dataclass(frozen=True, slots=True)
class Relations:
    """Where the rows are that texts read; each raises NotHeld for rows that are not there.

    Attributes:
        table: of a table at one place. empty: the same without rows, whatever there is.
        step: of a step; its columns are called as the plan's. state: of the stored groups of an
            aggregate, or of the view.
        keys: runs a query for the keys that are wanted of a table, and gives them as a step; the
            query's columns are those given, with their types.
    """

    table: Callable[[TableUse], Relation]
    empty: Callable[[TableUse], Relation]
    step: Callable[[str], Relation]
    state: Callable[[int], Relation]
    keys: Callable[["InProcess", Sequence[Col]], Step]


@dataclass(frozen=True, slots=True)
class InProcess:
    """A query of DuckDB.

    Attributes:
        types: Spark's types of its columns, in order. divisions: functions that it calls.
    """

    sql: str
    types: tuple[Type, ...]
    divisions: tuple[Division, ...]
